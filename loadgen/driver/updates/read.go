package updates

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
)

// pendingRead is a read that is due: because of a notification, or because a
// stream was opened again and what changed meanwhile is unknown.
type pendingRead struct {
	due      bool
	notified bool
	at       eventmeter.Instant // of the first notification since the last read began
}

// begin reads what a client subscribed to for the first time, where it reads
// at all, and confirms the client.
func (c *client) begin(ctx context.Context) error {
	d := c.d
	var stamps []eventmeter.Stamp
	if d.set.Identify == IdentifyRead {
		backoff := d.StreamBackoff(nil)
		var err error
		if stamps, err = driver.RetryThrottled(ctx, &backoff, func(again bool) ([]eventmeter.Stamp, error) {
			cause := eventmeter.Subscribe
			if again {
				cause = eventmeter.Retry
			}
			found, _, err := d.read(c, cause)
			return found, err
		}); err != nil {
			return fmt.Errorf("the first read: %w", err)
		}
	}
	now := d.Clock.Now()
	c.Mu.Lock()
	c.since = now
	for _, s := range stamps { // what is there already is where it begins
		c.known[sourceKey(s)] = max(s.Seq, c.known[sourceKey(s)])
	}
	c.Mu.Unlock()
	c.Activate(now)
	c.Mu.Lock()
	defer c.Mu.Unlock()
	c.readDue() // a notification may have come since
	return nil
}

// notified takes a notification that what the client subscribed to has changed.
// It does not block.
func (c *client) notified(at eventmeter.Instant, size int, method string) {
	d := c.d
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if c.Over {
		return
	}
	d.tally.Count("updatesObserved", 1)
	if d.set.Identify == IdentifyNone {
		c.observed(at, size)
		return
	}
	d.overhead(at, size, method)
	if !c.pending.notified {
		c.pending = pendingRead{due: true, notified: true, at: at}
	}
	c.readDue()
}

// observed reports a notification as an update without a payload, and times it
// where the one emission is known that it stands for. The caller holds the lock.
func (c *client) observed(at eventmeter.Instant, size int) {
	d := c.d
	if c.since == 0 {
		return
	}
	if d.Opts.Sole != nil {
		if e, ok := d.Opts.Sole(c.Sub, at); ok {
			d.identified(e, at)
		}
	}
	d.Delivered(eventmeter.Delivery{Sub: c.Sub, Update: true, At: at, Bytes: size}, &wire.Fields{}, nil)
}

// identified times a notification that stands for one certain change.
func (d *lane) identified(e eventmeter.Emission, at eventmeter.Instant) {
	d.tally.Count("updatesIdentified", 1)
	if e.Measured {
		d.tally.Took("updateLatency", at.Sub(e.Intended))
		d.tally.Took("updateLatencySent", at.Sub(e.Fired))
	}
}

// reopened has the client read again: its stream was lost for a while.
func (c *client) reopened(at eventmeter.Instant) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if c.d.set.Identify == IdentifyNone {
		return
	}
	if !c.pending.due {
		c.pending = pendingRead{due: true, at: at}
	}
	c.readDue()
}

// readDue begins to read if that is due, unless a read is under way, which
// another one follows then. The caller holds the lock.
func (c *client) readDue() {
	if c.Over || c.since == 0 || c.reading || !c.pending.due {
		return
	}
	c.reading = true
	c.work.Go(crash.Guarded(c.readAgain))
}

// readAgain reads until no read is due any more.
func (c *client) readAgain() {
	d := c.d
	backoff := d.StreamBackoff(nil)
	for {
		c.Mu.Lock()
		why := c.pending
		c.pending = pendingRead{}
		if c.Over || !why.due {
			c.reading = false
			c.Mu.Unlock()
			return
		}
		c.Mu.Unlock()
		var at eventmeter.Instant
		stamps, err := driver.RetryThrottled(c.Ctx, &backoff, func(bool) (found []eventmeter.Stamp, err error) {
			found, at, err = d.read(c, eventmeter.EmptyPoll)
			return found, err
		})
		switch {
		case err == nil:
			c.learn(stamps, why, at)
		case c.Ctx.Err() == nil:
			d.Notice(c.Sub, eventmeter.TransientError, d.Clock.Now(), err.Error())
		}
	}
}

// read reads the resource, or all pages of the list, and returns the probes in it
// and when it was there. A cursor that fails, because the list has changed, has
// it read from the start once more.
func (d *lane) read(c *client, cause eventmeter.Cause) ([]eventmeter.Stamp, eventmeter.Instant, error) {
	d.tally.Count("reads", 1)
	for again := false; ; again = true {
		stamps, at, cursor, err := d.walk(c, cause)
		var failed *mcpclient.CallError
		if err != nil && !again && cursor != "" && errors.As(err, &failed) && failed.HasCode && !failed.Throttled() {
			continue
		}
		if err != nil && c.Ctx.Err() == nil {
			d.tally.Count("readsFailed", 1)
		}
		return stamps, at, err
	}
}

// walk reads all pages. cursor is that of the page at which it failed.
func (d *lane) walk(c *client, cause eventmeter.Cause) (all []eventmeter.Stamp, at eventmeter.Instant, cursor string, err error) {
	for range mcpclient.MaxPages {
		p, err := d.page(c, cause, cursor)
		if err != nil {
			return nil, 0, cursor, err
		}
		all, at = append(all, p.stamps...), p.at
		if c.uri != "" || p.next == "" {
			return all, at, "", nil
		}
		if p.next == cursor || len(all) > mcpclient.MaxListEntries {
			break
		}
		cursor = p.next
	}
	return nil, 0, "", &mcpclient.CallError{Method: d.list.read, Kind: mcpclient.KindProtocol, Message: "the pages do not end"}
}

// page is one page of a list, or the content of a resource.
type page struct {
	stamps []eventmeter.Stamp
	next   string
	at     eventmeter.Instant
}

func (d *lane) page(c *client, cause eventmeter.Cause, cursor string) (page, error) {
	method, o := d.list.read, wire.BeginObject(nil)
	if c.uri != "" {
		method = methodRead
		o.String("uri", c.uri)
	} else if cursor != "" {
		o.String("cursor", cursor)
	}
	a, err := d.send(c.Ctx, c, method, c.uri, o)
	if err != nil {
		return page{}, err
	}
	defer a.Release()
	var p page
	if a.Err == nil {
		var more wire.Cacheable
		wire.ScanCacheable(*a.Buf, &more)
		if len(more.NextCursor) > mcpclient.MaxCursor {
			a.Err = &mcpclient.CallError{Method: method, Kind: mcpclient.KindOversized, Cause: mcpclient.ErrCursor}
		}
		p = page{stamps: driver.StampsIn(*a.Buf), next: string(more.NextCursor), at: a.At}
	}
	failure := a.Err
	if c.Ctx.Err() != nil {
		a.Err = nil // given up by us: no failure of the server's
	}
	if cause == eventmeter.EmptyPoll && c.brings(p.stamps) {
		cause = eventmeter.Events
	}
	d.Called(cause, method, a)
	if failure != nil {
		return page{}, failure
	}
	return p, nil
}

// brings tells whether a page shows a change that the client does not know.
func (c *client) brings(stamps []eventmeter.Stamp) bool {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	return slices.ContainsFunc(stamps, func(s eventmeter.Stamp) bool { return s.Seq > c.known[sourceKey(s)] })
}

// learn reports what a read brought: of each source every change up to the newest
// whose probe is there.
func (c *client) learn(stamps []eventmeter.Stamp, why pendingRead, at eventmeter.Instant) {
	d := c.d
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if c.Over {
		return
	}
	learned, superseded := 0, 0
	var last eventmeter.Stamp
	for _, s := range stamps {
		key := sourceKey(s)
		before := c.known[key]
		if s.Seq <= before {
			continue
		}
		c.known[key] = s.Seq
		if !d.Receives(int(c.Sub.Index), s.Source) {
			continue
		}
		for change := range driver.ChangesUpTo(d.Opts.Published, before, s, c.since) {
			d.Recorder.Delivered(eventmeter.Delivery{Sub: c.Sub, Stamp: change, Probed: true, At: at})
			learned++
			if change.Seq < s.Seq {
				superseded++
			}
			last = change
		}
	}
	d.tally.Count("changesSuperseded", float64(superseded))
	switch {
	case !why.notified:
	case learned == 0:
		d.tally.Count("readsUnchanged", 1)
	case learned == 1 && d.Opts.Published != nil:
		if e, _, ok := d.Opts.Published.Emission(last); ok && e.Fired <= why.at {
			d.identified(e, why.at)
		}
	}
}

func sourceKey(s eventmeter.Stamp) uint64 { return uint64(s.Run)<<16 | uint64(s.Source) }
