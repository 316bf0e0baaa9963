package refserver

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/refserver/breach"
	"github.com/eventmeter/eventmeter/internal/refserver/faults"
)

// installFaults prepares the faults of the options.
func (s *Server) installFaults() {
	if len(s.opts.Faults) == 0 {
		return
	}
	s.faultInjector = newFaultInjector(s.opts.Faults, s.hooks.agenda)
	s.breach = breach.New(s.opts.Faults.Breaches(), s.subscriptions.Load)
	s.faultInjector.breach, s.hooks.breach, s.hooks.poster.breach = s.breach, s.breach, s.breach
	s.forgotten = make(chan struct{})
	s.broker.installFaults(s.faultInjector, s.opts, strconv.FormatInt(s.started.UnixNano(), 36), map[faults.Kind]func(){
		faults.Forget: s.forget,
		faults.Revoke: func() { s.Revoke(everybody) },
		faults.Withdraw: func() {
			var all []*topic
			for _, t := range s.broker.order {
				all = append(all, s.broker.named(t.kind.name)...)
			}
			s.offer(all, false)
		},
		faults.Hoard: s.hoard,
		faults.Change: func() {
			for _, t := range s.broker.order {
				_ = s.ChangeSchema(t.kind.name) // the type exists
			}
		},
	})
	if f, ok := s.fault(faults.Expire, eventmeter.Webhook); ok {
		s.hooks.expireAfter = f.After
	}
	if f, ok := s.fault(faults.Gone, eventmeter.Webhook); ok {
		s.hooks.gone = func() { s.faultInjector.count(f, eventmeter.Webhook) }
	}
	if _, ok := s.fault(faults.NoRetry, eventmeter.Webhook); ok {
		s.hooks.opts.RetryMax = -1
	}
}

// forgetSignal returns a channel that is closed when the Forget fault strikes.
// Without faults it is nil, which blocks for ever.
func (s *Server) forgetSignal() <-chan struct{} {
	s.forgetMu.Lock()
	defer s.forgetMu.Unlock()
	return s.forgotten
}

// forget does what a restart does: subscriptions, streams and events are gone,
// and older cursors belong to another epoch.
func (s *Server) forget() {
	epoch := strconv.FormatInt(time.Now().UnixNano(), 36)
	for _, t := range s.broker.deliveryTopics() {
		t.restart(epoch)
	}
	for _, h := range s.hooks.openHooks(func(*hook) bool { return true }) {
		s.hooks.remove(h, nil)
	}
	s.hooks.proofs.forget()
	s.resources.endAll(everybody)
	s.lists.forget(s.base)
	s.forgetMu.Lock()
	close(s.forgotten)
	s.forgotten = make(chan struct{})
	s.forgetMu.Unlock()
}

// hoard keeps more memory each second, as a server does that forgets to free what an event or a
// request needed.
func (s *Server) hoard() {
	f, _ := s.fault(faults.Hoard, "")
	var kept [][]byte
	var more func()
	more = func() {
		page := make([]byte, f.MiB<<20/60)
		for i := 0; i < len(page); i += 4096 {
			page[i] = 1 // memory that was never written does not exist
		}
		kept = append(kept, page)
		s.faultInjector.agenda.at(time.Now().Add(time.Second), more)
	}
	more()
}

// faultTTL is the time to live that a fault grants; 0 without one.
func (s *Server) faultTTL() time.Duration {
	f, _ := s.fault(faults.TTL, eventmeter.Webhook)
	return f.Grant
}

// withStall wraps a handler so that it stalls when a fault says so.
func (s *Server) withStall(h http.Handler) http.Handler {
	if _, ok := s.fault(faults.Stall, ""); !ok {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		until := s.faultInjector.stalledUntil(time.Now())
		if until.IsZero() || pause(r.Context(), nil, time.Until(until)) {
			h.ServeHTTP(w, r)
		}
	})
}

// breaksStream answers a request for a stream in a way that breaks a row.
func (s *Server) breaksStream(c *call) bool {
	switch {
	case s.breach == nil:
		return false
	case s.breach.Breaks("stream-implemented"):
		c.answer(nil)
	case s.breach.Breaks("stream-error-before-open"):
		http.Error(c.w, "no such stream", http.StatusBadRequest)
	case s.breach.Breaks("stream-exempt-from-concurrency-cap"):
		http.Error(c.w, "too many connections", http.StatusServiceUnavailable)
	default:
		return false
	}
	return true
}

// beat sends a heartbeat if it is due.
func (st *stream) beat() (again time.Duration, ok bool) {
	s, every := st.server, st.server.opts.Heartbeat
	_, missed := s.fault(faults.Heartbeats, eventmeter.Push)
	if missed || s.breach.Breaks("stream-heartbeat-required") {
		return every, true
	}
	if s.breach.Breaks("stream-heartbeat-interval") {
		every = breach.LongSilence
	}
	if rest := every - time.Since(st.written); rest > 0 {
		return rest, true
	}
	switch {
	case st.call.rules.spellsOlder():
		ok = st.notify("heartbeat", nil)
	case s.breach.Breaks("stream-heartbeat-not-sse-comment"):
		ok = st.write([]byte(": still here\n\n"))
	default: // the position is read again: events that the filter dropped have moved it
		ok = st.notify("heartbeat", st.cursorMember(st.reader.currentPosition()))
	}
	return every, ok
}

// startOf is where a call wants to begin.
func (s *Server) startOf(mode eventmeter.Mode, c *call, t *topic, p eventParams) start {
	from := p.start()
	if s.breach == nil {
		return from
	}
	oldest := t.cursor(0)
	switch {
	case from.cursor == nil && from.maxAge > 0 && s.breach.Breaks("max-age-ms-ignored-when-cursor-null", mode),
		from.cursor == nil && from.maxAge == 0 && s.breach.Breaks("cursor-null-starts-from-now", mode),
		from.cursor == nil && !bytes.Contains(c.params, []byte(`"cursor"`)) && s.breach.Breaks("cursor-absent-equals-null", mode):
		from.cursor = &oldest
	case from.maxAge > 0 && s.breach.Breaks("max-age-ms-floor", mode):
		from.maxAge = 0
	}
	return from
}

// secretOf returns what signs with a secret. An invalid one is an error, unless a row is
// broken by what it refuses.
func (s *Server) secretOf(text string) (*standardwebhooks.Webhook, *rpcError) {
	key, rpcErr := parseSecret(text)
	if rpcErr != nil && (text == "" && s.breach.Breaks("subscribe-secret-required") ||
		text != "" && s.breach.Breaks("subscribe-secret-format")) {
		return signer([]byte("a secret that nobody agreed upon")), nil
	}
	return signer(key), rpcErr
}

// callbackOf is [parseCallback], unless a row is broken by what it refuses.
func (s *Server) callbackOf(raw string) (*url.URL, *rpcError) {
	u, rpcErr := parseCallback(raw)
	if rpcErr == nil || s.breach == nil {
		return u, rpcErr
	}
	odd, err := url.Parse(raw)
	if err == nil && (odd.Scheme == "http" && s.breach.Breaks("subscribe-url-https-required") ||
		!isHTTP(odd) && s.breach.Breaks("ssrf-validate-callback-url")) {
		return odd, nil
	}
	return nil, rpcErr
}

// miskey gives a new subscription another key or id where a row about them is broken.
func (s *Server) miskey(h *hook, c *call, p subscribeParams) {
	if s.breach == nil || h.direct {
		return
	}
	breaks := func(row string) bool { return s.breach.Breaks(row) }
	join := func(parts ...string) string { return strings.Join(parts, "\x00") }
	of := h.kept
	switch {
	case breaks("subscribe-key-composition"):
		h.key = join(h.key, string(p.arguments(false)))
	case breaks("subscribe-key-immutable"):
		h.key = join(of.Principal, of.URL, of.Name)
	case breaks("subscribe-cross-tenant-isolation"):
		h.key = join(of.URL, of.Name, string(of.Arguments))
	case c.method == eventsPrefix+"subscribe" && breaks("subscribe-idempotent-upsert"):
		h.key = join(h.key, s.broker.nextID())
	default:
		if p.ID != "" && breaks("subscribe-id-not-an-input") {
			h.id = p.ID
		}
		return
	}
	h.id = idOf(h.key)
}

// unproved is the error about a wrong answer to a challenge, unless it is accepted.
func (s *Server) unproved(reply []byte) *rpcError {
	if s.breach.Breaks("verification-challenge-echo") {
		return nil
	}
	e := callbackError(failChallenge)
	if s.breach.Breaks("verification-no-raw-endpoint-responses") {
		e.Data = map[string]string{"reason": failChallenge, "answer": string(reply)}
	}
	return e
}

// skipCut moves a new reader past events at which a stream was cut without
// replay: they are never delivered.
func (r *reader) skipCut() {
	t := r.topic
	t.mu.Lock()
	defer t.mu.Unlock()
	for r.next >= r.log.first && r.next < r.log.end() {
		e := r.log.at(r.next)
		if e.fault == nil || e.fault.Kind != faults.Cut || e.fault.Replay {
			return
		}
		r.next++
	}
}

// appendAny appends an event, whose fault may change its frame; out holds the frames
// before it. It returns false if the stream is over.
func (st *stream) appendAny(out []byte, e *event) ([]byte, bool) {
	if e.fault == nil {
		return st.appendEvent(out, e), true
	}
	switch e.fault.Kind {
	case faults.Cut:
		if e.fault.Replay {
			out = st.appendEvent(out, e)
		}
		st.write(out)
		return out[:0], false
	case faults.Trouble:
		out = st.appendNotification(out, "error", errorMember(&rpcError{Code: codeInternal, Message: "the upstream failed for a moment"}))
		if st.server.breach.Breaks("stream-error-is-recoverable") {
			st.write(out)
			return out[:0], false
		}
	case faults.Malformed:
		frame := st.appendEvent(nil, e)
		out = append(out, bytes.TrimRight(frame, "}\n")...) // its braces never close
		return append(out, "\n\n"...), true
	case faults.Drip:
		if len(out) > 0 && !st.write(out) {
			return out[:0], false
		}
		return out[:0], st.drip(e)
	}
	return st.appendEvent(out, e), true
}

// drip writes one frame in eight pieces.
func (st *stream) drip(e *event) bool {
	const pieces = 8
	frame := st.appendEvent(nil, e)
	for i := range pieces {
		if i > 0 && !pause(context.Background(), st.server.closing, e.fault.Over/(pieces-1)) ||
			!st.write(frame[i*len(frame)/pieces:(i+1)*len(frame)/pieces]) {
			return false
		}
	}
	return true
}

// applyFault changes the message as the event's fault asks for this attempt.
func (m *message) applyFault(f *faults.Fault, attempts int) {
	if f == nil {
		return
	}
	switch f.Kind {
	case faults.Malformed:
		if attempts == 0 {
			m.body = m.body[:len(m.body)-1] // its brace never closes
		}
	case faults.Oversize:
		body := append(m.body[:len(m.body)-1:len(m.body)-1], strings.Repeat(" ", 512<<10)...)
		m.body = append(body, '}')
	case faults.Signature:
		if attempts < f.Attempts {
			m.sign = f.Sign
		}
	}
}

// deliverEarly posts an event without a probe before its callback is verified, or knows
// its secret, if a fault says so. name is the event's type.
func (s *Server) deliverEarly(ctx context.Context, m *message, name string) {
	if f, ok := s.fault(faults.Early, eventmeter.Webhook); ok {
		s.faultInjector.count(f, eventmeter.Webhook)
	} else if m.subscriptionID == "" || !s.breach.Breaks("verification-required-before-delivery") {
		return
	}
	m.id = s.broker.nextID()
	what := `"type":"early"`
	if m.subscriptionID != "" {
		what = `"eventId":"` + m.id + `","name":"` + name + `"`
	}
	m.body = fmt.Appendf(nil, `{%s,"timestamp":"%s","data":{}}`, what, time.Now().UTC().Format(timeLayout))
	s.hooks.poster.post(ctx, m) // the outcome does not matter
}

// applyToLists changes the lifetime of lists as faults say.
func (m *faultInjector) applyToLists(o ListOptions) ListOptions {
	if f, ok := m.serverFault(faults.ListTTL, eventmeter.Poll); ok {
		o.ttlMs = &f.Ms
	}
	if _, ok := m.serverFault(faults.Scope, eventmeter.Poll); ok {
		o.otherScope = true
	}
	if _, ok := m.serverFault(faults.MixScope, eventmeter.Poll); ok {
		o.otherFirst = true
	}
	return o
}

// countScope counts a page of a list whose scope is wrong.
func (ls *lists) countScope(first bool) {
	for _, kind := range []faults.Kind{faults.Scope, faults.MixScope} {
		if f, ok := ls.faultInjector.serverFault(kind, eventmeter.Poll); ok && (first || kind == faults.Scope) {
			ls.faultInjector.countIn(faults.SEP2549, f)
		}
	}
}

// apply changes a list and notifies its listeners.
func (ls *lists) apply(l *list, stamp eventmeter.Stamp, probed bool) {
	ls.carryOut(faults.SEP2549, eventmeter.Poll, stamp, probed,
		func() { l.change(stamp, probed) }, func() { ls.listeners.notify(l.kind) })
}

// carryOut makes a change and notifies of it, as the change's fault says. Delayed
// notifications are sent in the order of their due times.
func (ls *lists) carryOut(system string, mode eventmeter.Mode, stamp eventmeter.Stamp, probed bool, change, notify func()) {
	f := ls.faultInjector.hit(system, mode, stamp, probed)
	if f.Kind != faults.Stale {
		change()
	}
	switch f.Kind {
	case faults.Drop:
	case faults.Delay:
		ls.faultInjector.agenda.at(time.Now().Add(f.DelayOf(stamp)), notify)
	case faults.Duplicate:
		notify()
		notify()
	default:
		notify()
	}
}

// The faults of resumable requests. Faults of single messages hit progress
// messages by their number, in every request alike.

// fault returns the fault of a kind that concerns requests.
func (j *job) fault(kind faults.Kind) (faults.Fault, bool) {
	return j.owner.server.fault(kind, eventmeter.Push)
}

// countFault counts a fault that was applied.
func (j *job) countFault(f faults.Fault) {
	j.owner.server.faultInjector.countIn(faults.SEP975, f)
}

// sendProgress sends the progress message of the last step, as its fault says.
// The caller holds the lock.
func (j *job) sendProgress() {
	var f faults.Fault
	if m := j.owner.server.faultInjector; m != nil {
		f, _ = m.spec.Event(eventmeter.Push, eventmeter.Stamp{Seq: uint32(j.step)})
	}
	switch f.Kind {
	case faults.Drop:
		j.countFault(f)
		return
	case faults.Duplicate:
		j.countFault(f)
		j.send(j.progressFrame())
	}
	j.send(j.progressFrame())
	if f.Kind == faults.Cut && !j.ended {
		j.kept[len(j.kept)-1].cut = &f
	}
}

// cutAt ends a connection at message i: after it, to send it again on the next
// connection, or in its place, for good. The caller holds the lock.
func (j *job) cutAt(i int, frames [][]byte) [][]byte {
	m := &j.kept[i]
	j.countFault(*m.cut)
	if m.cut.Replay {
		m.cut = nil
		return append(frames, m.frame)
	}
	j.uncharge(j.kept[i : i+1])
	j.kept = slices.Delete(j.kept, i, i+1)
	return frames
}

// keepFor is how long the job is kept without a connection.
func (j *job) keepFor() time.Duration {
	if f, ok := j.fault(faults.Lapse); ok {
		return f.After
	}
	if f, ok := j.fault(faults.Leak); ok {
		j.countFault(f)
		return longestWait
	}
	return j.maxWait
}

// refuseResume counts a resume and returns the error if a fault refuses it.
func (j *job) refuseResume() *rpcError {
	f, ok := j.fault(faults.NoResume)
	if !ok {
		return nil
	}
	j.mu.Lock()
	j.resumes++
	hit := j.resumes%f.Every == 0
	j.mu.Unlock()
	if !hit {
		return nil
	}
	j.countFault(f)
	return &rpcError{Code: f.Code, Message: "refused by a fault"}
}

// leavesOutIDs counts a request whose messages have ids, and reports whether a
// fault leaves them out.
func (q *resumables) leavesOutIDs() bool {
	f, ok := q.server.fault(faults.NoIDs, eventmeter.Push)
	if !ok || q.withIDs.Add(1)%f.Every != 0 {
		return false
	}
	q.server.faultInjector.countIn(faults.SEP975, f)
	return true
}

// allowsTwo reports whether several connections may serve the request at once.
// Each is sent all messages from the first.
func (j *job) allowsTwo() bool {
	_, ok := j.fault(faults.Twofold)
	return ok
}

// resultDelay is how much later than its work a result is sent.
func (j *job) resultDelay() time.Duration {
	f, ok := j.fault(faults.LateResult)
	if ok {
		j.countFault(f)
	}
	return f.Over
}
