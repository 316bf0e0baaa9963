package wire

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// block is an Event that outlives its callback.
type block struct {
	data, id string
	none     bool
}

func parse(t testing.TB, pieces ...string) ([]block, *EventParser) {
	t.Helper()
	var p EventParser
	var got []block
	size := 0
	for _, s := range pieces {
		if err := p.Feed([]byte(s), func(e Event) {
			size += e.Size
			got = append(got, block{string(e.Data), string(e.ID), e.Data == nil})
		}); err != nil {
			t.Fatal(err)
		}
	}
	if whole := len(strings.Join(pieces, "")); size > whole {
		t.Errorf("blocks of %d bytes out of %d", size, whole)
	}
	return got, &p
}

func TestEventStream(t *testing.T) {
	for _, c := range []struct {
		name string
		in   string
		want []block
	}{
		{"one line", "data: a\n\n", []block{{data: "a"}}},
		{"no space", "data:a\n\n", []block{{data: "a"}}},
		{"one space only", "data:  a\n\n", []block{{data: " a"}}},
		{"lines", "data: a\ndata\ndata: b\n\n", []block{{data: "a\n\nb"}}},
		{"CRLF", "data: a\r\ndata: b\r\n\r\n", []block{{data: "a\nb"}}},
		{"CR", "data: a\rdata: b\r\r", []block{{data: "a\nb"}}},
		{"empty data", "data\n\n", []block{{}}},
		{"byte-order mark", "\ufeffdata: a\n\n", []block{{data: "a"}}},
		{"mark in the middle", "data: a\n\n\ufeffdata: b\n\n", []block{{data: "a"}, {none: true}}},
		{"comment", ": hi\n\ndata: a\n\n", []block{{none: true}, {data: "a"}}},
		{"the default name", "event: e\nevent: message\ndata: a\n\nevent: message\ndata: b\n\n", []block{{data: "a"}, {data: "b"}}},
		{"name and id", "event: e\nid: 1\ndata: a\n\ndata: b\n\n", []block{{data: "a", id: "1"}, {data: "b", id: "1"}}},
		{"id with a zero byte", "id: 1\x002\ndata: a\n\n", []block{{data: "a"}}},
		{"id is taken back", "id: 1\n\nid\ndata: a\n\n", []block{{id: "1", none: true}, {data: "a"}}},
		{"unknown fields", "foo: a\n:data: x\ndatax: b\ndata: a\n\n", []block{{data: "a"}}},
		{"no end", "data: a\n", nil},
		{"empty", "\n", []block{{none: true}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, _ := parse(t, c.in); !slices.Equal(got, c.want) {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			var pieces []string
			for i := range len(c.in) {
				pieces = append(pieces, c.in[i:i+1])
			}
			if got, _ := parse(t, pieces...); !slices.Equal(got, c.want) {
				t.Errorf("in single bytes: got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestEventRetry(t *testing.T) {
	_, p := parse(t, "retry: 1500\n\nretry: x\n\n")
	if ms, ok := p.Retry(); ms != 1500 || !ok {
		t.Errorf("retry %d %t", ms, ok)
	}
	if _, ok := new(EventParser).Retry(); ok {
		t.Error("a retry out of nothing")
	}
}

func TestEventLimit(t *testing.T) {
	for _, in := range []string{"data: " + strings.Repeat("x", 100) + "\n\n", strings.Repeat("x", 101),
		strings.Repeat("data: xxxxxxx\n", 20)} {
		p := EventParser{Limit: 90}
		err := p.Feed([]byte(in), func(Event) {})
		if !errors.Is(err, ErrTooLarge) || !errors.Is(p.Feed([]byte("\n"), nil), ErrTooLarge) {
			t.Errorf("%.20q: %v", in, err)
		}
		p.Reset()
		if err := p.Feed([]byte("data: a\n\n"), func(Event) {}); err != nil {
			t.Errorf("after a reset: %v", err)
		}
	}
}

// slowEvents follows the standard's text word by word, on the whole stream.
func slowEvents(s string) (out []block) {
	s = strings.TrimPrefix(s, "\ufeff")
	s = strings.ReplaceAll(s, "\r\n", "\n")
	s = strings.ReplaceAll(s, "\r", "\n")
	lines := strings.Split(s, "\n")
	lines = lines[:len(lines)-1] // the last one has no end
	var data, id string
	for _, line := range lines {
		if line == "" {
			out = append(out, block{strings.TrimSuffix(data, "\n"), id, data == ""})
			data = ""
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "data":
			data += value + "\n"
		case "id":
			if !strings.Contains(value, "\x00") {
				id = value
			}
		}
	}
	return out
}

func FuzzEventStream(f *testing.F) {
	f.Add("data: a\r\n\r\ndata: b\ndata:c\n\n", uint(3), uint(7))
	f.Add("\ufeffid: 1\revent: x\r: c\rdata\r\r\n", uint(1), uint(2))
	f.Fuzz(func(t *testing.T, s string, a, b uint) {
		want := slowEvents(s)
		i, j := int(a%uint(len(s)+1)), int(b%uint(len(s)+1))
		i, j = min(i, j), max(i, j)
		got, _ := parse(t, s[:i], s[i:j], s[j:])
		// A CR at the very end ends its line at once, while the oracle takes a
		// LF that may follow into account; both see the same stream here.
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%q: got %+v, want %+v", s, got, want)
		}
	})
}

const sampleFrame = `{"jsonrpc":"2.0","method":"notifications/events/event","params":{"eventId":"e-90",` +
	`"name":"ticket.moved","timestamp":"2026-11-20T10:00:00.120Z","data":{"board":"b3","eventId":"inner","note":"some text ` +
	`around evtm-00000001-0000-00000001-26 and after"},"cursor":"c42",` +
	`"_meta":{"io.modelcontextprotocol/subscriptionId":7}}}`

func TestEventStreamAllocatesNothing(t *testing.T) {
	frame := []byte("event: message\nid: 12\ndata: " + sampleFrame + "\n\n")
	var p EventParser
	n := 0
	emit := func(e Event) { n += len(e.Data) }
	if got := testing.AllocsPerRun(100, func() { p.Feed(frame, emit) }); got != 0 {
		t.Errorf("%g allocations", got)
	}
}

func BenchmarkEventStream(b *testing.B) {
	frame := []byte("event: message\nid: 12\ndata: " + sampleFrame + "\n\n")
	for _, size := range []int{len(frame), 64} {
		b.Run(fmt.Sprintf("pieces of %d", size), func(b *testing.B) {
			var p EventParser
			emit := func(Event) {}
			b.ReportAllocs()
			b.SetBytes(int64(len(frame)))
			for b.Loop() {
				for piece := range slices.Chunk(frame, size) {
					p.Feed(piece, emit)
				}
			}
		})
	}
}

func ExampleEventParser() {
	var p EventParser
	show := func(e Event) { fmt.Printf("%s %s\n", e.ID, bytes.ToUpper(e.Data)) }
	p.Feed([]byte("id: 7\ndata: hel"), show)
	p.Feed([]byte("lo\n\n"), show)
	// Output: 7 HELLO
}

// TestParserIsIdle: between two blocks one parser is as good as another, unless the stream
// has an id or a retry time to keep. The byte-order mark counts at the beginning only.
func TestParserIsIdle(t *testing.T) {
	for _, c := range []struct {
		in   string
		idle bool
	}{
		{"", true}, {"data: a\n\n", true}, {": hi\n\ndata: a\ndata: b\n\n", true}, {"event: message\ndata: a\n\n", true},
		{"data: a\n", false}, {"data", false}, {"data: a\n\r", false}, {"id: 1\ndata: a\n\n", false}, {"retry: 5\n\n", false},
	} {
		var p EventParser
		if err := p.Feed([]byte(c.in), func(Event) {}); err != nil || p.Idle() != c.idle {
			t.Errorf("after %q: %v, %v", c.in, p.Idle(), err)
		}
	}
	var p EventParser
	for _, begun := range []bool{false, true} {
		got := 0
		p.Resume(begun, nil)
		if err := p.Feed([]byte("\ufeffdata: a\n\n"), func(e Event) { got = len(e.Data) }); err != nil || (got == 1) == begun {
			t.Errorf("begun %v: %d bytes, %v", begun, got, err)
		}
	}
}
