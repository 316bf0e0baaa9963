package mcpclient

import (
	"context"
	"net/http"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/wire"
)

// MaxReplyID bounds the id of a request of a server that is answered, in bytes.
const MaxReplyID = 1 << 10

// OtherID is the detail of the notice about a response that spells the id of its request
// as another type of JSON. Clients that compare ids strictly never get it.
const OtherID = "the id of a response has another JSON type than that of its request"

// IsRequest reports whether a message is a request of the server.
func IsRequest(m *wire.Message) bool { return m.Method != nil && m.ID != nil && string(m.ID) != "null" }

// ReplyTo returns the response to a request of the server: to a ping a result, and to
// anything else the error that there is no such method.
func ReplyTo(m *wire.Message) []byte {
	dst := append([]byte(`{"jsonrpc":"2.0","id":`), m.ID...)
	if string(m.Method) == "ping" {
		return append(dst, `,"result":{}}`...)
	}
	return append(dst, `,"error":{"code":-32601,"message":"Method not found"}}`...)
}

// Reply sends a response that [ReplyTo] made, within [CancelTime]. header are the
// fields of any request of the session; they are not changed.
func (c *Caller) Reply(ctx context.Context, header http.Header, response []byte) {
	ctx, stop := context.WithTimeout(ctx, CancelTime)
	defer stop()
	header = header.Clone()
	header.Del(HeaderMethod)
	header.Del(headerName)
	header.Del("Last-Event-Id")
	header.Set("Content-Type", "application/json")
	header.Set("Accept", "application/json, text/event-stream")
	const name = "response"
	a := c.Notify(ctx, name, header, response)
	defer a.Release()
	if c.Recorder == nil {
		return
	}
	call := eventmeter.Call{
		Lane: c.Lane, Cause: eventmeter.Heartbeat, At: a.At, Requests: 1, Up: a.Up, Down: a.Down, Took: a.Took, Method: name,
	}
	if ctx.Err() == nil {
		call.Failure = a.Err.Failure()
	}
	c.Recorder.Called(call)
}

// Notify is [Caller.Call] for messages that have no response. Requests of the server that come
// nevertheless are not answered.
func (c *Caller) Notify(ctx context.Context, method string, header http.Header, body []byte) *Answer {
	a := c.send(ctx, method, header, body, false)
	if a.Err != nil && a.Err.Kind == KindProtocol {
		a.Err = nil
	}
	return a
}

// Asked answers a message that came within the response to another request, if it is a
// request of the server, and reports whether it is. resp.Request must be that of resp.
func (c *Caller) Asked(ctx context.Context, resp *http.Response, text []byte) bool {
	var m wire.Message
	asked := wire.ScanMessage(text, &m) && IsRequest(&m)
	if asked {
		c.asked(ctx, resp, &m)
	}
	return asked
}

func (c *Caller) asked(ctx context.Context, resp *http.Response, m *wire.Message) {
	if resp.Request == nil || len(m.ID) > MaxReplyID {
		return
	}
	header := resp.Request.Header
	if id := resp.Header.Get(HeaderSession); id != "" && header.Get(HeaderSession) == "" { // the session begins with this response
		header = header.Clone()
		header.Set(HeaderSession, id)
	}
	c.Reply(ctx, header, ReplyTo(m))
}

// otherID notes a response that spells its id in another way.
func (c *Caller) otherID(a *Answer) {
	if c.Recorder != nil && len(a.Msg.ID) > 2 && a.Msg.ID[0] == '"' {
		c.Recorder.Noticed(eventmeter.Notice{Sub: eventmeter.Sub{Lane: c.Lane}, Kind: eventmeter.Malformed, At: a.At, Detail: OtherID})
	}
}
