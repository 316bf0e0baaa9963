package refserver

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// workTool is the name of the slow tool.
const workTool = "work"

// The bounds of the slow tool's arguments.
const (
	maxWorkSteps = 100_000
	maxWorkStep  = time.Hour
	maxWorkNote  = 4 << 10
)

// workArguments are the arguments of the slow tool.
type workArguments struct {
	Steps    int     `json:"steps" jsonschema:"how many steps the work has; each is reported as progress"`
	StepMs   float64 `json:"stepMs" jsonschema:"how long a step takes, in milliseconds"`
	Note     string  `json:"note,omitempty" jsonschema:"comes back in the result"`
	LogEvery int     `json:"logEvery,omitempty" jsonschema:"sends a log message after so many steps; 0 = none"`
	MaxWait  float64 `json:"maxWait,omitempty" jsonschema:"the maxWait, in seconds, that a resume policy should have"`
	HangUp   int     `json:"hangUp,omitempty" jsonschema:"the server disconnects after so many messages on one connection; 0 = never"`
	Fail     bool    `json:"fail,omitempty" jsonschema:"the work fails in the end"`
	Ask      int     `json:"ask,omitempty" jsonschema:"after so many steps the server asks the client something (elicitation/create), and the work waits for the answer; 0 = never"`

	token  json.RawMessage // the call's progressToken; nil = no progress messages
	answer json.RawMessage // the response, where it is known from the start; see Options.ResumeAny
}

// workDone is the tool's structured result.
type workDone struct {
	Steps int    `json:"steps"`
	Note  string `json:"note"`
	Reply string `json:"reply,omitempty"` // the action of the client's answer
}

var errWorkFailed = errors.New("the work failed, as asked")

// check reports invalid arguments.
func (a workArguments) check() *rpcError {
	switch {
	case a.Steps < 1 || a.Steps > maxWorkSteps:
		return invalidParams("steps is %d: want 1 to %d", a.Steps, maxWorkSteps)
	case a.StepMs < 0.1 || a.StepMs > float64(maxWorkStep/time.Millisecond):
		return invalidParams("stepMs is %v: want 0.1 to %d", a.StepMs, maxWorkStep/time.Millisecond)
	case len(a.Note) > maxWorkNote:
		return invalidParams("note has %d bytes: want at most %d", len(a.Note), maxWorkNote)
	case a.LogEvery < 0 || a.HangUp < 0:
		return invalidParams("logEvery and hangUp must be 0 or more")
	case a.Ask < 0 || a.Ask > a.Steps:
		return invalidParams("ask is %d: want a step, or 0", a.Ask)
	case a.MaxWait < 0 || a.MaxWait > longestWait.Seconds():
		return invalidParams("maxWait is %v: want seconds, up to %v", a.MaxWait, longestWait.Seconds())
	}
	return nil
}

// longestWait is the longest maxWait that a call may ask for.
const longestWait = 24 * time.Hour

func (a workArguments) step() time.Duration {
	return time.Duration(a.StepMs * float64(time.Millisecond))
}

// wait is the policy's maxWait: the value asked for, bounded by most. Without
// one, it is most.
func (a workArguments) wait(most time.Duration) time.Duration {
	if a.MaxWait == 0 {
		return most
	}
	return min(max(time.Duration(a.MaxWait*float64(time.Second)), time.Millisecond), most)
}

// due is when the next step is done. Steps keep to their schedule from the
// start, even after a late one.
func (j *job) due() time.Time {
	return j.began.Add(time.Duration(j.step+1) * j.work.step())
}

// advance does the next step of the work, with or without a connection.
func (j *job) advance() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.gone || j.ended {
		return
	}
	j.step++
	if j.work.token != nil {
		j.sendProgress()
	}
	if n := j.work.LogEvery; n > 0 && j.step%n == 0 {
		j.send(j.logFrame(j.step / n))
	}
	if j.ended {
		return
	}
	if j.step == j.work.Ask {
		j.ask()
		return
	}
	j.proceed()
}

// proceed schedules the next step, or ends the work. The caller holds the lock.
func (j *job) proceed() {
	if j.step < j.work.Steps {
		j.owner.at(j.due(), j.advance)
		return
	}
	if late := j.resultDelay(); late > 0 {
		j.owner.at(time.Now().Add(late), func() {
			j.mu.Lock()
			defer j.mu.Unlock()
			if !j.gone && !j.ended {
				j.conclude()
			}
		})
		return
	}
	j.conclude()
}

// conclude sends the response; the caller holds the lock.
func (j *job) conclude() {
	j.status = statusCompleted
	if j.work.Fail {
		j.status = statusFailed
	}
	j.send(j.resultFrame())
}

// askPrefix begins the ids of the server's own requests.
const askPrefix = "ask-"

// ask sends a request to the client. The work goes on with the answer. The caller
// holds the lock.
func (j *job) ask() {
	j.asked = askPrefix + rand.Text()
	j.owner.mu.Lock()
	j.owner.asking[j.asked] = j
	j.owner.mu.Unlock()
	j.owner.counts.Asked.Add(1)
	j.send(fmt.Appendf(nil, `data: {"jsonrpc":"2.0","id":"%s","method":"elicitation/create","params":{"message":"The work waits. Go on?",`+
		`"requestedSchema":{"type":"object","properties":{"note":{"type":"string"}}}}}`+"\n\n", j.asked))
}

// answered takes the client's response to a request of the server, from the
// principal of the work that waits for it. It returns false if the body is none.
func (q *resumables) answered(w http.ResponseWriter, body []byte, principal string) bool {
	var response struct {
		ID     string `json:"id"`
		Result *struct {
			Action string `json:"action"`
		} `json:"result"`
		Error *rpcError `json:"error"`
	}
	if json.Unmarshal(body, &response) != nil || !strings.HasPrefix(response.ID, askPrefix) {
		return false
	}
	q.mu.Lock()
	j := q.asking[response.ID]
	if j != nil && j.principal == principal {
		delete(q.asking, response.ID)
	}
	q.mu.Unlock()
	if j == nil || j.principal != principal {
		http.Error(w, "no request of this server has this id, or it was answered before", http.StatusBadRequest)
		return true
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.gone && !j.ended {
		j.asked, j.reply = "", "error"
		if response.Result != nil {
			j.reply = response.Result.Action
			q.counts.Answered.Add(1)
		} else {
			q.counts.Denied.Add(1)
		}
		j.began = time.Now().Add(-time.Duration(j.step) * j.work.step()) // the wait was no work
		j.proceed()
	}
	w.WriteHeader(http.StatusAccepted)
	return true
}

func (j *job) progressFrame() []byte {
	return fmt.Appendf(nil, notification+`progress","params":{"progressToken":%s,"progress":%d,"total":%d}}`+"\n\n",
		j.work.token, j.step, j.work.Steps)
}

func (j *job) logFrame(seq int) []byte {
	return fmt.Appendf(nil, notification+`message","params":{"level":"info","logger":"work","data":{"seq":%d,"step":%d}}}`+"\n\n", seq, j.step)
}

func (j *job) resultFrame() []byte {
	if j.work.answer != nil {
		return fmt.Appendf(nil, "data: %s\n\n", j.work.answer)
	}
	text, note := j.work.Note, quote(nil, j.work.Note)
	if j.work.Fail {
		text = errWorkFailed.Error() + ": " + text
	}
	c := call{id: j.id, modern: j.modern}
	b := fmt.Appendf(c.resultOpen([]byte("data: ")), `"content":[{"type":"text","text":%s}],"structuredContent":{"steps":%d,"note":%s`,
		quote(nil, text), j.work.Steps, note)
	if j.work.Ask > 0 {
		b = quote(append(b, `,"reply":`...), j.reply)
	}
	b = append(b, '}')
	if j.work.Fail {
		b = append(b, `,"isError":true`...)
	}
	return append(b, "}}\n\n"...)
}

// addWork adds the slow tool for clients that cannot resume. They wait for its
// result on one connection, and lose the result with it.
func addWork(server *mcp.Server) {
	mcp.AddTool(
		server,
		&mcp.Tool{
			Name:        workTool,
			Description: "Works for a while and reports progress. Clients with the capability resumableRequests may disconnect and resume.",
		},
		func(ctx context.Context, _ *mcp.CallToolRequest, in workArguments) (*mcp.CallToolResult, workDone, error) {
			rpcErr := in.check()
			if rpcErr == nil && in.Ask > 0 {
				rpcErr = invalidParams("ask needs a client that can resume the work")
			}
			if rpcErr != nil {
				return nil, workDone{}, rpcErr
			}
			if !pause(ctx, nil, time.Duration(in.Steps)*in.step()) {
				return nil, workDone{}, ctx.Err()
			}
			if in.Fail {
				return nil, workDone{}, errWorkFailed
			}
			done := workDone{Steps: in.Steps, Note: in.Note}
			text, err := json.Marshal(done)
			if err != nil {
				return nil, workDone{}, err
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(text)}}}, done, nil
		},
	)
}
