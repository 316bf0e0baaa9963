package health

import "github.com/eventmeter/eventmeter/results"

// Worse returns, figure by figure, the value that says most against the generator.
func Worse(a, b results.Generator) results.Generator {
	if a.TimerLag.Count == 0 {
		return b
	}
	if p := Together(&a.Process, &b.Process); p != nil {
		a.Process = *p
	}
	if b.TimerLag.P99 > a.TimerLag.P99 {
		a.TimerLag = b.TimerLag
	}
	if b.ReadDelay.P99 > a.ReadDelay.P99 {
		a.ReadDelay = b.ReadDelay
	}
	if b.Arrivals.Error.P99 > a.Arrivals.Error.P99 {
		a.Arrivals.Error = b.Arrivals.Error
	}
	a.Others = max(a.Others, b.Others)
	if b.GCPauses.Max > a.GCPauses.Max {
		a.GCPauses = b.GCPauses
	}
	a.Goroutines = max(a.Goroutines, b.Goroutines)
	return a
}

// Together adds up what one process used in two passes. Either may be nil.
func Together(a, b *results.Process) *results.Process {
	if a == nil {
		return b
	}
	if b == nil {
		return a
	}
	var wall float64
	for _, p := range []*results.Process{a, b} {
		if p.CPUShare > 0 {
			wall += float64(p.CPU) / p.CPUShare
		}
	}
	sum := &results.Process{CPU: a.CPU + b.CPU, Memory: max(a.Memory, b.Memory), Resolution: max(a.Resolution, b.Resolution)}
	if wall > 0 {
		sum.CPUShare = float64(sum.CPU) / wall
	}
	return sum
}

// Beside combines two generators that ran at the same time: the use of machines is
// added, and of the rest the worse value is kept.
func Beside(a, b results.Generator) results.Generator {
	if a.TimerLag.Count == 0 && a.Process == (results.Process{}) {
		return b
	}
	sum := results.Process{
		CPU: a.Process.CPU + b.Process.CPU, CPUShare: a.Process.CPUShare + b.Process.CPUShare, Memory: a.Process.Memory + b.Process.Memory,
		Resolution: max(a.Process.Resolution, b.Process.Resolution),
	}
	out := Worse(a, b)
	out.Process, out.Goroutines = sum, a.Goroutines+b.Goroutines
	return out
}

// Larger returns the larger of two readings of the same process. Either may be nil.
func Larger(a, b *results.Process) *results.Process {
	if a == nil || b != nil && b.CPU > a.CPU {
		return b
	}
	return a
}
