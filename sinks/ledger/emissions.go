package ledger

import (
	"math/bits"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventmeter/eventmeter"
)

const (
	chunkSize  = 1024
	chunkWords = chunkSize / 64
)

// noEventID stands for the event id of a copy that came without one, so that
// "the first copy had none" can be told from "no copy came".
const noEventID = ^uint64(0)

// emission is the ledger's record of one emission: 32 bytes, plus one event-id
// hash and one place per lane.
type emission struct {
	intended, fired eventmeter.Instant // written before the emission is published
	acked           atomic.Int64       // written before outcome
	outcome         atomic.Uint32      // a eventmeter.Outcome
	measured        bool               // written before the emission is published
}

func (e *emission) result() eventmeter.Outcome { return eventmeter.Outcome(e.outcome.Load()) }

// bitset has one bit for each emission of a chunk.
type bitset [chunkWords]atomic.Uint64

func (b *bitset) set(i int)      { b[i/64].Or(1 << (i % 64)) }
func (b *bitset) has(i int) bool { return b[i/64].Load()&(1<<(i%64)) != 0 }

// chunk is a block of emissions. The bit sets repeat what the emissions say in
// a form that can be counted 64 at a time.
type chunk struct {
	emissions [chunkSize]emission
	ids       []atomic.Uint64 // lane*chunkSize + position: first event id seen
	places    []atomic.Uint32 // lane*chunkSize + position: place in the lane's order, 0 = none
	measured  bitset
	failed    bitset // ended Uncertain or Refused
	owed      bitset // measured and Accepted: owed to the open subscriptions
	refused   bitset
	settled   bitset // resolved, and every delivery that waited is counted
	owedN     atomic.Int64
	refusedN  atomic.Int64
}

// source is the emission table of one source. Emissions are appended by one
// goroutine at a time and read without a lock: n is stored after the emission
// it counts is complete, and a chunk never moves.
type source struct {
	n      atomic.Uint32 // emissions so far; seq runs from 1 to n
	chunks atomic.Pointer[[]*chunk]
	// watermark: every emission up to here is settled.
	watermark atomic.Uint32

	mu          sync.Mutex
	measured    Scheduled
	warmUp      Scheduled
	fireLatency timing
	fireLag     timing
	series      []firedInterval
	lanes       int
}

// firedInterval counts the emissions of one source in one interval.
type firedInterval struct {
	number        int64
	fired, warmUp int64
}

// at returns the emission seq, nil if it was not fired. It takes no lock.
func (s *source) at(seq uint32) *emission {
	if seq == 0 || seq > s.n.Load() {
		return nil
	}
	return &s.chunk(seq).emissions[(seq-1)%chunkSize]
}

// chunk returns the chunk of seq, which must not be above n.
func (s *source) chunk(seq uint32) *chunk { return (*s.chunks.Load())[(seq-1)/chunkSize] }

// firedAt returns when seq was fired; seq must be from 1 to n.
func (s *source) firedAt(seq uint32) eventmeter.Instant {
	return s.chunk(seq).emissions[(seq-1)%chunkSize].fired
}

// eventID returns where the lane's first event id of seq is kept.
func (s *source) eventID(lane uint16, seq uint32) *atomic.Uint64 {
	return &s.chunk(seq).ids[int(lane)*chunkSize+int((seq-1)%chunkSize)]
}

// place returns where the place of seq in the lane's order is kept.
func (s *source) place(lane uint16, seq uint32) *atomic.Uint32 {
	return &s.chunk(seq).places[int(lane)*chunkSize+int((seq-1)%chunkSize)]
}

// append adds the next emission. It returns false when e is not the next one.
//
// Windows are cut by sequence number, so Fired may not fall within a source:
// an emission that claims to be older than its predecessor gets the
// predecessor's instant.
func (s *source) append(e eventmeter.Emission, interval time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.n.Load()
	if e.Seq != n+1 {
		return false
	}
	fired := e.Fired
	if n > 0 {
		fired = max(fired, s.firedAt(n))
	}
	pos := int(n % chunkSize)
	if pos == 0 {
		var list []*chunk
		if p := s.chunks.Load(); p != nil {
			list = *p
		}
		// Appending behind the end of a published slice is safe: readers keep
		// to the length they loaded.
		list = append(list, &chunk{ids: make([]atomic.Uint64, s.lanes*chunkSize), places: make([]atomic.Uint32, s.lanes*chunkSize)})
		s.chunks.Store(&list)
	}
	c := s.chunk(n + 1)
	r := &c.emissions[pos]
	r.intended, r.fired, r.measured = e.Intended, fired, e.Measured
	if e.Measured {
		c.measured.set(pos)
		s.measured.Fired++
		s.measured.Pending++
		s.fireLag.add(fired.Sub(e.Intended))
	} else {
		s.warmUp.Fired++
		s.warmUp.Pending++
	}
	k := int64(fired) / int64(interval)
	if len(s.series) == 0 || s.series[len(s.series)-1].number != k {
		s.series = append(s.series, firedInterval{number: k})
	}
	if last := &s.series[len(s.series)-1]; e.Measured {
		last.fired++
	} else {
		last.warmUp++
	}
	s.n.Store(n + 1)
	return true
}

// resolve closes emission seq. It returns false when that is not possible.
func (s *source) resolve(seq uint32, o eventmeter.Outcome, at eventmeter.Instant) bool {
	e := s.at(seq)
	if e == nil || o < eventmeter.Accepted || o > eventmeter.Refused {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.result() != eventmeter.Pending {
		return false
	}
	at = max(at, e.fired)
	e.acked.Store(int64(at))
	c, pos := s.chunk(seq), int((seq-1)%chunkSize)
	emissions := &s.warmUp
	if e.measured {
		emissions = &s.measured
	}
	emissions.Pending--
	switch o {
	case eventmeter.Accepted:
		emissions.Accepted++
		if e.measured {
			s.fireLatency.add(at.Sub(e.fired))
			c.owed.set(pos)
			c.owedN.Add(1)
		}
	case eventmeter.Uncertain:
		emissions.Uncertain++
		c.failed.set(pos)
	case eventmeter.Refused:
		emissions.Refused++
		c.failed.set(pos)
		c.refused.set(pos)
		c.refusedN.Add(1)
	}
	e.outcome.Store(uint32(o))
	return true
}

// settle notes that nothing waits for the outcome of seq any more.
func (s *source) settle(seq uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.chunk(seq).settled.set(int((seq - 1) % chunkSize))
	w, n := s.watermark.Load(), s.n.Load()
	for w < n && s.chunk(w+1).settled.has(int(w%chunkSize)) {
		w++
	}
	s.watermark.Store(w)
}

// firstFrom returns the first seq in [lo, n] that was fired at or after t, n+1
// if there is none. lo must be at least 1.
func (s *source) firstFrom(lo uint32, t eventmeter.Instant) uint32 {
	n := s.n.Load()
	if lo > n {
		return n + 1
	}
	return lo + uint32(sort.Search(int(n-lo)+1, func(i int) bool { return s.firedAt(lo+uint32(i)) >= t }))
}

// countOwed counts the owed emissions in [from, to]; an empty range has none.
func (s *source) countOwed(from, to uint32) int64 {
	return s.count(from, to, func(c *chunk, w int) uint64 { return c.owed[w].Load() }, func(c *chunk) int64 { return c.owedN.Load() })
}

// countSuspect counts those in [from, to] that the target may have had: all
// that were not refused.
func (s *source) countSuspect(from, to uint32) int64 {
	return s.count(
		from,
		to,
		func(c *chunk, w int) uint64 { return ^c.refused[w].Load() },
		func(c *chunk) int64 { return chunkSize - c.refusedN.Load() },
	)
}

// countSkipped counts the measured ones in [from, to] that are not known to
// have failed.
func (s *source) countSkipped(from, to uint32) int64 {
	word := func(c *chunk, w int) uint64 { return c.measured[w].Load() &^ c.failed[w].Load() }
	return s.count(from, to, word, func(c *chunk) int64 {
		var n int64
		for w := range chunkWords {
			n += int64(bits.OnesCount64(word(c, w)))
		}
		return n
	})
}

// count adds up word over the bits of [from, to], or whole over chunks that lie
// entirely inside. to must not be above n.
func (s *source) count(from, to uint32, word func(*chunk, int) uint64, whole func(*chunk) int64) int64 {
	var n int64
	for from <= to && from > 0 {
		c, pos := s.chunk(from), (from-1)%chunkSize
		left := to - from + 1
		if pos == 0 && left >= chunkSize {
			n += whole(c)
			from += chunkSize
			continue
		}
		take := min(64-pos%64, left)
		w := word(c, int(pos/64)) >> (pos % 64)
		if take < 64 {
			w &= 1<<take - 1
		}
		n += int64(bits.OnesCount64(w))
		from += take
	}
	return n
}
