package streamclient

import (
	"bytes"
	"io"
	"testing"

	"golang.org/x/net/http2"
)

// deliveries is a read of many small DATA frames on many streams, again and
// again.
func deliveries(streams int) []byte {
	var b bytes.Buffer
	w := http2.NewFramer(&b, nil)
	event := bytes.Repeat([]byte("x"), 371)
	for i := range streams {
		w.WriteData(uint32(2*i+1), false, event)
	}
	return b.Bytes()
}

// endless gives the same bytes over and over.
type endless struct {
	b []byte
	r int
}

func (l *endless) Read(b []byte) (int, error) {
	n := copy(b, l.b[l.r:])
	if l.r += n; l.r == len(l.b) {
		l.r = 0
	}
	return n, nil
}

const benchStreams = 1000

func BenchmarkH2Deliver(b *testing.B) {
	p := newH2(Options{}, h2Defaults)
	c := newH2Conn(p, nil, nil)
	src := &endless{b: deliveries(benchStreams)}
	c.in.read = func(b []byte) (int, Arrival, error) {
		n, err := src.Read(b)
		return n, Arrival{At: p.opts.Now()}, err
	}
	c.greeted = true
	sink := &counting{}
	for i := range uint32(benchStreams) {
		id := 2*i + 1
		c.table[id] = &h2Stream{client: p, conn: c, sink: sink, id: id, headed: true, left: -1}
		c.nextID = id + 2
	}
	b.ReportAllocs()
	for b.Loop() {
		fr, at, err := c.in.next()
		if err == nil {
			err = c.data(&fr, at)
		}
		must(b, err)
		if len(c.control) > 64<<10 { // nobody writes here
			c.control = c.control[:0]
		}
	}
	if sink.n == 0 {
		b.Fatal("nothing was delivered")
	}
}

// BenchmarkH2Framer is the baseline: frames cut, and nothing done with them.
func BenchmarkH2Framer(b *testing.B) {
	f := http2.NewFramer(io.Discard, &endless{b: deliveries(benchStreams)})
	f.SetReuseFrames()
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		fr, err := f.ReadFrame()
		must(b, err)
		n += len(fr.(*http2.DataFrame).Data())
	}
	if n == 0 {
		b.Fatal("nothing was read")
	}
}
