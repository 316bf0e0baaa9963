package eventmeter

import "time"

// Instant is a point on the monotonic clock of this process, in nanoseconds
// since its [Clock] was made. The zero Instant means "not known": a Clock never
// returns it.
type Instant int64

// Sub returns the time from u to i.
func (i Instant) Sub(u Instant) time.Duration { return time.Duration(i - u) }

// Add returns the instant d after i.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d) }

// Clock turns the process's monotonic clock into Instants. A run has one Clock
// and passes it to everything that measures. It is safe for concurrent use.
type Clock struct{ start time.Time }

// NewClock starts a clock. Its first reading is at least one nanosecond.
func NewClock() *Clock { return &Clock{start: time.Now().Add(-time.Nanosecond)} }

// Now reads the clock.
func (c *Clock) Now() Instant { return Instant(time.Since(c.start)) }

// Instant converts t, which must have a monotonic reading of this process.
func (c *Clock) Instant(t time.Time) Instant { return Instant(t.Sub(c.start)) }

// Time returns the wall-clock time of i, for display.
func (c *Clock) Time(i Instant) time.Time { return c.start.Add(time.Duration(i)) }
