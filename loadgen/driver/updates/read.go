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

// begin makes the client's first read, if updates.identify is read, and confirms the
// client.
func (c *client) begin(ctx context.Context) error {
	d := c.d
	var first content
	if d.set.Identify == IdentifyRead {
		backoff := d.Backoff(nil)
		var err error
		if first, err = driver.RetryThrottled(ctx, &backoff, func(cause eventmeter.Cause) (content, error) {
			return d.read(c, cause)
		}); err != nil {
			return fmt.Errorf("the first read: %w", err)
		}
	}
	now := d.Clock.Now()
	c.Mu.Lock()
	c.since = now
	for _, s := range first.stamps { // earlier changes are not owed
		c.known[sourceKey(s)] = max(s.Seq, c.known[sourceKey(s)])
	}
	c.Mu.Unlock()
	c.Activate(now)
	c.Mu.Lock()
	defer c.Mu.Unlock()
	c.readDue() // a notification may have come since
	return nil
}

// notified handles a notification that the client's resource or list has changed. It does
// not block.
func (c *client) notified(at eventmeter.Instant, size int, method string) {
	d := c.d
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if c.Over {
		return
	}
	d.tally.Count("notifications", 1)
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

// observed reports a notification as an update without a payload. If the emission that it
// stands for is known, observed records its latency. The caller holds Mu.
func (c *client) observed(at eventmeter.Instant, size int) {
	d := c.d
	if c.since == 0 {
		return
	}
	d.tally.Count("updatesObserved", 1)
	if d.Opts.Sole != nil {
		if e, ok := d.Opts.Sole(c.Sub, at); ok {
			d.identified(e, at)
		}
	}
	d.Delivered(eventmeter.Delivery{Sub: c.Sub, Update: true, At: at, Bytes: size}, &wire.Fields{}, nil)
}

// identified records the latency of a notification that stands for a known change.
func (d *lane) identified(e eventmeter.Emission, at eventmeter.Instant) {
	d.tally.Count("updatesIdentified", 1)
	if e.Measured {
		d.tally.Took("updateLatency", at.Sub(e.Intended))
		d.tally.Took("updateLatencySent", at.Sub(e.Fired))
	}
}

// reopened makes the client read again, because its stream was lost for a while.
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

// readDue starts the reads that are due, unless a read is in progress: the goroutine that
// reads makes them afterwards. The caller holds Mu.
func (c *client) readDue() {
	if c.Over || c.since == 0 || c.reading || !c.pending.due {
		return
	}
	c.reading = true
	c.work.Go(crash.Guarded(c.readAgain))
}

// readAgain reads until no read is due.
func (c *client) readAgain() {
	d := c.d
	backoff := d.Backoff(nil)
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
		found, err := driver.RetryThrottled(c.Ctx(), &backoff, func(eventmeter.Cause) (content, error) {
			found, err := d.read(c, eventmeter.EmptyPoll)
			var ce *mcpclient.CallError
			if errors.As(err, &ce) && ce.Kind == mcpclient.KindSession {
				return content{lost: true}, nil // the stream is opened again, and a read follows
			}
			return found, err
		})
		switch {
		case err == nil && !found.lost:
			c.learn(found, why)
		case err != nil && c.Ctx().Err() == nil:
			d.Notice(c.Sub, eventmeter.TransientError, d.Clock.Now(), err.Error())
		}
	}
}

// content is the result of a read: one page of a list, all of its pages, or the content of
// a resource.
type content struct {
	stamps []eventmeter.Stamp
	next   string             // the cursor of the next page; "" = there is none
	at     eventmeter.Instant // when the last answer arrived
	lost   bool               // there is no content: the session was lost
}

// read reads the resource, or all pages of the list. If a cursor fails, as it may when the
// list has changed, read begins once more with the first page.
func (d *lane) read(c *client, cause eventmeter.Cause) (content, error) {
	d.tally.Count("reads", 1)
	for again := false; ; again = true {
		found, err := d.walk(c, cause)
		var failed *mcpclient.CallError
		if err != nil && !again && found.next != "" && errors.As(err, &failed) && failed.HasCode && !failed.Throttled() {
			continue
		}
		if err != nil && c.Ctx().Err() == nil {
			d.tally.Count("readsFailed", 1)
		}
		return found, err
	}
}

// walk reads all pages. With an error, next is the cursor of the page that failed.
func (d *lane) walk(c *client, cause eventmeter.Cause) (all content, err error) {
	for range mcpclient.MaxPages {
		p, err := d.page(c, cause, all.next)
		if err != nil {
			return content{next: all.next}, err
		}
		all.stamps, all.at = append(all.stamps, p.stamps...), p.at
		if c.uri != "" || p.next == "" {
			all.next = ""
			return all, nil
		}
		if p.next == all.next || len(all.stamps) > mcpclient.MaxListEntries {
			break
		}
		all.next = p.next
	}
	return content{}, &mcpclient.CallError{Method: d.list.Read, Kind: mcpclient.KindProtocol, Message: "the pages do not end"}
}

func (d *lane) page(c *client, cause eventmeter.Cause, cursor string) (content, error) {
	method, o := d.list.Read, wire.BeginObject(nil)
	if c.uri != "" {
		method = driver.MethodRead
		o.String("uri", c.uri)
	} else if cursor != "" {
		o.String("cursor", cursor)
	}
	a, session, err := d.send(c.Ctx(), c, method, c.uri, o)
	if err != nil {
		return content{}, err
	}
	defer a.Release()
	var p content
	if a.Err == nil {
		var more wire.Cacheable
		wire.ScanCacheable(*a.Buf, &more)
		if len(more.NextCursor) > mcpclient.MaxCursor {
			a.Err = &mcpclient.CallError{Method: method, Kind: mcpclient.KindOversized, Cause: mcpclient.ErrCursor}
		}
		p = content{stamps: driver.StampsIn(*a.Buf), next: string(more.NextCursor), at: a.At}
	}
	failure := a.Err
	if c.Ctx().Err() != nil {
		a.Err = nil // this side gave it up: the server did not fail
	}
	if cause == eventmeter.EmptyPoll && c.brings(p.stamps) {
		cause = eventmeter.Events
	}
	d.Called(cause, method, a)
	a.Err = failure
	return p, c.stream.judge(method, session, a)
}

// Look implements [driver.Looker].
func (d *lane) Look() {
	if c := d.First(); c != nil {
		found, _ := d.read(c, eventmeter.Subscribe) // a read that fails shows nothing
		d.tally.Count("shownAtEnd", d.Shows(int(c.Sub.Index), found.stamps, func(s eventmeter.Stamp) bool {
			return !c.brings([]eventmeter.Stamp{s})
		}))
	}
}

// brings reports whether a page shows a change that the client does not know.
func (c *client) brings(stamps []eventmeter.Stamp) bool {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	return slices.ContainsFunc(stamps, func(s eventmeter.Stamp) bool { return s.Seq > c.known[sourceKey(s)] })
}

// learn reports the changes that a read shows: of each source every change up to the
// newest one whose probe is in the content.
func (c *client) learn(found content, why pendingRead) {
	d := c.d
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if c.Over {
		return
	}
	learned, superseded := 0, 0
	var last eventmeter.Stamp
	for _, s := range found.stamps {
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
			d.Recorder.Delivered(eventmeter.Delivery{Sub: c.Sub, Stamp: change, Probed: true, At: found.at})
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
