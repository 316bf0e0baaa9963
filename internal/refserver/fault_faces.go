package refserver

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/refserver/faults"
)

// strike prepares the faults that the options ask for.
func (s *Server) strike() {
	if len(s.opts.Faults) == 0 {
		return
	}
	s.faultInjector = newFaultInjector(s.opts.Faults, s.hooks.agenda)
	s.forgotten = make(chan struct{})
	s.broker.strike(s.faultInjector, s.opts, strconv.FormatInt(s.started.UnixNano(), 36), s.forget)
	if f, ok := s.faultInjector.has(faults.Expire, eventmeter.Webhook); ok {
		s.hooks.expireAfter = f.After
	}
	if _, ok := s.faultInjector.has(faults.NoRetry, eventmeter.Webhook); ok {
		s.hooks.retryMax = -1
	}
}

// forgottenNow is closed when the server forgets; nil, which blocks for ever,
// without faults.
func (s *Server) forgottenNow() <-chan struct{} {
	s.forgetMu.Lock()
	defer s.forgetMu.Unlock()
	return s.forgotten
}

// forget is what a restart would do: subscriptions, streams and events are
// gone, and cursors are of an earlier life.
func (s *Server) forget() {
	epoch := strconv.FormatInt(time.Now().UnixNano(), 36)
	for _, t := range s.broker.everywhere() {
		t.restart(epoch)
	}
	for _, h := range s.hooks.everyone() {
		s.hooks.remove(h, nil)
	}
	s.resources.forget()
	s.forgetMu.Lock()
	close(s.forgotten)
	s.forgotten = make(chan struct{})
	s.forgetMu.Unlock()
	f, _ := s.faultInjector.has(faults.Forget, "")
	s.faultInjector.count(f, "")
}

// restart gives the topic a new life.
func (t *topic) restart(epoch string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.evict(time.Now(), 0)
	t.begin(epoch)
}

// everyone lists all open subscriptions.
func (hs *hooks) everyone() []*hook {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	var all []*hook
	for _, h := range hs.byKey {
		if h.isOpen() {
			all = append(all, h)
		}
	}
	return all
}

// grantFault is the life that a fault grants; 0 without one.
func (s *Server) grantFault() time.Duration {
	f, _ := s.faultInjector.has(faults.TTL, eventmeter.Webhook)
	return f.Grant
}

// waitOutStall holds a request back while the server stands still; false means
// that the client is gone.
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

// stalling wraps a handler so that it stands still when the server does.
func (s *Server) stalling(h http.Handler) http.Handler {
	if _, ok := s.faultInjector.has(faults.Stall, ""); !ok {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.faultInjector.waitOutStall(r) {
			h.ServeHTTP(w, r)
		}
	})
}

// skipCut moves a new reader past events at which a stream was cut for good:
// they are never delivered.
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

// misfire writes an event whose fault concerns its frame. The frames before it
// are in out. false means that the stream is over.
func (st *stream) misfire(out []byte, e *event) ([]byte, bool) {
	switch e.fault.Kind {
	case faults.Cut:
		if e.fault.Replay {
			out = e.appendFrame(out, st.call.id)
		}
		st.write(out)
		return out[:0], false
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

// misfire commits what the event's fault asks of this attempt.
func (m *message) misfire(f *faults.Fault, attempts int) {
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

// missign changes the signature headers as a Signature fault says.
func (m *message) missign(h http.Header, now time.Time) {
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

// deliverEarly posts an event to a callback that has not proved anything yet,
// if a fault says so. It carries no probe.
func (s *Server) deliverEarly(ctx context.Context, h *hook, key *standardwebhooks.Webhook) {
	f, ok := s.faultInjector.has(faults.Early, eventmeter.Webhook)
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

// faultPlan answers GET /faults?sources=N&to=M.
func (s *Server) faultPlan(w http.ResponseWriter, r *http.Request) {
	sources, to := 1, 100
	for name, into := range map[string]*int{"sources": &sources, "to": &to} {
		text := r.URL.Query().Get(name)
		if text == "" {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 100_000 {
			http.Error(w, name+" must be a whole number from 1 to 100000", http.StatusBadRequest)
			return
		}
		*into = n
	}
	b, err := json.Marshal(s.faultInjector.plan(sources, uint32(to)))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	writeJSON(w, http.StatusOK, b)
}
