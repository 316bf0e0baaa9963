package stats

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// simDuet makes the pairs of a duet on a machine that is busy from time to time: then
// every delivery of both sides waits, and neighbouring events wait alike. B's own
// latency is slower by a factor.
func simDuet(seed uint64, events, fanOut int, factor float64) *Duet {
	rng := rand.New(rand.NewPCG(seed, 20261123))
	pairs := NewPairs(events)
	busy := 0.0
	for i := range events {
		busy = 0.98*busy + rng.NormFloat64() // it lasts for about fifty events
		stall := math.Exp(0.15*busy) * 4e6
		var own [2]float64
		for side := range own {
			own[side] = 40e6 + 20e6*rng.Float64()
		}
		own[1] *= factor
		for range fanOut {
			var d [2]time.Duration
			for side := range d {
				d[side] = time.Duration(own[side] + stall + 1e6*rng.ExpFloat64())
			}
			pairs.Add(i, d, d)
		}
	}
	return &Duet{Events: events, FirstA: events / 2, Lanes: map[string]*Pairs{"push": pairs}}
}

func compareDuet(t *testing.T, seed uint64, d *Duet) *Comparison {
	t.Helper()
	s := defaultSim()
	c, err := CompareDuet(s.side(seed), s.side(seed+1), d, CompareOptions{Resamples: 400})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const p99 = "latency.fromIntended.p99"

// TestDuetRates counts, over many pairs on a busy machine, how often equal targets are
// called different and how often a target that is 10 % slower is found.
func TestDuetRates(t *testing.T) {
	t.Parallel()
	if underRace {
		t.Skip("it has no goroutines, and takes minutes under the race detector")
	}
	const n = 40
	different, found, held := 0, 0, 0
	for k := range uint64(n) {
		if len(compareDuet(t, 2*k, simDuet(k, 2000, 3, 1)).changed()) > 0 {
			different++
		}
		c := compareDuet(t, 2*k, simDuet(1000+k, 2000, 3, 1.1)).change("push", p99)
		if c.Finding == Worse {
			found++
		}
		if *c.Low > 0 && *c.Low <= *c.Effect && *c.Effect <= *c.High {
			held++
		}
	}
	t.Logf("of %d pairs, %d equal ones different, +10 %% found in %d, its interval above 0 in %d", n, different, found, held)
	if different > n/20 {
		t.Errorf("%d of %d equal pairs are called different", different, n)
	}
	if found < n*9/10 || held < n*9/10 {
		t.Errorf("+10 %% is found in %d of %d pairs, with an interval above 0 in %d", found, n, held)
	}
}

// TestDuetUnpaired: the same deliveries are not enough where what delays both is not
// known to be the same. It shows that the test above is not an easy one.
func TestDuetUnpaired(t *testing.T) {
	t.Parallel()
	paired := simDuet(7, 2000, 3, 1.1).Lanes["push"].pool("intended")
	alone := *paired
	alone.paired = false
	a := paired.bootstrapped(400, rand.New(rand.NewPCG(1, 1)))
	b := alone.bootstrapped(400, rand.New(rand.NewPCG(1, 1)))
	for i, q := range quantilesCompared[:3] {
		if squares(a[i]) > 0.7*squares(b[i]) {
			t.Errorf("q%v: pairing leaves %.2f of the variance", q, squares(a[i])/squares(b[i]))
		}
	}
}

// TestDuetStalls: what the machine does to one side in some seconds does not hide that
// the other is slower in all of them; and a target that is slow in some seconds alone
// is found, although a typical one has no difference.
func TestDuetStalls(t *testing.T) {
	t.Parallel()
	of := func(factor float64, stall func(i int, own *[2]float64)) *Change {
		rng := rand.New(rand.NewPCG(5, 5))
		pairs := NewPairs(4000)
		for i := range 4000 {
			own := [2]float64{40e6 + 20e6*rng.Float64(), factor * (40e6 + 20e6*rng.Float64())}
			stall(i, &own)
			d := [2]time.Duration{time.Duration(own[0]), time.Duration(own[1])}
			pairs.Add(i, d, d)
		}
		return compareDuet(t, 1, &Duet{Events: 4000, Lanes: map[string]*Pairs{"push": pairs}}).change("push", p99)
	}
	hidden := of(1.1, func(i int, own *[2]float64) {
		if i%1000 < 30 { // four times
			own[i/1000%2] += 300e6
		}
	})
	if hidden.Finding != Worse || hidden.Method != TypicalStretch || *hidden.Low > 0.1 || *hidden.High < 0.1 {
		t.Errorf("hidden: %s by %s, %+.3f to %+.3f", hidden.Finding, hidden.Method, *hidden.Low, *hidden.High)
	}
	stalls := of(1, func(i int, own *[2]float64) {
		if i%200 < 20 { // twenty times
			own[1] += 300e6
		}
	})
	if stalls.Finding != Worse || *stalls.Effect < 1 {
		t.Errorf("stalls: %s by %s, %+.3f, p %v", stalls.Finding, stalls.Method, *stalls.Effect, *stalls.P)
	}
}

// TestTypicalStretch: by hand, ten stretches whose ratios are powers of two. The ranks of the two below 1 add up to 3,
// so that 52 of 55 means are above 0: (52 − 27.5) / √(10·11·21/24) is 2.4973. 27.5 less 2.2414 times 9.8107 is 5.5: the bounds
// are the sixth means from both ends, of 2.5 and 15, and the median is 9.5.
func TestTypicalStretch(t *testing.T) {
	t.Parallel()
	pairs := NewPairs(20)
	for i, k := range []int{17, -2, 16, -1, 15, 5, 12, 7, 11, 10} {
		d := [2]time.Duration{1 << 12, 1 << (12 + k)}
		pairs.Add(2*i, d, d)
		pairs.Add(2*i+1, d, d)
	}
	p := pairs.pool("intended")
	for _, c := range []struct{ allowance, low, effect, high, p float64 }{
		{0, 2.5, 9.5, 15, 0.012515},
		{10 * math.Ln2, -7.5, 9.5, 25, 1},
	} {
		e, ok := p.typical(0, 0.975, estimate{allowance: c.allowance})
		if !ok || !e.typical || math.Abs(e.p-c.p) > 1e-6 {
			t.Errorf("%+v, p is not %v", e, c.p)
		}
		for got, want := range map[float64]float64{e.low: c.low, e.effect: c.effect, e.high: c.high, math.Exp(e.noise * 2.241403): 6.25} {
			if math.Abs(math.Log2(got+1)-want) > 1e-6 && math.Abs(math.Log2(got)-want) > 1e-5 {
				t.Errorf("%v, want 2 to the power of %v less 1", got, want)
			}
		}
	}
	if _, ok := p.typical(1, 0.975, estimate{}); ok {
		t.Error("two events beyond p90 have a typical stretch")
	}
}

// TestDuetAllowance: a difference that two processes of one build may have is none,
// however certain it is.
func TestDuetAllowance(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		a, b time.Duration
		want Finding
	}{
		{400 * time.Microsecond, 900 * time.Microsecond, NotEnough},
		{900 * time.Microsecond, 400 * time.Microsecond, NotEnough},
		{400 * time.Microsecond, 2 * time.Millisecond, Worse},
		{20 * time.Millisecond, 20900 * time.Microsecond, Same},
		{20 * time.Millisecond, 22 * time.Millisecond, Worse},
		{22 * time.Millisecond, 20 * time.Millisecond, Better},
	} {
		rng := rand.New(rand.NewPCG(1, 1))
		pairs := NewPairs(1000)
		for i := range 1000 {
			d := [2]time.Duration{tt.a + time.Duration(rng.IntN(50_000)), tt.b + time.Duration(rng.IntN(50_000))}
			pairs.Add(i, d, d)
		}
		c := compareDuet(t, 1, &Duet{Events: 1000, Lanes: map[string]*Pairs{"push": pairs}}).change("push", "latency.fromIntended.p50")
		if c.Finding != tt.want || (c.Finding == Worse) != (*c.Low > 0) {
			t.Errorf("%v and %v: %s, %+.3f to %+.3f, p %v", tt.a, tt.b, c.Finding, *c.Low, *c.High, *c.P)
		}
	}
}

// TestDuetNeedsEvents: ten events beyond a quantile, however many subscribers receive
// each of them.
func TestDuetNeedsEvents(t *testing.T) {
	t.Parallel()
	c := compareDuet(t, 1, simDuet(1, 999, 20, 1.5))
	if got := c.change(
		"push",
		p99,
	); got.Finding != NotEnough || !strings.Contains(got.Reason, "9 events beyond this quantile") ||
		got.A == nil {
		t.Errorf("%+v", got)
	}
	if got := c.change(
		"push",
		"latency.fromSent.p90",
	); got.Finding != Worse ||
		got.Method != TypicalStretch && got.Method != "exchange of paired blocks of events" {
		t.Errorf("%+v", got)
	}
	if l := c.Lanes[0]; l.Paired == nil || l.Paired.Events != 999 || l.Paired.Deliveries != 999*20 || c.Duet.Events != 999 {
		t.Errorf("%+v %+v", l.Paired, c.Duet)
	}
	if got := compareDuet(
		t,
		1,
		&Duet{Events: 3, Lanes: map[string]*Pairs{"push": NewPairs(3)}},
	).change("push", p99); strings.Contains(
		got.Method,
		"paired",
	) {
		t.Errorf("a lane without pairs: %+v", got)
	}
	four := NewPairs(4)
	for i := range 4 {
		for range 40 {
			four.Add(i, [2]time.Duration{1, 2}, [2]time.Duration{1, 2})
		}
	}
	if got := compareDuet(
		t,
		1,
		&Duet{Events: 4, Lanes: map[string]*Pairs{"push": four}},
	).change("push", "latency.fromIntended.p50"); got.Finding != NotEnough {
		t.Errorf("%+v", got)
	}
}

// TestDuetValidity: that the runs have two targets is no reason to doubt them.
func TestDuetValidity(t *testing.T) {
	t.Parallel()
	s := defaultSim()
	a, b := s.side(1), s.side(2)
	a.Runs[0].Result.Profile = []byte(`{"name":"x","target":{"url":"http://a"},"upstream":{"admin":"http://a"},"phases":{"measure":1}}`)
	b.Runs[0].Result.Profile = []byte(`{"name":"x","target":{"url":"http://b"},"upstream":{"admin":"http://b"},"phases":{"measure":2}}`)
	c, err := CompareDuet(a, b, &Duet{}, CompareOptions{Resamples: 200})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Warnings) != 1 || c.Warnings[0].Text != "the profiles of A and B differ in phases.measure" {
		t.Errorf("%+v", c.Warnings)
	}
	if _, err := CompareDuet(s.side(1, 2), b, &Duet{}, CompareOptions{}); err == nil {
		t.Error("two runs on a side are no duet")
	}
}

func TestCoarse(t *testing.T) {
	t.Parallel()
	for _, d := range []time.Duration{-1, 0, 1, 2047, 2048, 2049, 50_123_456, math.MaxInt64} {
		got := float64(coarse(d))
		if want := float64(max(d, 1)); got > want || got < want*(1-1.0/1024) {
			t.Errorf("%d: %v", d, got)
		}
	}
}
