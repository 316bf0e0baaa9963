package plan

import (
	"math"

	"github.com/eventmeter/eventmeter/internal/stats/dist"
)

const (
	// priorNoise is how much a figure of a process varies between equal runs, as a share,
	// and priorRuns how many runs that assumption is worth beside those that were
	// measured. Without it, four steps of one search would give no interval.
	priorNoise = 0.1
	priorRuns  = 4
	// trafficNoise is priorNoise for bytes on the wire, which are counted.
	trafficNoise = 0.02
)

// Range is a figure with its 95 % interval.
type Range struct {
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// times scales a range.
func (r Range) times(by float64) Range { return Range{r.Value * by, r.Low * by, r.High * by} }

// point is one measurement of a figure.
type point struct {
	x []float64 // the load, by column of the model
	y float64
}

// model is a figure as a sum of costs: y = Σ cost · load, with costs that are not
// negative. It is fitted by least squares, with weights for a noise that is a share
// of the figure.
type model struct {
	cost  []float64
	cov   [][]float64 // of the costs, for a noise of scale 1; 0 for a column without data
	most  []float64   // largest load of each column that was measured
	noise float64     // share by which a measurement is off, at scale 1
	floor float64     // and an amount by which any is
	half  float64     // half of a 95 % interval, for a noise of scale 1
	// counted says that the figure is a sum of counts, such as bytes.
	counted bool
}

// fit fits a model to points, which must not be empty.
func fit(points []point, noise, floor float64) *model {
	n := len(points[0].x)
	m := &model{cost: make([]float64, n), most: make([]float64, n), noise: noise, floor: floor}
	for _, p := range points {
		for j, x := range p.x {
			m.most[j] = max(m.most[j], x)
		}
	}
	expected := make([]float64, len(points))
	for i, p := range points {
		expected[i] = p.y
	}
	// The noise follows from the expected figure, which follows from the fit.
	for range 5 {
		weights := make([]float64, len(points))
		for i := range points {
			weights[i] = 1 / m.variance(expected[i])
		}
		m.solve(points, weights)
		for i, p := range points {
			expected[i] = m.at(p.x)
		}
	}
	used, off := 0.0, 0.0
	for i, p := range points {
		d := p.y - expected[i]
		off += d * d / m.variance(expected[i])
	}
	for j := range m.cost {
		if m.cov[j][j] > 0 {
			used++
		}
	}
	free := max(0, float64(len(points))-used)
	df := priorRuns + free
	m.half = dist.StudentQuantile(0.975, df) * math.Sqrt((priorRuns+off)/df) // noise that the measurements show, over what was assumed
	return m
}

// variance is that of one measurement at scale 1.
func (m *model) variance(y float64) float64 { return m.noise*m.noise*y*y + m.floor*m.floor }

// solve sets the costs and their covariance. A cost that would be negative is 0; the
// covariance is that of a fit without this bound, so that such a cost stays
// uncertain.
func (m *model) solve(points []point, weights []float64) {
	n := len(m.cost)
	normal, right := make([][]float64, n), make([]float64, n)
	for j := range n {
		normal[j] = make([]float64, n)
		for i, p := range points {
			right[j] += weights[i] * p.x[j] * p.y
			for k := range n {
				normal[j][k] += weights[i] * p.x[j] * p.x[k]
			}
		}
	}
	use := make([]bool, n)
	for j := range use {
		use[j] = true
	}
	m.cov = inverse(normal, use)
	for {
		cov := inverse(normal, use)
		worst, at := 0.0, -1
		for j := range n {
			m.cost[j] = 0
			for k := range n {
				m.cost[j] += cov[j][k] * right[k]
			}
			if v := m.cost[j] / math.Sqrt(max(cov[j][j], math.SmallestNonzeroFloat64)); m.cost[j] < 0 && v < worst {
				worst, at = v, j
			}
		}
		if at < 0 {
			return
		}
		use[at] = false
	}
}

// at is the figure at a load.
func (m *model) at(x []float64) float64 {
	y := 0.0
	for j := range x {
		y += m.cost[j] * x[j]
	}
	return y
}

// beyond is how far a load is outside what was measured: 1 = within, 2 = on average
// over the parts of the figure, twice what was measured.
func (m *model) beyond(x []float64) float64 {
	out, all := 1.0, m.at(x)
	for j := range x {
		if m.most[j] > 0 && all > 0 {
			out += m.cost[j] * x[j] / all * max(0, x[j]/m.most[j]-1)
		}
	}
	return out
}

// predict returns the figure that a measurement at a load would give, with its
// interval. Outside what was measured, the interval is wider by the square root of
// beyond, because costs were assumed to be proportional and are not: the memory of
// 1,000 streams was half of what 300 had let expect. What is counted is proportional.
func (m *model) predict(x []float64) Range {
	y := m.at(x)
	variance := m.variance(y)
	for j := range x {
		for k := range x {
			variance += x[j] * m.cov[j][k] * x[k]
		}
	}
	half := m.half * math.Sqrt(variance)
	wide := 1.0
	if !m.counted {
		wide = math.Sqrt(m.beyond(x))
	}
	return Range{Value: y, Low: max(0, y-half) / wide, High: (y + half) * wide}
}

// dependent is the share of a column that is left without those before it, below which
// it counts as following from them.
const dependent = 1e-3

// inverse inverts a symmetric matrix in the rows that are used. A row that follows
// from those before it, or that is empty, is left out: its part of the result is 0.
func inverse(of [][]float64, use []bool) [][]float64 {
	n := len(of)
	a, out := make([][]float64, n), make([][]float64, n)
	scale := make([]float64, n)
	for j := range n {
		a[j], out[j] = make([]float64, n), make([]float64, n)
		scale[j] = math.Sqrt(of[j][j])
	}
	in := make([]bool, n)
	for j := range n {
		if in[j] = use[j] && scale[j] > 0; in[j] {
			out[j][j] = 1
		}
		for k := range n {
			if use[j] && use[k] && scale[j] > 0 && scale[k] > 0 {
				a[j][k] = of[j][k] / scale[j] / scale[k]
			}
		}
	}
	for j := range n { // Gauss and Jordan; a[j][j] is what is left of a 1
		if !in[j] {
			continue
		}
		if a[j][j] < dependent {
			in[j] = false
			continue
		}
		by := a[j][j]
		for k := range n {
			a[j][k] /= by
			out[j][k] /= by
		}
		for i := range n {
			if f := a[i][j]; i != j && in[i] && f != 0 {
				for k := range n {
					a[i][k] -= f * a[j][k]
					out[i][k] -= f * out[j][k]
				}
			}
		}
	}
	for j := range n {
		for k := range n {
			if !in[j] || !in[k] {
				out[j][k] = 0
				continue
			}
			out[j][k] /= scale[j] * scale[k]
		}
	}
	return out
}
