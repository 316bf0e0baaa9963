// Package upstream fires emissions: it is the fake of whatever makes events
// happen behind a target. Each kind is a file: [Inject] tells the reference
// target, [HTTP] sends any request; [GitHub], [Slack] and [Stripe] send those
// products' webhooks; [Feed] is polled by the target; [Tool] calls one of its
// tools; [Exec] leaves it to a program; [Replay] fires a recorded trace; and
// [None] fires nothing.
package upstream

import (
	"context"

	"github.com/eventmeter/eventmeter"
)

// Emission is one emission on its way: the emission as the Recorder was told of it.
type Emission = eventmeter.Emission

// Upstream sends emissions. It is safe for concurrent use.
type Upstream interface {
	// Fire sends one emission and returns what became of it. The emission was announced
	// already; resolving it is the caller's part. Fire ends by itself within
	// the upstream's timeout.
	Fire(ctx context.Context, emission Emission) eventmeter.Outcome
	// Close gives back what the upstream holds. Nothing may be under way.
	Close() error
}

// Attacker is the ability of an Upstream to bring its own open loop.
type Attacker interface {
	// Attack fires f's emissions, each at its time, with up to workers under way
	// at once, until they are over or ctx is, and waits for those under way.
	// The figures are f's.
	Attack(ctx context.Context, f Firing, workers int) error
}

// Firing is the bookkeeping of an open loop, which *loadgen.Firing does.
type Firing interface {
	// Wait returns when emission n is due; false means that firing is over.
	Wait(ctx context.Context, n uint64) bool
	// Admit takes a place in busy, which has one for each worker, for emission n,
	// which is due. When no place becomes free within the tolerance, it counts
	// the emission as dropped and returns false.
	Admit(ctx context.Context, n uint64, busy chan<- struct{}) bool
	// Take stamps emission n, which was admitted, for the worker that sends it now.
	Take(n uint64) (emission Emission, ok bool)
	// Resolve closes an emission that was taken.
	Resolve(emission Emission, outcome eventmeter.Outcome)
}
