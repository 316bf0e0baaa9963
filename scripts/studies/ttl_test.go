package main

import (
	"math"
	"strings"
	"testing"
)

// pageOf writes the page of a study.
func pageOf(t *testing.T, s study) string {
	t.Helper()
	p := &page{entry: entry{name: "x", question: "?"}, file: file{Scale: 1, Machine: machine{CPUs: 2}}, charts: map[string]chart{}}
	s.write(p)
	for name, c := range p.charts {
		if text := string(c.svg()); strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
			t.Errorf("%s has values that are no numbers", name)
		}
	}
	return string(p.markdown())
}

// has checks that a page has sentences, and lacks those that begin with "no: ".
func has(t *testing.T, text string, sentences ...string) {
	t.Helper()
	for _, s := range sentences {
		lacks, no := strings.CutPrefix(s, "no: ")
		if strings.Contains(text, lacks) == no {
			t.Errorf("has %q: %v, in\n%s", lacks, no, text)
		}
	}
}

func near(t *testing.T, what string, got, want, by float64) {
	t.Helper()
	if !(math.Abs(got-want) <= by) {
		t.Errorf("%s: %g, want %g", what, got, want)
	}
}

func TestTTLExpectations(t *testing.T) {
	near(t, "mean interval", meanInterval(0.75, 0.1), 0.7, 1e-9)
	near(t, "peak over mean", peakOverMean(0.75, 0.3), 2, 1e-9) // (0.75 - 0.15) / 0.3
	near(t, "smallest jitter", smallestJitter(0.75), 0.3, 1e-9)
	near(t, "refreshes", refreshesPer1000(10, 0.75, 0.1), 3.6e6/7, 1e-6)
	near(t, "refreshes without expiry", refreshesPer1000(0, 0.75, 0.1), 0, 0)
	// 10 a second with 20 s, granted 7 s ago in the mean, stay for 13 s.
	near(t, "stored", storedExpected(100, 10, 20, 0.75, 0.1), 230, 1e-9)
	// Without jitter all are refreshed 9 s after an opening that takes no time, and 18 s.
	h := ttlHerd{TTL: 12, Subscriptions: 50}
	h.simulate(0.75, 20)
	for i, n := range h.Expected {
		want := 0.0
		if i == 9 || i == 18 {
			want = 50
		}
		near(t, "a second without jitter", n, want, 1e-6)
	}
	// With 0.5 of 12 s, the first wave is even over 3 s to 9 s; the second begins after 6 s.
	near(t, "the largest second without jitter", h.Peak.Low, 50, 0)
	h = ttlHerd{Jitter: 0.5, TTL: 12, Subscriptions: 6000}
	h.simulate(0.75, 20)
	near(t, "before the first wave", h.Expected[2], 0, 0)
	near(t, "the first wave", h.Expected[4], 1000, 50)
}

func ttlData() *ttlStudy {
	s := &ttlStudy{RefreshAt: 0.75}
	for repeat := 1; repeat <= 2; repeat++ {
		for _, ttl := range []float64{10, 40, 0} {
			c := ttlCost{TTL: ttl, Repeat: repeat, Subscriptions: 1000, Seconds: 100, RefreshBytes: 1000, Stored: 1000}
			c.Refreshes = refreshesPer1000(ttl, 0.75, defaultJitter) / 36
			c.CPU = 1 + c.Refreshes*0.0002
			s.Costs = append(s.Costs, c)
		}
	}
	for _, jitter := range []float64{0, 0.1, 0.4} {
		h := ttlHerd{Jitter: jitter, TTL: 12, Subscriptions: 1000}
		h.simulate(0.75, 22)
		h.PerSecond = h.Expected
		s.Herds = append(s.Herds, h)
	}
	s.Abandoned = []ttlStored{{TTL: 20, Live: 100, Rate: 10, Stored: storedExpected(100, 10, 20, 0.75, defaultJitter)}}
	return s
}

func TestTTLPage(t *testing.T) {
	s := ttlData()
	per, base := s.slope(1)
	near(t, "CPU of a refresh", per, 0.0002, 1e-9)
	near(t, "CPU without refreshes", base, 0.01, 1e-9)
	// 300 s: 3.6e6 / (300 × 0.725) × 0.2 ms = 3.31 s; 10 s: 99.3 s.
	has(t, pageOf(t, s), "**A refresh costs the server 0.2 ms of CPU and 1\u202f000 bytes", "3.31 CPU-seconds an hour with a TTL of 5 minutes and 99.3",
		"a jitter of 40.0 % of the grant was the smallest", "no: did not hold", "no: runs only", "is 40.0 % as measured, and 40.0 % in the simulation", "every run was within a tenth")
	s.Costs[0].CPU *= 2
	s.Herds[1].PerSecond, s.Abandoned[0].Stored = make([]float64, 22), 700
	has(t, pageOf(t, s), "That did not hold well", "**That held in 2 of 3 runs only.** The smallest jitter of the sweep with a peak below twice the mean is 10.0 % as measured, and 40.0 %", "That did not hold: one run was")
	s.Herds = s.Herds[:1]
	has(t, pageOf(t, s), "a jitter of no share that was tried of the grant")
}
