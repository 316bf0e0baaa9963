package selfbench

import "time"

// figures are the results of one measurement.
type figures struct {
	Outcomes []outcome
	Targets  []served
	// Others is how many processors were used by processes that are not part of
	// the measurement, -1 = not known.
	Others float64
	Took   time.Duration
	Target targetUse
	Micro  micro
}

// micro is what single operations cost, in nanoseconds.
type micro struct {
	Record, Delivered, FindStamp  float64
	RecordAllocs, DeliveredAllocs int64
}

// sum adds a figure of the measurement's processes.
func (f *figures) sum(of func(*outcome) float64) (n float64) {
	for i := range f.Outcomes {
		n += of(&f.Outcomes[i])
	}
	return n
}

func (f *figures) count(of func(*outcome) int64) float64 {
	return f.sum(func(o *outcome) float64 { return float64(of(o)) })
}

func (f *figures) streams() float64 {
	return f.count(func(o *outcome) int64 { return int64(o.Streams) })
}

func (f *figures) delivered() float64 {
	return f.count(func(o *outcome) int64 { return o.Delivered })
}

func (f *figures) expected() float64 {
	return f.count(func(o *outcome) int64 { return o.Expected })
}

func (f *figures) idleCalls() float64 {
	return f.count(func(o *outcome) int64 { return o.Idle.Calls })
}

func (f *figures) failures() float64 {
	return f.count(func(o *outcome) int64 { return o.Failures })
}

func (f *figures) refreshes() float64 {
	return f.count(func(o *outcome) int64 { return o.Refreshes })
}

// lost reports whether a delivery is missing, was duplicated or unexpected, an
// event was not published, or the account does not balance.
func (f *figures) lost() bool {
	for i := range f.Outcomes {
		o := &f.Outcomes[i]
		if o.Delivered != o.Expected || o.Expected == 0 || o.Other > 0 || o.Dropped > 0 || !o.Balanced {
			return true
		}
	}
	return false
}

// memory is the resident memory per stream in KiB: its growth from before the
// client existed until all streams are open and one event was delivered.
func (f *figures) memory() float64 {
	return f.perStream(func(o *outcome) int64 { return o.Full.RSS - o.Before.RSS })
}

// settled is the same after a garbage collection that returned its memory.
func (f *figures) settled() float64 {
	return f.perStream(func(o *outcome) int64 { return o.Settled.RSS - o.Before.RSS })
}

// heap and stack are the parts of settled that the Go runtime knows.
func (f *figures) heap() float64 {
	return f.perStream(func(o *outcome) int64 { return o.Settled.Heap - o.Before.Heap })
}

func (f *figures) stack() float64 {
	return f.perStream(func(o *outcome) int64 { return o.Settled.Stack - o.Before.Stack })
}

func (f *figures) perStream(bytes func(*outcome) int64) float64 {
	return ratio(f.count(bytes)/1024, f.streams())
}

// perDelivery is the CPU time in µs of a delivery in the paced phase, without
// what the idle client uses.
func (f *figures) perDelivery() float64 {
	return ratio(f.paced(func(p *phase) float64 { return float64(p.CPU) })/1e3, f.delivered())
}

// allocations is the objects allocated for a delivery in the paced phase, without
// what the idle client allocates.
func (f *figures) allocations() float64 {
	return ratio(f.paced(func(p *phase) float64 { return float64(p.Mallocs) }), f.delivered())
}

// paced is what the paced phase used, less what the idle phase used in the same
// time.
func (f *figures) paced(of func(*phase) float64) float64 {
	return f.sum(func(o *outcome) float64 {
		return of(&o.Paced) - of(&o.Idle)*ratio(float64(o.Paced.Took), float64(o.Idle.Took))
	})
}

// perCall is the CPU time in µs of a call in the idle phase, in which the client
// does nothing else.
func (f *figures) perCall() float64 {
	return ratio(f.sum(func(o *outcome) float64 { return float64(o.Idle.CPU) })/1e3, f.idleCalls())
}

// callRate is calls per second of the idle phase.
func (f *figures) callRate() float64 {
	return ratio(f.idleCalls(), f.Outcomes[0].Idle.Took.Seconds())
}

// openRate is streams opened per second.
func (f *figures) openRate() float64 {
	return ratio(f.streams(), f.longest(func(o *outcome) time.Duration { return o.Opened.At - o.Before.At }))
}

// openCPU is the CPU time in µs of opening a stream, targetCPU the target's.
func (f *figures) openCPU() float64 {
	return ratio(f.sum(func(o *outcome) float64 { return float64(o.Opened.CPU - o.Before.CPU) })/1e3, f.streams())
}

func (f *figures) targetCPU() float64 {
	return ratio(float64(f.Target.Opening)/1e3, f.streams())
}

// targetMemory is the target's memory per stream in KiB, targetPerDelivery its CPU time
// in µs of a delivery.
func (f *figures) targetMemory() float64 { return ratio(float64(f.Target.Memory)/1024, f.streams()) }

func (f *figures) targetPerDelivery() float64 {
	return ratio(float64(f.Target.Paced)/1e3, f.delivered())
}

// throughput is deliveries per second of the paced phase.
func (f *figures) throughput() float64 {
	return ratio(f.delivered(), f.longest(func(o *outcome) time.Duration { return o.Paced.Took }))
}

// judged is the rows of conformance that a delivery was held against, heartbeats
// and openings included.
func (f *figures) judged() float64 {
	return ratio(f.count(func(o *outcome) int64 { return o.Judged }), f.delivered())
}

// broken is how often a row was broken.
func (f *figures) broken() int64 {
	return int64(f.count(func(o *outcome) int64 { return o.Broken }))
}

// longest is the longest duration among the processes, in seconds.
func (f *figures) longest(of func(*outcome) time.Duration) float64 {
	var d time.Duration
	for i := range f.Outcomes {
		d = max(d, of(&f.Outcomes[i]))
	}
	return d.Seconds()
}

// errorP50 and errorP99 are the measuring error in µs.
func (f *figures) errorP50() float64 { return float64(f.Outcomes[0].ErrorP50) / 1e3 }
func (f *figures) errorP99() float64 { return float64(f.Outcomes[0].ErrorP99) / 1e3 }

// sharedRead is the percentage of deliveries that were read together with others
// and may have arrived earlier than their recorded time.
func (f *figures) sharedRead() float64 {
	o := f.Outcomes[0]
	return 100 * ratio(float64(o.Shared), float64(o.Copies))
}

// kernelTimed is the percentage of deliveries with the kernel's receive time.
func (f *figures) kernelTimed() float64 {
	o := f.Outcomes[0]
	return 100 * ratio(float64(o.Kernel), float64(o.Copies))
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}
