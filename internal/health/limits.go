package health

import (
	"fmt"
	"time"

	"github.com/eventmeter/eventmeter/results"
)

// Beyond these limits a run says more about the generator than about the target.
const (
	// maxDropped: an open loop that drops more than one emission in a hundred did not
	// apply the load that it claims.
	maxDropped = 0.01
	// maxTimerLag: a generator whose timers wake this late, at the 99th
	// percentile, cannot place emissions or read deliveries in time.
	maxTimerLag = 50 * time.Millisecond
	// maxCPUShare of all CPUs: beyond it, deliveries queue in the generator.
	maxCPUShare = 0.85
	// maxOthers of all CPUs: a machine that is busy with something else delays
	// both sides, and no figure says which.
	maxOthers = 0.25
	// MaxReadDelay: a generator that takes this long, at the 99th percentile, to read
	// a byte that has arrived measures itself.
	MaxReadDelay = 100 * time.Millisecond
	// maxSentLate: a generator that sends its emissions this late, at the 99th
	// percentile, measures itself in every scheduled → received.
	maxSentLate = 100 * time.Millisecond
	// maxGCPause is the longest stop-the-world pause that is not a bottleneck.
	maxGCPause = 100 * time.Millisecond
)

// Sending holds the figures of publishing that a generator is judged by, besides its
// health.
type Sending struct {
	Workers     int               // upstream.workers
	Burst       int               // schedule.burst, 0 where the schedule has none
	Lag, Answer results.Quantiles // scheduled to published, published to answered
}

// Remedy returns how to avoid dropped emissions.
func (s Sending) Remedy() string {
	if s.Burst > s.Workers {
		return fmt.Sprintf("a burst of %d needs upstream.workers: %d", s.Burst, s.Burst)
	}
	return fmt.Sprintf(
		"the upstream answered within %s at the 99th percentile: raise upstream.workers, or lower the rate",
		s.Answer.P99,
	)
}

// Bottlenecks returns the symptoms which show that the generator was the bottleneck, one
// sentence each; empty if it was not. busy says how the machine was used beyond its limits.
// It explains the symptoms. Without symptoms the counts are exact, and only times are in
// doubt. cpus is the number of CPUs of the machine.
func Bottlenecks(in results.Generator, cpus int, s Sending) (symptoms, busy []string) {
	symptom := func(format string, args ...any) { symptoms = append(symptoms, fmt.Sprintf(format, args...)) }
	if in.DroppedEvents > maxDropped {
		symptom("%.1f %% of the events were due while all %d workers waited for the upstream's answers, and were dropped (limit 1 %%); %s",
			100*in.DroppedEvents, s.Workers, s.Remedy())
	}
	if late := s.Lag.P99; late.Duration() > maxSentLate {
		symptom("events were sent %s after they were due, at the 99th percentile (limit %v): the machine is too busy for this "+
			"rate, or for bursts of this size", late, maxSentLate)
	}
	if lag := in.TimerLag.P99; lag.Duration() > maxTimerLag {
		symptom("timers woke %s late at the 99th percentile (limit %v): the machine is too busy", lag, maxTimerLag)
	}
	if own := in.ReadDelay.P99; own.Duration() > MaxReadDelay {
		symptom("the generator took %s to read what had arrived, at the 99th percentile (limit %v): it cannot keep up",
			own, MaxReadDelay)
	}
	if pause := in.GCPauses.Max; pause.Duration() > maxGCPause {
		symptom("the garbage collector stopped the generator for %s (limit %v)", pause, maxGCPause)
	}
	if in.Process.CPUShare > maxCPUShare*float64(cpus) {
		busy = append(busy, fmt.Sprintf(
			"the generator used %.2f of %d CPUs (limit %.0f %%): use fewer subscriptions, a lower rate or a larger machine",
			in.Process.CPUShare, cpus, 100*maxCPUShare))
	}
	if in.Others > maxOthers*float64(cpus) {
		busy = append(busy, fmt.Sprintf("other processes used %.2f of %d CPUs (limit %.0f %%): measure on a machine that does nothing else",
			in.Others, cpus, 100*maxOthers))
	}
	return symptoms, busy
}
