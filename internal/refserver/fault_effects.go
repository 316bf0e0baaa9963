package refserver

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/refserver/faults"
)

// installFaults prepares the faults of the options.
func (s *Server) installFaults() {
	if len(s.opts.Faults) == 0 {
		return
	}
	s.faultInjector = newFaultInjector(s.opts.Faults, s.hooks.agenda)
	s.forgotten = make(chan struct{})
	s.broker.installFaults(s.faultInjector, s.opts, strconv.FormatInt(s.started.UnixNano(), 36), map[faults.Kind]func(){
		faults.Forget: s.forget,
		faults.Revoke: func() { s.Revoke(everybody) },
		faults.Withdraw: func() {
			for _, t := range s.broker.order {
				_ = s.Offer(t.kind.name, false) // the type exists
			}
		},
		faults.Change: func() {
			for _, t := range s.broker.order {
				_ = s.ChangeSchema(t.kind.name) // the type exists
			}
		},
	})
	if f, ok := s.faultInjector.serverFault(faults.Expire, eventmeter.Webhook); ok {
		s.hooks.expireAfter = f.After
	}
	if f, ok := s.faultInjector.serverFault(faults.Gone, eventmeter.Webhook); ok {
		s.hooks.gone = func() { s.faultInjector.count(f, eventmeter.Webhook) }
	}
	if _, ok := s.faultInjector.serverFault(faults.NoRetry, eventmeter.Webhook); ok {
		s.hooks.retryMax = -1
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
	s.resources.forget()
	s.lists.forget(s.base)
	s.forgetMu.Lock()
	close(s.forgotten)
	s.forgotten = make(chan struct{})
	s.forgetMu.Unlock()
}

// faultTTL is the time to live that a fault grants; 0 without one.
func (s *Server) faultTTL() time.Duration {
	f, _ := s.faultInjector.serverFault(faults.TTL, eventmeter.Webhook)
	return f.Grant
}

// waitOutStall delays a request until the stall is over. It returns false if
// the client is gone.
func (m *faultInjector) waitOutStall(r *http.Request) bool {
	until := m.stalledUntil(time.Now())
	if until.IsZero() {
		return true
	}
	t := time.NewTimer(time.Until(until))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-r.Context().Done():
		return false
	}
}

// withStall wraps a handler so that it stalls when a fault says so.
func (s *Server) withStall(h http.Handler) http.Handler {
	if _, ok := s.faultInjector.serverFault(faults.Stall, ""); !ok {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.faultInjector.waitOutStall(r) {
			h.ServeHTTP(w, r)
		}
	})
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

// appendFaulty appends an event whose fault changes its frame; out holds the
// frames before it. It returns false if the stream is over.
func (st *stream) appendFaulty(out []byte, e *event) ([]byte, bool) {
	switch e.fault.Kind {
	case faults.Cut:
		if e.fault.Replay {
			out = e.appendFrame(out, st.call.id)
		}
		st.write(out)
		return out[:0], false
	case faults.Trouble:
		out = st.appendNotification(out, "error", errorMember(&rpcError{Code: codeInternal, Message: "the upstream failed for a moment"}))
	case faults.Malformed:
		frame := e.appendFrame(nil, st.call.id)
		out = append(out, frame[:len(frame)-len(frameEnd)]...) // its braces never close
		return append(out, "\n\n"...), true
	case faults.Drip:
		if len(out) > 0 && !st.write(out) {
			return out[:0], false
		}
		return out[:0], st.drip(e)
	}
	return e.appendFrame(out, st.call.id), true
}

// drip writes one frame in eight pieces.
func (st *stream) drip(e *event) bool {
	const pieces = 8
	frame := e.appendFrame(nil, st.call.id)
	t := time.NewTimer(0)
	defer t.Stop()
	for i := range pieces {
		if !st.write(frame[i*len(frame)/pieces : (i+1)*len(frame)/pieces]) {
			return false
		}
		if i == pieces-1 {
			break
		}
		t.Reset(e.fault.Over / (pieces - 1))
		select {
		case <-t.C:
		case <-st.server.closing:
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

// applySignatureFault changes the signature headers as a Signature fault says.
func (m *message) applySignatureFault(h http.Header, now time.Time) {
	switch m.sign {
	case "missing":
		h[standardwebhooks.HeaderWebhookSignature] = nil
	case "stale":
		then := now.Add(-time.Hour)
		h[standardwebhooks.HeaderWebhookTimestamp] = []string{strconv.FormatInt(then.Unix(), 10)}
		if signature, err := m.keys[0].Sign(m.id, then, m.body); err == nil {
			h[standardwebhooks.HeaderWebhookSignature] = []string{signature}
		}
	case "wrong":
		other, err := standardwebhooks.NewWebhookRaw([]byte("not the secret of this subscription"))
		if err != nil {
			return
		}
		if signature, err := other.Sign(m.id, now, m.body); err == nil {
			h[standardwebhooks.HeaderWebhookSignature] = []string{signature}
		}
	}
}

// deliverEarly posts an event to a callback that is not verified yet, if a
// fault says so. The event carries no probe.
func (s *Server) deliverEarly(ctx context.Context, h *hook, key *standardwebhooks.Webhook) {
	f, ok := s.faultInjector.serverFault(faults.Early, eventmeter.Webhook)
	if !ok || h.direct {
		return
	}
	s.faultInjector.count(f, eventmeter.Webhook)
	id := s.broker.nextID()
	body, err := json.Marshal(map[string]any{"eventId": id, "name": h.topic.kind.name, "timestamp": time.Now().UTC().Format(timeLayout), "data": map[string]any{}})
	if err != nil { // strings always encode
		return
	}
	s.hooks.poster.post(ctx, &message{url: h.url, subscriptionID: h.id, id: id, body: body, keys: []*standardwebhooks.Webhook{key}})
}

// applyToLists changes the lifetime of lists as faults say.
func (m *faultInjector) applyToLists(o ListOptions) ListOptions {
	if f, ok := m.serverFault(faults.ListTTL, eventmeter.Poll); ok {
		o.ttlMs = &f.Ms
	}
	if _, ok := m.serverFault(faults.Scope, eventmeter.Poll); ok {
		o.otherScope = true
	}
	return o
}

// countScope counts a page whose scope is wrong.
func (ls *lists) countScope() {
	if f, ok := ls.faultInjector.serverFault(faults.Scope, eventmeter.Poll); ok {
		ls.faultInjector.countIn(faults.SEP2549, f)
	}
}

// apply changes a list and notifies its listeners, as the change's fault says.
// Delayed notifications are sent in the order of their due times.
func (ls *lists) apply(l *list, stamp eventmeter.Stamp, probed bool) {
	var f faults.Fault
	if m := ls.faultInjector; m != nil && probed {
		var hit bool
		if f, hit = m.spec.Event(eventmeter.Poll, stamp); hit {
			m.countIn(faults.SEP2549, f)
		}
	}
	if f.Kind != faults.Stale {
		l.change(stamp, probed)
	}
	switch f.Kind {
	case faults.Drop:
	case faults.Duplicate:
		ls.listeners.notify(l.kind)
		ls.listeners.notify(l.kind)
	case faults.Delay:
		ls.faultInjector.agenda.at(time.Now().Add(f.DelayOf(stamp)), func() { ls.listeners.notify(l.kind) })
	default:
		ls.listeners.notify(l.kind)
	}
}

// appendFaulty appends an event whose fault changes its frame; cut says that
// the stream is over.
func (u *updates) appendFaulty(dst []byte, e *event, t *topic) (_ []byte, cut bool) {
	switch e.fault.Kind {
	case faults.Cut:
		u.cut = true
		if e.fault.Replay {
			dst = u.appendUpdate(dst, e, t)
		}
		return dst, true
	case faults.Malformed:
		dst = u.appendUpdate(dst, e, t)
		return append(dst[:len(dst)-len("}}\n\n")], "\n\n"...), false // its braces never close
	}
	return u.appendUpdate(dst, e, t), false
}

// signMessage signs a message, as a Signature fault says if there is one.
func (h *resourceHook) signMessage(m *message, header http.Header, now time.Time) {
	switch m.sign {
	case "missing":
	case "stale":
		then := now.Add(-time.Hour)
		header[standardwebhooks.HeaderWebhookTimestamp] = []string{strconv.FormatInt(then.Unix(), 10)}
		h.sign(header, m.id, then, m.body)
	case "wrong":
		_, sign := newSecret(h.secretType)
		sign(header, m.id, now, m.body)
	default:
		h.sign(header, m.id, now, m.body)
	}
}

// deliverEarly posts an event without a probe to a callback before its secret
// is known, if a fault says so.
func (rs *resources) deliverEarly(h *resourceHook) {
	s := rs.server
	f, ok := s.faultInjector.serverFault(faults.Early, eventmeter.Webhook)
	if !ok {
		return
	}
	s.faultInjector.count(f, eventmeter.Webhook)
	m := &message{id: s.broker.nextID(), body: []byte(`{"type":"early","timestamp":"` + time.Now().UTC().Format(timeLayout) + `","data":{}}`)}
	rs.post(s.hooks.ctx, h, m) // the outcome does not matter
}

// forget ends every subscription, in band and out of band, without notice.
func (rs *resources) forget() { rs.endAll(func(string) bool { return true }) }

// The faults of resumable requests. Faults of single messages hit progress
// messages by their number, in every request alike.

// fault returns the fault of a kind that concerns requests.
func (j *job) fault(kind faults.Kind) (faults.Fault, bool) {
	return j.owner.server.faultInjector.serverFault(kind, eventmeter.Push)
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
