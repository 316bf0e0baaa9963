// Package crash lets a program decide how it ends when a goroutine panics. Go
// itself exits with code 2 and a stack for each goroutine, and nothing outside a
// goroutine can change that.
package crash

import "sync/atomic"

var handler atomic.Pointer[func(p any)]

// Handle sets what is called with the value of every panic that a [Guard] recovers. It must end the
// program. Without a handler, panics continue as usual, because a library leaves them to its
// caller.
func Handle(f func(p any)) { handler.Store(&f) }

// Guard must be deferred at the start of a goroutine.
func Guard() {
	f := handler.Load()
	if f == nil {
		return
	}
	if p := recover(); p != nil {
		(*f)(p)
	}
}

// Guarded returns f with a Guard, to start as a goroutine.
func Guarded(f func()) func() {
	return func() {
		defer Guard()
		f()
	}
}
