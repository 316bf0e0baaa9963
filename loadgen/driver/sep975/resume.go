package sep975

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/sinks"
)

// plan is what a client does that has lost its connection.
type plan struct {
	away   time.Duration
	expire bool // past maxWait
	double bool
	wrong  bool
	left   eventmeter.Instant // when it went
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

// stayAway waits, and asks for the status meanwhile. It returns the answer if
// the target no longer knows the request.
func (t *task) stayAway(ctx context.Context, p plan) *mcpclient.CallError {
	d := t.d
	release := sync.OnceFunc(func() { d.count.hold(-1) })
	d.count.hold(1)
	defer release()
	back := p.left.Add(p.away)
	if p.expire {
		if sinks.Sleep(ctx, p.left.Add(t.maxWait).Sub(d.Clock.Now())) {
			release() // the target holds it no longer, or should not
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

// poll asks for the status, which begins the policy's time anew.
func (t *task) poll(ctx context.Context) *mcpclient.CallError {
	d := t.d
	session, err := d.session(ctx, t.r)
	if err != nil {
		return nil // the resume will say so
	}
	o := wire.BeginObject(nil)
	o.Raw("requestId", t.token)
	o.String("resumeToken", t.resume)
	if session.Meta != nil {
		o.Raw("_meta", session.Meta)
	}
	body := wire.AppendRequest(nil, d.Endpoint.NextID(), methodGetStatus, o.End())
	ctx, cancel := context.WithTimeout(ctx, d.Opts.Timeout)
	defer cancel()
	before := d.Clock.Now()
	a := d.Caller.Call(ctx, methodGetStatus, d.header(session, methodGetStatus), body)
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
	return nil
}

// resumeNow resumes, once or twice at once.
func (t *task) resumeNow(ctx context.Context, p plan) end {
	d := t.d
	session, err := d.session(ctx, t.r)
	if err != nil {
		return end{kind: endBroken, err: &mcpclient.CallError{Method: methodResume, Kind: mcpclient.KindOf(err), Cause: err}}
	}
	if p.wrong {
		t.tryWrong(ctx, session, t.id, t.resume+"x")
		t.tryWrong(ctx, session, d.Endpoint.NextID(), t.resume)
	}
	now := d.Clock.Now()
	age := now.Sub(t.began)
	req := request{
		method: methodResume, cause: eventmeter.Reconnect, session: session, body: d.resumeBody(session, t.id, t.resume),
		refusable: p.expire || p.double,
		// A message is made with each step; two of them allow for a late one.
		pending: now.Sub(p.left) >= 2*d.set.Step,
		ready:   age >= time.Duration(d.set.Steps+2)*d.set.Step,
	}
	before := t.since
	e := t.episode(ctx, func(ctx context.Context) end {
		if p.double {
			return t.twice(ctx, req)
		}
		t.add("resumes", 1)
		return t.connect(ctx, req)
	})
	if e.kind == endBroken && !e.heard || e.kind == endRefused {
		t.since = before // it may never have arrived: the policy's time goes on
	}
	if e.kind == endRefused && d.Lost(t.r.who, session, e.err) {
		e.kind = endBroken
	}
	return e
}

func (d *lane) resumeBody(session *mcpclient.Session, id uint64, token string) []byte {
	o := wire.BeginObject(nil)
	o.String("resumeToken", token)
	if session.Meta != nil {
		o.Raw("_meta", session.Meta)
	}
	return wire.AppendRequest(nil, id, methodResume, o.End())
}

// judgeAccepted notes a policy that held for longer than it said.
func (t *task) judgeAccepted(p plan, e end) {
	if p.expire && e.heard {
		t.add("policiesLeaked", 1)
	}
}

// judgeRefused says what a refusal means, and whether it is the end.
func (t *task) judgeRefused(p plan, refusal *mcpclient.CallError) (outcome string, over bool) {
	if !refusal.HasCode || refusal.Throttled() {
		return "", false
	}
	most := t.d.Clock.Now().Sub(t.since)
	switch {
	case p.expire:
		return outExpired, true
	case t.bounded && most >= t.maxWait:
		// The client was late, by no plan of its own.
		return outOverslept, true
	}
	t.add("policiesEarly", 1)
	return outFailed, true
}

// twice resumes on two connections at once and notes what becomes of them. The
// end is that of the one that got further.
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
		// The other may be left waiting for what it will never be sent.
		patience := time.AfterFunc(t.d.set.Tolerance, func() {
			defer crash.Guard()
			cancel(errPatience)
		})
		defer patience.Stop()
	}
	b := <-ends
	if b.kind == endResult || a.kind != endResult && b.heard && !a.heard {
		a, b = b, a
	}
	a.news = a.news || b.news
	failed := func(e end) bool { return e.kind == endRefused || e.kind == endError }
	switch {
	case a.kind == endResult && b.kind == endResult:
		t.add("doublesBothAnswered", 1)
	case failed(a) && failed(b):
		t.add("doublesBothRefused", 1)
		// Neither was right; the request may be well, and is asked for again.
		a = end{kind: endBroken, err: a.err, heard: a.heard || b.heard, news: a.news || b.news}
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

// errPatience ends a connection that is left over.
var errPatience = context.DeadlineExceeded

// tryWrong tries a resume that must be refused.
func (t *task) tryWrong(ctx context.Context, session *mcpclient.Session, id uint64, token string) {
	d := t.d
	t.add("wrongTried", 1)
	ctx, cancel := context.WithTimeout(ctx, min(d.Opts.Timeout, 5*time.Second))
	defer cancel()
	// A task of its own takes what comes, and nothing of it enters the account.
	impostor := d.newTask(t.r, t.n)
	impostor.confirmed = func(eventmeter.Instant) {}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	impostor.peek = stop
	e := impostor.connect(ctx, request{
		method: methodResume, cause: eventmeter.Retry, session: session, body: d.resumeBody(session, id, token), refusable: true,
	})
	switch {
	case e.heard:
		t.add("wrongAccepted", 1)
	case e.kind != endRefused || !strings.HasPrefix(e.err.Failure(), "rpc"):
		t.add("wrongUnclear", 1)
	}
}
