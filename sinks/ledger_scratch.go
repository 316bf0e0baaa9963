package sinks

import "sync"

// scratch are timings to add others up in while a lock is held that deliveries
// or firings wait for. They have all their pages, because what allocates may be
// made to help the garbage collector first, which would be waited for, too.
var scratch = sync.Pool{New: func() any {
	t := &timing{}
	all := new([tallyPages]tallyPage)
	for i := range all {
		t.pages[i] = &all[i]
	}
	return t
}}

// borrowed is an empty timing that must be given back.
func borrowed() *timing { return scratch.Get().(*timing) }

// giveBack empties t, which is void from then on.
func (t *timing) giveBack() {
	t.clear()
	scratch.Put(t)
}
