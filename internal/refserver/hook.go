package refserver

import (
	"crypto/rand"
	"encoding/json"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// hook is one webhook subscription. Its tokens, at most InFlight, are its
// places in the pool's queue: whoever holds one may make one attempt.
type hook struct {
	hooks     *hooks
	key       string // principal, url, name and arguments
	id        string
	principal string
	url       *url.URL
	topic     *topic
	direct    bool // see makeDirect
	// opened is closed when the verification handshake is over; failed is its
	// outcome and constant from then on.
	opened chan struct{}
	failed *rpcError

	tokens atomic.Int32

	mu      sync.Mutex
	reader  *reader // nil before the handshake and after the end
	secrets []secret
	// waiting are the events that are taken and neither acknowledged nor given
	// up, in order; due are those of them whose retry has come.
	waiting, due []*delivery
	// control are envelopes. The first is sent alone, before any further event:
	// an announced gap must not be overtaken by what lies behind it.
	control  []*delivery
	inFlight int
	expires  time.Time // zero = never
	status   status
}

// secret is a signing key; until is zero for the current one.
type secret struct {
	text  string
	key   *standardwebhooks.Webhook
	until time.Time
}

// delivery is one message on its way, with its retries.
type delivery struct {
	event    *event // nil for an envelope
	id       string
	envelope []byte
	attempts int
	// asleep is true while an envelope waits for its retry or is in flight.
	asleep bool
}

// status is what deliveryStatus is made of.
type status struct {
	lastDelivery time.Time
	lastError    string
	failedSince  time.Time
	throttled    time.Duration // until everything that a throttle holds back is let through
	trials
}

// wake queues an attempt if the subscription has one free. It takes no lock of
// the hook, since publishers call it.
func (h *hook) wake() {
	for {
		n := h.tokens.Load()
		if int(n) >= h.hooks.inFlight {
			return
		}
		if h.tokens.CompareAndSwap(n, n+1) {
			h.hooks.pool.push(h)
			return
		}
	}
}

// next takes what is to be sent now, or nil. The caller sends it and calls
// settle.
func (h *hook) next() (*delivery, *message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	d := h.choose()
	if d == nil {
		return nil, nil
	}
	h.inFlight++
	m := &message{url: h.url, subscriptionID: h.id, id: d.id, keys: h.keys(time.Now())}
	if d.event == nil {
		d.asleep = true
		m.body = d.envelope
		return d, m
	}
	if h.direct {
		m.body = append(append(append(make([]byte, 0, len(d.event.fields)+2), '{'), d.event.fields...), '}')
		return d, m
	}
	// The safe watermark: all before the first event that still waits.
	m.body = make([]byte, 0, len(d.event.fields)+64)
	m.body = append(m.body, '{')
	m.body = append(m.body, d.event.fields...)
	m.body = append(m.body, `,"cursor":"`...)
	m.body = h.topic.appendCursor(m.body, h.waiting[0].event.n-1)
	m.body = append(m.body, `"}`...)
	return d, m
}

func (h *hook) choose() *delivery {
	for {
		if h.status.suspended {
			return nil
		}
		if len(h.control) > 0 {
			if h.inFlight > 0 || h.control[0].asleep {
				return nil
			}
			return h.control[0]
		}
		if len(h.due) > 0 {
			d := h.due[0]
			h.due = h.due[1:]
			return d
		}
		if h.reader == nil || len(h.waiting) >= h.hooks.window {
			return nil
		}
		var one [1]*event
		b := h.reader.take(one[:0], 1)
		var d *delivery
		if len(b.events) > 0 {
			d = &delivery{event: b.events[0], id: b.events[0].id}
			h.waiting = append(h.waiting, d)
		}
		if !b.gap {
			return d
		}
		h.announceGap(b.before)
		if d != nil {
			h.due = append(h.due, d)
		}
	}
}

// ready reports whether choose would find something.
func (h *hook) ready() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.status.suspended:
		return false
	case len(h.control) > 0:
		return h.inFlight == 0 && !h.control[0].asleep
	case len(h.due) > 0:
		return true
	}
	return h.reader != nil && len(h.waiting) < h.hooks.window && h.reader.pending()
}

// announceGap queues the envelope that says where delivery goes on.
func (h *hook) announceGap(position uint64) {
	if h.direct {
		return // nothing could say so
	}
	body := append([]byte(`{"type":"gap","cursor":"`), h.topic.cursor(position)...)
	h.control = append(h.control, &delivery{id: envelopeID("gap"), envelope: append(body, `"}`...)})
	h.hooks.counts.gaps.Add(1)
}

// settle notes the end of an attempt. It reports whether and when the delivery
// is to be tried again.
func (h *hook) settle(d *delivery, httpStatus int, failure string) (retryIn time.Duration, again bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	h.inFlight--
	d.attempts++
	h.status.tried(now, failure == "", h.hooks.suspendAfter)
	if failure == "" {
		h.status.lastDelivery, h.status.lastError, h.status.failedSince = now, "", time.Time{}
	} else {
		h.status.lastError = lastError(failure)
		if h.status.failedSince.IsZero() {
			h.status.failedSince = now
		}
		final := httpStatus == 410 || httpStatus == 413
		if !final && d.attempts <= h.hooks.retryMax && h.holds(d) {
			return h.hooks.backoff(d.attempts), true
		}
		h.hooks.counts.abandoned.Add(1)
	}
	h.drop(d)
	return 0, false
}

// holds reports whether d is still wanted.
func (h *hook) holds(d *delivery) bool {
	list := h.waiting
	if d.event == nil {
		list = h.control
	}
	for _, other := range list {
		if other == d {
			return true
		}
	}
	return false
}

func (h *hook) drop(d *delivery) {
	list := &h.waiting
	if d.event == nil {
		list = &h.control
	}
	for i, other := range *list {
		if other == d {
			*list = append((*list)[:i], (*list)[i+1:]...)
			return
		}
	}
}

// retry puts a delivery back in line.
func (h *hook) retry(d *delivery) {
	h.mu.Lock()
	if h.holds(d) {
		d.asleep = false
		if d.event != nil {
			h.due = append(h.due, d)
		}
	}
	h.mu.Unlock()
	h.wake()
}

// keys returns what signs now, the newest secret first.
func (h *hook) keys(now time.Time) []*standardwebhooks.Webhook {
	keys := make([]*standardwebhooks.Webhook, 0, len(h.secrets))
	for _, s := range h.secrets {
		if s.until.IsZero() || now.Before(s.until) {
			keys = append(keys, s.key)
		}
	}
	return keys
}

// rotate makes text the current secret; the former one signs beside it for the
// grace.
func (h *hook) rotate(text string, key *standardwebhooks.Webhook, now time.Time, grace time.Duration) {
	if len(h.secrets) > 0 && h.secrets[0].text == text {
		return
	}
	fresh := []secret{{text: text, key: key}}
	if len(h.secrets) > 0 && grace > 0 {
		former := h.secrets[0]
		former.until = now.Add(grace)
		fresh = append(fresh, former)
	}
	h.secrets = fresh
}

// watermark is the position up to which nothing waits any more.
func (h *hook) watermark() uint64 {
	if len(h.waiting) > 0 {
		return h.waiting[0].event.n - 1
	}
	return h.reader.where()
}

// end stops the subscription: nothing is delivered any more but, if given, one
// last envelope.
func (h *hook) end(last *delivery) {
	h.mu.Lock()
	if h.reader != nil {
		h.reader.close()
		h.reader = nil
	}
	h.waiting, h.due, h.control = nil, nil, nil
	if last != nil {
		h.control = []*delivery{last}
	}
	h.mu.Unlock()
	if last != nil {
		h.wake()
	}
}

func envelopeID(kind string) string { return "msg_" + kind + "_" + rand.Text() }

func terminatedEnvelope(e *rpcError) (*delivery, error) {
	body, err := json.Marshal(map[string]any{"type": "terminated", "error": e})
	return &delivery{id: envelopeID("terminated"), envelope: body}, err
}
