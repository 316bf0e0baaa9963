package driver

import (
	"errors"
	"slices"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/crash"
)

// EventsOptions are what only lanes of the MCP Events draft can be asked for.
type EventsOptions struct {
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

// declare names the figures that this lane will have.
func (d *events) declare() {
	o := &d.opts
	webhook := o.Mode == eventmeter.Webhook
	if o.Mode == eventmeter.Poll {
		d.tally.declare("pollsPacedByServer", "pollsPacedByMinInterval")
		d.tally.declareTiming("pollInterval")
	}
	if webhook && o.Webhook.RotateEvery > 0 {
		d.tally.declare("rotations", "verifiedByOld", "verifiedByBoth", "rejectedInRace")
		d.tally.declareTiming("rotationRace", "rotationDual")
	}
	if d.wishes() {
		d.tally.declare("grants", "grantsWithoutEnd", "idsChanged", "refreshedLate")
		if !d.flavour.plain {
			d.tally.declare("grantsShorter", "grantsLonger")
		}
	}
	if d.flavour.plain {
		d.tally.declare("controlEnvelopes")
	}
	if o.Mode == eventmeter.Push && o.Events.CutEvery > 0 {
		d.tally.declare("cuts", "replayedOnReconnect")
		d.tally.declareTiming("outage")
	}
	if o.Events.Listen {
		d.tally.declare("listens", "listChanged", "relists", "relistsFailed", "typesAppeared", "typesVanished")
		d.tally.declareTiming("relist")
	}
	if o.Events.Resume {
		d.tally.declare("resumed", "resumedTruncated")
	}
}

// wishes tells whether what is granted is worth counting on this lane.
func (d *events) wishes() bool {
	w := &d.opts.Webhook
	return d.opts.Mode == eventmeter.Webhook && (d.flavour.plain || w.TTL > 0 || w.NoExpiry || w.RotateEvery > 0)
}

// Figures returns what the common ledger does not know of.
func (d *events) Figures() Figures {
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
	return d.tally.figures()
}

// position returns a copy of the last cursor; nil if there was none.
func (r *run) position() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.cursor)
}

// resumed notes an attachment that began at a kept cursor.
func (d *events) resumed(r *run, truncated bool) {
	if !r.resumes {
		return
	}
	d.tally.count("resumed", 1)
	if truncated {
		d.tally.count("resumedTruncated", 1)
	}
}

var errCut = errors.New("the lane cut the stream on purpose")

// outage follows a stream that is lost and comes back.
type outage struct {
	lost   eventmeter.Instant // when it was, 0 = it is there
	back   eventmeter.Instant // when it was last confirmed again
	cut    bool               // the last end was our own doing
	cutter *time.Timer
}

// planCut lets a stream that was just confirmed live for a while.
func (s *stream) planCut() {
	every := s.d.opts.Events.CutEvery
	if every <= 0 {
		return
	}
	life := time.Duration(float64(every) * (0.5 + s.r.rand.Float64()))
	s.mu.Lock()
	turn := s.turn
	s.mu.Unlock()
	s.cutter = time.AfterFunc(life, func() {
		defer crash.Guard()
		s.giveUp(turn, errCut)
	})
}

// endCut forgets what was planned.
func (s *stream) endCut() {
	if s.cutter != nil {
		s.cutter.Stop()
		s.cutter = nil
	}
}

// wentAway notes the end of a connection, and whether it was cut.
func (s *stream) wentAway(cause error) {
	if s.heard && s.lost == 0 {
		s.lost = s.d.clock.Now()
	}
	s.cut = errors.Is(cause, errCut) && s.r.ctx.Err() == nil
	if s.cut {
		s.d.tally.count("cuts", 1)
	}
}

// cameBack notes the confirmation of a stream that was confirmed before.
func (s *stream) cameBack() {
	if s.lost != 0 {
		s.d.tally.took("outage", s.at.Sub(s.lost))
	}
	s.lost, s.back = 0, s.at
}

// absence is how long a stream that was cut stays away.
func (s *stream) absence() time.Duration {
	if !s.cut {
		return 0
	}
	return s.d.opts.Events.CutFor
}

// tellReplayed counts an event that had happened before the stream was back.
func (s *stream) tellReplayed(stamp eventmeter.Stamp) {
	if s.d.opts.Acked == nil {
		return
	}
	if at := s.d.opts.Acked(stamp); at != 0 && at < s.back {
		s.d.tally.count("replayedOnReconnect", 1)
	}
}
