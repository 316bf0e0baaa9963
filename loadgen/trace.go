package loadgen

import "time"

// Trace publishes at recorded times: emission n at Offsets[n] / Warp. It ends with
// the last offset. Offsets must not be negative nor decrease, and must not change
// while the Trace is in use.
type Trace struct {
	Offsets []time.Duration
	// Warp is the speed relative to the recording: 2 takes half the time, 0.5
	// twice as long. 0 means 1. A negative or infinite Warp, or NaN, has no emissions.
	Warp float64
}

// At implements [Schedule].
func (t Trace) At(n uint64) (time.Duration, bool) {
	warp := t.warp()
	if n >= uint64(len(t.Offsets)) || !positive(warp) {
		return 0, false
	}
	if warp == 1 {
		return t.Offsets[n], true // exact, which a float64 is not for large offsets
	}
	return nanoseconds(float64(t.Offsets[n]) / warp)
}

// Peak returns the largest number of emissions in any one second, to compare with
// a rate limit.
func (t Trace) Peak() int {
	peak, first := 0, 0
	for last := range t.Offsets {
		at, ok := t.At(uint64(last))
		if !ok {
			break
		}
		for {
			if begin, _ := t.At(uint64(first)); at-begin < time.Second {
				break
			}
			first++
		}
		peak = max(peak, last-first+1)
	}
	return peak
}

func (t Trace) warp() float64 {
	if t.Warp == 0 {
		return 1
	}
	return t.Warp
}
