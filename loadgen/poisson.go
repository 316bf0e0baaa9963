package loadgen

import (
	"math"
	"math/bits"
	"time"
)

// Poisson publishes at random times: the intervals between emissions are independent and
// exponentially distributed with mean 1/Rate. The same Seed gives the same
// times. A Rate that is not a positive, finite number has no emissions.
//
// Adding up n gaps to find the time of emission n would need state or n steps.
// Instead, the time of every 2^k-th arrival is a sum of gamma variates, and the
// interval between two known arrivals is split by beta variates, each drawn from a
// generator seeded with its place in that tree. The times have exactly the
// distribution of a Poisson process. Each takes O(log n), in any order.
type Poisson struct {
	Rate float64 // per second
	Seed uint64
}

// At implements [Schedule].
func (p Poisson) At(n uint64) (time.Duration, bool) {
	if !positive(p.Rate) || n > 1<<62 {
		return 0, false
	}
	m := n + 1 // the m-th arrival; the 0-th is the start
	top := bits.Len64(m) - 1
	lo := p.stretch(0, 1)
	for k := range top {
		lo += p.stretch(1<<k, 1<<k)
	}
	first := uint64(1) << top
	if m == first {
		return seconds(lo / p.Rate)
	}
	hi := lo + p.stretch(first, first)
	return seconds(p.split(m, first, 2*first, lo, hi) / p.Rate)
}

// stretch returns the time in which n arrivals follow arrival a, in mean gaps.
func (p Poisson) stretch(a, n uint64) float64 {
	d := p.draw(0, a)
	return d.gamma(float64(n))
}

// split finds arrival m between arrivals a and b, which came at lo and hi. It
// narrows an interval and never adds up, so rounding cannot swap two arrivals.
func (p Poisson) split(m, a, b uint64, lo, hi float64) float64 {
	for {
		mid := a + (b-a)/2
		d := p.draw(b-a, mid)
		x := d.gamma(float64(mid - a))
		y := d.gamma(float64(b - mid))
		t := min(hi, lo+(hi-lo)*(x/(x+y)))
		switch {
		case m == mid:
			return t
		case m < mid:
			b, hi = mid, t
		default:
			a, lo = mid, t
		}
	}
}

// draw returns the random stream of one node of the tree.
func (p Poisson) draw(width, place uint64) stream {
	s := stream(p.Seed)
	s = stream(s.next() ^ width)
	s = stream(s.next() ^ place)
	return s
}

// stream is the splitmix64 generator.
type stream uint64

func (s *stream) next() uint64 {
	*s += 0x9e3779b97f4a7c15
	z := uint64(*s)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// uniform returns a number in (0, 1).
func (s *stream) uniform() float64 { return (float64(s.next()>>11) + 0.5) / (1 << 53) }

// normal returns a standard normal variate (Box and Muller).
func (s *stream) normal() float64 {
	return math.Sqrt(-2*math.Log(s.uniform())) * math.Cos(2*math.Pi*s.uniform())
}

// gamma returns a gamma variate of the given shape, at least 1, and scale 1
// (Marsaglia and Tsang, 2000).
func (s *stream) gamma(shape float64) float64 {
	if shape == 1 {
		return -math.Log(s.uniform())
	}
	d := shape - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := s.normal()
		v := 1 + c*x
		if v <= 0 {
			continue
		}
		v = v * v * v
		if math.Log(s.uniform()) < x*x/2+d-d*v+d*math.Log(v) {
			return d * v
		}
	}
}
