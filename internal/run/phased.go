package run

import (
	"slices"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/profiles"
)

// beginOwn tells the lanes that make work of their own when the measured part
// is.
func (p *pass) beginOwn(start eventmeter.Instant) {
	ph := p.profile.Phases
	p.eachPhased(func(d driver.Phased) { d.Begin(start.Add(ph.Warmup), start.Add(ph.Warmup+ph.Measure)) })
}

// drainOwn has them begin nothing new.
func (p *pass) drainOwn() { p.eachPhased(driver.Phased.Drain) }

// pendingOwn is how much of their work is under way.
func (p *pass) pendingOwn() (n int64) {
	p.eachPhased(func(d driver.Phased) { n += d.Pending() })
	return n
}

func (p *pass) eachPhased(do func(driver.Phased)) {
	for _, d := range p.drivers {
		if d, ok := d.(driver.Phased); ok {
			do(d)
		}
	}
}

// capabilities are what the lanes need to advertise as clients.
func (r *run) capabilities() []string {
	if slices.ContainsFunc(r.lanes, func(l *lane) bool { return l.System == profiles.SystemSEP975 }) {
		return []string{driver.ResumableRequests}
	}
	return nil
}

func sep975Options(l *profiles.SEP975Lane) driver.SEP975Options {
	return driver.SEP975Options{
		Tool: l.Tool, Steps: l.Steps, Step: l.Step, LogEvery: l.LogEvery, MaxWait: l.MaxWait, HangUp: l.HangUp,
		Disconnect: l.Disconnect, Share: l.Share, At: l.At, Every: l.Every, Away: l.Away, StatusEvery: l.StatusEvery,
		Expire: l.Expire, Double: l.Double, Wrong: l.Wrong, Tolerance: l.Tolerance,
	}
}
