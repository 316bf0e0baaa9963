// Package budget bounds the memory that a target can make this process hold:
// messages, heads and answers that are not complete yet.
//
// All streams of a run share one [Budget]. Each has a [Hold], which charges the
// Budget only for what exceeds a small allowance, so that ordinary messages
// touch no shared counter.
package budget

import (
	"errors"
	"sync/atomic"
)

// Default is the budget of a run where nothing else is said: 256 MiB.
const Default = 256 << 20

// Allowance is what every Hold has for free, in bytes.
const Allowance = 4 << 10

// Weight is what a held byte is charged. The garbage collector lets the heap
// grow to twice what is in use before it collects.
const Weight = 2

// step is what charges are rounded up to, so that a buffer that grows slowly
// changes the shared counter rarely.
const step = 4 << 10

// ErrExceeded is returned when the budget has no room.
var ErrExceeded = errors.New("the run's memory budget (limits.memory) is used up")

// Budget is a number of bytes that many share. A nil Budget has no bound. It is
// safe for concurrent use.
type Budget struct {
	limit int64
	used  atomic.Int64
}

// New returns a budget of that many bytes; 0 or less = [Default].
func New(limit int64) *Budget {
	if limit <= 0 {
		limit = Default
	}
	return &Budget{limit: limit}
}

// Used returns the bytes that are reserved now.
func (b *Budget) Used() int64 {
	if b == nil {
		return 0
	}
	return b.used.Load()
}

// reserve takes n bytes, or none if they are not there.
func (b *Budget) reserve(n int64) bool {
	if b == nil {
		return true
	}
	if b.used.Add(n) > b.limit {
		b.used.Add(-n)
		return false
	}
	return true
}

func (b *Budget) release(n int64) {
	if b != nil {
		b.used.Add(-n)
	}
}

// Hold is what one stream, answer or body has reserved. The zero value has no
// bound. It must not be copied, or used by two goroutines at once.
type Hold struct {
	budget *Budget
	held   int64
}

// Of returns a Hold on b.
func Of(b *Budget) Hold { return Hold{budget: b} }

// Resize says that the owner holds n bytes now. It returns [ErrExceeded] when
// the budget has no room for them; the Hold is as it was then, and the owner has
// to give its bytes up and call [Hold.Drop].
func (h *Hold) Resize(n int) error {
	want := int64(0)
	if n > Allowance {
		want = Weight * ((int64(n) - Allowance + step - 1) / step * step)
	}
	switch d := want - h.held; {
	case d == 0:
		return nil
	case d < 0:
		h.budget.release(-d)
	case !h.budget.reserve(d):
		return ErrExceeded
	}
	h.held = want
	return nil
}

// Held tells whether anything is charged.
func (h *Hold) Held() bool { return h.held != 0 }

// Drop gives everything back.
func (h *Hold) Drop() {
	if h.held != 0 {
		h.budget.release(h.held)
		h.held = 0
	}
}
