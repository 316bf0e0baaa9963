package sinks

import "time"

// Values collects durations as a [Ledger] does: in the buckets of the
// histogram that they become, without a lock and, once a power of two has been
// met, without an allocation. The zero value is empty. It must not be used by
// two goroutines at once.
type Values struct{ t timing }

// Add counts d. What is out of the range of [Timing] counts at its bound.
func (v *Values) Add(d time.Duration) { v.t.add(d) }

// Merge adds all of u, which stays as it is.
func (v *Values) Merge(u *Values) { v.t.merge(&u.t) }

// Timing returns what was collected so far.
func (v *Values) Timing() Timing { return v.t.export() }

// Distribution returns the buckets of what was collected so far.
func (v *Values) Distribution() Distribution { return v.t.distribution() }
