package wire

import "sync"

// lent is a buffer that is held only while something is in it, so that
// thousands of streams which wait for their next event have none.
type lent struct{ box *[]byte }

var lentBuffers = sync.Pool{New: func() any { b := make([]byte, 0, 1<<10); return &b }}

// maxLent is the largest buffer that is lent again: one large event must not
// cost its size for ever.
const maxLent = 16 << 10

// bytes returns what is in it.
func (l *lent) bytes() []byte {
	if l.box == nil {
		return nil
	}
	return *l.box
}

// add appends b, which may not be in l itself, and returns everything.
func (l *lent) add(b []byte) []byte {
	if l.box == nil {
		l.box = lentBuffers.Get().(*[]byte)
		*l.box = (*l.box)[:0]
	}
	*l.box = append(*l.box, b...)
	return *l.box
}

// release gives the buffer back. What bytes and add returned is void.
func (l *lent) release() {
	if l.box != nil && cap(*l.box) <= maxLent {
		lentBuffers.Put(l.box)
	}
	l.box = nil
}
