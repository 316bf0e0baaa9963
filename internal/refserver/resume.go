package refserver

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventmeter/eventmeter/internal/figure"
	"github.com/eventmeter/eventmeter/internal/refserver/faults"
	"github.com/eventmeter/eventmeter/internal/refserver/state"
)

// resumables are the requests that outlive their connections: by SEP-975, or by
// the ids of the events on their answer's stream, with which a session of the
// legacy era opens it again (Last-Event-ID).
type resumables struct {
	server *Server
	counts resumeCounts[atomic.Int64]
	// maxPerJob and maxTotal bound the bytes that are kept for one request and
	// for all together.
	maxPerJob, maxTotal int64
	withIDs             atomic.Uint32 // jobs whose messages have ids, for faults

	mu     sync.Mutex
	closed bool
	jobs   map[string]*job // by token
	asking map[string]*job // by the id of the server's own request
	// bySession holds those whose messages have ids, by their session.
	bySession map[string]map[*job]struct{}
}

// The bytes kept for one request (about 17,000 progress messages) and for all.
const (
	maxKeptPerJob = 4 << 20
	maxKeptTotal  = 256 << 20
)

// keptCost is charged per message in addition to its bytes.
const keptCost = 64

// maxResumableID bounds the id and the progress token of a request: both are
// kept, and repeated in its messages.
const maxResumableID = 1 << 10

// job is one resumable request. It belongs to a principal and has a token; a
// resume must name the token and the request's id, or the token and the number
// of the last message, in the same session.
type job struct {
	owner     *resumables
	id        json.RawMessage
	token     string
	principal string
	session   string // "" = it is resumed by SEP-975, and its messages have no ids
	noIDs     bool   // a fault leaves the ids out
	modern    bool
	work      workArguments
	began     time.Time
	maxWait   time.Duration

	mu sync.Mutex
	// kept are the messages that a later connection may need, oldest first.
	// Those before next were written on the current connection.
	kept       []keptMessage
	next       int
	bytes      int64    // charged for kept
	last       uint64   // number of the newest message
	confirmed  uint64   // number of the newest message that was dropped as delivered
	generation int      // how often kept was discarded
	ended      bool     // with an error, because the buffer limit was reached
	step       int      // the last finished step of the work
	asked      string   // id of the request that the client has to answer; "" = none
	reply      string   // what the client answered
	status     string   // processing, completed or failed
	conn       *jobConn // the current connection, nil while detached
	// deadline is when the policy ends, while detached. At most one item of
	// the agenda is scheduled for it (armed); it checks whether the deadline has
	// moved.
	deadline time.Time
	armed    bool
	gone     bool
	resumes  uint32     // authorised resumes, for faults
	conns    []*jobConn // all current connections, where a fault allows several
}

// keptMessage is a frame with the time of its write, zero before.
type keptMessage struct {
	frame   []byte
	number  uint64 // from 1
	written time.Time
	cut     *faults.Fault // the connection ends at this message, once
}

// jobConn is one connection of a job.
type jobConn struct {
	wakeup chan struct{}
	next   int // index in job.kept, where a fault allows several connections
}

// The states of a request, as requests/getStatus spells them.
const (
	statusProcessing = "processing"
	statusCompleted  = "completed"
	statusFailed     = "failed"
)

func newResumables(s *Server) *resumables {
	return &resumables{
		server:    s,
		jobs:      make(map[string]*job),
		asking:    make(map[string]*job),
		bySession: make(map[string]map[*job]struct{}),
		maxPerJob: maxKeptPerJob,
		maxTotal:  maxKeptTotal,
	}
}

// at schedules a step of the work, or the end of a policy.
func (q *resumables) at(when time.Time, do func()) { q.server.hooks.agenda.at(when, do) }

// close drops every job. Connections watch the server's closing channel.
func (q *resumables) close() {
	q.mu.Lock()
	q.closed = true
	jobs := slices.Collect(maps.Values(q.jobs))
	q.mu.Unlock()
	dropAll(jobs)
}

// dropSession drops the requests of a session that has ended.
func (q *resumables) dropSession(id string) {
	q.mu.Lock()
	jobs := slices.Collect(maps.Keys(q.bySession[id]))
	q.mu.Unlock()
	dropAll(jobs)
}

func dropAll(jobs []*job) {
	for _, j := range jobs {
		j.mu.Lock()
		j.drop()
		j.mu.Unlock()
	}
}

// begin starts a job with its first connection attached. session is that of a job
// that is resumed by the ids of its messages, "" for one of SEP-975.
func (q *resumables) begin(c *call, session string, w workArguments) (*job, *jobConn, *rpcError) {
	for what, text := range map[string]json.RawMessage{"id": c.id, "progressToken": w.token} {
		if len(text) > maxResumableID {
			return nil, nil, invalidParams(
				"%s has %d bytes: want at most %d of a request that can be resumed",
				what,
				len(text),
				maxResumableID,
			)
		}
	}
	if q.counts.Bytes.Load() >= q.maxTotal {
		return nil, nil, overrun("the server keeps %d bytes for requests that can be resumed, and takes no further one", q.maxTotal)
	}
	if rpcErr := q.server.reserve(); rpcErr != nil {
		return nil, nil, rpcErr
	}
	j := &job{
		owner: q, id: c.id, token: rand.Text(), principal: c.principal, session: session, modern: c.modern,
		work: w, began: time.Now(), maxWait: w.wait(q.server.opts.ResumeMaxWait), status: statusProcessing,
		noIDs: session != "" && q.leavesOutIDs(),
	}
	if rpcErr := q.record(j); rpcErr != nil {
		q.server.unreserve()
		return nil, nil, rpcErr
	}
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		q.server.unreserve()
		return nil, nil, internal(": the server is closing")
	}
	q.jobs[j.token] = j
	if session != "" {
		if q.bySession[session] == nil {
			q.bySession[session] = make(map[*job]struct{})
		}
		q.bySession[session][j] = struct{}{}
	}
	q.mu.Unlock()
	q.counts.Started.Add(1)
	q.counts.Held.Add(1)
	conn, ok := j.attach()
	if !ok { // closed meanwhile; no other goroutine knows the job yet
		return nil, nil, internal(": the server is closing")
	}
	q.at(j.due(), j.advance)
	return j, conn, nil
}

// find returns the job with that token and id, if it belongs to the caller. The
// error does not say which part is wrong, so that guesses learn nothing.
func (q *resumables) find(c *call, id json.RawMessage, token string) (*job, *rpcError) {
	j := q.job(token)
	if j == nil || j.principal != c.principal || string(j.id) != string(id) {
		q.counts.Refused.Add(1)
		return nil, notResumable
	}
	return j, nil
}

func (q *resumables) job(token string) *job {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.jobs[token]
}

// inSession returns the job with that token, if it belongs to the principal and to
// the session, and has a message with that number, or 0.
func (q *resumables) inSession(session, principal, token string, number uint64) *job {
	j := q.job(token)
	if j == nil || session == "" || j.session != session || j.principal != principal {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if number > j.last {
		return nil
	}
	return j
}

var notResumable = invalidFor("notResumable", "no request has this id and resumeToken, or its resume policy has expired")

// attach adds a connection and makes it the current one. The former connection
// is notified, and messages that it wrote lately count as not delivered. attach
// returns false if the job is gone.
func (j *job) attach() (*jobConn, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.attachLocked()
}

// attachLocked is attach for a caller that holds the lock.
func (j *job) attachLocked() (*jobConn, bool) {
	if j.gone || j.lapsed() {
		return nil, false
	}
	if j.conn != nil && !j.allowsTwo() {
		signal(j.conn.wakeup)
		j.owner.counts.Superseded.Add(1)
		if j.session == "" { // else the client says what was delivered
			j.confirm(time.Now())
		}
	}
	if !j.deadline.IsZero() {
		j.owner.counts.Detached.Add(-1)
		j.deadline = time.Time{}
	}
	j.next = 0
	j.conn = &jobConn{wakeup: make(chan struct{}, 1)}
	j.conns = append(j.conns, j.conn)
	return j.conn, true
}

// attachAfter is attach for a client that has every message up to a number. If
// messages after it were dropped as delivered, it does nothing and kept is false.
// A request that ended with an error has nothing else to send.
func (j *job) attachAfter(number uint64) (conn *jobConn, kept, ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.gone && !j.ended && number < j.confirmed {
		return nil, false, true
	}
	if conn, ok = j.attachLocked(); !ok {
		return nil, true, false
	}
	n := 0
	for n < len(j.kept) && j.kept[n].number <= number {
		n++
	}
	if j.allowsTwo() {
		conn.next = n
	} else {
		j.confirmFirst(n)
	}
	return conn, true, true
}

// detach removes a connection. Without a current connection, the policy's time
// starts.
func (j *job) detach(conn *jobConn) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.removeConn(conn); j.conn != conn || j.gone {
		return
	}
	now := time.Now()
	j.conn = nil
	j.confirm(now)
	j.next = 0
	if j.status != statusProcessing && len(j.kept) == 0 {
		j.drop()
		return
	}
	j.owner.counts.Detached.Add(1)
	j.wait(now)
}

// wait restarts the policy's time. The caller holds the lock.
func (j *job) wait(now time.Time) {
	j.deadline = now.Add(j.keepFor())
	if !j.armed {
		j.armed = true
		j.owner.at(j.deadline, j.expire)
	}
}

// expire ends a job whose policy has run out.
func (j *job) expire() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.armed = false
	if !j.gone && !j.deadline.IsZero() && !j.lapsed() {
		j.armed = true
		j.owner.at(j.deadline, j.expire)
	}
}

// lapsed ends the job if its policy has run out. The caller holds the lock.
func (j *job) lapsed() bool {
	if j.deadline.IsZero() || time.Now().Before(j.deadline) {
		return false
	}
	if j.status == statusProcessing || len(j.kept) > 0 && j.kept[len(j.kept)-1].written.IsZero() {
		j.owner.counts.Expired.Add(1)
	}
	j.drop()
	return true
}

// drop drops the job. The caller holds the lock.
func (j *job) drop() {
	if j.gone {
		return
	}
	j.gone = true
	j.owner.counts.Held.Add(-1)
	j.discardKept()
	for _, conn := range j.conns {
		signal(conn.wakeup)
	}
	if !j.deadline.IsZero() {
		j.owner.counts.Detached.Add(-1)
	}
	j.owner.mu.Lock()
	delete(j.owner.jobs, j.token)
	delete(j.owner.asking, j.asked)
	if !j.owner.closed { // else the next process goes on with it
		j.owner.server.state.DropRequest(j.token)
	}
	if of := j.owner.bySession[j.session]; of != nil {
		if delete(of, j); len(of) == 0 {
			delete(j.owner.bySession, j.session)
		}
	}
	j.owner.mu.Unlock()
	j.owner.server.unreserve()
}

// confirm drops messages that count as delivered, because the connection stayed
// open for the overlap after their write. A resume does not say what its client
// has read, so recent messages are sent again.
func (j *job) confirm(now time.Time) {
	overlap := j.owner.server.opts.ResumeOverlap
	n := 0
	for n < j.next && (overlap < 0 || now.Sub(j.kept[n].written) >= overlap) {
		n++
	}
	j.confirmFirst(n)
	j.next -= n
}

// confirmFirst drops the first n messages. The caller holds the lock.
func (j *job) confirmFirst(n int) {
	if n == 0 {
		return
	}
	j.confirmed = j.kept[n-1].number
	j.uncharge(j.kept[:n])
	rest := copy(j.kept, j.kept[n:])
	clear(j.kept[rest:])
	j.kept = j.kept[:rest]
}

// send queues a message. If the buffer limit is reached, the request ends with
// an error, which replaces all kept messages. The caller holds the lock.
func (j *job) send(frame []byte) {
	q := j.owner
	cost := int64(len(frame) + keptCost)
	switch {
	case j.ended:
	case j.bytes+cost > q.maxPerJob:
		j.end(
			overrun("more than %d bytes of messages were kept for a connection that did not take them; the request has ended", q.maxPerJob),
		)
	case q.counts.Bytes.Load()+cost > q.maxTotal:
		j.end(
			overrun(
				"the server keeps %d bytes for requests that can be resumed, and has no room for another message; the request has ended",
				q.maxTotal,
			),
		)
	default:
		j.keep(frame)
	}
}

// end discards the kept messages and queues an error as the response. The
// caller holds the lock.
func (j *job) end(e *rpcError) {
	j.owner.counts.Overrun.Add(1)
	j.discardKept()
	j.status, j.ended = statusFailed, true
	j.keep(j.errorFrame(e))
}

func overrun(format string, args ...any) *rpcError {
	return named(resourceExhausted, "Resource exhausted: "+fmt.Sprintf(format, args...), map[string]string{"reason": "resumeBuffer"})
}

// discardKept discards all messages. The caller holds the lock.
func (j *job) discardKept() {
	j.uncharge(j.kept)
	j.kept, j.next = nil, 0
	j.generation++
	for _, conn := range j.conns {
		conn.next = 0
	}
}

// uncharge returns the charge of messages. The caller holds the lock.
func (j *job) uncharge(messages []keptMessage) {
	var n int64
	for _, m := range messages {
		n += int64(len(m.frame) + keptCost)
	}
	j.bytes -= n
	j.owner.counts.Bytes.Add(-n)
	j.owner.counts.Messages.Add(-int64(len(messages)))
}

// keep queues a message and wakes the connections. The caller holds the lock.
func (j *job) keep(frame []byte) {
	j.last++
	frame = j.withID(frame)
	n := int64(len(frame) + keptCost)
	j.kept = append(j.kept, keptMessage{frame: frame, number: j.last})
	j.bytes += n
	j.owner.counts.Bytes.Add(n)
	j.owner.counts.Messages.Add(1)
	for _, conn := range j.conns {
		signal(conn.wakeup)
	}
}

// jobBatch is what a connection has to write next.
type jobBatch struct {
	frames     [][]byte
	n          int  // messages that count as written
	fresh      int  // messages that were not written before
	final      bool // the response is the last message
	gone       bool // the request is no longer held
	superseded bool // another connection took over
	cut        bool // a fault ends the connection after them
	generation int  // generation of the kept messages
}

// take returns the next messages for conn: at most limit, and at most room that
// were not written before. It reuses into.
func (j *job) take(conn *jobConn, into [][]byte, limit, room int) jobBatch {
	j.mu.Lock()
	defer j.mu.Unlock()
	b := jobBatch{frames: into, generation: j.generation}
	next := j.next
	if j.allowsTwo() {
		next = conn.next
	} else if j.conn != conn {
		b.superseded = true
		return b
	}
	if j.gone {
		b.gone = true
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

// wrote records that conn has written the messages of b.
func (j *job) wrote(conn *jobConn, b jobBatch) {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := b.n
	if b.generation != j.generation {
		return // they were discarded meanwhile
	}
	if j.allowsTwo() {
		conn.next += n
		return
	}
	if j.conn != conn || j.gone {
		return // the new connection writes them again
	}
	now := time.Now()
	for i := range j.kept[j.next : j.next+n] {
		j.kept[j.next+i].written = now
	}
	j.next += n
	j.confirm(now)
}

// record puts a request of SEP-975 into the state that a restart reads, and
// returns when it is there.
func (q *resumables) record(j *job) *rpcError {
	if q.server.state == nil || j.session != "" {
		return nil
	}
	work, err := json.Marshal(j.work)
	if err != nil {
		return internal(": " + err.Error())
	}
	q.server.state.SetRequest(j.token, state.Request{
		ID: j.id, Principal: j.principal, Modern: j.modern, MaxWait: j.maxWait,
		Work: work, Progress: j.work.token, Answer: j.work.answer,
	})
	rpcErr := q.server.flushState()
	if rpcErr != nil {
		q.server.state.DropRequest(j.token)
	}
	return rpcErr
}

// restore goes on with the requests of the state. Their work begins anew, and
// their policies, as if the connections had ended now.
func (q *resumables) restore() {
	for token, r := range q.server.state.Read().Requests {
		j := &job{
			owner: q, id: r.ID, token: token, principal: r.Principal, modern: r.Modern,
			began: time.Now(), maxWait: r.MaxWait, status: statusProcessing,
		}
		if err := json.Unmarshal(r.Work, &j.work); err != nil || j.work.check() != nil || q.server.reserve() != nil {
			q.server.opts.Logger.Error("state: a request is left out", "error", err)
			q.server.state.DropRequest(token)
			continue
		}
		j.work.token, j.work.answer = r.Progress, r.Answer
		q.mu.Lock()
		q.jobs[token] = j
		q.mu.Unlock()
		q.counts.Held.Add(1)
		q.counts.Detached.Add(1)
		j.mu.Lock()
		j.wait(j.began)
		j.mu.Unlock()
		q.at(j.due(), j.advance)
	}
}

// snapshot returns the state for requests/getStatus, and restarts the policy's
// time.
func (j *job) snapshot() (status string, pending, asks, ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.gone || j.lapsed() {
		return "", false, false, false
	}
	if j.conn == nil {
		j.wait(time.Now())
	}
	return j.status, len(j.kept) > j.next, j.asked != "", true
}

// policyFrame is the notification that makes the request resumable.
func (j *job) policyFrame() []byte {
	return fmt.Appendf(nil, notification+`requests/resumePolicy","params":{"requestId":%s,"resumeToken":"%s","maxWait":%v}}`+"\n\n",
		j.id, j.token, j.maxWait.Seconds())
}

// workIDPrefix begins the ids of the events of an answer's stream: the prefix, the
// request's token and the message's number, with dots between.
const workIDPrefix = workTool + "."

// withID puts the id of the newest message before its frame, if messages have ids.
func (j *job) withID(frame []byte) []byte {
	if j.session == "" || j.noIDs {
		return frame
	}
	return append(j.appendID(make([]byte, 0, len(frame)+64), j.last), frame...)
}

func (j *job) appendID(dst []byte, number uint64) []byte {
	return fmt.Appendf(dst, "id: %s%s.%d\n", workIDPrefix, j.token, number)
}

// primingFrame is the first event of an answer's stream: an id without data, so
// that a client that loses the stream before its first message can resume it.
func (j *job) primingFrame() []byte {
	if j.noIDs {
		return nil
	}
	return append(j.appendID(nil, 0), "data:\n\n"...)
}

// retryFrame says how long a client is to wait whose stream the server ends.
func (j *job) retryFrame() []byte {
	if j.session == "" || j.noIDs {
		return nil
	}
	return []byte("retry: 100\n\n")
}

// errorFrame ends a connection, but not the request.
func (j *job) errorFrame(e *rpcError) []byte {
	return fmt.Appendf(nil, "data: %s\n\n", encodeRPCError(j.id, e))
}

// Resumable counts resumable requests.
type Resumable = resumeCounts[int64]

// resumeCounts are the counters of [Resumable] as an N, like [counts]. Held, Detached, Messages
// and Bytes are current values; the others only grow.
type resumeCounts[N any] struct {
	// Held requests are working, or their response may have to be sent again.
	Held N `json:"held"`
	// Detached is the number of held requests without a connection.
	Detached N `json:"detached"`
	// Messages are kept for a later connection. Bytes is their size with
	// overhead.
	Messages N `json:"messages"`
	Bytes    N `json:"bytes"`
	// Polled counts requests/getStatus, HungUp connections that the server
	// ended, Refused calls with a wrong token or id or an expired policy,
	// Expired requests whose response was not sent in time, and Overrun
	// requests that ended because the buffer limit was reached. Asked counts the
	// server's own requests, Answered those with a result, Denied those that the
	// client answered with an error.
	Started    N `json:"started"`
	Resumed    N `json:"resumed"`
	Polled     N `json:"polled"`
	Superseded N `json:"superseded"`
	HungUp     N `json:"hungUp"`
	Refused    N `json:"refused"`
	Expired    N `json:"expired"`
	Overrun    N `json:"overrun"`
	Asked      N `json:"asked"`
	Answered   N `json:"answered"`
	Denied     N `json:"denied"`
}

func (q *resumables) stats() (out Resumable) {
	figure.Read(&out, &q.counts)
	return out
}

// removeConn removes a connection from the list. If another one is left, it
// becomes the current connection. The caller holds the lock.
func (j *job) removeConn(conn *jobConn) {
	j.conns = slices.DeleteFunc(j.conns, func(o *jobConn) bool { return o == conn })
	if j.allowsTwo() && j.conn == conn && len(j.conns) > 0 {
		j.conn = j.conns[0]
	}
}
