package refserver

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/eventmeter/eventmeter/internal/refserver/faults"
)

// resourceHook is one out-of-band subscription. It works as a webhook
// subscription of events/* does, without all that the draft does not have: a
// life that ends, a cursor, a handshake and envelopes.
type resourceHook struct {
	rs        *resources
	uri       string // subscription://…
	principal string
	uris      []string // of the events
	target    string   // as it was given
	url       *url.URL
	sign      func(h http.Header, id string, at time.Time, body []byte)
	wish      string // the type of its secret, as it was asked for
	mix       mixer

	tokens atomic.Int32 // places in the pool's queue

	mu      sync.Mutex
	over    bool
	waiting int             // events that are neither acknowledged nor given up
	due     []*resourcePost // those whose retry has come
}

// resourcePost is one event on its way.
type resourcePost struct {
	event    *event
	kind     *eventType
	attempts int
}

func (h *resourceHook) registration() registration {
	return registration{URI: h.uri, EventURIs: slices.Clone(h.uris), TargetURI: h.target}
}

// wake queues an attempt if the subscription has one free. Publishers call it.
func (h *resourceHook) wake() {
	for {
		n := h.tokens.Load()
		if int(n) >= h.rs.server.opts.InFlight {
			return
		}
		if h.tokens.CompareAndSwap(n, n+1) {
			h.rs.pool.push(h)
			return
		}
	}
}

// attempt makes one attempt for a hook that gave up a token for it, and gives
// the token back or puts it to the end of the queue again.
func (rs *resources) attempt(h *resourceHook) {
	p := h.next()
	if p == nil {
		h.tokens.Add(-1)
		if h.ready() { // what came meanwhile found no token free
			h.wake()
		}
		return
	}
	if h.ready() {
		h.wake()
	}
	counts := rs.server.counts
	counts.attempts.Add(1)
	if p.attempts > 0 {
		counts.retries.Add(1)
	}
	m := h.message(p)
	status, failure := rs.post(rs.server.hooks.ctx, h, m)
	if f := p.event.fault; failure == "" && f != nil && f.Kind == faults.Repeat {
		rs.post(rs.server.hooks.ctx, h, m) // whatever becomes of it
	}
	if failure == "" {
		counts.posted.Add(1)
	} else {
		counts.failures.Add(1)
	}
	if h.settle(p, status, failure) {
		rs.server.hooks.agenda.at(time.Now().Add(rs.server.hooks.backoff(p.attempts)), func() { h.retry(p) })
	}
	rs.pool.push(h) // keeps its token
}

// next takes what is to be sent now, or nil.
func (h *resourceHook) next() *resourcePost {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return nil
	}
	if len(h.due) > 0 {
		p := h.due[0]
		h.due = h.due[1:]
		return p
	}
	if h.waiting >= h.rs.server.opts.Window {
		return nil
	}
	var one [1]*event
	events, t := h.mix.take(one[:0], 1)
	if t == nil {
		return nil
	}
	h.waiting++
	return &resourcePost{event: events[0], kind: &t.kind}
}

// ready reports whether next would find something.
func (h *resourceHook) ready() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over || len(h.due) > 0 {
		return !h.over
	}
	return h.waiting < h.rs.server.opts.Window && h.mix.pending()
}

// settle notes the end of an attempt and reports whether there is to be
// another.
func (h *resourceHook) settle(p *resourcePost, status int, failure string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	p.attempts++
	final := failure == "" || status == http.StatusGone || status == http.StatusRequestEntityTooLarge || p.attempts > h.rs.server.hooks.retryMax
	if !final && !h.over {
		return true
	}
	if failure != "" {
		h.rs.server.counts.abandoned.Add(1)
	}
	h.waiting--
	return false
}

// retry puts an event back in line.
func (h *resourceHook) retry(p *resourcePost) {
	h.mu.Lock()
	if !h.over {
		h.due = append(h.due, p)
	}
	h.mu.Unlock()
	h.wake()
}

// end stops the subscription. What is in flight may still arrive.
func (h *resourceHook) end() {
	h.mu.Lock()
	h.over, h.due = true, nil
	h.mu.Unlock()
	h.mix.close()
}

// message is an event's webhookType and its data, as Standard Webhooks advise.
func (h *resourceHook) message(p *resourcePost) *message {
	e := p.event
	body := make([]byte, 0, len(e.data)+len(p.kind.name)+64)
	body = append(body, `{"type":"`...)
	body = append(body, p.kind.name...)
	body = append(body, `","timestamp":"`...)
	body = e.at.UTC().AppendFormat(body, timeLayout)
	body = append(body, `","data":`...)
	body = append(append(body, e.data...), '}')
	m := &message{id: e.id, body: body}
	m.misfire(e.fault, p.attempts)
	return m
}

// post signs a message for this moment and posts it.
func (rs *resources) post(ctx context.Context, h *resourceHook, m *message) (status int, failure string) {
	poster := rs.server.hooks.poster
	ctx, cancel := context.WithTimeout(ctx, poster.timeout)
	defer cancel()
	body := m.body
	now := time.Now()
	header := http.Header{
		"Content-Type":                          {"application/json"},
		"User-Agent":                            {"eventmeter-target/0.1"},
		standardwebhooks.HeaderWebhookID:        {m.id},
		standardwebhooks.HeaderWebhookTimestamp: {strconv.FormatInt(now.Unix(), 10)},
	}
	h.signAs(m, header, now)
	resp, err := poster.transport.RoundTrip((&http.Request{
		Method: http.MethodPost, URL: h.url, Host: h.url.Host, ContentLength: int64(len(body)),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: header,
		Body:    io.NopCloser(bytes.NewReader(body)),
		GetBody: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil },
	}).WithContext(ctx))
	if err != nil {
		return 0, failureOf(err)
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, maxReply))
	switch {
	case resp.StatusCode/100 == 2 && err != nil:
		return resp.StatusCode, failureOf(err)
	case resp.StatusCode/100 == 2:
		return resp.StatusCode, ""
	case resp.StatusCode >= 500:
		return resp.StatusCode, fail5xx
	}
	return resp.StatusCode, fail4xx
}
