package check

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/conform"
	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
)

const methodStream = "events/stream"

// open opens a stream, and reads its first message. The stream ends with ctx. opened
// says that the message is no response.
func (p *probe) open(ctx context.Context, over http.RoundTripper, of params) (a answer, opened bool) {
	session, err := p.me().Session(ctx, nil)
	if err != nil {
		return answer{silent: errtext.Line(err.Error())}, false
	}
	body, err := p.request(session, methodStream, of)
	if err != nil {
		return answer{silent: err.Error()}, false
	}
	a = patient(ctx, func() (a answer) {
		a, opened = p.openOnce(ctx, over, session, body)
		return a
	})
	return a, opened
}

func (p *probe) openOnce(ctx context.Context, over http.RoundTripper, session *mcpclient.Session, body []byte) (a answer, opened bool) {
	req := p.caller.NewPost(ctx, session.Header(methodStream, ""), body)
	resp, err := over.RoundTrip(req)
	if err != nil {
		return answer{silent: "no answer: " + mcpclient.TransportError(ctx, err).Failure()}, false
	}
	resp.Request = req
	context.AfterFunc(ctx, func() {
		defer crash.Guard()
		resp.Body.Close()
	})
	if resp.StatusCode <= 299 && mcpclient.IsEventStream(resp.Header) {
		return p.firstMessage(ctx, resp)
	}
	from := &mcpclient.Answer{Want: wire.RequestID(body)}
	defer from.Release()
	from.Read(ctx, &p.caller, resp, methodStream)
	return p.read(from), false
}

// firstMessage reads a stream up to its first message that is no request of the server.
func (p *probe) firstMessage(ctx context.Context, resp *http.Response) (a answer, opened bool) {
	var parser wire.EventParser
	defer parser.Reset()
	buf := make([]byte, 4<<10)
	found := false
	a.status = resp.StatusCode
	for !found {
		n, err := resp.Body.Read(buf)
		failed := parser.Feed(buf[:n], func(e wire.Event) {
			var m wire.Message
			if found || !wire.ScanMessage(e.Data, &m) || p.caller.Asked(ctx, resp, e.Data) {
				return
			}
			found, opened = true, len(m.Method) > 0
			a.text, a.coded, a.code = errtext.Line(string(e.Data)), m.HasError, m.Error.Code
			if m.HasError {
				a.meaning = mcpclient.RPCError(methodStream, &m.Error).Meaning()
			}
		})
		if !found && (err != nil || failed != nil) {
			a.silent = "the stream ended before its first message"
			return a, false
		}
	}
	return a, opened
}

// transport returns a transport for streams; nil if there can be none, which skips the
// step.
func (p *probe) transport() (http.RoundTripper, func()) {
	if p.Endpoint.IsProgram() {
		p.skipAll("over standard input and output, calls and streams share one pipe")
		return nil, nil
	}
	t, hangUp, err := p.Endpoint.NewTransport("", new(wire.Traffic), true)
	if err != nil {
		p.skipAll(errtext.Line(err.Error()))
		return nil, nil
	}
	return t, hangUp
}

func unknownStream(ctx context.Context, p *probe) {
	over, hangUp := p.transport()
	if over == nil {
		return
	}
	defer hangUp()
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	a, opened := p.open(ctx, over, p.base().with(params{"name": unknown, "cursor": null}))
	if p.unanswered(a) {
		return
	}
	p.judge(conform.StreamErrorBeforeOpen, !opened && a.coded, "HTTP %d: %s", a.status, a.text)
}

// longestSilence is when a stream counts as dead: twice the draft's 30 s, and a second for
// the way.
const longestSilence = 61 * time.Second

// quietStream waits on a stream until a heartbeat comes, or nothing does for too long.
func quietStream(ctx context.Context, p *probe) {
	over, hangUp := p.transport()
	if over == nil {
		return
	}
	defer hangUp()
	session, err := p.me().Session(ctx, nil)
	if err != nil {
		p.skipAll(errtext.Line(err.Error()))
		return
	}
	body, err := p.request(session, methodStream, p.base().with(params{"cursor": null}))
	if err != nil {
		p.skipAll(err.Error())
		return
	}
	stream, stop := context.WithCancel(ctx)
	defer stop()
	longest := cmp.Or(p.opts.Silence, longestSilence)
	silence := time.AfterFunc(longest, stop)
	defer silence.Stop()
	req := p.caller.NewPost(stream, session.Header(methodStream, ""), body)
	resp, err := over.RoundTrip(req)
	if err != nil || resp.StatusCode > 299 || !mcpclient.IsEventStream(resp.Header) {
		p.skipAll("no stream opened")
		return
	}
	defer resp.Body.Close()
	resp.Request = req
	var parser wire.EventParser
	defer parser.Reset()
	buf, began := make([]byte, 4<<10), false
	for err == nil && !p.judged[conform.StreamHeartbeatRequired] {
		var n int
		n, err = resp.Body.Read(buf)
		if failed := parser.Feed(buf[:n], func(e wire.Event) {
			var m wire.Message
			if len(e.Data) == 0 || !wire.ScanMessage(e.Data, &m) || p.caller.Asked(ctx, resp, e.Data) {
				return
			}
			silence.Reset(longest)
			switch string(m.Method) {
			case "notifications/events/active":
				began = true
			case "notifications/events/heartbeat":
				p.judge(conform.StreamHeartbeatRequired, true, "")
			case "notifications/events/event":
				p.skipAll("events came, so that the stream was not quiet")
			}
		}); failed != nil {
			err = failed
		}
	}
	if began && stream.Err() != nil && ctx.Err() == nil && !p.judged[conform.StreamHeartbeatRequired] {
		p.judge(conform.StreamHeartbeatRequired, false, "no heartbeat within %s", longest)
	}
	if ctx.Err() == nil {
		p.skipAll("the stream ended before a heartbeat was due")
	}
}

// manyStreams opens streams, and makes another call meanwhile. A refusal by an error of
// JSON-RPC may be a quota of subscriptions, which is another matter.
func manyStreams(ctx context.Context, p *probe) {
	over, hangUp := p.transport()
	if over == nil {
		return
	}
	defer hangUp()
	ctx, cancel := context.WithTimeout(ctx, 2*callTime)
	defer cancel()
	method, of := "events/list", params{}
	if slices.Contains(p.eventType().Delivery, eventmeter.Poll) {
		method, of = "events/poll", p.base().with(params{"cursor": null})
	}
	before := p.call(ctx, p.me(), method, of)
	var got [16]struct {
		answer
		opened bool
	}
	var all sync.WaitGroup
	for i := range got {
		all.Go(func() {
			defer crash.Guard()
			got[i].answer, got[i].opened = p.openAlone(ctx, over)
		})
	}
	all.Wait()
	opened := 0
	for _, g := range got {
		switch {
		case g.opened:
			opened++
		case !g.coded && g.status > 299:
			p.judge(conform.StreamExemptFromConcurrencyCap, false, "HTTP %d: %s", g.status, g.text)
		}
	}
	if opened == 0 {
		p.skipAll("no stream opened: " + got[0].text + got[0].silent)
		return
	}
	a := p.call(ctx, p.me(), method, of)
	if before.granted() && (a.silent == "" || a.status > 299 && !a.coded) {
		p.judge(conform.StreamExemptFromConcurrencyCap, a.granted(), "%s beside %d streams: HTTP %d: %s", method, opened, a.status, a.text)
	}
	p.skipAll(a.silent)
}

// openAlone is open without a judgement, for several streams at once.
func (p *probe) openAlone(ctx context.Context, over http.RoundTripper) (answer, bool) {
	alone := *p
	alone.found, alone.judged = newFindings(), map[conform.ID]bool{}
	return alone.open(ctx, over, p.base().with(params{"cursor": null}))
}
