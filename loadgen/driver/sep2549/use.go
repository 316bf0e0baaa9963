package sep2549

import (
	"maps"
	"slices"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/driver"
)

// run uses the list at the client's rate, beginning at a random time. A use that is due
// while the one before still waits is counted as missed, not made late.
func (d *lane) run(c *client) {
	every := max(time.Duration(float64(time.Second)/float64(d.set.Use)), time.Microsecond)
	next := d.Clock.Now().Add(time.Duration(c.rand.Float64() * float64(every)))
	t := time.NewTimer(next.Sub(d.Clock.Now()))
	defer t.Stop()
	for {
		select {
		case <-c.Ctx().Done():
			return
		case <-t.C:
		}
		d.use(c)
		now := d.Clock.Now()
		if next = next.Add(every); next <= now {
			late := int64(now.Sub(next))/int64(every) + 1
			d.tally.missed.Add(late)
			next = next.Add(time.Duration(late) * every)
		}
		t.Reset(next.Sub(now))
	}
}

// use is one use of the list.
func (d *lane) use(c *client) {
	d.tally.uses.Add(1)
	pages, err := d.read(c, eventmeter.EmptyPoll)
	switch {
	case err == nil:
		d.tally.served.Add(1)
		d.sight(c, pages, d.Clock.Now())
	case c.Ctx().Err() != nil:
		d.tally.abandoned.Add(1)
	default:
		d.tally.failed.Add(1)
		d.Recorder.Noticed(
			eventmeter.Notice{Sub: c.Sub, Kind: eventmeter.TransientError, At: d.Clock.Now(), Detail: errtext.Line(err.Error())},
		)
	}
}

// sight reports the changes that pages show to a client: of each source every change up to
// the newest one whose probe is on a page.
func (d *lane) sight(c *client, pages []*keptPage, at eventmeter.Instant) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if c.Over {
		return
	}
	if len(c.looked) > 2*len(pages)+8 { // a server may make new cursors each time
		maps.DeleteFunc(c.looked, func(key string, _ uint64) bool {
			return !slices.ContainsFunc(pages, func(p *keptPage) bool { return p.key == key })
		})
	}
	var order wire.Order
	for _, p := range pages {
		order.Add(p.order)
	}
	if order.Permutes(c.order) {
		d.tally.reordered.Add(1)
	}
	c.order = order
	for _, p := range pages {
		if c.looked[p.key] == p.number {
			continue
		}
		c.looked[p.key] = p.number
		for _, s := range p.stamps {
			key := sourceKey(s.Run, s.Source)
			before := c.known[key]
			if s.Seq < before {
				d.tally.regressed.Add(1)
			}
			if s.Seq <= before {
				continue
			}
			c.known[key] = s.Seq
			if d.Receives(int(c.Sub.Index), s.Source) {
				d.learn(c, before, s, p.after, at)
			}
		}
	}
}

// learn reports the changes of a source after before, up to newest. All but newest were
// superseded before the client could see them.
func (d *lane) learn(c *client, before uint32, newest eventmeter.Stamp, after, at eventmeter.Instant) {
	known := d.Opts.Published
	for change := range driver.ChangesUpTo(known, before, newest, c.since) {
		d.Recorder.Delivered(eventmeter.Delivery{Sub: c.Sub, Stamp: change, Probed: true, At: at})
		if known != nil {
			d.tally.learn(known, learned{stamp: change, at: at, after: after, superseded: change.Seq < newest.Seq})
		}
	}
}
