package truth

import "testing"

// Intervals cover the truth about as often as they claim, whatever the truth: 95 % of runs, less
// 3 % for what the study allows and 2 % for so few runs. Intervals that take every delivery for an
// independent sample do not.
func TestCoverage(t *testing.T) {
	const runs = 40
	quantiles := []float64{0.5, 0.9, 0.99, 0.999}
	for _, m := range Models {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			for k, c := range m.Measure(runs, quantiles, 1) {
				t.Logf(
					"p%g: covered %d of %d, %d open, high/low %.3f, naive %d, %d trends",
					100*quantiles[k],
					c.Covered,
					c.Runs,
					c.Open,
					c.Width,
					c.Naive,
					c.Trends,
				)
				if c.Runs != runs || c.Covered < runs*90/100 {
					t.Errorf("p%g: the interval covers the truth in %d of %d runs", 100*quantiles[k], c.Covered, c.Runs)
				}
				if c.Trends > runs/10 {
					t.Errorf("p%g: a trend is found in %d of %d runs without one", 100*quantiles[k], c.Trends, c.Runs)
				}
				if k == 0 && c.Open > runs/5 {
					t.Errorf("the sample is said not to carry the median in %d of %d runs", c.Open, c.Runs)
				}
				if k == 0 && (m.Name == "iid") != (c.Naive >= runs*90/100) {
					t.Errorf(
						"the interval of independent samples covers the median in %d of %d runs: the model is not what it should be",
						c.Naive,
						c.Runs,
					)
				}
			}
		})
	}
}

// Runs that end when the interval is narrow cover the truth as often, unless the load changes more
// slowly than they can see.
func TestUntil(t *testing.T) {
	const runs = 30
	for _, c := range []struct {
		model     int
		p, within float64
		covered   int // at the least
	}{{2, 0.5, 0.05, runs * 90 / 100}, {4, 0.9, 0.1, runs * 90 / 100}, {5, 0.9, 0.1, runs * 75 / 100}} {
		m := Models[c.model]
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			s := m.Until(runs, 1.25, c.p, c.within, 1)
			t.Logf("%+v", s)
			if s.Runs != runs || s.Covered < c.covered || s.Within > s.Reached || s.Spans < leastSpans || s.Spans > MostSpans {
				t.Errorf("%+v", s)
			}
			if near := m.Until(1, 1.25, c.p, 1e-6, 1); near.Reached != 0 || near.Spans != MostSpans {
				t.Errorf("out of reach: %+v", near)
			}
		})
	}
}
