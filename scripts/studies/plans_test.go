package main

import (
	"math"
	"testing"
)

// plansByHand is a study of two modes whose predictions are off by the given shares of what was measured.
func plansByHand(cpu, memory float64) *plans {
	s := &plans{Repeats: 2}
	for _, mode := range []string{"push", "webhook"} {
		m := plannedMode{Mode: mode, Searches: []plannedSearch{{Subscriptions: 1000, Sources: 10, From: 10, To: 40, Steps: 8}}}
		for i := range 5 {
			as := func(measured, off float64) prediction {
				v := measured * (1 + off)
				return prediction{Value: v, Low: v * 0.8, High: v * 1.2, Measured: measured}
			}
			p := plannedPoint{Subscriptions: 400 + 100*i, Sources: 5, Rate: 20, FanOut: 80 + float64(20*i), CPU: as(0.1+0.02*float64(i), cpu), Memory: as(50<<20, memory), Down: as(1<<20, 0.01)}
			if mode == "webhook" {
				p.Up = as(1<<18, 0.01)
			}
			m.Points = append(m.Points, p)
		}
		s.Modes = append(s.Modes, m)
	}
	return s
}

func TestPlansPage(t *testing.T) {
	good := pageOf(t, plansByHand(0.1, -0.05))
	says(t, good,
		"**10 of 10 predictions of CPU and 10 of 10 of memory were within 15 % of what was then measured**",
		"The furthest were +10.0 % of CPU (push with 400 subscriptions) and −5.0 % of memory",
		"20 of these 20 figures were inside their 95 % intervals.",
		"| Predictions of CPU are within 15 % | Held | push 5 of 5, webhook 5 of 5;",
		"| Predictions of bytes from subscribers are within 5 % | Held | webhook 5 of 5;", // streams send nothing
		"| 90 % of the 95 % intervals have what was measured | Held | 35 of 35 |")
	bad := plansByHand(0.3, 0.05)
	bad.Modes[0].Points[2].Memory.Measured = 10 << 20
	says(t, pageOf(t, bad),
		"**0 of 10 predictions of CPU and 9 of 10 of memory were within 15 %",
		"| Predictions of CPU are within 15 % | **Did not hold** |",
		"| 90 % of the 95 % intervals have what was measured | **Did not hold** | 24 of 35 |",
		"+30.0 % ¹")
}

func TestPredictionOff(t *testing.T) {
	if got := (prediction{Value: 90, Measured: 100}).off(); math.Abs(got+0.1) > 1e-9 {
		t.Errorf("90 of 100: off by %v", got)
	}
	if got := (prediction{Value: 1}).off(); !math.IsNaN(got) {
		t.Errorf("nothing measured: off by %v", got)
	}
}
