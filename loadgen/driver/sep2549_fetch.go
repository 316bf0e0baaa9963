package driver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
	"time"
	"unsafe"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/budget"
	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/sinks"
)

// cursorError is why a page could not be fetched whose cursor the server no
// longer takes.
type cursorError struct{ *callError }

// Unwrap gives the error of the call.
func (e cursorError) Unwrap() error { return e.callError }

// read goes through all pages of the list, each from its copy or fetched. When
// a cursor fails, every copy is discarded and the list is read anew, once.
func (d *listLane) read(c *listClient, cause eventmeter.Cause) ([]*keptPage, error) {
	for again := false; ; again = true {
		pages, err := d.walk(c, cause)
		var failed cursorError
		if again || !errors.As(err, &failed) {
			return pages, err
		}
		d.tally.cursorFailures.Add(1)
		c.cache.discard(c.who.index)
	}
}

func (d *listLane) walk(c *listClient, cause eventmeter.Cause) ([]*keptPage, error) {
	pages := make([]*keptPage, 0, 4)
	size := 0
	for key := ""; ; {
		p, err := d.page(c, key, cause)
		if err != nil {
			return nil, err
		}
		pages = append(pages, p)
		if size += p.size; size > maxListBytes {
			err := &callError{method: d.method, kind: kindOversized, cause: errList}
			d.tooLarge(d.clock.Now(), err)
			return nil, err
		}
		if p.next == "" {
			c.cache.trim(c.who.index, pages)
			return pages, nil
		}
		if p.next == key || len(pages) >= maxPages {
			return nil, &callError{method: d.method, kind: kindProtocol, message: errtext.Of(fmt.Sprintf("the pages do not end (%d so far)", len(pages)))}
		}
		key = p.next
	}
}

// page returns one page, from its copy if that may be used.
func (d *listLane) page(c *listClient, key string, cause eventmeter.Cause) (*keptPage, error) {
	d.tally.reads.Add(1)
	for {
		kept, state := c.cache.look(c.who.index, key, d.clock.Now())
		if state == fresh {
			d.tally.avoided.Add(1)
			return kept, nil
		}
		f, first := c.cache.join(c.who.index, key)
		var p *keptPage
		var err error
		if first {
			p, err = d.fetch(c.ctx, c.cache, c.who, f, kept, state, cause, false)
		} else {
			select {
			case <-f.done:
				p, err = f.page, f.err
			case <-c.ctx.Done():
				d.tally.waited.Add(1)
				return nil, c.ctx.Err()
			}
			switch {
			case err == nil && !p.public && f.principal != c.who.index:
				continue // it is another principal's, and not for us
			case errors.Is(err, context.Canceled) && c.ctx.Err() == nil:
				continue // who was at it has left
			}
			d.tally.waited.Add(1)
		}
		var failed cursorError
		switch {
		case err == nil:
			return p, nil
		case kept == nil || !d.set.StaleOnError || c.ctx.Err() != nil || errors.As(err, &failed):
			return nil, err
		}
		d.tally.servedStale.Add(1)
		return kept, nil
	}
}

// fetch asks for one page and ends the flight with what came.
func (d *listLane) fetch(ctx context.Context, cache *listCache, who *principal, f *flight, kept *keptPage, why freshness, cause eventmeter.Cause, background bool) (*keptPage, error) {
	began := d.clock.Now()
	d.tally.fetched(began, why, background)
	p, received, err := d.ask(ctx, who, f.key.key, kept, cause)
	if err != nil && ctx.Err() == nil {
		d.tally.fetchesFailed.Add(1)
		var ce *callError
		if f.key.key != "" && errors.As(err, &ce) && ce.hasCode && !ce.throttled() {
			err = cursorError{ce}
		}
	}
	cache.land(f, began, received, p, err)
	return p, err
}

// ask makes the request. cause is what an answer without anything new counts as.
func (d *listLane) ask(ctx context.Context, who *principal, key string, kept *keptPage, cause eventmeter.Cause) (*keptPage, eventmeter.Instant, error) {
	agreed, err := who.agree(ctx, d.observe)
	if err != nil {
		return nil, 0, err
	}
	o := wire.BeginObject(nil)
	if d.want == "" {
		o.String("uri", d.set.URI)
	} else if key != "" {
		o.String("cursor", key)
	}
	body := d.build(d.method, &o, agreed, nil)
	ctx, cancel := context.WithTimeout(ctx, d.opts.Timeout)
	defer cancel()
	a := d.call(ctx, d.method, d.header(agreed, d.method), body)
	defer a.release()
	attaching := cause == eventmeter.Subscribe || cause == eventmeter.Retry
	var c wire.Cacheable
	if a.err == nil && !wire.ScanCacheable(*a.buf, &c) {
		a.err = &callError{method: d.method, kind: kindProtocol, message: "the answer is not a JSON object"}
	}
	if a.err != nil {
		failure := a.err
		if errors.Is(ctx.Err(), context.Canceled) { // given up by us: no failure of the target's
			a.err = nil
		}
		d.called(cause, d.method, a, !attaching)
		if agreed.session != "" && failure.forgotten() {
			who.forget(agreed)
			return nil, 0, &callError{method: d.method, status: a.status, kind: "session lost"}
		}
		return nil, 0, failure
	}
	p := &keptPage{key: key, stamps: stampsIn(*a.buf), public: c.Public, ttl: c.TTL, number: d.number(), size: len(*a.buf)}
	if err := p.fits(c.NextCursor, d.budget); err != nil {
		d.tooLarge(a.at, err)
		a.err = &callError{method: d.method, kind: kindOversized, cause: err}
		d.called(cause, d.method, a, !attaching)
		return nil, 0, a.err
	}
	if c.Interim || !c.HasTTL {
		p.ttl = 0
	}
	d.tally.ttl.Store(int64(p.ttl))
	if !p.public {
		d.tally.privatePages.Add(1)
	}
	if !attaching && brings(p, kept) {
		cause = eventmeter.Events
	}
	d.called(cause, d.method, a, !attaching)
	return p, a.at, nil
}

// fits bounds what is kept of a page, and has the budget pay for it until the
// page is collected as garbage.
func (p *keptPage) fits(next []byte, b *budget.Budget) error {
	switch {
	case len(next) > maxCursor:
		return errCursor
	case len(p.stamps) > maxPageStamps:
		return errStamps
	}
	p.next, p.stamps = string(next), slices.Clip(p.stamps)
	hold := budget.Of(b)
	if err := hold.Resize(len(p.next) + len(p.stamps)*int(unsafe.Sizeof(eventmeter.Stamp{}))); err != nil {
		return err
	}
	if hold.Held() {
		runtime.AddCleanup(p, func(h *budget.Hold) { h.Drop() }, &hold)
	}
	return nil
}

// brings tells whether a page shows a change that the copy before it did not.
func brings(p, kept *keptPage) bool {
	before := map[uint64]uint32{}
	if kept != nil {
		for _, s := range kept.stamps {
			before[sourceKey(s.Run, s.Source)] = s.Seq
		}
	}
	for _, s := range p.stamps {
		if s.Seq > before[sourceKey(s.Run, s.Source)] {
			return true
		}
	}
	return false
}

func (d *listLane) number() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pages++
	return d.pages
}

// build closes params and makes a request of them; id, if not nil, is told its id.
func (d *listLane) build(method string, o *wire.Object, a *agreement, id *uint64) []byte {
	if a.meta != nil {
		o.Raw("_meta", a.meta)
	}
	n := d.ep.id()
	if id != nil {
		*id = n
	}
	return wire.AppendRequest(nil, n, method, o.End())
}

// header returns the header fields of a method. They are made once per
// agreement and shared.
func (d *listLane) header(a *agreement, method string) http.Header {
	d.mu.Lock()
	defer d.mu.Unlock()
	k := listHeader{a, method}
	h := d.headers[k]
	if h == nil {
		h = a.headers[methodList].Clone()
		if a.era == Modern {
			h.Set(headerMethod, method)
			if method == "resources/read" {
				h.Set(headerName, headerText(d.set.URI))
			}
		}
		d.headers[k] = h
	}
	return h
}

// called reports an exchange. ongoing says that it belongs to using the list,
// not to beginning with it.
func (d *listLane) called(cause eventmeter.Cause, method string, a *answer, ongoing bool) {
	if ongoing {
		d.tally.bytes.Add(a.up + a.down)
	}
	d.tally.mu.Lock()
	d.tally.fetch.add(a.took)
	d.tally.mu.Unlock()
	d.rec.Called(eventmeter.Call{
		Lane: d.opts.Lane, Cause: cause, At: a.at, Requests: 1, Up: a.up, Down: a.down,
		Connections: d.traffic.TakeOpened(), Took: a.took, Method: method, Failure: a.err.failure(),
	})
}

// observe reports handshakes as the lane's traffic.
func (d *listLane) observe(c eventmeter.Call) {
	c.Lane, c.At = d.opts.Lane, d.clock.Now()
	d.rec.Called(c)
}

func (d *listLane) backoff(r *rand.Rand) sinks.Backoff {
	return sinks.Backoff{Min: d.opts.Poll.BackoffMin, Max: d.opts.Poll.BackoffMax, Rand: r}
}

// refreshAll fetches copies anew in the background, each a random while before
// it is stale, until ctx is over.
func (d *listLane) refreshAll(ctx context.Context, cache *listCache, who *principal) {
	backoff := d.backoff(nil)
	t := time.NewTimer(time.Hour)
	defer t.Stop()
	for {
		p, wait := cache.due(who.index, d.clock.Now())
		if p == nil {
			wait = time.Hour
		}
		if p == nil || wait > 0 {
			t.Reset(wait)
			select {
			case <-ctx.Done():
				return
			case <-cache.wake:
			case <-t.C:
			}
			continue
		}
		cache.postpone(p, 0)
		f, first := cache.join(who.index, p.key)
		if !first {
			continue // somebody needs it right now, and fetches it
		}
		why := expired
		if _, state := cache.look(who.index, p.key, d.clock.Now()); state == changed {
			why = changed
		}
		_, err := d.fetch(ctx, cache, who, f, p, why, eventmeter.Refresh, true)
		var failed cursorError
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			backoff.Reset()
		case errors.As(err, &failed):
			d.tally.cursorFailures.Add(1)
			cache.discard(who.index)
		default:
			var ce *callError
			var least time.Duration
			if errors.As(err, &ce) {
				least = ce.retryAfter
			}
			cache.postpone(p, d.clock.Now().Add(backoff.Next(least)))
		}
	}
}

// names tells whether a raw message names the resource.
func names(data []byte, uri string) bool { return bytes.Contains(data, wire.AppendString(nil, uri)) }
