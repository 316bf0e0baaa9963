package summary

import (
	"time"

	"github.com/eventmeter/eventmeter/results"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// Finish fills in what is known only at the end. failed says why the run ended
// early; nil if it did not. firstFailure, which may be empty, ends a sentence with
// why the first event could not be published.
func (s *Summary) Finish(failed error, firstFailure string) {
	res := s.Result
	res.Finished = res.Started.Add(time.Since(res.Started)) // not before Started where the clock was set
	if failed != nil {
		res.Partial, res.Reason = true, failed.Error()
	}
	s.arrivals()
	for i := range res.Lanes {
		l := &res.Lanes[i].Latency
		l.MarkResolution(res.Generator.ReadDelay.P99)
		l.MarkDoubts(res.Generator.ReadDelay.P99, &res.Upstream.Lag)
	}
	res.Thresholds = []results.Verdict{}
	for _, t := range s.thresholds {
		if s.part || s.unfinished {
			break // they are about the whole
		}
		res.Thresholds = append(res.Thresholds, t.Check(res)...)
	}
	s.judgeUntil()
	s.warn(firstFailure)
}

// judgeUntil says how exactly the latencies of phases.until are known.
func (s *Summary) judgeUntil() {
	if s.unfinished {
		return
	}
	silent := map[string]bool{}
	for i := range s.profile.Lanes {
		silent[s.profile.Lanes[i].Name] = s.profile.Lanes[i].HasNoSources()
	}
	for _, c := range s.Until {
		for i := range s.Result.Lanes {
			l := &s.Result.Lanes[i]
			end, there := s.ends[l.Name]
			if !there || !c.Of(l.Name) || silent[l.Name] {
				continue
			}
			x := c.Judge(l)
			x.Measured, x.EndedBy = results.Nanos(end.measured), end.by
			s.Result.Until = append(s.Result.Until, x)
			if !x.Reached && x.EndedBy != results.EndedByStop {
				s.Warn("until", "", "%s; raise phases.measureAtMost, publish more events, or ask for less", x.String())
			}
		}
	}
}

// arrivals adds up how exactly receive times are known.
func (s *Summary) arrivals() {
	var waited ledger.Timing
	a := &s.Result.Generator.Arrivals
	for i := range s.Accounts {
		for j := range s.Accounts[i].Lanes {
			l := &s.Accounts[i].Lanes[j]
			a.Counted += l.EventMessages
			a.Kernel += l.Arrivals.Kernel
			a.Shared += l.Arrivals.Shared
			waited = waited.Plus(l.Arrivals.Waited)
		}
	}
	a.Waited = results.Summarise(waited)
}
