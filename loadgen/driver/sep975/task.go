package sep975

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/sinks"
)

// end is how a connection of a request ended.
type end struct {
	kind     endKind
	err      *mcpclient.CallError
	answered bool // a message came that is not an error
	news     bool // a message came that had not come before
}

type endKind uint8

const (
	endResult  endKind = iota + 1 // with the response
	endCut                        // by this side, on purpose
	endHangUp                     // by the server, normally but without the response
	endBroken                     // in any other way
	endRefused                    // with an error and nothing else
	endError                      // with an error, after messages
	endGone                       // the run is over
)

// failure returns the error of an end without the response.
func (e end) failure() error {
	if e.err != nil {
		return e.err
	}
	return &mcpclient.CallError{
		Method:  mcpclient.MethodCall,
		Kind:    mcpclient.KindProtocol,
		Message: "the connection ended without the response",
	}
}

// request is what opens a connection: a POST, or a GET if it has no body.
type request struct {
	method  string
	cause   eventmeter.Cause
	header  http.Header
	body    []byte
	resumes bool
	// refusable is true if the target should refuse the request, or one of two. A
	// refusal then does not count as a failed call.
	refusable bool
	// pending is true if a message must be waiting at the target, ready if the result
	// must be.
	pending, ready bool
}

func (q *request) on(ctx context.Context, c *mcpclient.Caller) *http.Request {
	if q.body == nil {
		return c.NewGet(ctx, q.header)
	}
	return c.NewPost(ctx, q.header, q.body)
}

// size returns the size of the request in HTTP/1.1, in bytes.
func (q *request) size(c *mcpclient.Caller) int64 {
	verb := http.MethodPost
	if q.body == nil {
		verb = http.MethodGet
	}
	return mcpclient.RequestSize(verb, c.URL.RequestURI(), q.header, int64(len(q.body)))
}

// task is one long request, from the call to its result, over as many connections as
// needed. One goroutine runs it; two connections may add messages at once.
type task struct {
	d         *lane
	r         *run
	n         int // number within the run, from 0
	id        uint64
	token     []byte // of progress: the id, as JSON
	note      string
	began     eventmeter.Instant
	confirmed func(at eventmeter.Instant)

	// finished is true if an answer to getStatus said completed or failed.
	finished bool
	// since is when the policy's time last began, or a little earlier.
	since eventmeter.Instant

	mu       sync.Mutex
	tally    tally
	progress []uint16      // the connection on which each came first, 0 = not yet
	logs     []uint16      // the same for log messages
	high     int64         // highest progress
	links    uint16        // connections so far
	result   bool          // the result came
	fits     bool          // progress, a log message or a result with the note came
	policy   bool          // the request can be resumed
	resume   string        // the resume token
	lastID   []byte        // with lastEventId: the id of the last event
	retry    time.Duration // how long the server asked the client to wait
	maxWait  time.Duration
	bounded  bool                    // the policy has a maxWait
	hangUp   context.CancelCauseFunc // ends the current connections; nil = there are none
	peek     func()                  // if not nil, called at the first message
	cutDue   bool                    // cut as soon as the request can be resumed
	cutAt    eventmeter.Instant      // when the current or last connections were cut; 0 = not
}

// errUnfit says that the tool is not of the kind that the lane needs.
var errUnfit = errors.New("the tool does not fit")

// errCut is why a connection that the lane cuts on purpose ends.
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

// run makes the request and waits for its end. The error is one that the next request would
// meet, too.
func (t *task) run() error {
	d := t.d
	d.under.Add(1)
	defer d.under.Add(-1)
	i := t.r.Sub.Index
	d.tasks[i].Store(t)
	defer d.tasks[i].Store(nil)
	t.began = d.Clock.Now()
	outcome, err := t.pursue(t.r.Ctx())
	if t.r.Ctx().Err() != nil && outcome != outCompleted {
		outcome = outAbandoned
		if d.drained.Load() {
			outcome = outUnfinished
		}
	}
	if fits := d.count.commit(t, outcome); err == nil && !fits && outcome == outCompleted {
		err = fmt.Errorf(
			"%s: %w: the tool %s sent neither its progress nor the note in its result: see sep975.tool",
			mcpclient.MethodCall, errUnfit, errtext.Line(d.set.Tool),
		)
	}
	return err
}

// pursue calls the tool, and resumes until there is a result or there can be none.
func (t *task) pursue(ctx context.Context) (outcome string, err error) {
	e, err := t.call(ctx)
	if err != nil {
		return outFailed, err
	}
	if !t.hasPolicy() {
		return t.unresumable(e)
	}
	backoff := sinks.Backoff{Min: min(t.d.Opts.Push.Backoff.Min, 100*time.Millisecond), Max: t.d.Opts.Push.Backoff.Max, Rand: t.r.rand}
	for tries := 0; ; {
		if e.kind == endResult {
			return outCompleted, nil
		}
		if ctx.Err() != nil {
			return outUnfinished, nil // this side ended the run
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
		p.away = max(p.away, t.asked())
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

// maxTries bounds the resumes in a row without a new message.
const maxTries = 10

// unresumable returns the outcome and the error of a request that got no policy.
func (t *task) unresumable(e end) (string, error) {
	t.add("policiesMissing", 1)
	switch {
	case e.kind == endResult && t.d.set.byID():
		return outCompleted, fmt.Errorf(
			"%s: %w: the events of the answer have no ids, so Last-Event-ID cannot resume it: does the server have an event store?",
			mcpclient.MethodCall,
			mcpclient.ErrNotOffered,
		)
	case e.kind == endResult:
		return outCompleted, fmt.Errorf(
			"%s: %w: the target answered without a resume policy: does it implement SEP-975?",
			mcpclient.MethodCall,
			mcpclient.ErrNotOffered,
		)
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
	body := wire.Request(t.id, mcpclient.MethodCall, o.End())
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
		return t.connect(
			ctx,
			request{method: mcpclient.MethodCall, cause: eventmeter.Events, header: d.header(session, mcpclient.MethodCall), body: body},
		)
	})
	if e.kind == endRefused && d.lost(t.r, session, e.err) {
		return e, mcpclient.SessionLost(mcpclient.MethodCall)
	}
	return e, nil
}

// cut cuts the current connection, if there is one, as soon as the request can be resumed.
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

// cutNow cuts the current connection. The caller holds the lock.
func (t *task) cutNow() {
	t.cutDue = false
	if t.cutAt == 0 {
		t.cutAt = t.d.Clock.Now()
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
		if e.kind == endBroken || e.kind == endHangUp { // the connection ended while it was being cut
			e.kind = endCut
		}
	}
	switch e.kind {
	case endCut: // not one whose result came while it was being cut
		t.tally.add("cuts", 1)
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

// message handles one message of a connection.
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
	l.answered()
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
	case t.d.set.byID(), string(mcpclient.BareID(m.RequestID)) != string(t.token) || len(m.ResumeToken) == 0:
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

// takeID keeps the id of the last event. The first id means that the request can be
// resumed.
func (t *task) takeID(l *link, id []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(id) == 0 || bytes.Equal(id, t.lastID) {
		return
	}
	t.lastID = append(t.lastID[:0], id...)
	if !t.policy {
		t.policy = true
		t.tally.sample("policy", l.at.Sub(t.began))
		t.confirmed(l.at)
	}
	if t.cutDue {
		t.cutNow()
	}
}

// heed keeps the wait that a stream asked for, until another stream asks for one.
func (t *task) heed(p *wire.EventParser) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.d.set.byID() {
		t.retry = mcpclient.Pause(p, t.retry)
	}
}

func (t *task) asked() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.retry
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

// takeNumbered marks message n of a numbered kind as received, and reports whether it had
// come before.
func (t *task) takeNumbered(l *link, seen []uint16, n int64, ok bool) (again bool) {
	switch {
	case !ok || n < 1 || n > int64(len(seen)):
		t.tally.add("messagesUnexpected", 1)
		return false
	case seen[n-1] == 0:
		seen[n-1] = l.no
		l.news, t.fits = true, true
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
	if bytes.Contains(data, []byte(t.note)) {
		t.fits = true
	} else {
		t.tally.add("resultsWrong", 1)
	}
	if t.result {
		t.tally.add("messagesRepeated", 1)
		return true
	}
	t.result = true
	t.tally.add("messagesDelivered", 1)
	t.tally.sample("request", l.at.Sub(t.began))
	if l.req.resumes {
		t.tally.sample("resumeToEnd", l.at.Sub(l.began))
		if l.req.ready {
			t.tally.sample("resumeToResult", l.at.Sub(l.began))
		}
	}
	return false
}
