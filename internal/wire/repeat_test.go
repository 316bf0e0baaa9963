package wire

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

const repeated = `{"jsonrpc":"2.0","method":"notifications/events/event","params":{"eventId":"e-1","name":"tick",` +
	`"timestamp":"2026-11-20T10:00:00.120Z","cursor":"c10","_meta":{"io.modelcontextprotocol/subscriptionId":%s},` +
	`"data":{"note":"%s","n":[1,-20,3.25e+1,true,null],"q":"a\"b"}}}`

func event(id, note string) string { return fmt.Sprintf(repeated, id, note) }

// TestRepeatCompares says which messages are compared and not scanned, and what becomes of
// the memo.
func TestRepeatCompares(t *testing.T) {
	long := func(c string) string { return strings.Repeat(c, 30) }
	first, second, third := event("1000", long("a")), event("1001", long("a")), event("1002", long("a"))
	for _, c := range []struct {
		name        string
		before      []string
		then        string
		same, memod bool
	}{
		{"the same bytes", []string{first}, first, true, true},
		{"a token that never differed", []string{first}, second, false, false},
		{"a token that differed once", []string{first, second}, third, true, true},
		{"no leading zero", []string{first, second}, event("0002", long("a")), false, false},
		{"no other kind", []string{first, second}, event("true", long("a")), false, false},
		{"another length", []string{first, second}, event("10020", long("a")), false, false},
		{"a long string that differed", []string{first, event("1000", long("b"))}, event("1000", long("c")), true, false},
		{"a quote in it", []string{first, event("1000", long("b"))},
			event("1000", strings.Repeat("c", 12)+`","x":"`+strings.Repeat("c", 11)), false, false},
		{"an escape in it", []string{first, event("1000", long("b"))}, event("1000", strings.Repeat("c", 28)+`\n`), false, false},
		{"the event's id", []string{first, strings.Replace(first, "e-1", "e-2", 1)}, strings.Replace(first, "e-1", "e-3", 1), true, false},
		{"a member's name", []string{first, strings.Replace(first, `"name"`, `"nome"`, 1)}, first, false, false},
		{"the version", []string{first, strings.Replace(first, `"2.0"`, `"2.1"`, 1)}, first, false, false},
		{"a response", []string{`{"jsonrpc":"2.0","id":1,"result":{}}`}, `{"jsonrpc":"2.0","id":1,"result":{}}`, false, false},
		{"no object", []string{`[1]`}, `[1]`, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &Repeat{Memo: 30}
			for _, b := range c.before {
				m, _ := r.Scan([]byte(b))
				m.Memo = Memo{Set: true}
			}
			if got := r.same([]byte(c.then)); got != c.same {
				t.Fatalf("compared: %v", got)
			}
			if c.same && r.m.Memo.Set != c.memod {
				t.Errorf("the memo is kept: %v", r.m.Memo.Set)
			}
		})
	}
}

// TestRepeatIsAScan: whatever comes, the message is what ScanMessage makes of it, and the
// memo never outlives what it was derived from.
func TestRepeatIsAScan(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	r := &Repeat{Memo: 20}
	hash := func(m *Message, b []byte) uint64 { // of all that a memo may be derived from
		h := uint64(len(m.EventID))
		for _, c := range m.EventID {
			h = h*31 + uint64(c)
		}
		if i := bytes.Index(b, []byte("note-")); i >= 0 {
			for _, c := range b[i:min(i+20, len(b))] {
				h = h*31 + uint64(c)
			}
		}
		return h
	}
	notes := []string{"note-aaaaaaaaaaaaaaa", "note-bbbbbbbbbbbbbbb", `note-\u0061aaaaaaaaa`}
	compared := 0
	for i := range 60_000 {
		b := []byte(event(fmt.Sprint(100+rnd.IntN(900)), notes[rnd.IntN(2+i%2)]))
		for range max(0, rnd.IntN(8)-5) {
			b[rnd.IntN(len(b))] = `"\{}[]:,0123456789abc -.eE`[rnd.IntN(26)]
		}
		if r.pause > 3 {
			r.pause = 0
		}
		var want Message
		ok := ScanMessage(b, &want)
		before := bytes.Clone(b)
		was := len(r.text) > 0
		m, got := r.Scan(b)
		if got != ok {
			t.Fatalf("%s: %v, want %v", b, got, ok)
		}
		if !ok {
			continue
		}
		if was && m.Memo.Set {
			compared++
		}
		if m.Memo.Set && m.Memo.EventID != hash(m, b) {
			t.Fatalf("%s: the memo is of another event", b)
		}
		m.Memo = Memo{}
		if !reflect.DeepEqual(*m, want) {
			t.Fatalf("%s:\n%+v, want\n%+v", b, *m, want)
		}
		m.Memo = Memo{Set: true, EventID: hash(m, b)}
		if !bytes.Equal(b, before) {
			t.Fatal("the message was changed")
		}
	}
	if compared < 5000 {
		t.Errorf("only %d messages were compared", compared)
	}
}

// TestRepeatGivesUp: messages that never repeat are scanned without a comparison, nearly all
// of the time.
func TestRepeatGivesUp(t *testing.T) {
	r := &Repeat{}
	learned := 0
	for i := range 1000 {
		if r.Scan([]byte(event("1", strings.Repeat("x", i%100)))); len(r.text) > 0 {
			learned++
		}
	}
	if learned > 50 {
		t.Errorf("%d of 1000 messages were kept", learned)
	}
}

func BenchmarkRepeat(b *testing.B) {
	text := []byte(event("1000", strings.Repeat("x", 100)))
	b.Run("alone", func(b *testing.B) {
		var m Message
		for b.Loop() {
			ScanMessage(text, &m)
		}
	})
	b.Run("repeated", func(b *testing.B) {
		r := &Repeat{Memo: 30}
		at := bytes.Index(text, []byte("1000"))
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			text[at+3] = '0' + byte(i%10)
			r.Scan(text)
		}
	})
}
