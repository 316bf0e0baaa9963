package driver

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"
)

// TestScope: a scope ends with its parent or by itself, whether something waited for its
// end before or not, and so do the contexts that are made of it.
func TestScope(t *testing.T) {
	type key struct{}
	for _, waited := range []bool{false, true} {
		for _, by := range []string{"itself", "its parent"} {
			parent, cancel := context.WithCancel(context.WithValue(context.Background(), key{}, 7))
			s := &scope{parent: parent}
			var child context.Context
			if waited {
				var stop context.CancelFunc
				child, stop = context.WithTimeout(s, time.Hour)
				defer stop()
			}
			if s.Err() != nil || s.Value(key{}) != 7 {
				t.Fatalf("before its end: %v, %v", s.Err(), s.Value(key{}))
			}
			if by == "itself" {
				s.end()
				s.end()
			} else {
				cancel()
			}
			if !errors.Is(s.Err(), context.Canceled) {
				t.Errorf("ended by %s: %v", by, s.Err())
			}
			<-s.Done()
			if waited {
				<-child.Done()
			}
			late, stop := context.WithCancel(s)
			<-late.Done()
			if stop(); !errors.Is(late.Err(), context.Canceled) || context.Cause(late) == nil {
				t.Errorf("made of a scope that had ended: %v", late.Err())
			}
			cancel()
		}
	}
}

// TestScopeHasNoGoroutine: contexts made of a scope are ended without a goroutine each.
func TestScopeHasNoGoroutine(t *testing.T) {
	s := &scope{parent: context.Background()}
	before := runtime.NumGoroutine()
	for range 100 {
		_, stop := context.WithCancel(s)
		defer stop()
	}
	if n := runtime.NumGoroutine() - before; n > 50 {
		t.Errorf("%d goroutines more", n)
	}
	s.end()
}

// TestScopeEndsOnce races the end with those who begin to wait for it.
func TestScopeEndsOnce(t *testing.T) {
	for range 200 {
		s := &scope{parent: context.Background()}
		done := make(chan struct{})
		go func() {
			<-s.Done()
			close(done)
		}()
		go s.end()
		<-s.Done()
		<-done
	}
}
