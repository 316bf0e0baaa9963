package sep975

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/sinks"
)

// plan is what a client does after it lost its connection.
type plan struct {
	away   time.Duration
	expire bool               // stay away past maxWait
	double bool               // resume on two connections at once
	wrong  bool               // try wrong resumes before
	left   eventmeter.Instant // when the connection was lost
}

// plan draws what to do after a connection ended.
func (t *task) plan(e end) plan {
	d, i, n := t.d, int(t.r.Sub.Index), t.n<<8|int(t.links)
	p := plan{left: t.since}
	if e.kind == endCut {
		p.away = d.set.Away
		p.expire = t.bounded && d.draw(i, t.n, "expire") < d.set.Expire
	}
	if p.expire {
		p.away = t.maxWait + d.set.Tolerance
		return p
	}
	p.double = d.draw(i, n, "double") < d.set.Double
	p.wrong = d.draw(i, n, "wrong") < d.set.Wrong
	return p
}

// stayAway waits, and polls the status meanwhile. It returns the error with which the
// target refuses a status, nil if it refuses none.
func (t *task) stayAway(ctx context.Context, p plan) *mcpclient.CallError {
	d := t.d
	release := sync.OnceFunc(func() { d.count.hold(-1) })
	d.count.hold(1)
	defer release()
	back := p.left.Add(p.away)
	if p.expire {
		if sinks.Sleep(ctx, p.left.Add(t.maxWait).Sub(d.Clock.Now())) {
			release() // from now on the target need not keep the request
			sinks.Sleep(ctx, back.Sub(d.Clock.Now()))
		}
		return nil
	}
	if every := d.set.StatusEvery; every > 0 {
		for at := p.left.Add(every); at < back; at = at.Add(every) {
			if !sinks.Sleep(ctx, at.Sub(d.Clock.Now())) {
				return nil
			}
			if refusal := t.poll(ctx); refusal != nil {
				return refusal
			}
		}
	}
	sinks.Sleep(ctx, back.Sub(d.Clock.Now()))
	return nil
}

// poll requests the status, which restarts the time of the policy. It returns the JSON-RPC
// error of the answer, if there is one.
func (t *task) poll(ctx context.Context) *mcpclient.CallError {
	d := t.d
	session, err := d.session(ctx, t.r)
	if err != nil {
		return nil // the resume reports the error
	}
	o := wire.BeginObject(nil)
	o.Raw("requestId", t.token)
	o.String("resumeToken", t.resume)
	before := d.Clock.Now()
	a := d.Ask(ctx, session, methodGetStatus, "", o)
	defer a.Release()
	d.Report(eventmeter.Call{
		Cause: eventmeter.EmptyPoll, At: a.At, Requests: 1, Up: a.Up, Down: a.Down, Took: a.Took,
		Method: methodGetStatus, Failure: a.Err.Failure(),
	})
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tally.add("statusPolls", 1)
	t.tally.add("statusBytes", a.Up+a.Down)
	var m wire.Resumable
	switch {
	case a.Err != nil:
		t.tally.add("statusFailed", 1)
		if a.Err.HasCode {
			return a.Err
		}
		return nil
	case !wire.ScanResumable(*a.Buf, &m) || len(m.Status) == 0:
		t.tally.add("statusFailed", 1)
		return nil
	}
	t.since = before
	t.tally.sample("status", a.Took)
	if wrong := t.statusDeviation(&m); wrong != "" {
		d.Notice(t.r.Sub, eventmeter.Malformed, a.At, wrong)
	}
	return nil
}

// statusDeviation returns what is wrong with an answer to getStatus for a request whose
// response has not come, "" if nothing is. The caller holds the lock.
func (t *task) statusDeviation(m *wire.Resumable) string {
	switch status := string(m.Status); status {
	case "processing":
		if t.finished {
			return "a status goes back to processing"
		}
	case "completed", "failed":
		t.finished = true
		if m.NonePending {
			return "a status without a pending message, although the response has not come"
		}
	default:
		return "a status that is none of processing, completed and failed"
	}
	return ""
}

// resumeNow resumes the request, on one connection or on two at once.
func (t *task) resumeNow(ctx context.Context, p plan) end {
	d := t.d
	session, err := d.session(ctx, t.r)
	if err != nil {
		return end{kind: endBroken, err: &mcpclient.CallError{Method: methodResume, Kind: mcpclient.KindOf(err), Cause: err}}
	}
	if p.wrong {
		for _, req := range t.wrongOnes(session) {
			t.tryWrong(ctx, req)
		}
	}
	now := d.Clock.Now()
	age := now.Sub(t.began)
	req := t.resumption(session, t.id, t.key())
	req.cause = eventmeter.Reconnect
	req.refusable = p.expire || p.double
	// The tool sends a message after each step; two steps allow for a late one.
	req.pending = now.Sub(p.left) >= 2*d.set.Step
	req.ready = age >= time.Duration(d.set.Steps+2)*d.set.Step
	before := t.since
	e := t.episode(ctx, func(ctx context.Context) end {
		if p.double {
			return t.twice(ctx, req)
		}
		t.add("resumes", 1)
		return t.connect(ctx, req)
	})
	if e.kind == endBroken && !e.answered || e.kind == endRefused {
		t.since = before // the resume may not have arrived: the policy's time continues
	}
	// By Last-Event-ID, a request ends with its session.
	if e.kind == endRefused && d.lost(t.r, session, e.err) && !d.set.byID() {
		e.kind = endBroken
	}
	return e
}

// headerLastEventID is Last-Event-ID in the canonical form of net/http.
const headerLastEventID = "Last-Event-Id"

// key returns what the request is resumed by: the token, or the id of the last event.
func (t *task) key() string {
	if t.d.set.byID() {
		return string(t.lastID)
	}
	return t.resume
}

// resumption returns a request that resumes the request id by a key.
func (t *task) resumption(session *mcpclient.Session, id uint64, key string) request {
	if t.d.set.byID() {
		header := session.StreamHeader()
		header.Set(headerLastEventID, key)
		return request{method: http.MethodGet, header: header, resumes: true}
	}
	o := wire.BeginObject(nil)
	o.String("resumeToken", key)
	if session.Meta != nil {
		o.Raw("_meta", session.Meta)
	}
	return request{
		method:  methodResume,
		header:  t.d.header(session, methodResume),
		body:    wire.Request(id, methodResume, o.End()),
		resumes: true,
	}
}

// wrongOnes returns resumes that the target must refuse.
func (t *task) wrongOnes(session *mcpclient.Session) []request {
	key, other := t.key(), t.d.Endpoint.NextID()
	if t.d.set.byID() {
		return []request{t.resumption(session, t.id, key+"x"), t.resumption(session, t.id, "x"+key)}
	}
	return []request{t.resumption(session, t.id, key+"x"), t.resumption(session, other, key)}
}

// judgeAccepted counts a resume that was accepted after the policy had expired.
func (t *task) judgeAccepted(p plan, e end) {
	if p.expire && e.answered {
		t.add("policiesLeaked", 1)
	}
}

// judgeRefused returns the outcome of a request that was refused, and whether the request
// is over.
func (t *task) judgeRefused(p plan, refusal *mcpclient.CallError) (outcome string, over bool) {
	if !t.final(refusal) {
		return "", false
	}
	most := t.d.Clock.Now().Sub(t.since)
	switch {
	case p.expire:
		return outExpired, true
	case t.bounded && most >= t.maxWait:
		// The client was late, but not on purpose.
		return outOverslept, true
	}
	t.add("policiesEarly", 1)
	return outFailed, true
}

// final reports whether a refusal ends the request. A GET is refused by a status. The status
// 409 is not final: a server that has not noticed the cut yet answers that the stream has a
// connection.
func (t *task) final(refusal *mcpclient.CallError) bool {
	byID := t.d.set.byID()
	if refusal.Throttled() || byID && refusal.Status == http.StatusConflict {
		return false
	}
	return refusal.HasCode || byID && refusal.Status/100 == 4
}

// twice resumes on two connections at once and counts their results. It returns the end of
// the connection that got further.
func (t *task) twice(ctx context.Context, req request) end {
	t.add("resumes", 2)
	t.add("doubles", 1)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ends := make(chan end, 2)
	var wg sync.WaitGroup
	defer wg.Wait()
	for range 2 {
		wg.Go(func() {
			defer crash.Guard()
			ends <- t.connect(ctx, req)
		})
	}
	a := <-ends
	if a.kind == endResult {
		// The other connection may wait for a result that will not be sent.
		patience := time.AfterFunc(t.d.set.Tolerance, func() {
			defer crash.Guard()
			cancel(errPatience)
		})
		defer patience.Stop()
	}
	b := <-ends
	if b.kind == endResult || a.kind != endResult && b.answered && !a.answered {
		a, b = b, a
	}
	a.news = a.news || b.news
	failed := func(e end) bool { return e.kind == endRefused || e.kind == endError }
	switch {
	case a.kind == endResult && b.kind == endResult:
		t.add("doublesBothAnswered", 1)
	case failed(a) && failed(b):
		t.add("doublesBothRefused", 1)
		// The request may still exist, so it is resumed again.
		a = end{kind: endBroken, err: a.err, answered: a.answered || b.answered, news: a.news || b.news}
	case failed(b):
		t.add("doublesOneRefused", 1)
	case failed(a):
		t.add("doublesOneRefused", 1)
		a = b
	case a.kind == endResult:
		t.add("doublesUntold", 1)
	default:
		t.add("doublesInterrupted", 1)
	}
	return a
}

// errPatience is why a connection is ended that waits after the other one got the result.
var errPatience = context.DeadlineExceeded

// tryWrong makes a resume that the target must refuse, and counts the answer.
func (t *task) tryWrong(ctx context.Context, req request) {
	d := t.d
	t.add("wrongTried", 1)
	ctx, cancel := context.WithTimeout(ctx, min(d.Opts.Timeout, 5*time.Second))
	defer cancel()
	// Messages go to a separate task, which is not added to the account.
	impostor := d.newTask(t.r, t.n)
	impostor.confirmed = func(eventmeter.Instant) {}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	impostor.peek = stop
	req.cause, req.refusable = eventmeter.Retry, true
	e := impostor.connect(ctx, req)
	switch {
	case e.answered:
		t.add("wrongAccepted", 1)
	case e.kind != endRefused || !strings.HasPrefix(e.err.Failure(), "rpc") && !t.final(e.err):
		t.add("wrongUnclear", 1)
	}
}
