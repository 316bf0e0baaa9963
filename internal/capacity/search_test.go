package capacity

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/results"
)

// drive runs a search on a function and returns the loads that were tried.
func drive(t *testing.T, o Options, verdict func(load float64, trial int) Verdict) (*Search, []float64) {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	var loads []float64
	trials := map[float64]int{}
	for {
		load, more := s.Next()
		if !more {
			return s, loads
		}
		if len(loads) > 500 {
			t.Fatal("it does not end")
		}
		loads = append(loads, load)
		trials[load]++
		s.Record(load, verdict(load, trials[load]))
	}
}

func TestSearch(t *testing.T) {
	upTo := func(limit float64) func(float64, int) Verdict {
		return func(load float64, _ int) Verdict {
			if load <= limit {
				return Passed
			}
			return Failed
		}
	}
	for name, c := range map[string]struct {
		o       Options
		verdict func(float64, int) Verdict
		outcome Outcome
		maximum Maximum
		loads   []float64 // nil = not compared
	}{
		"whole numbers": {
			Options{From: 1, To: 100, Integer: true, Precision: 0.01}, upTo(11), Found, Maximum{11, 12, 11, 12},
			[]float64{1, 2, 4, 8, 16, 11, 13, 12, 11, 12},
		},
		"none": {Options{From: 5, To: 100}, upTo(3), None, Maximum{0, 5, 0, 5}, []float64{5, 5}},
		"bound": {Options{From: 5, To: 30, Confirm: 3}, upTo(100), Bound, Maximum{30, 0, 30, 0},
			[]float64{5, 10, 20, 30, 30, 30}},
		"bound is a maximum load": {Options{From: 5, To: 20, Integer: true, Precision: 0.4}, upTo(19), Found, Maximum{17, 20, 17, 20}, nil},
		"one bad trial of a good load": {
			Options{From: 1, To: 100, Integer: true, Precision: 0.01},
			func(load float64, trial int) Verdict {
				if load == 11 && trial == 1 {
					return Failed
				}
				return upTo(14)(load, trial)
			}, Found, Maximum{14, 15, 10, 15}, nil,
		},
		"one good trial of a bad load": {
			Options{From: 1, To: 100, Integer: true, Precision: 0.01},
			func(load float64, trial int) Verdict {
				if load == 16 && trial == 1 {
					return Passed
				}
				return upTo(11)(load, trial)
			}, Found, Maximum{11, 12, 11, 17}, nil,
		},
		"the generator is the limit": {
			Options{From: 1, To: 100, Integer: true, Precision: 0.01, Retries: 1},
			func(load float64, _ int) Verdict {
				if load > 8 {
					return Unclear
				}
				return Passed
			}, Generator, Maximum{8, 9, 8, 0}, []float64{1, 2, 4, 8, 16, 16, 11, 11, 9, 9, 8},
		},
		"unclear once": {
			Options{From: 1, To: 100, Integer: true, Precision: 0.01},
			func(load float64, trial int) Verdict {
				if trial == 1 {
					return Unclear
				}
				return upTo(8)(load, trial)
			}, Found, Maximum{8, 9, 8, 9}, nil,
		},
		"unclear at once": {Options{From: 1, To: 9}, func(float64, int) Verdict { return Unclear }, Generator,
			Maximum{0, 1, 0, 0}, []float64{1, 1, 1}},
		"noise": {Options{From: 1, To: 9, MaxTrials: 20, Confirm: 9},
			func(_ float64, trial int) Verdict { return []Verdict{Passed, Failed}[trial%2] }, Exhausted, Maximum{1, 0, 0, 0}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s, loads := drive(t, c.o, c.verdict)
			if got := s.Outcome(); got != c.outcome {
				t.Errorf("outcome %s, want %s", got, c.outcome)
			}
			if c.outcome != Exhausted && s.Maximum() != c.maximum {
				t.Errorf("maximum load %+v, want %+v of %+v", s.Maximum(), c.maximum, s.Points())
			}
			if c.loads != nil && !slices.Equal(loads, c.loads) {
				t.Errorf("tried %v, want %v", loads, c.loads)
			}
		})
	}
}

func TestSearchOptions(t *testing.T) {
	for _, o := range []Options{
		{}, {From: 1, To: 1}, {From: 2, To: 1}, {From: -1, To: 1},
		{From: 1.5, To: 3, Integer: true}, {From: 1, To: 2, Precision: 2}, {From: 1, To: 2, Confirm: -1},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}

func TestJudge(t *testing.T) {
	slo := results.CapacitySLO{P99: 250e6, P50: 100e6, Loss: 0.01, Backlog: 0.01}
	good := Measured{Expected: 1000, Fired: 100, Offered: 500, Latency: results.Quantiles{P99: 200e6}}
	for _, c := range []struct {
		change func(*Measured)
		want   Verdict
		reason string
	}{
		{func(*Measured) {}, Passed, ""},
		{func(m *Measured) { m.Latency.P99 = 250e6 }, Failed, "p99 250ms, limit 250ms"},
		{func(m *Measured) { m.Latency.P50 = 120e6 }, Failed, "p50 120ms, limit 100ms"},
		{func(m *Measured) { m.Lost = 10 }, Passed, ""},
		{func(m *Measured) { m.Lost = 11 }, Failed, "11 of 1000 deliveries missing after the drain (1.1 %, limit 1 %)"},
		{func(m *Measured) { m.Failed = 2 }, Failed, "2 of 100 events not confirmed"},
		{func(m *Measured) { m.Growth = 5 }, Passed, ""},
		{func(m *Measured) { m.Growth = 6 }, Failed, "backlog grows by 6 deliveries/s, 1.2 % of the offered rate (limit 1.0 %)"},
		{func(m *Measured) { m.Growth, m.GrowthError = 6, 4 }, Passed, ""},
		{func(m *Measured) { m.Bottleneck = []string{"busy"} }, Passed, ""},
		{func(m *Measured) { m.Growth, m.Bottleneck = 6, []string{"busy"} }, Unclear, "the generator may be the cause: busy"},
		{func(m *Measured) { m.Dropped = 0.02 }, Unclear, "2.0 % of the events were never published"},
		{func(m *Measured) { *m = Measured{} }, Unclear, "nothing was owed"},
		{func(m *Measured) { m.Unjudged = []string{"lane a received nothing"} }, Unclear, "lane a received nothing"},
		{func(m *Measured) { m.Unjudged, m.Lost = []string{"lane a received nothing"}, 500 }, Failed, "lane a received nothing"},
	} {
		m := good
		c.change(&m)
		v, reasons := Judge(&slo, &m)
		if v != c.want || (len(reasons) == 0) != (c.reason == "") || !strings.Contains(strings.Join(reasons, "\n"), c.reason) {
			t.Errorf("%+v: %v %q, want %v %q", m, v, reasons, c.want, c.reason)
		}
	}
}

func TestGrowth(t *testing.T) {
	at := func(i int) time.Duration { return time.Duration(i) * 50 * time.Millisecond }
	series := func(n int, f func(i int) float64) []Reading {
		var out []Reading
		for i := range n {
			out = append(out, Reading{at(i), f(i)})
		}
		return out
	}
	for name, c := range map[string]struct {
		readings []Reading
		period   time.Duration
		want     float64
	}{
		"flat":     {series(40, func(int) float64 { return 7 }), 0, 0},
		"growing":  {series(40, func(i int) float64 { return 3 + float64(i)*0.5 }), 0, 10},
		"draining": {series(40, func(i int) float64 { return 100 - float64(i) }), 0, -20},
		// 100 at once every 500 ms, drained in 450: nothing stays behind.
		"bursts": {series(60, func(i int) float64 { return 100 - float64(i%10)*100/9 }), 500 * time.Millisecond, 0},
		// a hiccup at the very end is no growth
		"hiccup": {series(40, func(i int) float64 {
			if i == 39 {
				return 500
			}
			return 1
		}), 0, 0},
		"long period": {series(8, func(i int) float64 { return float64(i) }), time.Second, 20},
	} {
		got, _, ok := Growth(c.readings, c.period)
		if !ok || got < c.want-0.001 || got > c.want+0.001 {
			t.Errorf("%s: %v, %v, want %v", name, got, ok, c.want)
		}
	}
	if _, _, ok := Growth(series(3, func(int) float64 { return 0 }), 0); ok {
		t.Error("a slope of three readings")
	}
}

func Example() {
	s, err := New(Options{From: 10, To: 1000, Integer: true, Precision: 0.1})
	if err != nil {
		fmt.Println(err)
		return
	}
	for {
		load, more := s.Next()
		if !more {
			break
		}
		v := Passed
		if load > 70 { // a real run stands here
			v = Failed
		}
		s.Record(load, v)
	}
	k := s.Maximum()
	fmt.Println(s.Outcome(), k.Load, k.Above)
	// Output: found 68 74
}

func TestDigits(t *testing.T) {
	for _, c := range []struct {
		x    float64
		n    int
		want string
	}{{100, 2, "100"}, {37.6, 2, "38"}, {1.25, 2, "1.2"}, {0.012, 2, "0.012"}, {1204.4, 3, "1204"}, {73.25, 3, "73.2"}, {0, 2, "0"}} {
		if got := digits(c.x, c.n); got != c.want {
			t.Errorf("%v with %d digits: %s, want %s", c.x, c.n, got, c.want)
		}
	}
}
