package sep2549

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/wire"
)

// keptPage is one page of a list, or the content of a resource, as it was received. Only
// the fields that the cache's lock guards change.
type keptPage struct {
	key    string // the cursor it was fetched with; "" = the first page
	next   string // the cursor of the next page; "" = it is the last
	stamps []eventmeter.Stamp
	order  wire.Order // of its entries
	size   int        // of the answer, in bytes
	public bool
	ttl    time.Duration // as the server said
	number uint64        // unique in the lane
	// after is when a notification made the former copy stale; 0 = none did.
	after eventmeter.Instant

	// Guarded by the cache's lock.
	until     eventmeter.Instant // until when it is fresh
	stale     eventmeter.Instant // when a notification made it stale; 0 = none did
	refreshAt eventmeter.Instant // when to refresh it in the background; 0 = never
	used      bool               // since it was received
}

// freshness is the state of a page in a cache.
type freshness uint8

const (
	missing freshness = iota
	fresh
	expired
	changed  // a notification made it stale
	uncached // it must not be kept
)

// cache has the copies of one client, or of all clients of a lane. Each page has its own
// copy. A page that is not public is kept for one principal and never used by another. A
// cache is safe for concurrent use.
type cache struct {
	clock      *eventmeter.Clock
	off        bool // nothing is ever fresh
	jitter     float64
	background bool
	wake       chan struct{} // wakes refreshAll

	mu      sync.Mutex
	rand    *rand.Rand
	public  map[string]*keptPage
	private map[int]map[string]*keptPage // by principal
	flights map[flightKey]*flight
	// owned are the pages that were private when they last came. Principals do not wait
	// for each other's fetches of them.
	owned map[string]bool
	// changedAt is when a notification last came for public pages, changesFor for the
	// pages of a principal.
	changedAt  eventmeter.Instant
	changesFor map[int]eventmeter.Instant
}

// flightKey identifies a fetch in progress: of one principal, or, with anyone, of whichever
// asked first.
type flightKey struct {
	principal int
	key       string
}

const anyone = -1

// flight is a fetch in progress, for which others may wait.
type flight struct {
	key       flightKey
	principal int
	done      chan struct{}
	page      *keptPage
	err       error
}

func newCache(clock *eventmeter.Clock, set Settings, r *rand.Rand) *cache {
	return &cache{
		clock: clock, off: !set.Cache, jitter: set.Jitter, background: set.Background,
		wake: make(chan struct{}, 1), rand: r,
		public: map[string]*keptPage{}, private: map[int]map[string]*keptPage{},
		flights: map[flightKey]*flight{}, owned: map[string]bool{}, changesFor: map[int]eventmeter.Instant{},
	}
}

// find returns the copy that a principal may use, nil if there is none. The caller holds
// the lock.
func (c *cache) find(principal int, key string) *keptPage {
	if p := c.private[principal][key]; p != nil {
		return p
	}
	return c.public[key]
}

// look returns the copy of a page, nil if there is none, and its state at now.
func (c *cache) look(principal int, key string, now eventmeter.Instant) (*keptPage, freshness) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.find(principal, key)
	if p == nil {
		return nil, missing
	}
	p.used = true
	switch {
	case c.off || p.ttl <= 0:
		return p, uncached
	case p.stale != 0:
		return p, changed
	case now < p.until:
		return p, fresh
	}
	return p, expired
}

// join returns the fetch of a page. If first is true, the caller must make the fetch;
// otherwise it may wait for it.
func (c *cache) join(principal int, key string) (f *flight, first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := flightKey{anyone, key}
	if c.owned[key] {
		k.principal = principal
	}
	if f := c.flights[k]; f != nil {
		return f, false
	}
	f = &flight{key: k, principal: principal, done: make(chan struct{})}
	c.flights[k] = f
	return f, true
}

// land ends a fetch that was begun at began, and keeps its page.
func (c *cache) land(f *flight, began, received eventmeter.Instant, p *keptPage, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.flights, f.key)
	f.page, f.err = p, err
	close(f.done)
	if err == nil {
		c.put(f.principal, began, received, p)
	}
}

// put keeps a page. The caller holds the lock.
func (c *cache) put(principal int, began, received eventmeter.Instant, p *keptPage) {
	if old := c.find(principal, p.key); old != nil {
		p.after = old.stale
	}
	told := c.changesFor[principal]
	if p.public {
		told = c.changedAt
		delete(c.private[principal], p.key)
		c.public[p.key] = p
	} else {
		if c.private[principal] == nil {
			c.private[principal] = map[string]*keptPage{}
		}
		delete(c.public, p.key)
		c.private[principal][p.key] = p
	}
	c.owned[p.key] = !p.public
	ttl := max(p.ttl, 0)
	p.until = later(received, ttl)
	if told >= began && told != 0 { // the answer may be older than the change
		p.stale = told
	}
	if c.off || ttl == 0 {
		return
	}
	early := time.Duration(c.rand.Float64() * c.jitter * float64(ttl))
	if !c.background {
		p.until -= eventmeter.Instant(early)
		return
	}
	p.refreshAt = p.until - eventmeter.Instant(early)
	c.nudge()
}

// later returns at plus d, the largest Instant if that overflows.
func later(at eventmeter.Instant, d time.Duration) eventmeter.Instant {
	if sum := at.Add(d); sum >= at {
		return sum
	}
	return eventmeter.Instant(1<<63 - 1)
}

func (c *cache) nudge() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// invalidate makes the copies of a principal stale, and with public also the public ones,
// because a notification came or may have been missed.
func (c *cache) invalidate(principal int, public bool, at eventmeter.Instant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	invalidate := func(pages map[string]*keptPage) {
		for _, p := range pages {
			if p.stale != 0 {
				continue
			}
			p.stale = at
			if c.background && p.used && !c.off && p.ttl > 0 {
				p.refreshAt = at + eventmeter.Instant(c.rand.Float64()*c.jitter*float64(p.ttl))
			}
		}
	}
	c.changesFor[principal] = at
	invalidate(c.private[principal])
	if public {
		c.changedAt = at
		invalidate(c.public)
	}
	c.nudge()
}

// discard removes every page that a principal may use, because a cursor failed.
func (c *cache) discard(principal int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.private, principal)
	clear(c.public)
}

// trim removes pages that no cursor leads to any more. walked are the pages of the last use.
func (c *cache) trim(principal int, walked []*keptPage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.public)+len(c.private[principal]) <= 2*len(walked)+8 {
		return
	}
	for _, pages := range []map[string]*keptPage{c.public, c.private[principal]} {
		for key := range pages {
			if !slices.ContainsFunc(walked, func(p *keptPage) bool { return p.key == key }) {
				delete(pages, key)
				if c.private[principal][key] == nil && c.public[key] == nil {
					delete(c.owned, key)
				}
			}
		}
	}
}

// due returns the page whose background refresh is next, nil if there is none, and how long
// to wait for it. A page that was not used since it came is not refreshed.
func (c *cache) due(principal int, now eventmeter.Instant) (*keptPage, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var next *keptPage
	for _, pages := range []map[string]*keptPage{c.public, c.private[principal]} {
		for _, p := range pages {
			if p.refreshAt == 0 || next != nil && p.refreshAt >= next.refreshAt {
				continue
			}
			if p.refreshAt <= now && !p.used {
				p.refreshAt = 0
				continue
			}
			next = p
		}
	}
	if next == nil {
		return nil, 0
	}
	return next, max(next.refreshAt.Sub(now), 0)
}

// postpone sets the time of the next background refresh of a page; 0 = none. It is called
// when a refresh begins and when it fails.
func (c *cache) postpone(p *keptPage, until eventmeter.Instant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p.refreshAt = until
}
