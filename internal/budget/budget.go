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

// Default is the default budget of a run: 256 MiB.
const Default = 256 << 20

// Allowance is the number of bytes that every Hold has for free.
const Allowance = 4 << 10

// Weight is the charge per held byte. The garbage collector lets the heap grow to twice the memory
// in use before it collects.
const Weight = 2

// step is what charges are rounded up to, so that a buffer that grows slowly
// changes the shared counter rarely.
const step = 4 << 10

// ErrExceeded is returned when the budget is exhausted.
var ErrExceeded = errors.New("the run's memory budget (limits.memory) is used up")

// Budget is a number of bytes shared by many holders. A nil Budget has no bound. It is safe for
// concurrent use.
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

// reserve takes n bytes, or none if fewer are left.
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

// Resize records that the owner now holds n bytes. If the budget is exhausted it returns
// [ErrExceeded] and leaves the Hold unchanged; the owner must then release its bytes and call
// [Hold.Drop].
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

// Held reports whether anything is charged.
func (h *Hold) Held() bool { return h.held != 0 }

// Drop returns everything to the budget.
func (h *Hold) Drop() {
	if h.held != 0 {
		h.budget.release(h.held)
		h.held = 0
	}
}
