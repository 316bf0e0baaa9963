package sep975

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/sinks"
)

// end is how a connection of a request ended.
type end struct {
	kind  endKind
	err   *mcpclient.CallError
	heard bool // a message came that was no error
	news  bool // and one that had not come before
}

type endKind uint8

const (
	endResult  endKind = iota + 1 // with the response
	endCut                        // by this side, on purpose
	endHangUp                     // by the server, in order, without the response
	endBroken                     // in any other way
	endRefused                    // with an error and nothing else
	endError                      // with an error, after messages
	endGone                       // the run is over
)

// failure is the error of an end that was none of a success.
func (e end) failure() error {
	if e.err != nil {
		return e.err
	}
	return &mcpclient.CallError{Method: mcpclient.MethodCall, Kind: mcpclient.KindProtocol, Message: "the connection ended without the response"}
}

// request is what opens a connection.
type request struct {
	method  string
	cause   eventmeter.Cause
	session *mcpclient.Session
	body    []byte
	// refusable says that a refusal is what is to be expected, or what one of
	// two is to get: it is no failed call.
	refusable bool
	// pending and ready tell that a message, and the result, must be waiting.
	pending, ready bool
}

// task is one long request, from the call to its result, over as many
// connections as that takes. One goroutine runs it; two connections may feed
// it at once.
type task struct {
	d         *lane
	r         *run
	n         int // of the run, from 0
	id        uint64
	token     []byte // of progress: the id, as JSON
	note      string
	began     eventmeter.Instant
	confirmed func(at eventmeter.Instant)

	// since is when the policy's time began last, or a little earlier.
	since eventmeter.Instant

	mu       sync.Mutex
	tally    tally
	progress []uint16 // the connection on which each came first, 0 = not yet
	logs     []uint16
	high     int64 // newest progress
	links    uint16
	result   bool
	policy   bool
	resume   string // the token
	maxWait  time.Duration
	bounded  bool                    // there is a maxWait
	hangUp   context.CancelCauseFunc // ends the connections at hand; nil = there are none
	peek     func()                  // called at the first message, for one that should not come
	cutDue   bool                    // as soon as there is a policy
	cutAt    eventmeter.Instant      // of the connection at hand, or the last
}

// errCut is why a connection ends that the lane cuts on purpose.
var errCut = errors.New("cut on purpose")

// The outcomes of a request; each is a figure.
const (
	outCompleted  = "requestsCompleted"
	outExpired    = "requestsExpired"
	outOverslept  = "requestsOverslept"
	outFailed     = "requestsFailed"
	outUnfinished = "requestsUnfinished"
	outAbandoned  = "requestsAbandoned"
)

func (d *lane) newTask(r *run, n int) *task {
	id := d.Endpoint.NextID()
	return &task{
		d: d, r: r, n: n, id: id, token: strconv.AppendUint(nil, id, 10),
		note:     fmt.Sprintf("eventmeter-975-%d-%d-%d-%d", d.Opts.Lane, r.Sub.Index, n, id),
		progress: make([]uint16, d.set.Steps), logs: make([]uint16, d.logs),
	}
}

// run makes the request and sees it to its end. The error says why it failed
// in a way that concerns the requests after it.
func (t *task) run() error {
	d := t.d
	d.under.Add(1)
	defer d.under.Add(-1)
	i := t.r.Sub.Index
	d.tasks[i].Store(t)
	defer d.tasks[i].Store(nil)
	t.began = d.Clock.Now()
	outcome, err := t.pursue(t.r.Ctx)
	if t.r.Ctx.Err() != nil && outcome != outCompleted {
		outcome = outAbandoned
		if d.drained.Load() {
			outcome = outUnfinished
		}
	}
	d.count.commit(t, outcome)
	return err
}

// pursue calls, and resumes until there is a result or no hope of one.
func (t *task) pursue(ctx context.Context) (outcome string, err error) {
	e, err := t.call(ctx)
	if err != nil {
		return outFailed, err
	}
	if !t.hasPolicy() {
		return t.unresumable(e)
	}
	backoff := sinks.Backoff{Min: min(t.d.Opts.Push.BackoffMin, 100*time.Millisecond), Max: t.d.Opts.Push.BackoffMax, Rand: t.r.rand}
	for tries := 0; ; {
		if e.kind == endResult {
			return outCompleted, nil
		}
		if ctx.Err() != nil {
			return outUnfinished, nil //nolint:nilerr // our own doing
		}
		p := t.plan(e)
		switch {
		case e.kind == endCut:
		case e.news:
			tries = 0
			backoff.Reset()
			if e.kind != endHangUp {
				p.away = backoff.Next(0)
			}
		default:
			if tries++; tries > maxTries {
				return outFailed, e.failure()
			}
			p.away = backoff.Next(0)
		}
		refusal := t.stayAway(ctx, p)
		if refusal == nil {
			e = t.resumeNow(ctx, p)
			if e.kind != endRefused {
				t.judgeAccepted(p, e)
				continue
			}
			refusal = e.err
		}
		if outcome, over := t.judgeRefused(p, refusal); over {
			return outcome, nil
		}
		e = end{kind: endBroken, err: refusal}
	}
}

// maxTries is how many resumes in a row may bring nothing new.
const maxTries = 10

// unresumable is the end of a request that got no policy.
func (t *task) unresumable(e end) (string, error) {
	t.add("policiesMissing", 1)
	switch {
	case e.kind == endResult:
		return outCompleted, fmt.Errorf("%s: %w: it answered without a resume policy: has it SEP-975?", mcpclient.MethodCall, mcpclient.ErrNotOffered)
	case e.kind == endGone:
		return outUnfinished, e.failure()
	}
	return outFailed, e.failure()
}

// call sends the request itself.
func (t *task) call(ctx context.Context) (end, error) {
	d := t.d
	session, err := d.session(ctx, t.r)
	if err != nil {
		return end{}, err
	}
	arguments, err := d.arguments(t.r, t.note)
	if err != nil {
		return end{}, err
	}
	meta := wire.BeginObject(nil)
	meta.Raw("progressToken", t.token)
	m := meta.End()
	if len(session.Meta) > 2 { // both are objects with members
		m = append(append(m[:len(m)-1], ','), session.Meta[1:]...)
	}
	o := wire.BeginObject(nil)
	o.String("name", d.set.Tool)
	o.Raw("arguments", arguments)
	o.Raw("_meta", m)
	body := wire.AppendRequest(nil, t.id, mcpclient.MethodCall, o.End())
	if d.set.Disconnect == CutOne {
		cut := make(chan struct{})
		timer := time.AfterFunc(d.set.At, func() {
			defer crash.Guard()
			defer close(cut)
			t.cut()
		})
		defer func() {
			if !timer.Stop() {
				<-cut
			}
		}()
	}
	e := t.episode(ctx, func(ctx context.Context) end {
		return t.connect(ctx, request{method: mcpclient.MethodCall, cause: eventmeter.Events, session: session, body: body})
	})
	if e.kind == endRefused && d.Lost(t.r.who, session, e.err) {
		return e, &mcpclient.CallError{Method: mcpclient.MethodCall, Kind: mcpclient.KindSession, Status: e.err.Status}
	}
	return e, nil
}

// cut cuts the connection at hand, if there is one, as soon as the request can
// be resumed.
func (t *task) cut() {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.hangUp == nil || t.result:
	case !t.policy:
		t.cutDue = true
	default:
		t.cutNow()
	}
}

// cutNow cuts; the caller holds the lock.
func (t *task) cutNow() {
	t.cutDue = false
	if t.cutAt == 0 {
		t.cutAt = t.d.Clock.Now()
		t.tally.add("cuts", 1)
	}
	t.hangUp(errCut)
}

// episode runs connections that are cut together.
func (t *task) episode(ctx context.Context, connect func(ctx context.Context) end) end {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	t.mu.Lock()
	t.hangUp, t.cutAt = cancel, 0
	t.mu.Unlock()
	e := connect(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hangUp = nil
	t.since = t.d.Clock.Now()
	if t.cutAt != 0 {
		t.since = t.cutAt
		if e.kind == endBroken || e.kind == endHangUp { // it ended while it was being cut
			e.kind = endCut
		}
	}
	switch e.kind {
	case endHangUp:
		t.tally.add("hangUps", 1)
	case endBroken:
		t.tally.add("breaks", 1)
	}
	return e
}

func (t *task) hasPolicy() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.policy
}

func (t *task) add(name string, n int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tally.add(name, n)
}

// message takes one message off a connection.
func (t *task) message(l *link, data []byte, size int) {
	m := &l.msg
	if !wire.ScanResumable(data, m) {
		t.d.Notice(t.r.Sub, eventmeter.Malformed, l.at, "a message is not a JSON object")
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if m.Method == nil && m.HasError {
		l.over = mcpclient.RPCError(l.req.method, &m.Error)
		l.head += int64(size)
		return
	}
	l.heard()
	again := false
	switch string(m.Method) {
	case "notifications/requests/resumePolicy":
		t.takePolicy(l)
	case "notifications/progress":
		again = t.takeProgress(l)
	case "notifications/message":
		again = t.takeNumbered(l, t.logs, m.LogSeq, m.HasLogSeq)
	case "":
		again = t.takeResult(l, data)
	}
	if again {
		l.again += int64(size)
		t.tally.add("bytesRepeated", int64(size))
	} else {
		l.fresh += int64(size)
	}
}

func (t *task) takePolicy(l *link) {
	m := &l.msg
	switch {
	case string(mcpclient.BareID(m.RequestID)) != string(t.token) || len(m.ResumeToken) == 0:
		t.tally.add("messagesUnexpected", 1)
		return
	case !t.policy:
		l.news = true
		t.tally.sample("policy", l.at.Sub(t.began))
		t.confirmed(l.at)
	}
	t.policy, t.resume = true, string(m.ResumeToken)
	t.maxWait, t.bounded = m.MaxWait, m.HasMaxWait
	if t.cutDue {
		t.cutNow()
	}
}

func (t *task) takeProgress(l *link) (again bool) {
	m := &l.msg
	if string(mcpclient.BareID(m.ProgressToken)) != string(t.token) {
		t.tally.add("messagesUnexpected", 1)
		return false
	}
	again = t.takeNumbered(l, t.progress, m.Progress, m.HasProgress)
	switch {
	case again || !m.HasProgress:
	case m.Progress < t.high:
		t.tally.add("messagesOutOfOrder", 1)
	default:
		t.high = m.Progress
	}
	return again
}

// takeNumbered marks message n of a numbered kind, and tells whether it had
// come before.
func (t *task) takeNumbered(l *link, seen []uint16, n int64, ok bool) (again bool) {
	switch {
	case !ok || n < 1 || n > int64(len(seen)):
		t.tally.add("messagesUnexpected", 1)
		return false
	case seen[n-1] == 0:
		seen[n-1] = l.no
		l.news = true
		t.tally.add("messagesDelivered", 1)
		return false
	case seen[n-1] == l.no:
		t.tally.add("messagesRepeatedOnOneConnection", 1)
	}
	t.tally.add("messagesRepeated", 1)
	return true
}

func (t *task) takeResult(l *link, data []byte) (again bool) {
	m := &l.msg
	if !m.HasResult || string(mcpclient.BareID(m.ID)) != string(t.token) {
		t.tally.add("messagesUnexpected", 1)
		return false
	}
	l.result = true
	if !bytes.Contains(data, []byte(t.note)) {
		t.tally.add("resultsWrong", 1)
	}
	if t.result {
		t.tally.add("messagesRepeated", 1)
		return true
	}
	t.result = true
	t.tally.add("messagesDelivered", 1)
	t.tally.sample("request", l.at.Sub(t.began))
	if l.req.method == methodResume {
		t.tally.sample("resumeToEnd", l.at.Sub(l.began))
		if l.req.ready {
			t.tally.sample("resumeToResult", l.at.Sub(l.began))
		}
	}
	return false
}
