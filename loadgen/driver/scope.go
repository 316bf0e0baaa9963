package driver

import (
	"context"
	"sync/atomic"
	"time"
)

// scope is a context that ends with end, or with its parent. It needs a context of the
// standard library, and a place in its parent, only once something waits for its end:
// of a million attachments that are open, nearly none does.
type scope struct {
	parent context.Context
	inner  atomic.Pointer[innerScope]
	ended  atomic.Bool
}

// innerScope is what a scope becomes when something waits for its end.
type innerScope struct {
	context.Context
	cancel context.CancelFunc
}

// end ends the scope. It may be called again.
func (s *scope) end() {
	s.ended.Store(true)
	if i := s.inner.Load(); i != nil {
		i.cancel()
	}
}

// Err implements context.Context.
func (s *scope) Err() error {
	if s.ended.Load() {
		return context.Canceled
	}
	return s.parent.Err()
}

// Done implements context.Context.
func (s *scope) Done() <-chan struct{} {
	if i := s.inner.Load(); i != nil {
		return i.Done()
	}
	i := &innerScope{}
	i.Context, i.cancel = context.WithCancel(s.parent)
	if !s.inner.CompareAndSwap(nil, i) {
		i.cancel()
		return s.inner.Load().Done()
	}
	if s.ended.Load() { // end may have looked for it too early
		i.cancel()
	}
	return i.Done()
}

// Deadline implements context.Context.
func (s *scope) Deadline() (time.Time, bool) { return s.parent.Deadline() }

// Value implements context.Context. Contexts that are made of this one find its inner
// context, and are added to that in place of a goroutine that waits.
func (s *scope) Value(key any) any {
	if i := s.inner.Load(); i != nil {
		return i.Value(key)
	}
	return s.parent.Value(key)
}
