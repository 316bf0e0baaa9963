package sep2549

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter"
)

// keptPage is one page of a list, or the content of a resource, as it was
// received. It does not change, but for what a cache keeps under its lock.
type keptPage struct {
	key    string // the cursor it was fetched with; "" = the first
	next   string // the cursor of the page that follows; "" = it is the last
	stamps []eventmeter.Stamp
	size   int // of the answer, in bytes
	public bool
	ttl    time.Duration // as the server said
	number uint64        // no other page of the lane has it
	// after is when a notification made the copy stale that this one replaced;
	// 0 = none did.
	after eventmeter.Instant

	// Under the cache's lock.
	until     eventmeter.Instant // fresh before that
	stale     eventmeter.Instant // when a notification made it stale; 0 = none did
	refreshAt eventmeter.Instant // when to fetch it anew in the background; 0 = not at all
	used      bool               // since it was received
}

// freshness is what a cache says about a page.
type freshness uint8

const (
	missing freshness = iota
	fresh
	expired
	changed  // a notification made it stale
	uncached // nobody was ever to keep it
)

// cache is what one client keeps, or all clients of a lane together. Each
// page is kept on its own. What is not public is kept for one principal and
// never shown to another. It is safe for concurrent use.
type cache struct {
	clock      *eventmeter.Clock
	off        bool // nothing is ever fresh
	jitter     float64
	background bool
	wake       chan struct{} // for who refreshes in the background

	mu      sync.Mutex
	rand    *rand.Rand
	public  map[string]*keptPage
	private map[int]map[string]*keptPage // by principal
	flights map[flightKey]*flight
	// owned are the pages that were private when they came last: principals do
	// not wait for each other's.
	owned map[string]bool
	// When a notification last came, for public pages and those of a principal.
	changedAt  eventmeter.Instant
	changesFor map[int]eventmeter.Instant
}

// flightKey is a fetch under way: of whoever asked first, or of one principal.
type flightKey struct {
	principal int
	key       string
}

const anyone = -1

// flight is a fetch that others wait for.
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

// find returns the copy that a principal may see, nil if there is none; the
// caller holds the lock.
func (c *cache) find(principal int, key string) *keptPage {
	if p := c.private[principal][key]; p != nil {
		return p
	}
	return c.public[key]
}

// look returns the copy of a page and whether it may be used at now.
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

// join takes part in the fetch of a page: the first who asks makes it, and the
// others wait for it.
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

// land ends a fetch that was begun at that instant, and keeps what it brought.
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

// put keeps a page; the caller holds the lock.
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

// later is at plus d, or the end of time.
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

// invalidate makes the copies of a principal stale, and with public those of
// everybody: a notification came, or may have been missed.
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

// discard forgets every page that a principal could see, since a cursor failed.
func (c *cache) discard(principal int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.private, principal)
	clear(c.public)
}

// trim forgets pages that no cursor leads to any more. walked are those that a
// use has just gone through.
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

// due returns the page whose background refresh is next and how long it is
// until then; nil if there is none. A page that nobody has used since it came
// is left to be fetched when somebody does.
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

// postpone puts a background refresh off that failed, or that is being made.
func (c *cache) postpone(p *keptPage, until eventmeter.Instant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p.refreshAt = until
}
