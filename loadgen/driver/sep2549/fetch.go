package sep2549

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"
	"unsafe"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/budget"
	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
)

// cursorError is the error of a page whose cursor the server refuses.
type cursorError struct{ *mcpclient.CallError }

// Unwrap returns the error of the call.
func (e cursorError) Unwrap() error { return e.CallError }

// read returns all pages of the list, each from its copy or fetched. If the server refuses a
// cursor, read discards every copy and reads the list again, once.
func (d *lane) read(c *client, cause eventmeter.Cause) ([]*keptPage, error) {
	for again := false; ; again = true {
		pages, err := d.walk(c, cause)
		var failed cursorError
		if again || !errors.As(err, &failed) {
			return pages, err
		}
		d.tally.cursorFailures.Add(1)
		c.cache.discard(c.who.Index)
	}
}

func (d *lane) walk(c *client, cause eventmeter.Cause) ([]*keptPage, error) {
	pages := make([]*keptPage, 0, 4)
	size := 0
	for key := ""; ; {
		p, err := d.page(c, key, cause)
		if err != nil {
			return nil, err
		}
		pages = append(pages, p)
		if size += p.size; size > mcpclient.MaxListBytes {
			err := &mcpclient.CallError{Method: d.list.Read, Kind: mcpclient.KindOversized, Cause: mcpclient.ErrList}
			d.TooLarge(d.Clock.Now(), err)
			return nil, err
		}
		if p.next == "" {
			c.cache.trim(c.who.Index, pages)
			if slices.ContainsFunc(pages, func(o *keptPage) bool { return o.public != p.public }) {
				d.tally.scopesMixed.Add(1)
			}
			return pages, nil
		}
		if p.next == key || len(pages) >= mcpclient.MaxPages {
			return nil, &mcpclient.CallError{
				Method:  d.list.Read,
				Kind:    mcpclient.KindProtocol,
				Message: errtext.Of(fmt.Sprintf("the pages do not end (%d so far)", len(pages))),
			}
		}
		key = p.next
	}
}

// page returns one page, from its copy if that may be used.
func (d *lane) page(c *client, key string, cause eventmeter.Cause) (*keptPage, error) {
	d.tally.reads.Add(1)
	for {
		kept, state := c.cache.look(c.who.Index, key, d.Clock.Now())
		if state == fresh {
			d.tally.avoided.Add(1)
			return kept, nil
		}
		f, first := c.cache.join(c.who.Index, key)
		var p *keptPage
		var err error
		if first {
			p, err = d.fetch(c.Ctx(), c.cache, c.who, f, kept, state, cause, false)
		} else {
			select {
			case <-f.done:
				p, err = f.page, f.err
			case <-c.Ctx().Done():
				d.tally.waited.Add(1)
				return nil, c.Ctx().Err()
			}
			switch {
			case err == nil && !p.public && f.principal != c.who.Index:
				continue // the page is private to another principal
			case errors.Is(err, context.Canceled) && c.Ctx().Err() == nil:
				continue // the client that fetched the page has left
			}
			d.tally.waited.Add(1)
		}
		var failed cursorError
		switch {
		case err == nil:
			return p, nil
		case kept == nil || !d.set.StaleOnError || c.Ctx().Err() != nil || errors.As(err, &failed):
			return nil, err
		}
		d.tally.servedStale.Add(1)
		return kept, nil
	}
}

// fetch fetches one page and ends the flight with the page or the error.
func (d *lane) fetch(
	ctx context.Context,
	cache *cache,
	who *mcpclient.Principal,
	f *flight,
	kept *keptPage,
	why freshness,
	cause eventmeter.Cause,
	background bool,
) (*keptPage, error) {
	began := d.Clock.Now()
	d.tally.fetched(began, why, background)
	p, received, err := d.ask(ctx, who, f.key.key, kept, cause)
	if err != nil && ctx.Err() == nil {
		d.tally.fetchesFailed.Add(1)
		var ce *mcpclient.CallError
		if f.key.key != "" && errors.As(err, &ce) && ce.HasCode && !ce.Throttled() {
			err = cursorError{ce}
		}
	}
	cache.land(f, began, received, p, err)
	return p, err
}

// ask requests a page, and returns when the answer was read. cause is the cause of an answer
// without a new change.
func (d *lane) ask(
	ctx context.Context,
	who *mcpclient.Principal,
	key string,
	kept *keptPage,
	cause eventmeter.Cause,
) (*keptPage, eventmeter.Instant, error) {
	session, err := who.Session(ctx, d.Observe)
	if err != nil {
		return nil, 0, err
	}
	o := wire.BeginObject(nil)
	if d.list.Want == "" {
		o.String("uri", d.set.URI)
	} else if key != "" {
		o.String("cursor", key)
	}
	a := d.Ask(ctx, session, d.list.Read, d.named, o)
	defer a.Release()
	attaching := cause == eventmeter.Subscribe || cause == eventmeter.Retry
	var c wire.Cacheable
	if a.Err == nil && !wire.ScanCacheable(*a.Buf, &c) {
		a.Err = &mcpclient.CallError{Method: d.list.Read, Kind: mcpclient.KindProtocol, Message: "the answer is not a JSON object"}
	}
	if a.Err != nil {
		failure := a.Err
		if errors.Is(ctx.Err(), context.Canceled) { // this side gave it up: the target did not fail
			a.Err = nil
		}
		d.called(cause, d.list.Read, a, !attaching)
		return nil, 0, who.Refusal(session, failure)
	}
	p := &keptPage{key: key, stamps: driver.StampsIn(*a.Buf), order: c.Order, public: c.Public, ttl: c.TTL, number: d.number()}
	p.size = len(*a.Buf)
	if err := p.fits(c.NextCursor, d.Budget); err != nil {
		d.TooLarge(a.At, err)
		a.Err = &mcpclient.CallError{Method: d.list.Read, Kind: mcpclient.KindOversized, Cause: err}
		d.called(cause, d.list.Read, a, !attaching)
		return nil, 0, a.Err
	}
	if c.Interim || !c.HasTTL {
		p.ttl = 0
	}
	if !c.HasTTL {
		d.tally.ttlMissing.Add(1)
	}
	d.tally.ttl.Store(int64(p.ttl))
	if !p.public {
		d.tally.privatePages.Add(1)
	}
	if !attaching && brings(p, kept) {
		cause = eventmeter.Events
	}
	d.called(cause, d.list.Read, a, !attaching)
	return p, a.At, nil
}

// Look implements [driver.Looker]. It leaves the copies as they are.
func (d *lane) Look() {
	c, key := d.First(), ""
	for range mcpclient.MaxPages {
		if c == nil {
			return
		}
		p, _, err := d.ask(c.Ctx(), c.who, key, nil, eventmeter.Subscribe)
		if err != nil {
			return
		}
		c.Mu.Lock()
		d.tally.shown.Add(int64(d.Shows(int(c.Sub.Index), p.stamps, func(s eventmeter.Stamp) bool {
			return s.Seq <= c.known[sourceKey(s.Run, s.Source)]
		})))
		c.Mu.Unlock()
		if p.next == "" || p.next == key {
			return
		}
		key = p.next
	}
}

// fits sets next and bounds the page's memory, which it charges to the budget until the page
// is garbage collected.
func (p *keptPage) fits(next []byte, b *budget.Budget) error {
	switch {
	case len(next) > mcpclient.MaxCursor:
		return mcpclient.ErrCursor
	case len(p.stamps) > mcpclient.MaxPageStamps:
		return mcpclient.ErrStamps
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

// brings reports whether a page shows a change that the former copy does not.
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

func (d *lane) number() uint64 {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	d.pages++
	return d.pages
}

// called reports an exchange. ongoing is false for the exchanges of attaching.
func (d *lane) called(cause eventmeter.Cause, method string, a *mcpclient.Answer, ongoing bool) {
	if ongoing {
		d.tally.bytes.Add(a.Up + a.Down)
	}
	d.tally.times.Took("fetch", a.Took)
	d.Called(cause, method, a)
}

// refreshAll refreshes copies in the background until ctx ends, each a random time before it
// becomes stale.
func (d *lane) refreshAll(ctx context.Context, cache *cache, who *mcpclient.Principal) {
	backoff := d.Backoff(nil)
	t := time.NewTimer(time.Hour)
	defer t.Stop()
	for {
		p, wait := cache.due(who.Index, d.Clock.Now())
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
		f, first := cache.join(who.Index, p.key)
		if !first {
			continue // a client is fetching it
		}
		why := expired
		if _, state := cache.look(who.Index, p.key, d.Clock.Now()); state == changed {
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
			cache.discard(who.Index)
		default:
			var ce *mcpclient.CallError
			var least time.Duration
			if errors.As(err, &ce) {
				least = ce.RetryAfter
			}
			cache.postpone(p, d.Clock.Now().Add(backoff.Next(least)))
		}
	}
}

// names reports whether a raw message contains the resource's URI.
func names(data []byte, uri string) bool { return bytes.Contains(data, wire.AppendString(nil, uri)) }
