package wire

import (
	"bytes"
	"errors"
	"testing"

	"github.com/eventmeter/eventmeter/internal/budget"
)

// What is incomplete on many streams together stays within their budget; the
// stream that exceeds the budget fails, and the others go on.
func TestEventParsersShareBudget(t *testing.T) {
	b := budget.New(1 << 20)
	streams := make([]EventParser, 16)
	piece := bytes.Repeat([]byte("x"), 16<<10)
	failed := 0
	for i := range streams {
		p := &streams[i]
		p.Budget = b
		err := p.Feed([]byte("data: "), func(Event) {})
		for range 8 {
			if err == nil {
				err = p.Feed(piece, func(Event) {})
			}
		}
		switch {
		case errors.Is(err, budget.ErrExceeded):
			failed++
			if p.Feed([]byte("\n\n"), func(Event) { t.Error("a stream that failed goes on") }) == nil {
				t.Error("a stream that failed goes on")
			}
		case err != nil:
			t.Fatal(err)
		}
		if b.Used() > 1<<20 {
			t.Fatalf("%d bytes used", b.Used())
		}
	}
	if failed == 0 || failed > 14 {
		t.Errorf("%d of 16 streams failed", failed)
	}
	whole := 0
	for i := range streams {
		_ = streams[i].Feed([]byte("\n\n"), func(e Event) {
			whole++
			if len(e.Data) != 128<<10 {
				t.Errorf("%d bytes", len(e.Data))
			}
		})
	}
	if whole != 16-failed || b.Used() != 0 {
		t.Errorf("%d events of %d streams, %d bytes are left", whole, 16-failed, b.Used())
	}
}

// Reset gives everything back, in the middle of a line, too.
func TestEventParserReset(t *testing.T) {
	b := budget.New(0)
	p := EventParser{Budget: b}
	text := append([]byte("id: 7\nevent: e\ndata: "), bytes.Repeat([]byte("x"), 64<<10)...)
	if err := p.Feed(text, nil); err != nil || b.Used() == 0 {
		t.Fatalf("%v, %d bytes used", err, b.Used())
	}
	if p.Reset(); b.Used() != 0 || p.rare != nil {
		t.Errorf("%d bytes used", b.Used())
	}
	var got Event
	if err := p.Feed([]byte("data: y\n\n"), func(e Event) { got = e }); err != nil || string(got.Data) != "y" || len(got.ID) != 0 {
		t.Errorf("%v %+v", err, got)
	}
}

func TestFieldLimit(t *testing.T) {
	for _, field := range []string{"id", "event"} {
		for size, want := range map[int]error{FieldLimit: nil, FieldLimit + 1: ErrFieldTooLarge} {
			b := budget.New(0)
			p := EventParser{Budget: b}
			line := append([]byte(field+": "), bytes.Repeat([]byte("x"), size)...)
			if err := p.Feed(append(line, '\n'), nil); !errors.Is(err, want) {
				t.Errorf("%s of %d bytes: %v, want %v", field, size, err, want)
			}
			if err := p.Feed([]byte("\n"), func(Event) {}); !errors.Is(err, want) {
				t.Errorf("%s of %d bytes, then: %v, want %v", field, size, err, want)
			}
			p.Reset()
			if b.Used() != 0 {
				t.Errorf("%d bytes are left", b.Used())
			}
		}
	}
}

// A line that exceeds the budget is left out, and the next one is not.
func TestLineParserBudget(t *testing.T) {
	b := budget.New(256 << 10)
	p := LineParser{Budget: b}
	piece := bytes.Repeat([]byte("x"), 16<<10)
	var got []Line
	take := func(l Line) { got = append(got, Line{Size: l.Size, TooLong: l.TooLong}) }
	for range 32 {
		p.Feed(piece, take)
		if b.Used() > 256<<10 {
			t.Fatalf("%d bytes used", b.Used())
		}
	}
	p.Feed([]byte("\nshort\n"), take)
	if len(got) != 2 || !got[0].TooLong || got[0].Size != 512<<10+1 || got[1].TooLong || got[1].Size != 6 || b.Used() != 0 {
		t.Errorf("%+v, %d bytes are left", got, b.Used())
	}
}

func TestListLength(t *testing.T) {
	for text, want := range map[string]int{
		`{"result":{}}`: 0, `{"id":1,"result":{"events":[1,{"a":[2,3]},"x"],"nextCursor":"c"}}`: 5,
		`{"result":{"other":[1,2]}}`: 1, `{"error":{}}`: 0, `[]`: 0, ``: 0, `{"result":[1,2]}`: 0,
	} {
		if n := ListLength([]byte(text), "events"); n != want {
			t.Errorf("%s: %d, want %d", text, n, want)
		}
	}
}

// The text of an error is cut.
func TestErrorMessageLimit(t *testing.T) {
	var m Message
	text := append([]byte(`{"error":{"code":1,"message":"`), bytes.Repeat([]byte("x"), MessageLimit+5)...)
	if !ScanMessage(append(text, `"}}`...), &m) || len(m.Error.Message) != MessageLimit {
		t.Errorf("%d bytes", len(m.Error.Message))
	}
}
