package refserver

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventmeter/eventmeter/internal/refserver/faults"
)

// resumables are the requests that outlive their connections (SEP-975).
type resumables struct {
	server  *Server
	agenda  *agenda // the steps of the work, and the ends of policies
	ctx     context.Context
	stop    context.CancelFunc
	started atomic.Int64
	counts  resumeCounters
	// mostOfOne and mostOfAll bound the bytes that are kept of one request and of
	// all together.
	mostOfOne, mostOfAll int64

	mu     sync.Mutex
	closed bool
	jobs   map[string]*job // by token
}

// resumeCounters count since the server's start.
type resumeCounters struct {
	resumed, superseded, refused, expired, polled, hungUp atomic.Int64
	overrun                                               atomic.Int64
	detached, held, kept, bytes                           atomic.Int64 // gauges
}

// What is kept of one request, some 17,000 progress messages, and of all.
const (
	mostKeptOfOne = 4 << 20
	mostKeptOfAll = 256 << 20
)

// keptCost is what a message is charged beside its bytes.
const keptCost = 64

// maxResumableID bounds the id and the progress token of a request: both are kept,
// and repeated in its messages.
const maxResumableID = 1 << 10

// job is one request that can be resumed. It belongs to a principal and is
// known by its token; the id it was sent under is the second thing that a
// resume has to name.
type job struct {
	owner     *resumables
	id        json.RawMessage
	token     string
	principal string
	modern    bool
	work      workArguments
	began     time.Time
	maxWait   time.Duration

	mu sync.Mutex
	// kept are the messages that a later connection may have to be given,
	// oldest first. Those before next were written on the connection at hand.
	kept   []keptMessage
	next   int
	bytes  int64  // charged for kept
	era    int    // how often kept was given up
	ended  bool   // with an error, because too much would have been kept
	step   int    // of the work, the last that was done
	status string // processing, completed or failed
	link   *link  // the connection at hand, nil while detached
	// deadline is when the policy ends, while detached. One item of the agenda
	// is under way for it at most (armed); it looks again if the deadline moved.
	deadline time.Time
	armed    bool
	gone     bool
	resumes  uint32  // asked for by who may, for faults
	both     []*link // the connections at hand, where a fault allows for several
}

// keptMessage is a frame with the time at which it was written, zero before.
type keptMessage struct {
	frame   []byte
	written time.Time
	cut     *faults.Fault // the connection ends at it, once
}

// link is one connection of a job.
type link struct {
	woken      chan struct{}
	superseded chan struct{} // closed when another connection took over
	next       int           // in job.kept, where a fault allows for several connections
}

// The states of a request, as requests/getStatus spells them.
const (
	statusProcessing = "processing"
	statusCompleted  = "completed"
	statusFailed     = "failed"
)

func newResumables(s *Server) *resumables {
	q := &resumables{server: s, agenda: newAgenda(), jobs: make(map[string]*job), mostOfOne: mostKeptOfOne, mostOfAll: mostKeptOfAll}
	q.ctx, q.stop = context.WithCancel(context.Background())
	return q
}

// run does the work of all jobs until close.
func (q *resumables) run() { q.agenda.run(q.ctx) }

// close ends the work and forgets every job. Connections see the server's
// closing channel.
func (q *resumables) close() {
	q.stop()
	q.mu.Lock()
	q.closed = true
	jobs := q.jobs
	q.jobs = make(map[string]*job)
	q.mu.Unlock()
	for _, j := range jobs {
		j.mu.Lock()
		j.drop()
		j.mu.Unlock()
	}
}

// begin starts a job with its first connection attached.
func (q *resumables) begin(c *call, w workArguments) (*job, *link, *rpcError) {
	for what, text := range map[string]json.RawMessage{"id": c.id, "progressToken": w.token} {
		if len(text) > maxResumableID {
			return nil, nil, invalidParams("%s has %d bytes: want at most %d of a request that can be resumed", what, len(text), maxResumableID)
		}
	}
	if q.counts.bytes.Load() >= q.mostOfAll {
		return nil, nil, overrun("the server keeps %d bytes for requests that can be resumed, and takes no further one", q.mostOfAll)
	}
	if wrong := q.server.reserve(); wrong != nil {
		return nil, nil, wrong
	}
	j := &job{
		owner: q, id: c.id, token: rand.Text(), principal: c.principal, modern: c.modern,
		work: w, began: time.Now(), maxWait: w.wait(q.server.opts.ResumeMaxWait), status: statusProcessing,
	}
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		q.server.unreserve()
		return nil, nil, &rpcError{Code: codeInternal, Message: "Internal error: the server is closing"}
	}
	q.jobs[j.token] = j
	q.mu.Unlock()
	q.started.Add(1)
	q.counts.held.Add(1)
	k, ok := j.attach()
	if !ok { // closed meanwhile; nobody else knows of the job yet
		return nil, nil, &rpcError{Code: codeInternal, Message: "Internal error: the server is closing"}
	}
	q.agenda.at(j.due(), j.advance)
	return j, k, nil
}

// find returns the job that a token and an id name together, for the principal
// it belongs to. What is wrong is not said: a guesser learns nothing from it.
func (q *resumables) find(c *call, id json.RawMessage, token string) (*job, *rpcError) {
	q.mu.Lock()
	j := q.jobs[token]
	q.mu.Unlock()
	if j == nil || j.principal != c.principal || string(j.id) != string(id) {
		q.counts.refused.Add(1)
		return nil, notResumable()
	}
	return j, nil
}

func notResumable() *rpcError {
	return &rpcError{
		Code: codeInvalidParams, Message: "Invalid params: no request has this id and resumeToken, or its resume policy has expired",
		Data: map[string]string{"reason": "notResumable"},
	}
}

// attach makes a connection the job's. A connection that had it is told so,
// and what was lately written there counts as not delivered; nil if the job is
// gone.
func (j *job) attach() (*link, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.gone {
		return nil, false
	}
	if j.link != nil && !j.twofold() {
		close(j.link.superseded)
		j.owner.counts.superseded.Add(1)
		j.confirm(time.Now())
	}
	if !j.deadline.IsZero() {
		j.owner.counts.detached.Add(-1)
		j.deadline = time.Time{}
	}
	j.next = 0
	j.link = &link{woken: make(chan struct{}, 1), superseded: make(chan struct{})}
	j.both = append(j.both, j.link)
	return j.link, true
}

// detach ends a connection's hold on the job and starts the policy's time.
func (j *job) detach(k *link) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.leave(k); j.link != k || j.gone {
		return
	}
	now := time.Now()
	j.link = nil
	j.confirm(now)
	j.next = 0
	if j.status != statusProcessing && len(j.kept) == 0 {
		j.drop()
		return
	}
	j.owner.counts.detached.Add(1)
	j.wait(now)
}

// wait begins the policy's time anew; the caller holds the lock.
func (j *job) wait(now time.Time) {
	j.deadline = now.Add(j.patience())
	if !j.armed {
		j.armed = true
		j.owner.agenda.at(j.deadline, j.expire)
	}
}

// expire ends a job whose policy's time is over.
func (j *job) expire() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.armed = false
	switch {
	case j.gone || j.deadline.IsZero():
	case time.Now().Before(j.deadline):
		j.armed = true
		j.owner.agenda.at(j.deadline, j.expire)
	default:
		if j.status == statusProcessing || len(j.kept) > 0 && j.kept[len(j.kept)-1].written.IsZero() {
			j.owner.counts.expired.Add(1)
		}
		j.drop()
	}
}

// drop forgets the job; the caller holds the lock.
func (j *job) drop() {
	if j.gone {
		return
	}
	j.gone = true
	j.owner.counts.held.Add(-1)
	j.giveUp()
	if !j.deadline.IsZero() {
		j.owner.counts.detached.Add(-1)
	}
	j.owner.mu.Lock()
	delete(j.owner.jobs, j.token)
	j.owner.mu.Unlock()
	j.owner.server.unreserve()
}

// confirm forgets messages that count as delivered: the connection lived on for
// the overlap after they were written. A resume says nothing of what its client
// has read, so what was written at the last moment is sent again.
func (j *job) confirm(now time.Time) {
	overlap := j.owner.server.opts.ResumeOverlap
	n := 0
	for n < j.next && (overlap < 0 || now.Sub(j.kept[n].written) >= overlap) {
		n++
	}
	if n == 0 {
		return
	}
	j.uncharge(j.kept[:n])
	rest := copy(j.kept, j.kept[n:])
	clear(j.kept[rest:])
	j.kept = j.kept[:rest]
	j.next -= n
}

// say adds a message and wakes the connection. A request of which too much would be
// kept ends with an error instead, which takes the place of all that was kept. The
// caller holds the lock.
func (j *job) say(frame []byte) {
	q := j.owner
	cost := int64(len(frame) + keptCost)
	switch {
	case j.ended:
	case j.bytes+cost > q.mostOfOne:
		j.end(overrun("more than %d bytes of messages were kept for a connection that did not take them; the request has ended", q.mostOfOne))
	case q.counts.bytes.Load()+cost > q.mostOfAll:
		j.end(overrun("the server keeps %d bytes for requests that can be resumed, and has no room for another message; the request has ended", q.mostOfAll))
	default:
		j.keep(frame)
	}
}

// end gives up what is kept and leaves an error as the response; the caller holds
// the lock.
func (j *job) end(e *rpcError) {
	j.owner.counts.overrun.Add(1)
	j.giveUp()
	j.status, j.ended = statusFailed, true
	j.keep(j.errorFrame(e))
}

func overrun(format string, args ...any) *rpcError {
	return &rpcError{Code: codeExhausted, Message: "Resource exhausted: " + fmt.Sprintf(format, args...), Data: map[string]string{"reason": "resumeBuffer"}}
}

// giveUp forgets all messages; the caller holds the lock.
func (j *job) giveUp() {
	j.uncharge(j.kept)
	j.kept, j.next = nil, 0
	j.era++
	for _, k := range j.both {
		k.next = 0
	}
}

// uncharge gives back what messages were charged; the caller holds the lock.
func (j *job) uncharge(messages []keptMessage) {
	var n int64
	for _, m := range messages {
		n += int64(len(m.frame) + keptCost)
	}
	j.bytes -= n
	j.owner.counts.bytes.Add(-n)
	j.owner.counts.kept.Add(-int64(len(messages)))
}

// keep adds a message and wakes the connections; the caller holds the lock.
func (j *job) keep(frame []byte) {
	n := int64(len(frame) + keptCost)
	j.kept = append(j.kept, keptMessage{frame: frame})
	j.bytes += n
	j.owner.counts.bytes.Add(n)
	j.owner.counts.kept.Add(1)
	for _, k := range j.both {
		nudge(k.woken)
	}
}

// batch975 is what a connection has to write next.
type batch975 struct {
	frames [][]byte
	n      int  // of them that count as written
	fresh  int  // of those that never were before
	final  bool // the response is the last
	cut    bool // a fault ends the connection after them
	era    int  // of what is kept
}

// take returns what k has to write next, at most limit messages, and at most
// room that were never written before. into is reused.
func (j *job) take(k *link, into [][]byte, limit, room int) batch975 {
	j.mu.Lock()
	defer j.mu.Unlock()
	b := batch975{frames: into, era: j.era}
	next := j.next
	if j.twofold() {
		next = k.next
	} else if j.link != k {
		return b
	}
	if j.gone {
		return b
	}
	for i := next; i < len(j.kept); i++ {
		m := &j.kept[i]
		isNew := m.written.IsZero()
		if b.n == limit || isNew && b.fresh == room {
			break
		}
		if m.cut != nil {
			b.cut = true
			b.frames = j.cutAt(i, b.frames)
			return b
		}
		if isNew {
			b.fresh++
		}
		b.frames = append(b.frames, m.frame)
		b.n++
	}
	b.final = b.n > 0 && next+b.n == len(j.kept) && j.status != statusProcessing
	return b
}

// wrote notes that k has written the messages of b.
func (j *job) wrote(k *link, b batch975) {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := b.n
	if b.era != j.era {
		return // they were given up meanwhile
	}
	if j.twofold() {
		k.next += n
		return
	}
	if j.link != k || j.gone {
		return // the connection that took over writes them again
	}
	now := time.Now()
	for i := range j.kept[j.next : j.next+n] {
		j.kept[j.next+i].written = now
	}
	j.next += n
	j.confirm(now)
}

// look answers requests/getStatus, and begins the policy's time anew.
func (j *job) look() (status string, pending, ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.gone {
		return "", false, false
	}
	if j.link == nil {
		j.wait(time.Now())
	}
	return j.status, len(j.kept) > j.next, true
}

// policyFrame is the notification that makes the request resumable.
func (j *job) policyFrame() []byte {
	b := append(make([]byte, 0, 200), `data: {"jsonrpc":"2.0","method":"notifications/requests/resumePolicy","params":{"requestId":`...)
	b = append(b, j.id...)
	b = append(b, `,"resumeToken":"`...)
	b = append(b, j.token...)
	b = append(b, `","maxWait":`...)
	b = strconv.AppendFloat(b, j.maxWait.Seconds(), 'f', -1, 64)
	return append(b, "}}\n\n"...)
}

// errorFrame ends a connection, but not the request.
func (j *job) errorFrame(e *rpcError) []byte {
	b := append([]byte(`data: {"jsonrpc":"2.0","id":`), j.id...)
	b = append(b, ',')
	b = append(b, errorMember(e)...)
	return append(b, "}\n\n"...)
}

// Resumable counts requests that can be resumed. Held, Detached and Messages
// are what there is now; the rest only grows.
type Resumable struct {
	// Held requests are remembered: those that work, and those whose response
	// may have to be handed out again.
	Held int64 `json:"held"`
	// Detached of them have no connection.
	Detached int64 `json:"detached"`
	// Messages are kept for a connection to come, Bytes with what each is charged
	// beside its own.
	Messages int64 `json:"messages"`
	Bytes    int64 `json:"bytes"`
	// Started, Resumed, Polled (requests/getStatus), Superseded connections,
	// HungUp by the server, Refused for a wrong token or id or an expired
	// policy, Expired before the response was handed out, Overrun and ended because
	// too much would have been kept.
	Started    int64 `json:"started"`
	Resumed    int64 `json:"resumed"`
	Polled     int64 `json:"polled"`
	Superseded int64 `json:"superseded"`
	HungUp     int64 `json:"hungUp"`
	Refused    int64 `json:"refused"`
	Expired    int64 `json:"expired"`
	Overrun    int64 `json:"overrun"`
}

func (q *resumables) stats() Resumable {
	c := &q.counts
	return Resumable{
		Held: c.held.Load(), Detached: c.detached.Load(), Messages: c.kept.Load(), Bytes: c.bytes.Load(),
		Started: q.started.Load(), Resumed: c.resumed.Load(), Polled: c.polled.Load(), Superseded: c.superseded.Load(),
		HungUp: c.hungUp.Load(), Refused: c.refused.Load(), Expired: c.expired.Load(), Overrun: c.overrun.Load(),
	}
}
