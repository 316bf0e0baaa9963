package crash

import (
	"sync"
	"testing"
)

// Without a handler a panic goes on; with one, the handler gets it.
func TestGuard(t *testing.T) {
	went := func() (p any) {
		defer func() { p = recover() }()
		Guarded(func() { panic("as usual") })()
		return nil
	}
	if p := went(); p != "as usual" {
		t.Errorf("without a handler: %v", p)
	}
	var told any
	Handle(func(p any) { told = p })
	var work sync.WaitGroup
	work.Go(Guarded(func() { panic("handled") }))
	work.Go(Guarded(func() {}))
	work.Wait()
	if told != "handled" {
		t.Errorf("the handler got %v", told)
	}
	if p := went(); p != nil {
		t.Errorf("with a handler: %v", p)
	}
}
