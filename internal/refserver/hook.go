package refserver

import (
	"context"
	crand "crypto/rand"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/eventmeter/eventmeter/internal/refserver/breach"
	"github.com/eventmeter/eventmeter/internal/refserver/faults"
	"github.com/eventmeter/eventmeter/internal/refserver/state"
)

// hook is one webhook subscription, of any system. Its tokens, at most InFlight, are
// its places in the queue of the pool: the holder of a token may make one attempt.
type hook struct {
	hooks     *hooks
	key       string // principal, url, name and arguments
	id        string
	principal string
	url       *url.URL
	topic     *topic // nil with of
	// direct says that deliveries start without a handshake, and that there are
	// neither cursors nor envelopes.
	direct bool
	of     *outOfBand // what SEP-1803 adds; nil = another system
	number int        // grows with the age of the server
	// kept is what a restart needs of the subscription, apart from what a
	// refresh changes.
	kept state.Subscription
	// opened is closed when the verification handshake is over; failed is its
	// outcome and constant from then on.
	opened chan struct{}
	failed *rpcError

	tokens atomic.Int32

	mu      sync.Mutex
	source  source // nil before the handshake and after the end
	secrets []secret
	// waiting are the events that were taken and are neither acknowledged nor
	// given up, in order; due are those whose retry is due.
	waiting, due []*delivery
	// control are envelopes. The first is sent alone, before any further event:
	// an event must not overtake the gap announced before it.
	control  []*delivery
	inFlight int
	expires  time.Time // zero = never
	status   status
}

// source is where a subscription takes its events from.
type source interface {
	one() batch
	pending() bool
	close()
}

// secret is a signing key; until is zero for the current one.
type secret struct {
	text  string
	key   *standardwebhooks.Webhook
	until time.Time
}

// delivery is one message with its retries.
type delivery struct {
	event    *event // nil for an envelope
	topic    *topic // of the event
	id       string
	envelope []byte
	attempts int
	// busy is true while an envelope waits for its retry or is in flight.
	busy bool
	once bool // it is not tried again
}

// status holds the values of deliveryStatus.
type status struct {
	lastDelivery time.Time
	lastError    string
	failedSince  time.Time
	throttled    time.Duration // until a throttle has released all events that it holds
	trials
}

// wake queues an attempt if the subscription has one free. It takes no lock of
// the hook, because publishers call it.
func (h *hook) wake() {
	for {
		n := h.tokens.Load()
		if int(n) >= h.hooks.opts.InFlight {
			return
		}
		if h.tokens.CompareAndSwap(n, n+1) {
			h.hooks.pool.push(h)
			return
		}
	}
}

// next returns the next delivery, or nil. The caller sends it and calls settle.
func (h *hook) next() (*delivery, *message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	d := h.choose()
	if d == nil {
		return nil, nil
	}
	h.inFlight++
	m := &message{url: h.url, id: d.id, keys: h.keys(time.Now()), body: d.envelope}
	if h.of != nil {
		m.plain, m.body = h.of.key, d.directBody()
		return d, m
	}
	if m.subscriptionID = h.id; !h.direct {
		m.breach = h.hooks.breach
	}
	if h.older() {
		m.plain, m.older = plainKey(h.secrets[0].text), true
	}
	if d.event == nil {
		d.busy = true
		return d, m
	}
	m.body = append(append(make([]byte, 0, len(d.event.fields)+64), '{'), d.event.fields...)
	if !h.direct {
		// The safe watermark: everything before the first event that still waits.
		m.body = h.topic.appendCursorValue(append(m.body, `,"cursor":`...), h.waiting[0].event.n-1)
	}
	m.body = append(m.body, '}')
	return d, m
}

func (h *hook) choose() *delivery {
	for {
		if h.status.suspended {
			return nil
		}
		if len(h.control) > 0 {
			if h.inFlight > 0 || h.control[0].busy {
				return nil
			}
			return h.control[0]
		}
		if len(h.due) > 0 {
			d := h.due[0]
			h.due = h.due[1:]
			return d
		}
		if h.source == nil || len(h.waiting) >= h.hooks.opts.Window {
			return nil
		}
		b := h.source.one()
		var d *delivery
		if len(b.events) > 0 {
			d = &delivery{event: b.events[0], topic: b.topic, id: b.events[0].id}
			if h.hooks.opts.WebhookID == WebhookIDMessage && !h.direct {
				d.id = envelopeID("event")
			}
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

// ready reports whether choose would find a delivery.
func (h *hook) ready() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.status.suspended:
		return false
	case len(h.control) > 0:
		return h.inFlight == 0 && !h.control[0].busy
	case len(h.due) > 0:
		return true
	}
	return h.source != nil && len(h.waiting) < h.hooks.opts.Window && h.source.pending()
}

// announceGap queues the envelope that says where delivery continues.
func (h *hook) announceGap(position uint64) {
	if h.direct {
		return // a direct hook has no envelope for it
	}
	body := append(h.topic.appendCursorValue([]byte(`{"type":"gap","cursor":`), position), '}')
	if h.older() {
		body = h.errorEnvelope(rulesByRevision[RevisionOlder].spell(expiredCursor()))
	}
	h.control = append(h.control, &delivery{id: envelopeID("gap"), envelope: body})
	h.hooks.counts.Gaps.Add(1)
}

// settle records the end of an attempt. It reports whether and when to try the
// delivery again.
func (h *hook) settle(d *delivery, httpStatus int, failure string) (retryIn time.Duration, again bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	h.inFlight--
	d.attempts++
	if h.of == nil {
		h.status.tried(now, failure == "", h.hooks.opts.SuspendAfter)
	}
	if failure == "" {
		h.status.lastDelivery, h.status.lastError, h.status.failedSince = now, "", time.Time{}
	} else {
		h.status.lastError = lastError(failure)
		if h.status.failedSince.IsZero() {
			h.status.failedSince = now
			h.hooks.dropLater(h, now, now)
		}
		if !h.hooks.gaveUp(d, httpStatus) && h.holds(d) {
			return h.hooks.backoff(d.attempts), true
		}
		h.hooks.counts.Abandoned.Add(1)
	}
	h.drop(d)
	return 0, false
}

// gaveUp reports whether a delivery that was answered with a status is not tried again.
func (hs *hooks) gaveUp(d *delivery, httpStatus int) bool {
	switch {
	case httpStatus == http.StatusGone && !hs.breach.Breaks("delivery-410-non-retryable"),
		httpStatus == http.StatusRequestEntityTooLarge && !hs.breach.Breaks("delivery-413-non-retryable"), d.once:
		return true
	}
	return d.attempts > hs.opts.RetryMax && !hs.breach.Breaks("delivery-retries-bounded")
}

// queueOf is where a delivery waits until it is over.
func (h *hook) queueOf(d *delivery) *[]*delivery {
	if d.event == nil {
		return &h.control
	}
	return &h.waiting
}

// holds reports whether d is still to be delivered.
func (h *hook) holds(d *delivery) bool { return slices.Contains(*h.queueOf(d), d) }

func (h *hook) drop(d *delivery) {
	q := h.queueOf(d)
	*q = slices.DeleteFunc(*q, func(other *delivery) bool { return other == d })
}

// retry puts a delivery back in line.
func (h *hook) retry(d *delivery) {
	h.mu.Lock()
	if h.holds(d) {
		d.busy = false
		if d.event != nil {
			h.due = append(h.due, d)
		}
	}
	h.mu.Unlock()
	h.wake()
}

// keys returns the current signing keys, the newest first.
func (h *hook) keys(now time.Time) []*standardwebhooks.Webhook {
	keys := make([]*standardwebhooks.Webhook, 0, len(h.secrets))
	for _, s := range h.secrets {
		if s.until.IsZero() || now.Before(s.until) {
			keys = append(keys, s.key)
		}
	}
	return keys
}

// rotate makes text the current secret. The former secret keeps signing for the
// grace period.
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

// watermark is the position up to which no event waits.
func (h *hook) watermark() uint64 {
	if len(h.waiting) > 0 {
		return h.waiting[0].event.n - 1
	}
	return h.source.(*reader).currentPosition()
}

// end stops the subscription. Nothing more is delivered, except one last
// envelope if given.
func (h *hook) end(last *delivery) {
	h.mu.Lock()
	if h.source != nil {
		h.source.close()
		h.source = nil
	}
	h.waiting, h.due, h.control = nil, nil, nil
	if last != nil {
		h.control = []*delivery{last}
		h.status.trials = trials{} // a suspension must not hold it back
	}
	h.mu.Unlock()
	if last != nil {
		h.wake()
	}
}

func envelopeID(kind string) string { return "msg_" + kind + "_" + crand.Text() }

func (h *hook) terminatedEnvelope(e *rpcError) *delivery {
	body := append(append([]byte(`{`), errorMember(e)...), `,"type":"terminated"}`...)
	if h.older() {
		body = h.errorEnvelope(e)
	}
	return &delivery{id: envelopeID("terminated"), envelope: body}
}

// errorEnvelope is the one envelope of the older revision.
func (h *hook) errorEnvelope(e *rpcError) []byte {
	return append(append(append(quote([]byte(`{"id":`), h.id), ','), errorMember(e)...), '}')
}

// older reports whether the subscription has the older revision's spellings.
func (h *hook) older() bool { return h.hooks.opts.Revision == RevisionOlder && !h.direct }

func instant(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	text := t.UTC().Format(timeLayout)
	return &text
}

// hooks are the webhook subscriptions with the means to deliver to them.
type hooks struct {
	opts        Options
	expireAfter time.Duration                // a fault: 0 = as granted
	dropped     func(h *hook, why *rpcError) // called for a subscription that failed for DropAfter
	gone        func()                       // a fault: 410 ends the subscription, see faults.Gone

	pool   *pool
	hosts  hostBound
	agenda *agenda
	poster *poster
	breach *breach.Set // nil = none
	proofs *proofs
	state  *state.File // nil without Options.State
	counts *counters
	limit  *capacity
	ctx    context.Context // ends the attempts in flight
	cancel context.CancelFunc
	// released is called once for each subscription that ends.
	released func()

	mu    sync.Mutex
	byKey map[string]*hook
	made  int // subscriptions so far
}

func newHooks(opts Options, counts *counters, limit *capacity, released func()) (*hooks, error) {
	p, err := newPoster(opts)
	if err != nil {
		return nil, err
	}
	h := &hooks{
		opts:     opts,
		agenda:   newAgenda(),
		poster:   p,
		proofs:   &proofs{most: opts.VerifyFailures, held: map[string]bool{}, failed: map[string]*failures{}},
		counts:   counts,
		limit:    limit,
		released: released,
		byKey:    make(map[string]*hook),
	}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.pool = newPool(opts.Senders, h.attemptAtHost)
	h.hosts.most = opts.SendersPerHost
	return h, nil
}

// attemptAtHost makes one attempt for a hook, or leaves it to wait for its host.
func (hs *hooks) attemptAtHost(h *hook) {
	if h.of != nil { // its hosts have no bound
		hs.attempt(h)
		return
	}
	if !hs.hosts.enter(h.url.Host, h) {
		return
	}
	hs.attempt(h)
	if next := hs.hosts.leave(h.url.Host); next != nil {
		hs.pool.push(next)
	}
}

// attempt makes one attempt for a hook that spent a token on it. It returns the
// token, or queues the hook again with it.
func (hs *hooks) attempt(h *hook) {
	d, m := h.next()
	if d == nil {
		// Events that arrived since next found no free token: check again.
		h.tokens.Add(-1)
		if h.ready() {
			h.wake()
		}
		return
	}
	if h.ready() {
		h.wake() // a backlog: more attempts in parallel
	}
	if d.event != nil && h.of == nil {
		hs.limit.take(hs.ctx, nil, 1) // if the context ends, so does the attempt
	}
	hs.counts.Attempts.Add(1)
	if d.attempts > 0 {
		hs.counts.Retries.Add(1)
	}
	if d.event != nil {
		m.applyFault(d.event.fault, d.attempts)
	}
	status, _, failure := hs.poster.post(hs.ctx, m)
	if failure == "" && d.event != nil && d.event.fault != nil && d.event.fault.Kind == faults.Repeat {
		hs.poster.post(hs.ctx, m) // the outcome does not matter
	}
	switch {
	case failure != "":
		hs.counts.Failures.Add(1)
	case d.event != nil:
		hs.counts.posted.Add(1)
	}
	if wait, again := h.settle(d, status, failure); again {
		hs.agenda.at(time.Now().Add(wait), func() { h.retry(d) })
	}
	if status == http.StatusGone && hs.gone != nil && hs.remove(h, nil) {
		hs.gone()
	}
	hs.pool.push(h) // keeps its token
}

// backoff is the wait before the nth retry: it doubles from the base, and its
// upper half is random.
func (hs *hooks) backoff(n int) time.Duration {
	d := hs.opts.RetryBase << min(n-1, 20)
	return d/2 + rand.N(d/2+1)
}

// claim returns the subscription of a key, or registers fresh, which is not
// open yet.
func (hs *hooks) claim(fresh *hook) (h *hook, made bool) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if h := hs.byKey[fresh.key]; h != nil {
		return h, false
	}
	hs.made++
	fresh.number, hs.byKey[fresh.key] = hs.made, fresh
	return fresh, true
}

func (hs *hooks) find(key string) *hook {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	return hs.byKey[key]
}

// remove ends a subscription, with a last envelope if given. It returns false
// if the subscription was already gone.
func (hs *hooks) remove(h *hook, last *delivery) bool {
	return hs.removeIf(h, func() bool { return true }, last)
}

// removeIf removes a subscription if the condition holds, which a refresh cannot
// change meanwhile.
func (hs *hooks) removeIf(h *hook, condition func() bool, last *delivery) bool {
	hs.mu.Lock()
	there := hs.isCurrent(h) && condition()
	if there {
		delete(hs.byKey, h.key)
		hs.state.DropSubscription(h.id)
	}
	hs.mu.Unlock()
	if there {
		h.end(last)
		hs.released()
	}
	return there
}

// isCurrent reports whether h is still the subscription of its key. The caller
// holds hs.mu.
func (hs *hooks) isCurrent(h *hook) bool { return hs.byKey[h.key] == h }

// record puts a subscription into the state that a restart reads. The caller
// holds hs.mu.
func (hs *hooks) record(h *hook, expires time.Time) {
	if hs.state == nil || h.direct || h.older() {
		return
	}
	lost := "ttl-long-grant-retained"
	if expires.IsZero() {
		lost = "ttl-no-expiry-persisted"
	}
	if hs.breach.Breaks(lost) {
		return
	}
	r := h.kept
	r.Expires = expires
	h.mu.Lock()
	for _, s := range h.secrets {
		r.Secrets = append(r.Secrets, state.Secret{Text: s.text, Until: s.until})
	}
	h.mu.Unlock()
	hs.state.SetSubscription(h.id, r)
}

// openHooks lists the open subscriptions that match.
func (hs *hooks) openHooks(match func(*hook) bool) []*hook {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	var open []*hook
	for _, h := range hs.byKey {
		if h.isOpen() && match(h) {
			open = append(open, h)
		}
	}
	return open
}

// grant sets the expiry of h and schedules it.
func (hs *hooks) grant(h *hook, expires time.Time) {
	h.mu.Lock()
	h.expires = expires
	h.mu.Unlock()
	if expires.IsZero() {
		return
	}
	at := expires
	if hs.expireAfter > 0 {
		at = time.Now().Add(hs.expireAfter)
	}
	hs.agenda.at(at, func() {
		over := func() bool { // not refreshed since
			h.mu.Lock()
			defer h.mu.Unlock()
			return h.expires.Equal(expires)
		}
		if hs.removeIf(h, over, nil) {
			hs.counts.Expired.Add(1)
		}
	})
}

// dropLater schedules the end of a subscription whose deliveries fail since
// then, unless one succeeds before. One with an expiry ends at that instead.
func (hs *hooks) dropLater(h *hook, since, from time.Time) {
	if hs.opts.DropAfter == 0 || h.of != nil {
		return
	}
	hs.agenda.at(from.Add(hs.opts.DropAfter), func() {
		h.mu.Lock()
		fails := h.source != nil && h.status.failedSince.Equal(since)
		forever, why := h.expires.IsZero(), h.status.lastError
		h.mu.Unlock()
		switch {
		case fails && forever:
			hs.dropped(h, callbackError(why))
		case fails: // a refresh may take its expiry away
			hs.dropLater(h, since, time.Now())
		}
	})
}

func (hs *hooks) count() int {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	return len(hs.byKey)
}

// close stops all deliveries. Nothing is delivered after it returns.
func (hs *hooks) close() {
	hs.pool.close(hs.cancel)
	hs.poster.close()
}

func (h *hook) isOpen() bool {
	select {
	case <-h.opened:
		return h.failed == nil
	default:
		return false
	}
}

// Smithery's triggers: the same event types, by webhook only, with their own
// method names and negotiation. Their subscription is a direct hook, so that
// skipped events are a silent loss.
const (
	smitheryPrefix    = "ai.smithery/events/"
	smitheryExtension = "ai.smithery/events"
)

func (c *call) smithery() bool { return strings.HasPrefix(c.method, smitheryPrefix) }

// makeDirect turns a new hook into one of Smithery's. Its key differs from that
// of an MCP Events hook, and its id is new with each subscription, because the
// id shows whether a subscription still existed.
func (h *hook) makeDirect() {
	h.direct = true
	h.key = smitheryExtension + "\x00" + h.key
	h.id = idOf(h.key)
	if h.hooks.opts.FreshIDs {
		h.id = idOf(crand.Text())
	}
}

// system names the system that a subscription belongs to.
func (h *hook) system() string {
	if h.direct {
		return "smithery"
	}
	return "events"
}

// trials are the recent attempts of a subscription, which decide whether its
// deliveries are suspended.
type trials struct {
	since         time.Time
	count, failed int
	suspended     bool
}

// tried counts an attempt, and suspends deliveries when nearly all of at least
// after attempts failed.
func (t *trials) tried(now time.Time, ok bool, after int) {
	if now.Sub(t.since) > trialWindow {
		t.since, t.count, t.failed = now, 0, 0
	}
	t.count++
	if ok {
		return
	}
	t.failed++
	if after > 0 && t.count >= after && t.failed*100 > t.count*95 {
		t.suspended = true
	}
}

// trialWindow and the share of failures are the values that reviewers of the
// draft named.
const trialWindow = time.Hour

// resume ends a suspension, as a refresh does. The caller holds the lock.
func (h *hook) resume() {
	if h.status.suspended {
		h.status.trials = trials{}
	}
}
