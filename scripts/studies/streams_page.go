package main

import (
	"fmt"
	"math"
)

func (s *streams) write(p *page) {
	h2 := s.h2()
	one, few, many := &s.Ways[0], &h2[0], &h2[len(h2)-1]
	n := one.large().Streams
	p.answer("**A stream over HTTP/1.1 takes %s KiB of the server's memory and a file; over HTTP/2 it takes %s KiB with a connection of its own, and %s KiB with %s to a connection.** A burst to %s streams is received after %s ms at p99 over HTTP/1.1, and after %s ms over HTTP/2 with %s to a connection: %s. Opening them takes %s s and %s s.",
		one.perStream(), few.perStream(), many.perStream(), count(many.PerConnection), count(n), one.large().P99Ms, many.large().P99Ms, count(many.PerConnection),
		than(one.large().P99Ms, many.large().P99Ms, "earlier", "later"), one.large().OpenMs.inSeconds(), many.large().OpenMs.inSeconds())

	p.heading("What was measured")
	p.text("Each subscription has an open stream, as MCP Events asks of push. One event a second goes to all of them: a burst. The p99 is from publishing until a stream has received the event. Memory per stream is the difference between the server's peak memory with %s and with %s streams, divided by %s: what is there without streams cancels out.", count(n), count(one.small().Streams), count(n-one.small().Streams))
	var rows [][]string
	for i := range s.Ways {
		w := &s.Ways[i]
		l := w.large()
		rows = append(rows, []string{w.name(), l.P99Ms.String(), w.small().P99Ms.String(), l.OpenMs.inSeconds().String(), w.perStream().String(), count(l.Connections), files(l.Files)})
	}
	p.table([]string{"streams per connection", "burst p99, ms, " + count(n), "burst p99, ms, " + count(one.small().Streams), "time to open " + count(n) + ", s", "memory per stream, KiB", "connections", "files of the server"}, rows)

	p.heading("Held against expectations")
	p.text("**Connections.** Expected are streams / streams per connection, and a few that carry the first requests. %s", s.connectionsText())
	p.text("**Memory.** Expected is *a* + *b* / (streams per connection), where *a* belongs to a stream and *b* to a connection. *a* and *b* follow from the ends of the axis; the points between them are the test. %s", s.memoryText())
	p.text("**Burst.** Expected was that sharing a connection makes a burst no later, because the frames are the same and the writes fewer. %s", s.burstText())
	p.text("**Opening.** Expected was that sharing a connection makes opening no slower. %s", s.openText())
	s.charts(p)

	p.changesIt("TLS: each connection then has buffers and keys of its own, so *b* grows.")
	p.changesIt("A network that loses packets: a lost segment holds up every stream of its connection, and on one machine none is lost.")
	p.changesIt("A server that allows few streams on a connection (100 is usual): the client then opens more connections, whatever it would like.")
}

// name is how a way is called in tables.
func (w *streamsWay) name() string {
	if w.HTTP == "1.1" {
		return "HTTP/1.1"
	}
	return "HTTP/2, " + count(w.PerConnection)
}

func files(n int64) string {
	if n == 0 {
		return "–"
	}
	return count(n)
}

// than says how b is beside a, and calls a difference one only if the ranges are apart.
func than(a, b spread, less, more string) string {
	switch {
	case !apart(a, b):
		return "the repeats do not tell them apart"
	case b.Median < a.Median:
		return number(a.Median/b.Median) + " times " + less
	}
	return number(b.Median/a.Median) + " times " + more
}

func (s *streams) connectionsText() string {
	for i := range s.Ways {
		w := &s.Ways[i]
		l := w.large()
		if more := l.Connections - int64(w.expectedConnections(l.Streams)); more < 0 || more > 8 {
			return fmt.Sprintf("It did not hold: %s had %s for %s streams.", w.name(), count(l.Connections), count(l.Streams))
		}
	}
	return "It held: no way had more than eight others."
}

func (s *streams) memoryText() string {
	a, b := s.memoryModel()
	text := fmt.Sprintf("*a* is %s KiB and *b* is %s KiB.", number(a), number(b))
	h2 := s.h2()
	for i := 1; i < len(h2)-1; i++ {
		w := &h2[i]
		got, want := w.perStream(), a+b/float64(w.PerConnection)
		if math.Abs(got.Median/want-1) > 0.2 && (want < got.Low || want > got.High) {
			return text + fmt.Sprintf(" It did not hold: with %s to a connection a stream takes %s KiB, and %s were expected.", count(w.PerConnection), got, number(want))
		}
	}
	return text + " It held: each point between is within a fifth of the expected value, or its repeats span it."
}

// burstText compares the burst of each way over HTTP/2 with that of connections of their own.
func (s *streams) burstText() string {
	return s.rises(func(w *streamsWay) spread { return w.large().P99Ms }, "ms")
}

func (s *streams) openText() string {
	return s.rises(func(w *streamsWay) spread { return w.large().OpenMs }, "ms")
}

// rises says whether a figure rises when streams share connections.
func (s *streams) rises(of func(*streamsWay) spread, unit string) string {
	h2 := s.h2()
	own := of(&h2[0])
	best := -1
	for i := 1; i < len(h2); i++ {
		switch v := of(&h2[i]); {
		case !apart(own, v):
		case v.Median > own.Median:
			return fmt.Sprintf("It did not hold: %s %s with connections of their own, and %s %s with %s streams to one.", own, unit, v, unit, count(h2[i].PerConnection))
		case best < 0 || v.Median < of(&h2[best]).Median:
			best = i
		}
	}
	if best < 0 {
		return "It held: the repeats do not tell any from connections of their own."
	}
	return fmt.Sprintf("It held, and sharing is faster: %s %s with connections of their own, and %s %s with %s streams to one.", own, unit, of(&h2[best]), unit, count(h2[best].PerConnection))
}

func (s *streams) charts(p *page) {
	a, b := s.memoryModel()
	h2 := s.h2()
	memory, model, old := series{name: "HTTP/2"}, series{name: "expected: a + b / streams per connection", expected: true, hue: 1}, series{name: "HTTP/1.1"}
	burst, flat, oldBurst := series{name: "HTTP/2"}, series{name: "expected: at most as with a connection each", expected: true, hue: 1}, series{name: "HTTP/1.1"}
	mark := func(v spread, x float64) point { return point{x, v.Median, v.Low, v.High} }
	for i := range h2 {
		w, x := &h2[i], float64(h2[i].PerConnection)
		memory.points = append(memory.points, mark(w.perStream(), x))
		burst.points = append(burst.points, mark(w.large().P99Ms, x))
		model.points = append(model.points, point{x: x, y: a + b/x})
		flat.points = append(flat.points, point{x: x, y: h2[0].large().P99Ms.Median})
	}
	old.points = []point{mark(s.Ways[0].perStream(), 1)}
	oldBurst.points = []point{mark(s.Ways[0].large().P99Ms, 1)}
	x := axis{title: "streams per connection", log: true}
	p.chart("memory", "The server's memory per stream against the streams of a connection", chart{title: "Memory of the server per stream", x: x, y: axis{title: "KiB"}, series: []series{memory, model, old}})
	p.chart("burst", "The 99th percentile of a burst against the streams of a connection", chart{title: "Burst to " + count(s.Ways[0].large().Streams) + " streams, p99", x: x, y: axis{title: "ms, published → received"}, series: []series{burst, flat, oldBurst}})
}
