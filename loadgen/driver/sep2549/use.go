package sep2549

import (
	"maps"
	"slices"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/errtext"
)

// run uses the list at the client's rate, from a moment of its own on. A use
// that is due while the one before still waits is missed, not made late.
func (d *lane) run(c *client) {
	every := max(time.Duration(float64(time.Second)/d.set.Use), time.Microsecond)
	next := d.Clock.Now().Add(time.Duration(c.rand.Float64() * float64(every)))
	t := time.NewTimer(next.Sub(d.Clock.Now()))
	defer t.Stop()
	for {
		select {
		case <-c.Ctx.Done():
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
	case c.Ctx.Err() != nil:
		d.tally.abandoned.Add(1)
	default:
		d.tally.failed.Add(1)
		d.Recorder.Noticed(eventmeter.Notice{Sub: c.Sub, Kind: eventmeter.TransientError, At: d.Clock.Now(), Detail: errtext.Line(err.Error())})
	}
}

// sight reports what a client learns from pages: of each source every change
// up to the newest whose mark is there.
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
			if d.hears(int(c.Sub.Index), s.Source) {
				d.learn(c, before, s, p.after, at)
			}
		}
	}
}

// learn reports the changes of a source after before, up to the newest. All
// but the newest were superseded before they could be seen.
func (d *lane) learn(c *client, before uint32, newest eventmeter.Stamp, after, at eventmeter.Instant) {
	known := d.Opts.Published
	from := before + 1
	if known != nil {
		if _, _, ok := known.Emission(newest); !ok {
			from = newest.Seq // of another run: what came before it is not ours to say
		}
	} else if newest.Seq-before > 1<<16 {
		from = newest.Seq
	}
	for seq := from; seq <= newest.Seq && seq != 0; seq++ {
		s := eventmeter.Stamp{Run: newest.Run, Source: newest.Source, Seq: seq}
		if known != nil {
			if e, _, ok := known.Emission(s); ok && e.Fired <= c.since {
				continue // older than the client, which saw an older copy first
			}
		}
		d.Recorder.Delivered(eventmeter.Delivery{Sub: c.Sub, Stamp: s, Probed: true, At: at})
		if known != nil {
			d.tally.learn(known, learned{stamp: s, at: at, after: after, superseded: seq < newest.Seq})
		}
	}
}

// hears tells whether client i is owed the changes of a source.
func (d *lane) hears(i int, source uint16) bool {
	if d.Opts.Hears == nil {
		return true
	}
	heard := d.Opts.Hears(i)
	return heard == nil || slices.Contains(heard, source)
}
