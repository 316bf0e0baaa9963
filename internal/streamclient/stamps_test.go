package streamclient

import (
	"testing"
	"time"
)

// clocks are two clocks that a test sets.
type clocks struct{ mono, wall int64 }

func (c *clocks) pass(d time.Duration) { c.mono += int64(d); c.wall += int64(d) }

func TestStamps(t *testing.T) {
	c := &clocks{mono: 1e9, wall: 1.7e18}
	s := stamps{now: func() int64 { return c.mono }, wall: func() int64 { return c.wall }}
	s.update(c.mono)
	check := func(what string, stamp, read, want int64, kernel bool) {
		t.Helper()
		if got, ok := s.at(stamp, read); got != want || ok != kernel {
			t.Errorf("%s: %d %t, want %d %t", what, got, ok, want, kernel)
		}
	}
	check("a moment ago", c.wall-5000, c.mono, c.mono-5000, true)
	check("the difference is inexact", c.wall+5000, c.mono, c.mono, true)
	check("from the future", c.wall+int64(time.Second), c.mono, c.mono, false)
	check("from another day", c.wall-int64(time.Hour), c.mono, c.mono, false)

	// Slewing is followed and believed.
	for range 1000 {
		c.pass(20 * time.Millisecond)
		c.wall += 10_000 // 0.05 %
		s.update(c.mono)
		check("slewed", c.wall-5000, c.mono, c.mono-5000, true)
	}
	// A clock that was set is not believed, for as long as what came before may
	// still lie in a socket.
	old := c.wall - 5000
	c.pass(20 * time.Millisecond)
	c.wall += int64(time.Hour)
	s.update(c.mono)
	check("set, before", old, c.mono, c.mono, false)
	check("set, after", c.wall-5000, c.mono, c.mono, false)
	c.pass(time.Second)
	s.update(c.mono)
	check("later", c.wall-5000, c.mono, c.mono-5000, true)
	c.pass(20 * time.Millisecond)
	c.wall -= int64(time.Millisecond)
	s.update(c.mono)
	check("set back by a millisecond", c.wall-5000, c.mono, c.mono, false)
	// After a long sleep the difference is simply measured anew.
	c.pass(time.Hour)
	c.wall += int64(time.Second)
	s.update(c.mono)
	check("after a sleep", c.wall-5000, c.mono, c.mono-5000, true)
}

func TestMeasureKeepsTheClosest(t *testing.T) {
	c := &clocks{mono: 1e9, wall: 5e9}
	n := 0
	s := stamps{
		now: func() int64 { n++; c.pass(time.Microsecond / 4); return c.mono },
		wall: func() int64 {
			w := c.wall
			if n < 6 {
				c.pass(time.Millisecond)
			}
			return w
		},
	}
	if offset, window := s.measure(); window > 1000 || offset < -4e9-1000 || offset > -4e9+1000 {
		t.Errorf("%d, known to %d ns", offset, window)
	}
}
