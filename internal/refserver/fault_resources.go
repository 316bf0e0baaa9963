package refserver

import (
	"net/http"
	"strconv"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/refserver/faults"
)

// as is the topic as a mode sees it: with faults, each mode has topics of its
// own.
func (rs *resources) as(mode eventmeter.Mode, t *topic) *topic {
	return rs.server.broker.in(mode, t.kind.name)
}

// inBand are the topics that streams are fed from, in the order of the
// catalogue.
func (rs *resources) inBand() []*topic {
	b := rs.server.broker
	if b.faultInjector == nil {
		return b.order
	}
	all := make([]*topic, len(b.order))
	for i, t := range b.order {
		all[i] = rs.as(eventmeter.Push, t)
	}
	return all
}

// misfire appends an event whose fault concerns its frame; cut says that the
// stream is over.
func (u *updates) misfire(dst []byte, e *event, t *topic) (_ []byte, cut bool) {
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

// signAs signs a message, as a Signature fault says if it has one.
func (h *resourceHook) signAs(m *message, header http.Header, now time.Time) {
	switch m.sign {
	case "missing":
	case "stale":
		then := now.Add(-time.Hour)
		header[standardwebhooks.HeaderWebhookTimestamp] = []string{strconv.FormatInt(then.Unix(), 10)}
		h.sign(header, m.id, then, m.body)
	case "wrong":
		_, sign := newSecret(h.wish)
		sign(header, m.id, now, m.body)
	default:
		h.sign(header, m.id, now, m.body)
	}
}

// deliverEarly posts an event, without a probe, to a callback that was not told
// its secret yet, if a fault says so.
func (rs *resources) deliverEarly(h *resourceHook) {
	s := rs.server
	f, ok := s.faultInjector.has(faults.Early, eventmeter.Webhook)
	if !ok {
		return
	}
	s.faultInjector.count(f, eventmeter.Webhook)
	m := &message{id: s.broker.nextID(), body: []byte(`{"type":"early","timestamp":"` + time.Now().UTC().Format(timeLayout) + `","data":{}}`)}
	rs.post(s.hooks.ctx, h, m) // whatever becomes of it
}

// forget ends every subscription without a word, in band and out of band.
func (rs *resources) forget() {
	rs.mu.Lock()
	sessions := make([]*resourceSession, 0, len(rs.sessions))
	for _, s := range rs.sessions {
		sessions = append(sessions, s)
	}
	hooks := make([]*resourceHook, 0, len(rs.hooks))
	for _, h := range rs.hooks {
		hooks = append(hooks, h)
	}
	rs.mu.Unlock()
	for _, s := range sessions {
		s.clear()
	}
	for _, h := range hooks {
		rs.remove(h.uri, h.principal)
	}
}
