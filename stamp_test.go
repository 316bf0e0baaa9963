package eventmeter_test

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
)

func TestStampRoundTrip(t *testing.T) {
	for _, s := range []eventmeter.Stamp{
		{}, {Run: 1, Source: 2, Seq: 3}, {Run: 0xffffffff, Source: 0xffff, Seq: 0xffffffff}, {Run: 0xc0ffee, Source: 7, Seq: 41},
	} {
		text := s.String()
		if len(text) != eventmeter.ProbeLen ||
			!regexp.MustCompile(`^evtm-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{8}-[0-9a-f]{2}$`).MatchString(text) {
			t.Errorf("%+v: probe id %q", s, text)
		}
		if got, err := eventmeter.ParseStamp(text); err != nil || got != s {
			t.Errorf("ParseStamp(%q) = %+v, %v", text, got, err)
		}
		if got, ok := eventmeter.FindStamp([]byte(`{"data":{"note":"x evtm- ` + text + ` y"}}`)); !ok || got != s {
			t.Errorf("FindStamp around %q = %+v, %v", text, got, ok)
		}
	}
}

func TestStampDamage(t *testing.T) {
	s := eventmeter.Stamp{Run: 0x1234abcd, Source: 5, Seq: 77}
	text := s.String()
	for i := range text {
		for _, c := range []byte("0f-g") {
			damaged := []byte(text)
			if damaged[i] == c {
				continue
			}
			damaged[i] = c
			if got, ok := eventmeter.FindStamp(damaged); ok && got == s {
				t.Errorf("%q was read as the undamaged stamp", damaged)
			}
		}
	}
	if _, err := eventmeter.ParseStamp(text + "x"); err == nil {
		t.Error("a longer text was accepted")
	}
	if _, ok := eventmeter.FindStamp([]byte(text[:29])); ok {
		t.Error("a cut probe id was accepted")
	}
}

// FuzzFindStamp compares the scanner with a regular expression.
func FuzzFindStamp(f *testing.F) {
	f.Add([]byte("evtm-evtm-00000001-0002-00000003-00"))
	f.Add(eventmeter.Stamp{Run: 1, Source: 2, Seq: 3}.Append([]byte("evtm-")))
	form := regexp.MustCompile(`evtm-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{8}-[0-9a-f]{2}`)
	f.Fuzz(func(t *testing.T, b []byte) {
		got, ok := eventmeter.FindStamp(b)
		var want eventmeter.Stamp
		found := false
		for i := range b {
			if m := form.FindIndex(b[i:]); m != nil && m[0] == 0 {
				if s, err := eventmeter.ParseStamp(string(b[i : i+eventmeter.ProbeLen])); err == nil {
					want, found = s, true
					break
				}
			}
		}
		if ok != found || got != want {
			t.Errorf("FindStamp(%q) = %+v %v, want %+v %v", b, got, ok, want, found)
		}
	})
}

func TestFindStampDoesNotAllocate(t *testing.T) {
	b := []byte(strings.Repeat("x", 300) + eventmeter.Stamp{Run: 9}.String())
	if n := testing.AllocsPerRun(100, func() { eventmeter.FindStamp(b) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestHashID(t *testing.T) {
	if eventmeter.HashID(nil) != 0 || eventmeter.HashID([]byte("")) != 0 {
		t.Error("no id must hash to 0")
	}
	if a, b := eventmeter.HashID([]byte("e-1")), eventmeter.HashID([]byte("e-2")); a == 0 || a == b {
		t.Errorf("hashes %x and %x", a, b)
	}
}

func TestClock(t *testing.T) {
	c := eventmeter.NewClock()
	a := c.Now()
	if a <= 0 {
		t.Errorf("first reading %d", a)
	}
	now := time.Now()
	if got := c.Instant(c.Time(a)); got != a {
		t.Errorf("Instant(Time(%d)) = %d", a, got)
	}
	if d := c.Time(c.Now()).Sub(now); d < 0 || d > time.Minute {
		t.Errorf("the clock is %v away from the wall", d)
	}
	if got := a.Add(time.Second).Sub(a); got != time.Second {
		t.Errorf("Add and Sub differ: %v", got)
	}
}

func BenchmarkFindStamp(b *testing.B) {
	frame := append(bytes.Repeat([]byte(`{"k":"v"},`), 30), eventmeter.Stamp{Run: 1, Source: 2, Seq: 3}.String()...)
	b.ReportAllocs()
	b.SetBytes(int64(len(frame)))
	for b.Loop() {
		if _, ok := eventmeter.FindStamp(frame); !ok {
			b.Fatal("not found")
		}
	}
}

func ExampleStamp() {
	s := eventmeter.Stamp{Run: 0xc0ffee, Source: 3, Seq: 41}
	found, ok := eventmeter.FindStamp([]byte(`{"data":{"note":"` + s.String() + `"}}`))
	fmt.Println(s, ok, found == s)
	// Output: evtm-00c0ffee-0003-00000029-52 true true
}
