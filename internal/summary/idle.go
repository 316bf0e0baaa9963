package summary

import (
	"time"

	"github.com/eventmeter/eventmeter/results"
)

const (
	// leastWork is less CPU time than any server needs for a message that carries events. To
	// write one to a connection takes the kernel alone some microseconds.
	leastWork = time.Microsecond
	// enoughMessages are too many for a process that works to have used no CPU time that can
	// be seen.
	enoughMessages = 200
)

// idle reports whether the processes that were taken for the target cannot have delivered
// what the lanes received in a pass. Where several events came with each response, as from
// polls, the responses count.
func idle(p *results.Process, lanes []results.Lane) bool {
	if p == nil {
		return false
	}
	var messages int64
	for i := range lanes {
		n := lanes[i].Received
		if responses := lanes[i].Overhead.Causes["events"].Requests; responses > 0 {
			n = min(n, responses)
		}
		messages += n
	}
	// The CPU time may be more than what was seen of it.
	return messages >= enoughMessages && p.CPU+p.Resolution < results.Nanos(messages*int64(leastWork))
}

// forgetTarget leaves out what is known of processes that are not, or not all of, the target.
func (s *Summary) forgetTarget() {
	const why = "the processes that were taken for the target hardly used CPU time while events were delivered, so others do its work"
	res := s.Result
	res.Target.Process = nil
	for i := range res.Lanes {
		res.Lanes[i].Process = nil
	}
	for name, g := range res.Target.Leak {
		res.Target.Leak[name] = results.Growth{Verdict: results.LeakUnknown, Points: g.Points, Start: g.Start, Reason: why}
	}
	if !results.Warned(res.Warnings, results.TargetIdle) {
		s.Warn(results.TargetIdle, "", "%s: its CPU time and memory are not known, and count as those of other processes; "+
			"give the metrics of the processes that work: --target-metrics", why)
	}
}
