package loadgen

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	vegeta "github.com/tsenart/vegeta/v12/lib"
)

var schedules = map[string]Schedule{
	"constant 20":      Constant{Rate: 20},
	"constant 300":     Constant{Rate: 300},
	"constant 1/h":     Constant{Rate: 1.0 / 3600},
	"constant 1e6":     Constant{Rate: 1e6},
	"burst":            Burst{Size: 10, Every: 500 * time.Millisecond},
	"burst spread":     Burst{Size: 7, Every: time.Second, Spread: 300 * time.Millisecond},
	"burst too spread": Burst{Size: 7, Every: time.Second, Spread: time.Hour},
	"ramp up":          Ramp{From: 0, To: 1000, Over: 30 * time.Second},
	"ramp down":        Ramp{From: 500, To: 20, Over: 20 * time.Second},
	"ramp to zero":     Ramp{From: 500, To: 0, Over: 20 * time.Second},
	"ramp flat":        Ramp{From: 50, To: 50, Over: 20 * time.Second},
	"ramp step":        Ramp{From: 50, To: 70},
	"sine":             Sine{Mean: 100, Amplitude: 80, Period: 7 * time.Second},
	"sine full":        Sine{Mean: 100, Amplitude: 100, Period: 5 * time.Second},
	"sine flat":        Sine{Mean: 100, Period: 5 * time.Second},
	"poisson":          Poisson{Rate: 200, Seed: 4},
}

func TestSchedulesNeverDecrease(t *testing.T) {
	for name, s := range schedules {
		last := time.Duration(0)
		for n := range uint64(20_000) {
			at, ok := s.At(n)
			if !ok {
				if _, later := s.At(n + 100); later {
					t.Errorf("%s: event %d is missing and a later one is not", name, n)
				}
				break
			}
			if at < last {
				t.Fatalf("%s: event %d is due at %v, before the last one's %v", name, n, at, last)
			}
			last = at
		}
		// Random access, far out, in pairs.
		r := rand.New(rand.NewPCG(1, 2))
		for range 2000 {
			n := r.Uint64N(1 << 34)
			a, ok1 := s.At(n)
			b, ok2 := s.At(n + 1)
			if ok2 && !ok1 || ok1 && ok2 && b < a {
				t.Fatalf("%s: emissions %d and %d are due at %v and %v", name, n, n+1, a, b)
			}
		}
	}
}

// rateAt is the rate that a schedule is defined by, in emissions per second.
func rateAt(s Schedule, t time.Duration) float64 {
	switch s := s.(type) {
	case Constant:
		return s.Rate
	case Burst:
		return float64(s.Size) / s.Every.Seconds() // averaged over a whole burst
	case Ramp:
		if t >= s.Over {
			return s.To
		}
		return s.From + (s.To-s.From)*(float64(t)/float64(s.Over))
	case Sine:
		return s.Mean + s.Amplitude*math.Sin(2*math.Pi*float64(t%s.Period)/float64(s.Period))
	}
	panic("no rate")
}

// TestCountIsTheIntegral holds the number of emissions before T against the
// integral of the rate, which is added up here in small steps.
func TestCountIsTheIntegral(t *testing.T) {
	for name, s := range schedules {
		if name == "poisson" || name == "burst" || name == "constant 1e6" {
			continue // random; counted in TestBurst; exact in TestConstant
		}
		slack := 1.01
		if b, ok := s.(Burst); ok {
			slack = float64(b.Size)
		}
		const step = time.Millisecond
		sum := 0.0
		for at := time.Duration(0); at < 45*time.Second; at += step {
			if at%(500*time.Millisecond) == 0 {
				if got := float64(Count(s, at)); math.Abs(got-sum) > slack {
					t.Errorf("%s: %v emissions before %v, the integral is %.3f", name, got, at, sum)
					break
				}
			}
			sum += rateAt(s, at+step/2) * step.Seconds()
		}
	}
}

func TestConstant(t *testing.T) {
	for _, c := range []struct {
		rate float64
		n    uint64
		want time.Duration
	}{
		{20, 0, 0}, {20, 1, 50 * time.Millisecond}, {300, 3, 10 * time.Millisecond},
		{300, 300 * 86400, 24 * time.Hour}, // no drift after a day
		{0.5, 3, 6 * time.Second}, {1e9, 5, 5},
	} {
		if got, ok := (Constant{c.rate}).At(c.n); !ok || got != c.want {
			t.Errorf("%v/s: event %d at %v, want %v", c.rate, c.n, got, c.want)
		}
	}
	// Vegeta's pacer waits one interval before its first hit; where the
	// interval is a whole number of nanoseconds, the rest is the same.
	for _, rate := range []int{1, 20, 500, 1000} {
		p := vegeta.ConstantPacer{Freq: rate, Per: time.Second}
		for n := uint64(1); n < 5000; n++ {
			want, _ := p.Pace(0, n-1)
			if got, _ := (Constant{float64(rate)}).At(n); got != want {
				t.Fatalf("%d/s: event %d at %v, vegeta has %v", rate, n, got, want)
			}
		}
	}
}

func TestBurst(t *testing.T) {
	b := Burst{Size: 10, Every: time.Second}
	for n := range uint64(1000) {
		if got, _ := b.At(n); got != time.Duration(n/10)*time.Second {
			t.Fatalf("event %d at %v", n, got)
		}
	}
	if got := Count(b, 12*time.Second) - Count(b, 2*time.Second); got != 100 {
		t.Errorf("%d emissions in ten seconds", got)
	}
	if got, _ := (Burst{Size: 4, Every: time.Second, Spread: time.Second}).At(5); got != 1250*time.Millisecond {
		t.Errorf("emission 5 at %v", got)
	}
}

func TestNoEmissions(t *testing.T) {
	for _, s := range []Schedule{
		Constant{}, Constant{-1}, Constant{math.Inf(1)}, Constant{math.NaN()},
		Poisson{}, Poisson{Rate: math.NaN()},
		Burst{}, Burst{Size: 1}, Burst{Every: 1}, Burst{Size: -1, Every: -1},
		Ramp{}, Ramp{From: -1, To: 5, Over: 1}, Ramp{From: 1, To: math.Inf(1), Over: 1}, Ramp{From: 1, To: 1, Over: -1},
		Sine{}, Sine{Mean: 1}, Sine{Mean: 1, Amplitude: 2, Period: time.Second}, Sine{Mean: 1, Amplitude: -1, Period: time.Second},
	} {
		if at, ok := s.At(0); ok {
			t.Errorf("%#v: event 0 at %v", s, at)
		}
		if n := Count(s, time.Hour); n != 0 {
			t.Errorf("%#v: %d emissions", s, n)
		}
	}
}

func TestFarOut(t *testing.T) {
	for name, s := range schedules {
		for _, n := range []uint64{1 << 52, 1 << 62, 1<<62 + 1, math.MaxUint64 - 1, math.MaxUint64} {
			if at, ok := s.At(n); ok && at < 0 {
				t.Errorf("%s: event %d at %v", name, n, at)
			}
		}
	}
	if got := Count(Constant{1e9}, math.MaxInt64); got < 1<<62 {
		t.Errorf("counted %d", got)
	}
}

func TestPoisson(t *testing.T) {
	const n = 200_000
	p := Poisson{Rate: 50, Seed: 99}
	gaps := make([]float64, n)
	last := time.Duration(0)
	var mean, square float64
	short := 0
	for i := range gaps {
		at, ok := p.At(uint64(i))
		if !ok {
			t.Fatalf("no event %d", i)
		}
		gaps[i] = (at - last).Seconds() * p.Rate
		last = at
		mean += gaps[i] / n
		square += gaps[i] * gaps[i] / n
		if gaps[i] < math.Ln2 {
			short++
		}
	}
	// In units of the mean gap an exponential has mean 1, variance 1, median
	// ln 2. The seed is fixed, so these bounds hold or do not.
	if math.Abs(mean-1) > 0.02 || math.Abs(square-mean*mean-1) > 0.05 || math.Abs(float64(short)/n-0.5) > 0.01 {
		t.Errorf("mean %v, variance %v, below the median %v", mean, square-mean*mean, float64(short)/n)
	}
	var together float64
	for i := 1; i < n; i++ {
		together += (gaps[i] - 1) * (gaps[i-1] - 1) / n
	}
	if math.Abs(together) > 0.02 {
		t.Errorf("neighbouring gaps hang together: %v", together)
	}
	// Counts in equal windows have a variance equal to their mean.
	const windows, width = 3000, time.Second
	counts := make([]float64, windows)
	for n := uint64(0); ; n++ {
		at, _ := p.At(n)
		if at >= windows*width {
			break
		}
		counts[at/width]++
	}
	var sum, sum2 float64
	for _, c := range counts {
		sum, sum2 = sum+c/windows, sum2+c*c/windows
	}
	if math.Abs(sum/50-1) > 0.02 || math.Abs((sum2-sum*sum)/50-1) > 0.1 {
		t.Errorf("counts: mean %v, variance %v, want 50 and 50", sum, sum2-sum*sum)
	}
	// The same in any order, and another for another seed.
	for _, i := range []uint64{77_777, 0, 131_071, 65_535, 131_072, 3} {
		a, _ := p.At(i)
		b, _ := Poisson{Rate: 50, Seed: 99}.At(i)
		c, _ := Poisson{Rate: 50, Seed: 100}.At(i)
		if a != b || a == c {
			t.Errorf("event %d: %v, again %v, with another seed %v", i, a, b, c)
		}
	}
}

// TestAgainstVegeta compares the emissions before T with the hits that vegeta's
// pacers reach by then, driven by an ideal clock. They approximate from the
// moment they are asked, so a few hits of difference are theirs.
func TestAgainstVegeta(t *testing.T) {
	for name, c := range map[string]struct {
		ours   Schedule
		theirs vegeta.Pacer
	}{
		"ramp": {Ramp{From: 10, To: 110, Over: 20 * time.Second}, vegeta.LinearPacer{StartAt: vegeta.Rate{Freq: 10, Per: time.Second}, Slope: 5}},
		"sine": {Sine{Mean: 50, Amplitude: 30, Period: 8 * time.Second},
			vegeta.SinePacer{Period: 8 * time.Second, Mean: vegeta.Rate{Freq: 50, Per: time.Second}, Amp: vegeta.Rate{Freq: 30, Per: time.Second}}},
	} {
		for _, end := range []time.Duration{3 * time.Second, 8 * time.Second, 15 * time.Second, 20 * time.Second} {
			var elapsed time.Duration
			hits := uint64(0)
			for {
				wait, stop := c.theirs.Pace(elapsed, hits)
				if elapsed += wait; stop || elapsed >= end {
					break
				}
				hits++
			}
			ours := Count(c.ours, end)
			if diff := math.Abs(float64(ours) - float64(hits)); diff > 2+0.01*float64(ours) {
				t.Errorf("%s: %d emissions before %v, vegeta has %d", name, ours, end, hits)
			}
			if r := c.theirs.Rate(end / 2); math.Abs(r-rateAt(c.ours, end/2)) > 1e-6*r {
				t.Errorf("%s: rate %v, vegeta has %v", name, rateAt(c.ours, end/2), r)
			}
		}
	}
}

func BenchmarkAt(b *testing.B) {
	for _, name := range []string{"constant 300", "burst spread", "ramp up", "sine", "poisson"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var n uint64
			for b.Loop() {
				schedules[name].At(n % 1_000_000)
				n++
			}
		})
	}
}
