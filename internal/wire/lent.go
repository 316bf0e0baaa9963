package wire

import "sync"

// lent is a buffer that is held only while it is not empty, so that thousands of
// idle streams need none.
type lent struct{ box *[]byte }

var lentBuffers = sync.Pool{New: func() any { b := make([]byte, 0, 1<<10); return &b }}

// maxLent is the largest buffer that is reused, so that one large event does not
// occupy its size for ever.
const maxLent = 16 << 10

// bytes returns the content.
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

// release returns the buffer. The results of bytes and add become invalid.
func (l *lent) release() {
	if l.box != nil && cap(*l.box) <= maxLent {
		lentBuffers.Put(l.box)
	}
	l.box = nil
}
