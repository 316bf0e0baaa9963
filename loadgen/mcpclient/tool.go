package mcpclient

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http/httptrace"
	"strings"
	"sync/atomic"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/internal/wire"
)

const (
	MethodCall = "tools/call"
	headerName = "Mcp-Name"
)

// ToolAnswer is what came of a tools/call. See upstream.ToolAnswer, which
// judges it.
type ToolAnswer struct {
	// Sent is true when the request may have reached the target.
	Sent bool
	// Answered is true when an answer came that could be read.
	Answered bool
	// Status is the HTTP status, 0 where there was none.
	Status int
	// Result is true for a result. IsError is its isError; Complete is false
	// for a result that is a question in between (resultType).
	Result, IsError, Complete bool
	// Code is that of a JSON-RPC error, 0 if there was none.
	Code int64
	// Err is what went wrong, nil for a result.
	Err error
	// Failure is one line: which tool was called where, and what came back. It
	// is empty for a complete result that is no error.
	Failure string
}

// CallTool calls a tool of the target as principal i modulo their number,
// after a handshake if there was none. arguments is a JSON object. The traffic is
// nobody's: it belongs to whatever the tool stands for, not to a lane.
func (e *Endpoint) CallTool(ctx context.Context, i int, tool string, arguments []byte) ToolAnswer {
	out, said := e.callTool(ctx, i, tool, arguments)
	switch {
	case out.Err != nil:
		said = out.Err.Error()
	case out.IsError && said == "":
		said = "isError"
	case out.IsError:
		said = "isError: " + said
	case out.Complete:
		return out
	}
	out.Failure = fmt.Sprintf("tool %s at %s: %s", tool, e.opts.URL, said)
	return out
}

// callTool also returns what a result says that is an error, or is not
// complete.
func (e *Endpoint) callTool(ctx context.Context, i int, tool string, arguments []byte) (out ToolAnswer, said string) {
	p := e.Principal(i)
	session, err := p.Session(ctx, nil)
	if err != nil {
		return ToolAnswer{Err: err}, ""
	}
	params := wire.BeginObject(nil)
	params.String("name", tool)
	params.Raw("arguments", arguments)
	if session.Meta != nil {
		params.Raw("_meta", session.Meta)
	}
	body := wire.AppendRequest(nil, e.NextID(), MethodCall, params.End())
	var sent atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		// The transport tries again by itself only when nothing was written.
		GetConn: func(string) { sent.Store(false) },
		GotConn: func(httptrace.GotConnInfo) { sent.Store(true) },
	})
	c := e.Caller(toolClock, &e.traffic)
	a := c.Call(traced, MethodCall, session.Header(MethodCall, tool), body)
	defer a.Release()
	out = ToolAnswer{Sent: sent.Load() || a.sent, Status: a.Status}
	if a.Err != nil {
		out.Err = a.Err
		out.Answered = a.Err.Kind == ""
		if a.Err.HasCode {
			out.Code = a.Err.code
		}
		if session.ID != "" && a.Err.Forgotten() {
			p.Forget(session)
		}
		return out, ""
	}
	out.Answered, out.Result = true, true
	var m struct {
		Result struct {
			IsError    bool   `json:"isError"`
			ResultType string `json:"resultType"`
			Content    []struct {
				Text string `json:"text"`
			} `json:"content"`
		} `json:"result"`
	}
	if err := json.Unmarshal(*a.Buf, &m); err != nil {
		out.Answered, out.Result, out.Err = false, false, &CallError{Method: MethodCall, Kind: KindProtocol, Cause: err}
		return out, ""
	}
	out.IsError = m.Result.IsError
	out.Complete = m.Result.ResultType == "" || m.Result.ResultType == "complete"
	if !out.Complete {
		return out, "resultType " + errtext.Line(m.Result.ResultType)
	}
	for _, c := range m.Result.Content {
		if said = errtext.FirstLine([]byte(c.Text)); said != "" {
			break
		}
	}
	return out, said
}

// toolClock is for the time of calls that nobody asks for.
var toolClock = eventmeter.NewClock()

// headerText makes a name fit for a header: as it is when it is plain ASCII, and
// else in the protocol's wrapping of base64. What space at its ends would be
// cut off, and what looks like the wrapping, is wrapped, too. Some servers, such
// as those of the official Go SDK 1.8, compare Mcp-Name with the name without
// unwrapping it: they have no tools that need it.
func headerText(name string) string {
	plain := !strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' })
	if plain && strings.TrimSpace(name) == name && !(strings.HasPrefix(name, wrapBegin) && strings.HasSuffix(name, wrapEnd)) {
		return name
	}
	return wrapBegin + base64.StdEncoding.EncodeToString([]byte(name)) + wrapEnd
}

const wrapBegin, wrapEnd = "=?base64?", "?="
