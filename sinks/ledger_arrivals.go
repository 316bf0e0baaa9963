package sinks

import "github.com/eventmeter/eventmeter"

// Arrivals tell how well the times of a lane's deliveries are known: of all
// copies of all events, warm-up included.
type Arrivals struct {
	// Kernel is how many have the kernel's receive time.
	Kernel int64
	// Shared is how many were read together with what came after them, so that
	// they may have come earlier than it says.
	Shared int64
	// Waited is how long those with the kernel's time lay in a socket until
	// they were read: what a latency would have had on top without it.
	Waited Timing
}

// arrivals counts them in a shard.
type arrivals struct {
	kernel, shared int64
	waited         timing
}

func (a *arrivals) add(d *eventmeter.Delivery) {
	if d.Kernel {
		a.kernel++
		a.waited.add(d.Waited)
	}
	if d.Shared {
		a.shared++
	}
}

func (a *arrivals) merge(b *arrivals) {
	a.kernel += b.kernel
	a.shared += b.shared
	a.waited.merge(&b.waited)
}

func (a *arrivals) export() Arrivals {
	return Arrivals{Kernel: a.kernel, Shared: a.shared, Waited: a.waited.export()}
}
