package bench

import (
	"fmt"
	"time"

	"github.com/eventmeter/eventmeter/results"
)

// The limits past which a run says more about the generator than about the
// target.
const (
	// maxDropped: an open loop that drops more than one emission in a hundred did
	// not put on the load that it claims.
	maxDropped = 0.01
	// maxTimerLag: a generator whose timers wake this late, at the 99th
	// percentile, cannot place emissions or read deliveries in time.
	maxTimerLag = 50 * time.Millisecond
	// maxCPUShare of all CPUs: beyond it, deliveries queue in the generator.
	maxCPUShare = 0.85
	// maxOthers of all CPUs: a machine that is busy with something else delays
	// both sides, and no figure says which.
	maxOthers = 0.25
	// maxReadDelay: a generator that takes this long, at the 99th percentile, to
	// read a byte that is there measures itself.
	maxReadDelay = 100 * time.Millisecond
	// maxSentLate: a generator that sends its emissions this late, at the 99th
	// percentile, measures itself in every scheduled → received.
	maxSentLate = 100 * time.Millisecond
	// maxGCPause is the longest stop of the world that is not a bottleneck.
	maxGCPause = 100 * time.Millisecond
)

// sending is what a generator's firing is judged by, beside its health.
type sending struct {
	workers     int               // upstream.workers
	burst       int               // schedule.burst, 0 where the schedule has none
	lag, answer results.Quantiles // intended to sent, sent to answered
}

func (r *run) sending() sending {
	u := &r.result.Upstream
	s := sending{workers: r.profile.Upstream.Workers, lag: u.Lag, answer: u.Answer}
	if r.profile.Schedule.Kind == "burst" {
		s.burst = r.profile.Schedule.Burst
	}
	return s
}

// remedy says how to get rid of dropped emissions.
func (s sending) remedy() string {
	if s.burst > s.workers {
		return fmt.Sprintf("a burst of %d needs upstream.workers: %d", s.burst, s.burst)
	}
	return fmt.Sprintf("the upstream answered within %s at the 99th percentile: raise upstream.workers, or lower the rate", results.FormatNanos(s.answer.P99))
}

// bottlenecks says in which ways the generator was the bottleneck; empty
// if in none.
func bottlenecks(in results.Generator, cpus int, s sending) []string {
	out := []string{}
	if in.DroppedEvents > maxDropped {
		out = append(out, fmt.Sprintf("%.1f %% of the events were due while all %d workers waited for the upstream's answers, and were dropped (limit 1 %%); %s", 100*in.DroppedEvents, s.workers, s.remedy()))
	}
	if late := s.lag.P99.Duration(); late > maxSentLate {
		out = append(out, fmt.Sprintf("events were sent %s after they were due, at the 99th percentile (limit %v): the machine is too busy for this rate, or for bursts of this size", results.FormatNanos(s.lag.P99), maxSentLate))
	}
	if lag := in.TimerLag.P99.Duration(); lag > maxTimerLag {
		out = append(out, fmt.Sprintf("timers woke %s late at the 99th percentile (limit %v): the machine is too busy", results.FormatNanos(in.TimerLag.P99), maxTimerLag))
	}
	if in.Process.CPUShare > maxCPUShare*float64(cpus) {
		out = append(out, fmt.Sprintf("the generator used %.2f of %d CPUs (limit %.0f %%): use fewer subscriptions, a lower rate or a larger machine", in.Process.CPUShare, cpus, 100*maxCPUShare))
	}
	if in.Others > maxOthers*float64(cpus) {
		out = append(out, fmt.Sprintf("other processes used %.2f of %d CPUs (limit %.0f %%): measure on a machine that does nothing else", in.Others, cpus, 100*maxOthers))
	}
	if own := in.ReadDelay.P99.Duration(); own > maxReadDelay {
		out = append(out, fmt.Sprintf("the generator took %s to read what had arrived, at the 99th percentile (limit %v): it cannot keep up", results.FormatNanos(in.ReadDelay.P99), maxReadDelay))
	}
	if in.GCPauses.Max.Duration() > maxGCPause {
		out = append(out, fmt.Sprintf("the garbage collector stopped the generator for %s (limit %v)", results.FormatNanos(in.GCPauses.Max), maxGCPause))
	}
	return out
}
