package faults

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
)

const everything = `drop(every=10, offset=3); announce(every=7, mode=poll)
duplicate(rate=0.5, seed=7) # a comment
reid(every=7, from=5, to=100); reorder(every=10, by=3)
delay(every=1, fixed=50ms); delay(rate=1, uniform=40ms..60ms); delay(rate=1, pareto=20ms, alpha=1.5, max=2s)
misdeliver(every=2); malformed(every=2); utf8(every=2); swap(every=4); drip(every=2, over=300ms); oversize(every=2)
cut(every=20, replay=true); cut(every=20, replay=false); signature(every=3, sign=stale); repeat(every=3)
stall(at=3s, for=2s); throttle(rate=50/s); heartbeats(); refuse(code=-32013, every=5); ttl(grant=2s); expire(after=1s)
forget(at=3s); early(); anonymous(); noretry
lapse(after=1s); leak(); noresume(code=-32602, every=2); noids(every=2); twofold(); lateresult(over=300ms)
stale(rate=0.5, seed=3); listttl(ms=-5); scope(); mixscope()
tokenrefuse(every=3); tokendown(every=2); tokenslow(over=100ms)
break(row=descriptor-name); break(row=stream-implemented, every=3, above=20, at=1s, mode=push)
trouble(every=4); revoke(at=1s); withdraw(at=1s); change(at=1s); gone(); hoard(mib=5)
announce(every=2, over=250ms, mode=webhook)`

func TestParseRoundTrip(t *testing.T) {
	s, err := Parse(everything)
	if err != nil {
		t.Fatal(err)
	}
	if len(s) != 50 {
		t.Errorf("%d faults", len(s))
	}
	again, err := Parse(s.String())
	if err != nil || !reflect.DeepEqual(again, s) {
		t.Errorf("%v\n%v\n%v", err, s, again)
	}
	for k := range kindSpecs {
		if !strings.Contains(everything, string(k)) {
			t.Errorf("%s is not tried", k)
		}
	}
}

// The default of the longest delay is ten times the least, but at most the
// bound of durations, so that the fault can be written and read again.
// TestLoad: a file is read up to a bound, without the mark that some editors begin it with.
func TestLoad(t *testing.T) {
	name := filepath.Join(t.TempDir(), "faults")
	for _, tt := range []struct{ text, want string }{
		{"\ufeffdrop(every=2)\n", ""},
		{strings.Repeat("# large\n", 1<<18), "larger than 1 MiB"},
	} {
		if err := os.WriteFile(name, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Load(name)
		switch {
		case tt.want == "" && (err != nil || len(s) != 1 || s[0].Kind != "drop"):
			t.Errorf("%v: %v", s, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%v, want %s", err, tt.want)
		}
	}
}

func TestParetoDefault(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"delay(rate=1, pareto=1ms)": 10 * time.Millisecond,
		"delay(rate=1, pareto=6m)":  time.Hour,
		"delay(rate=1, pareto=10m)": time.Hour,
		"delay(rate=1, pareto=1h)":  time.Hour,
	} {
		s, err := Parse(text)
		if err != nil || s[0].Most != want {
			t.Errorf("%s: %v, %v, want a longest delay of %v", text, s, err, want)
			continue
		}
		if again, err := Parse(s.String()); err != nil || !reflect.DeepEqual(again, s) {
			t.Errorf("%s: was written as %s and read again as %v, %v", text, s, again, err)
		}
	}
}

// A tail that exceeds the range of durations stays between the least and the
// longest delay.
func TestHeavyTail(t *testing.T) {
	f := Fault{Pareto: time.Hour, Alpha: 0.1, Most: time.Hour}
	for seq := range uint32(1000) {
		if d := f.DelayOf(eventmeter.Stamp{Seq: seq}); d != time.Hour {
			t.Fatalf("event %d: a delay of %v", seq, d)
		}
	}
}

// Errors truncate the text of a specification that they repeat.
func TestErrorsAreShort(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	for _, text := range []string{long, "drop(" + long, "drop(" + long + ")", "drop(" + long + "=1)",
		"drop(every=" + long + ")", "cut(every=1, replay=" + long + ")", "drop(mode=" + long + ", every=1)"} {
		if _, err := Parse(text); !errors.Is(err, errSpec) || len(err.Error()) > 700 {
			t.Errorf("%.40s: an error of %d bytes", text, len(fmt.Sprint(err)))
		}
	}
}

func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"dorp(every=2)":                            `line 1: dorp(every=2): unknown fault "dorp"; the faults are announce`,
		"\n drop(every=2":                          "line 2: drop(every=2: the closing ) is missing",
		"drop()":                                   "give either every=N or rate=SHARE",
		"drop(every=2, rate=0.5)":                  "give either every=N or rate=SHARE",
		"drop(every=0)":                            `"0" is not a whole number from 1`,
		"drop(every=2, every=2)":                   "every is given twice",
		"drop(every=2, by=3)":                      `unknown key "by"; the keys are mode, every`,
		"drop(every=2, offset=2)":                  "offset must be less than every",
		"drop(rate=1.5)":                           "is not a share",
		"drop(rate=NaN)":                           "is not a share",
		"drop(every=2, mode=puh)":                  "write poll, push or webhook",
		"break(row=nonsense)":                      "is no row of conformance that the server can break",
		"break(row=stream-implemented, mode=poll)": "the row exists only for push",
		"drop(every)":                              "write key=value",
		"drop(every=2, from=9, to=3)":              "to is less than from",
		"reorder(every=2)":                         "by is missing",
		"announce(every=2, over=1s)":               "over needs mode=webhook",
		"delay(every=2)":                           "give one of fixed, uniform and pareto",
		"delay(every=2, fixed=50)":                 "is not a duration",
		"delay(every=2, uniform=3ms..2ms)":         "is less than its start",
		"delay(every=2, fixed=1s, alpha=2)":        "belong to pareto",
		"cut(every=2, replay=x)":                   "neither true nor false",
		"cut(every=2, replay=true, mode=poll)":     "the fault exists only for push",
		"throttle(rate=50)":                        "is not a rate",
		"signature(every=2, sign=x)":               "write wrong, stale or missing",
	} {
		if _, err := Parse(text); !errors.Is(err, errSpec) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(everything)
	f.Add("delay(rate=1, pareto=10m)") // ten times that exceeds the bound of durations
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse(s.String())
		if err != nil || !reflect.DeepEqual(again, s) {
			t.Errorf("%q was read as %v and again as %v, %v", text, s, again, err)
		}
	})
}

func TestHits(t *testing.T) {
	s, err := Parse("drop(every=10, offset=3, to=20); duplicate(every=5, offset=3, mode=push)")
	if err != nil {
		t.Fatal(err)
	}
	for seq, want := range map[uint32]Kind{3: Drop, 8: Duplicate, 13: Drop, 18: Duplicate, 23: Duplicate, 4: ""} {
		if got, _ := s.Event(eventmeter.Push, eventmeter.Stamp{Seq: seq}); got.Kind != want {
			t.Errorf("push %d: %q, want %q", seq, got.Kind, want)
		}
	}
	if f, ok := s.Event(eventmeter.Poll, eventmeter.Stamp{Seq: 8}); ok {
		t.Errorf("poll: %v", f)
	}
	one, two := Fault{Kind: Drop, Rate: 0.3, Seed: 1}, Fault{Kind: Drop, Rate: 0.3, Seed: 2}
	const n = 100_000
	hits, both := 0, 0
	for seq := range uint32(n) {
		a := one.hits(eventmeter.Poll, eventmeter.Stamp{Run: seq, Source: 1, Seq: seq})
		if a != one.hits(eventmeter.Webhook, eventmeter.Stamp{Source: 1, Seq: seq}) {
			t.Fatal("the run or the mode changes what is hit")
		}
		if a {
			hits++
			if two.hits(eventmeter.Poll, eventmeter.Stamp{Source: 1, Seq: seq}) {
				both++
			}
		}
	}
	if math.Abs(float64(hits)/n-0.3) > 0.01 || math.Abs(float64(both)/n-0.09) > 0.01 {
		t.Errorf("%d hits, %d with both seeds", hits, both)
	}
}

func TestDelays(t *testing.T) {
	fixed := Fault{Fixed: 7 * time.Millisecond}
	uniform := Fault{Least: 40 * time.Millisecond, Most: 60 * time.Millisecond}
	pareto := Fault{Pareto: 10 * time.Millisecond, Alpha: 2, Most: time.Second}
	var sum, over float64
	const n = 100_000
	for seq := range uint32(n) {
		s := eventmeter.Stamp{Seq: seq}
		if fixed.DelayOf(s) != 7*time.Millisecond {
			t.Fatal("fixed")
		}
		u := uniform.DelayOf(s)
		if u < 40*time.Millisecond || u >= 60*time.Millisecond {
			t.Fatal(u)
		}
		sum += float64(u)
		p := pareto.DelayOf(s)
		if p < 10*time.Millisecond || p > time.Second {
			t.Fatal(p)
		}
		if p > 20*time.Millisecond {
			over++
		}
	}
	if mean := time.Duration(sum / n); (mean - 50*time.Millisecond).Abs() > 200*time.Microsecond {
		t.Errorf("uniform mean %v", mean)
	}
	if share := over / n; math.Abs(share-0.25) > 0.01 { // (10/20)^2
		t.Errorf("Pareto: a share of %v is over twice the least", share)
	}
}
