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

// MethodCall calls a tool.
const MethodCall = "tools/call"

// headerName carries the tool's name, or that of another named object.
const headerName = "Mcp-Name"

// ToolAnswer is the answer to a tools/call. Package upstream derives the outcome from it.
type ToolAnswer struct {
	// Sent is true if the request may have reached the target.
	Sent bool
	// Answered is true if an answer came and could be read: a result (Result), a
	// JSON-RPC error (Code), or only an HTTP status.
	Answered bool
	// Status is the HTTP status, 0 if there was none.
	Status int
	// Result is true for a result. IsError is the result's isError. Complete is false
	// for a result that asks the client something before the tool's own (resultType).
	Result, IsError, Complete bool
	// Code is the code of a JSON-RPC error, 0 if there was none.
	Code int64
	// Failure is one line: which tool was called where, and what came back. It
	// is empty for a complete result without isError.
	Failure string
}

// CallTool calls a tool of the target as principal i modulo their number, after a
// handshake if there was none. arguments is a JSON object. The call is reported to no
// recorder, because it belongs to the upstream and not to a lane. The error is why there is
// no result.
func (e *Endpoint) CallTool(ctx context.Context, i int, tool string, arguments []byte) (ToolAnswer, error) {
	out, said, err := e.callTool(ctx, i, tool, arguments)
	switch {
	case err != nil:
		said = err.Error()
	case out.IsError && said == "":
		said = "isError"
	case out.IsError:
		said = "isError: " + said
	case out.Complete:
		return out, nil
	}
	out.Failure = fmt.Sprintf("tool %s at %s: %s", tool, e.opts.URL, said)
	return out, err
}

// callTool also returns the text of a result with isError, or the resultType of one
// that is not complete.
func (e *Endpoint) callTool(ctx context.Context, i int, tool string, arguments []byte) (out ToolAnswer, said string, err error) {
	p := e.Principal(i)
	session, err := p.Session(ctx, nil)
	if err != nil {
		return out, "", err
	}
	params := wire.BeginObject(nil)
	params.String("name", tool)
	params.Raw("arguments", arguments)
	if session.Meta != nil {
		params.Raw("_meta", session.Meta)
	}
	body := wire.Request(e.NextID(), MethodCall, params.End())
	var sent atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		// The transport repeats a request by itself only if nothing was written.
		GetConn: func(string) { sent.Store(false) },
		GotConn: func(httptrace.GotConnInfo) { sent.Store(true) },
	})
	c := e.Caller(toolClock, &e.traffic)
	a := c.Call(traced, MethodCall, session.Header(MethodCall, tool), body)
	defer a.Release()
	out = ToolAnswer{Sent: sent.Load() || a.sent, Status: a.Status}
	if a.Err != nil {
		out.Answered = a.Err.Kind == ""
		if a.Err.HasCode {
			out.Code = a.Err.code
		}
		p.Lost(session, a.Err)
		return out, "", a.Err
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
		out.Answered, out.Result = false, false
		return out, "", &CallError{Method: MethodCall, Kind: KindProtocol, Cause: err}
	}
	out.IsError = m.Result.IsError
	out.Complete = m.Result.ResultType == "" || m.Result.ResultType == "complete"
	if !out.Complete {
		return out, "resultType " + errtext.Line(m.Result.ResultType), nil
	}
	for _, c := range m.Result.Content {
		if said = errtext.FirstLine([]byte(c.Text)); said != "" {
			break
		}
	}
	return out, said, nil
}

// toolClock is the clock of calls that are not reported.
var toolClock = eventmeter.NewClock()

// headerText returns a name as the value of a header field: unchanged if it is plain
// ASCII, otherwise in base64 as the protocol wraps it. A name with space at its ends,
// which would be cut off, or one that looks wrapped is wrapped, too. Some servers, such
// as those of the official Go SDK 1.8, do not unwrap Mcp-Name before they compare it;
// they cannot have tools with such names.
func headerText(name string) string {
	plain := !strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' })
	if plain && strings.TrimSpace(name) == name && !(strings.HasPrefix(name, wrapBegin) && strings.HasSuffix(name, wrapEnd)) {
		return name
	}
	return wrapBegin + base64.StdEncoding.EncodeToString([]byte(name)) + wrapEnd
}

const wrapBegin, wrapEnd = "=?base64?", "?="
