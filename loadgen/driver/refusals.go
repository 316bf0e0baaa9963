package driver

import (
	"sync"
)

// refusals decides which events are refused once. It remembers the refused
// ones, the last refusalMemory to twice as many of a lane, and nothing of the
// others.
type refusals struct {
	share float64
	seed  uint64

	mu        sync.Mutex
	now, past map[refusal]struct{}
}

type refusal struct {
	index uint32
	event uint64
}

const refusalMemory = 1 << 16

// decide tells whether this copy is to be refused, and whether it is a later
// copy of one that was.
func (f *refusals) decide(index uint32, event uint64) (refuse, repeat bool) {
	if f.share <= 0 || event == 0 || float64(mix(f.seed^uint64(index)<<32, event)>>11)/(1<<53) >= f.share {
		return false, false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	key := refusal{index, event}
	if _, ok := f.now[key]; ok {
		return false, true
	}
	if _, ok := f.past[key]; ok {
		return false, true
	}
	if f.now == nil || len(f.now) >= refusalMemory {
		f.now, f.past = make(map[refusal]struct{}), f.now
	}
	f.now[key] = struct{}{}
	return true, false
}

// mix hashes two words into one (the finisher of splitmix64, twice).
func mix(a, b uint64) uint64 {
	for _, v := range [...]uint64{a, b} {
		a ^= v + 0x9e3779b97f4a7c15
		a = (a ^ a>>30) * 0xbf58476d1ce4e5b9
		a = (a ^ a>>27) * 0x94d049bb133111eb
		a ^= a >> 31
	}
	return a
}
