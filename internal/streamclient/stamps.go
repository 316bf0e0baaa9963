package streamclient

import "time"

// The kernel stamps what it receives with the wall clock, which is set and slewed;
// all other times are of a monotonic clock. The difference between the two is
// measured repeatedly, and a stamp is used only while the wall clock was not set.
const (
	// measureEvery is the age at which the difference is measured again. A
	// clock is slewed by 0.05 % at most, so the difference is off by at most 5 µs
	// after 10 ms.
	measureEvery = int64(10 * time.Millisecond)
	// stepLeast and stepShare bound the change of the difference that slewing and
	// inexact measurements can cause. A greater change means that the clock was set.
	stepLeast = int64(50 * time.Microsecond)
	stepShare = 1000 // of the time passed
	// distrust is how long stamps are not used after the clock was set: bytes that
	// were stamped before may still wait to be read.
	distrust = int64(time.Second)
	// early is how far a stamp may lie after the read, as an inexact difference
	// can place it; oldest is how long bytes may have waited to be read.
	early  = int64(100 * time.Microsecond)
	oldest = int64(time.Minute)
)

// stamps turns the kernel's receive times into times of a monotonic clock. It
// must not be used by two goroutines at once.
type stamps struct {
	now  func() int64
	wall func() int64 // nanoseconds since 1970; time.Now but in tests

	offset   int64 // monotonic minus wall
	measured int64 // when offset was measured; 0 = never
	doubted  int64 // until when no stamp is used
}

// update measures the difference if the last measurement is old.
func (s *stamps) update(now int64) {
	if s.measured != 0 && now-s.measured < measureEvery {
		return
	}
	offset, window := s.measure()
	if s.measured != 0 {
		change := offset - s.offset
		if change < 0 {
			change = -change
		}
		if change > stepLeast+window+(now-s.measured)/stepShare {
			s.doubted = now + distrust
		}
	}
	s.offset, s.measured = offset, now
}

// measure reads the wall clock between two readings of the monotonic clock, a few
// times, and keeps the two that are closest together: this goroutine may lose its
// processor between readings. window is the time between the two.
func (s *stamps) measure() (offset, window int64) {
	for i := range 8 {
		a := s.now()
		w := s.wall()
		b := s.now()
		if i == 0 || b-a < window {
			offset, window = a+(b-a)/2-w, b-a
		}
		if i >= 1 && window < int64(2*time.Microsecond) {
			break
		}
	}
	return offset, window
}

// at converts the stamp, in nanoseconds since 1970, of bytes that were read at
// read. If the stamp is not reliable, it returns read and false.
func (s *stamps) at(stamp, read int64) (int64, bool) {
	t := stamp + s.offset
	if read < s.doubted || t > read+early || t < read-oldest {
		return read, false
	}
	return min(t, read), true
}

func wallClock() int64 { return time.Now().UnixNano() }
