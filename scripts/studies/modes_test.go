package main

import (
	"math"
	"strings"
	"testing"
)

// says requires texts of a page.
func says(t *testing.T, page string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(page, w) {
			t.Errorf("no %q in\n%s", w, page)
		}
	}
}

func exactly(v float64) spread { return spread{Median: v, Low: v, High: v, N: 2} }

// modesByHand are measurements that follow the lines: an idle action costs 100 µs (poll), 15 µs
// (push) or 150 µs (webhook), an event 10, 30 or 120 µs.
func modesByHand() *modes {
	m := &modes{FanOut: 10, Units: []modeUnit{
		{Mode: "poll", CPUMicros: exactly(100), Bytes: exactly(900)},
		{Mode: "push", CPUMicros: exactly(15), Bytes: exactly(160)},
		{Mode: "webhook", CPUMicros: exactly(150), Bytes: exactly(1200)},
	}}
	for _, c := range []struct {
		mode       string
		p99        float64
		cpu, bytes []float64 // at the rates
	}{
		{"poll", 990, []float64{100_010, 10_010, 1_010, 110, 20}, []float64{900_150, 90_150, 9_150, 1_050, 240}},
		{"push", 5, []float64{1_020, 120, 30, 30, 30}, []float64{10_860, 1_260, 300, 300, 300}},
		// Without refreshes, which come every 1350 s.
		{"webhook", 8, []float64{120, 120, 120, 120, 120}, []float64{600, 600, 600, 600, 600}},
	} {
		for i, rate := range []float64{0.001, 0.01, 0.1, 1, 10} {
			m.Points = append(m.Points, modePoint{Mode: c.mode, Rate: rate, Actual: rate, ActualBytes: rate, Subscriptions: 100, Received: 1000,
				P50MS: exactly(c.p99 / 2), P99MS: exactly(c.p99), CPUMicros: exactly(c.cpu[i]), Bytes: exactly(c.bytes[i])})
		}
	}
	return m
}

func TestModesExpected(t *testing.T) {
	m := modesByHand()
	for _, c := range []struct {
		mode string
		rate float64
		want float64
	}{
		{"poll", 0.1, 1010},             // 10 polls an event
		{"fast-poll", 0.1, 4010},        // 40
		{"push", 0.001, 1020},           // 66 heartbeats in 1000 s
		{"push", 0.1, 30},               // none in 10 s
		{"webhook", 0.001, 120 + 1/9.0}, // 100 / 135 refreshes of 150 µs are 111.1 µs; see below
	} {
		if c.mode == "webhook" {
			c.want = 120 + 150/1.35
		}
		if got := m.expected(cpuCost, c.mode, c.rate); math.Abs(got-c.want) > 0.02 {
			t.Errorf("%s at %g/s: %.3f µs, want %.3f", c.mode, c.rate, got, c.want)
		}
	}
	if got := m.total(cpuCost, m.point("webhook", 0.001)).Median; math.Abs(got-231.11) > 0.01 {
		t.Errorf("webhook with its refreshes: %.2f µs, want 231.11", got)
	}
	// 100/r + 10 = 30 at 5/s. From 110 : 30 at 1/s to 20 : 30 at 10/s, a straight line crosses at 10^0.762.
	if measured, expected := m.crossing(cpuCost, "poll", "push"); math.Abs(measured-5.78) > 0.01 || math.Abs(expected-5) > 0.25 {
		t.Errorf("poll and push cost the same at %.2f/s, expected %.2f/s; want 5.78 and 5", measured, expected)
	}
	if measured, expected := m.crossing(bytCost, "push", "poll"); math.IsNaN(measured) || math.Abs(expected-6) > 0.3 { // 900/r + 150 = 300
		t.Errorf("bytes: %.2f, expected %.2f, want 6", measured, expected)
	}
}

func TestModesPage(t *testing.T) {
	m := modesByHand()
	says(t, pageOf(t, m),
		"**The least server CPU for an event, by the rate of events of one subscription: webhook at 0.001/s, push from 0.01/s to 1/s, poll every second at 10/s.",
		"The fewest bytes: webhook up to 0.01/s, push from 0.1/s to 1/s, poll every second at 10/s.**",
		"poll every second 990 ms, push 5.00 ms, webhook 8.00 ms",
		"| At 0.001/s, webhook costs the least CPU | Held |", "| From 0.1/s to 1/s, push costs the least CPU | Held |", "| At 10/s, poll costs the least CPU | Held |",
		"within 5 % | Held |", "p99 under 100 ms at every rate | Held | all |", "predict server CPU within 25 % at the rates that they were not made from | Held |",
		"| poll every second and push | 5.78 |",
		"webhook rather than push for subscriptions that receive less than an event in 1", "push rather than poll every second for subscriptions that receive less than 5.78 events/s, beyond that poll every second;",
		"the same CPU by polls as by push if it polls every 100 s", // 100 µs / 15 µs × 15 s
	)
	// Push is dear, polls are late, and at 1/s webhook and push cannot be told apart.
	for i := range m.Points {
		switch p := &m.Points[i]; p.Mode {
		case "push":
			p.CPUMicros = spread{Median: 125, Low: 110, High: 500, N: 2}
			p.P99MS = exactly(300)
		case "poll":
			p.P99MS = exactly(1200)
		}
	}
	says(t, pageOf(t, m),
		"| From 0.1/s to 1/s, push costs the least CPU | **Did not hold** | 0.1/s: push or webhook; 1/s: poll every second or push |",
		"within 5 % | **Did not hold** | furthest: 1\u202f200 (1\u202f200–1\u202f200) ms where 990 was expected |",
		"p99 under 100 ms at every rate | **Did not hold** | push at 0.001/s: 300 ms;",
		"predict server CPU within 25 % at the rates that they were not made from | **Did not hold** |",
	)
	m.Points = nil
	pageOf(t, m) // nothing was measured: no panic
}
