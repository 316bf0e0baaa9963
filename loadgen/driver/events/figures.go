package events

import (
	"slices"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/loadgen/driver"
)

// Settings are what only lanes of the MCP Events draft can be asked for.
type Settings struct {
	// Listen opens a stream for changes of the event types, as the lane's first
	// principal, and lists them again at each. A session of the legacy era has
	// one such stream, so no two lanes of an Endpoint may ask for it there.
	Listen bool
	// Resume lets a subscription that is attached again go on from the last
	// cursor that it had, so that what happened meanwhile is replayed, as far
	// back as Options.MaxAge if that is set.
	Resume bool
	// CutEvery is how long a stream lives, half as long to half as long again,
	// until the lane cuts it as a lost network would; 0 = it does not. CutFor
	// is how long it stays away then, on top of the backoff.
	CutEvery, CutFor time.Duration
}

// WithDefaults returns the settings with every field filled in whose zero value
// stands for a default.
func (s Settings) WithDefaults() Settings { return s }

// declare names the figures that this lane will have.
func (d *events) declare() {
	o := &d.opts
	webhook := o.Mode == eventmeter.Webhook
	if o.Mode == eventmeter.Poll {
		d.tally.Declare("pollsPacedByServer", "pollsPacedByMinInterval")
		d.tally.DeclareTiming("pollInterval")
	}
	if webhook && o.Webhook.RotateEvery > 0 {
		d.tally.Declare("rotations", "verifiedByOld", "verifiedByBoth", "rejectedInRace")
		d.tally.DeclareTiming("rotationRace", "rotationDual")
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
	if o.Mode == eventmeter.Push && d.set.CutEvery > 0 {
		d.tally.Declare("cuts", "replayedOnReconnect")
		d.tally.DeclareTiming("outage")
	}
	if d.set.Listen {
		d.tally.Declare("listens", "listChanged", "relists", "relistsFailed", "typesAppeared", "typesVanished")
		d.tally.DeclareTiming("relist")
	}
	if d.set.Resume {
		d.tally.Declare("resumed", "resumedTruncated")
	}
}

// wishes tells whether what is granted is worth counting on this lane.
func (d *events) wishes() bool {
	w := &d.opts.Webhook
	return d.opts.Mode == eventmeter.Webhook && (d.flavour.plain || w.TTL > 0 || w.NoExpiry || w.RotateEvery > 0)
}

// Figures returns what the common ledger does not know of.
func (d *events) Figures() driver.Figures {
	d.mu.Lock()
	runs := slices.Clone(d.runs)
	d.mu.Unlock()
	for _, r := range runs {
		if r != nil && r.hook != nil {
			r.hook.mu.Lock()
			r.hook.tell()
			r.hook.mu.Unlock()
		}
	}
	return d.tally.Figures()
}

// position returns a copy of the last cursor; nil if there was none.
func (r *run) position() []byte {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	return slices.Clone(r.cursor)
}

// resumed notes an attachment that began at a kept cursor.
func (d *events) resumed(r *run, truncated bool) {
	if !r.resumes {
		return
	}
	d.tally.Count("resumed", 1)
	if truncated {
		d.tally.Count("resumedTruncated", 1)
	}
}
