package refserver

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter/internal/refserver/faults"
)

// hooks are the webhook subscriptions and what delivers to them.
type hooks struct {
	inFlight, window int
	retryMax         int
	expireAfter      time.Duration // a fault: 0 = as granted
	suspendAfter     int
	retryBase        time.Duration

	pool   *pool[*hook]
	agenda *agenda
	poster *poster
	counts *counters
	limit  *capacity
	ctx    context.Context // ends the attempts in flight
	cancel context.CancelFunc
	// released is called once for each subscription that is no more.
	released func()

	mu    sync.Mutex
	byKey map[string]*hook
}

func newHooks(opts Options, counts *counters, limit *capacity, released func()) (*hooks, error) {
	p, err := newPoster(opts)
	if err != nil {
		return nil, err
	}
	h := &hooks{
		inFlight: opts.InFlight, window: opts.Window, retryMax: opts.RetryMax, suspendAfter: opts.SuspendAfter, retryBase: opts.RetryBase,
		agenda: newAgenda(), poster: p, counts: counts, limit: limit, released: released,
		byKey: make(map[string]*hook),
	}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.pool = newPool(opts.Senders, h.attempt)
	return h, nil
}

// attempt makes one attempt for a hook that gave up a token for it, and gives
// the token back or puts it to the end of the queue again.
func (hs *hooks) attempt(h *hook) {
	d, m := h.next()
	if d == nil {
		// What came between the look and the return of the token found no
		// token free: look again.
		h.tokens.Add(-1)
		if h.ready() {
			h.wake()
		}
		return
	}
	if h.ready() {
		h.wake() // a backlog: more attempts side by side
	}
	if d.event != nil {
		hs.limit.take(hs.ctx, nil, 1) // when it ends, so does the attempt
	}
	hs.counts.attempts.Add(1)
	if d.attempts > 0 {
		hs.counts.retries.Add(1)
	}
	if d.event != nil {
		m.misfire(d.event.fault, d.attempts)
	}
	status, _, failure := hs.poster.post(hs.ctx, m)
	if failure == "" && d.event != nil && d.event.fault != nil && d.event.fault.Kind == faults.Repeat {
		hs.poster.post(hs.ctx, m) // whatever becomes of it
	}
	switch {
	case failure != "":
		hs.counts.failures.Add(1)
	case d.event != nil:
		hs.counts.posted.Add(1)
	}
	if wait, again := h.settle(d, status, failure); again {
		hs.agenda.at(time.Now().Add(wait), func() { h.retry(d) })
	}
	hs.pool.push(h) // keeps its token
}

// backoff is the wait before the nth retry: it doubles from the base, and the
// upper half of it is random.
func (hs *hooks) backoff(n int) time.Duration {
	d := hs.retryBase << min(n-1, 20)
	return d/2 + rand.N(d/2+1)
}

// claim finds the subscription of a key, or makes one that is yet to be opened.
func (hs *hooks) claim(fresh *hook) (h *hook, made bool) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if h := hs.byKey[fresh.key]; h != nil {
		return h, false
	}
	hs.byKey[fresh.key] = fresh
	return fresh, true
}

func (hs *hooks) find(key string) *hook {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	return hs.byKey[key]
}

// remove ends a subscription, with a last envelope if one is given. It reports
// false when the subscription was not there any more.
func (hs *hooks) remove(h *hook, last *delivery) bool {
	hs.mu.Lock()
	there := hs.byKey[h.key] == h
	if there {
		delete(hs.byKey, h.key)
	}
	hs.mu.Unlock()
	if there {
		h.end(last)
		hs.released()
	}
	return there
}

// lives reports, under the store's lock, whether h is still the subscription
// of its key.
func (hs *hooks) lives(h *hook) bool { return hs.byKey[h.key] == h }

// of lists a principal's open subscriptions.
func (hs *hooks) of(principal string) []*hook {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	var mine []*hook
	for _, h := range hs.byKey {
		if h.principal == principal && h.isOpen() {
			mine = append(mine, h)
		}
	}
	return mine
}

// grant sets when h ends and puts that on the agenda.
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
		h.mu.Lock()
		over := h.expires.Equal(expires) // not refreshed since
		h.mu.Unlock()
		if over && hs.remove(h, nil) {
			hs.counts.expired.Add(1)
		}
	})
}

func (hs *hooks) count() int {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	return len(hs.byKey)
}

// close stops everything. Nothing is delivered after it returned.
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
