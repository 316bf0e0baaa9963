package events

import (
	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/loadgen/driver"
)

// declare declares the figures of this lane.
func (d *lane) declare() {
	o := &d.Opts
	webhook := o.Mode == eventmeter.Webhook
	if o.Mode == eventmeter.Poll {
		d.tally.Declare("pollsPacedByServer", "pollsPacedByMinInterval", "hasMoreUnmoved")
		d.tally.DeclareTiming("pollInterval")
		d.tally.DeclareTiming("nextPoll")
	}
	if webhook && o.Webhook.RotateEvery > 0 {
		d.tally.Declare("rotations", "verifiedByOld", "verifiedByBoth", "rejectedInRace")
		d.tally.DeclareTiming("rotationRace", "rotationDual")
	}
	if webhook && o.Webhook.ShareURL {
		d.tally.Declare("unrouted")
	}
	if d.nobody != nil {
		d.tally.Declare("anonymousRefused", "anonymousAccepted")
	}
	if webhook && o.Webhook.Silent > 0 {
		d.tally.Declare("leftSilently")
	}
	if webhook && len(o.Webhook.Require) > 0 {
		d.tally.Declare("refusedUnfit")
	}
	if d.wishes() {
		d.tally.Declare("grants", "grantsWithoutEnd", "idsChanged", "refreshedLate")
		if !d.flavour.plain {
			d.tally.Declare("grantsShorter", "grantsLonger")
		}
	}
	if d.flavour.plain {
		d.tally.Declare("controlEnvelopes")
	}
	if o.Mode == eventmeter.Push && d.set.cuts() {
		d.tally.Declare("cuts", "replayedOnReconnect")
		d.tally.DeclareTiming("outage")
	}
	if o.Mode == eventmeter.Push && d.set.CutAt > 0 {
		d.tally.Declare("reopenedPeak")
		d.tally.DeclareTiming("catchUp")
	}
	if d.set.StallFor > 0 {
		d.tally.Declare("stalled", "heldBack")
	}
	if d.set.Listen {
		d.tally.Declare("listens", "listChanged", "relists", "relistsFailed", "typesAppeared", "typesVanished")
		d.tally.DeclareTiming("relist")
	}
	if d.set.Resume {
		d.tally.Declare("resumed", "resumedTruncated")
	}
	if d.set.Cursor != "" {
		d.tally.Declare("started", "startedTruncated")
	}
}

// wishes reports whether the lane counts grants.
func (d *lane) wishes() bool {
	w := &d.Opts.Webhook
	return d.Opts.Mode == eventmeter.Webhook && (d.flavour.plain || w.Lifetime() > 0 || w.NoExpiry() || w.RotateEvery > 0)
}

// Figures implements [driver.Figurer].
func (d *lane) Figures() driver.Figures {
	if d.agenda != nil { // the lane has webhooks
		for _, r := range d.Attached() {
			r.hook.mu.Lock()
			r.hook.tell()
			r.hook.mu.Unlock()
		}
	}
	f := d.NeverRetried(d.tally.Figures(), d.Clock.Now())
	f.Conform = d.judge.tally.Account()
	return f
}

// begun counts an attachment that began at a cursor, and was confirmed at an instant.
func (d *lane) begun(r *run, at eventmeter.Instant, truncated bool) {
	if r.begins == beginsNow {
		return
	}
	d.tally.Count(r.begins.figure(), 1)
	if truncated {
		d.tally.Count(r.begins.figure()+"Truncated", 1)
	} else if r.begins == beginsResumed {
		n := eventmeter.Notice{Sub: r.Sub, Kind: eventmeter.Resumed, At: at}
		if d.Opts.MaxAge > 0 {
			n.Since = at.Add(-d.Opts.MaxAge)
		}
		d.Recorder.Noticed(n)
	}
}
