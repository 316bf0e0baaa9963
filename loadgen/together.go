package loadgen

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter/internal/crash"
)

// Together is one pacing of several firings of the same schedule, such as those of
// two targets that are compared: when emission n is due, every firing publishes it,
// in an order that is random for each emission. A firing that always came first
// would find a machine that is less busy. A Together is used once.
type Together struct {
	n   int
	rng *rand.Rand // of the goroutine that paces

	mu    sync.Mutex
	came  int
	met   chan struct{} // closed when all have come
	at    time.Time     // of that; set before met is closed
	sides []side
	gone  bool          // a side left before the pacing began
	paced chan struct{} // closed at the end of the pacing
}

type side struct {
	*pool
	ctx context.Context
}

// NewTogether returns a Together of n firings. The seed decides the order.
func NewTogether(n int, seed uint64) *Together {
	return &Together{n: n, rng: rand.New(rand.NewPCG(seed, uint64(n))), met: make(chan struct{}), paced: make(chan struct{})}
}

// Meet waits until all n callers have called it, and returns the same time to each of
// them, with a monotonic reading: that of the last call.
func (t *Together) Meet(ctx context.Context) (time.Time, error) {
	t.mu.Lock()
	if t.came++; t.came == t.n {
		t.at = time.Now()
		close(t.met)
	}
	t.mu.Unlock()
	select {
	case <-t.met:
		return t.at, nil
	case <-ctx.Done():
		return time.Time{}, context.Cause(ctx)
	}
}

// Loop is [Loop] for one of the firings. Each of the n callers has the same schedule
// and an equal start. When ctx of one of them ends, the pacing ends for all.
//
// A firing whose workers are all busy waits for one after the others have published
// the emission. It may delay their next emission, by its tolerance at most.
func (t *Together) Loop(ctx context.Context, f *Firing, o LoopOptions) Counts {
	p := newPool(ctx, f, o)
	t.mu.Lock()
	t.sides = append(t.sides, side{p, ctx})
	paces, dead := len(t.sides) == t.n, t.gone
	t.mu.Unlock()
	if paces {
		if !dead {
			t.pace()
		}
		close(t.paced)
		return p.end()
	}
	select {
	case <-t.paced:
	case <-ctx.Done():
		t.mu.Lock()
		began := len(t.sides) == t.n
		t.gone = true
		t.mu.Unlock()
		if began {
			<-t.paced // it sends to this pool until then
		}
	}
	return p.end()
}

// pace publishes the emissions of all sides.
func (t *Together) pace() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for _, s := range t.sides {
		defer context.AfterFunc(s.ctx, crash.Guarded(cancel))()
	}
	lead := t.sides[0].f
	sides := append([]side(nil), t.sides...)
	for n := uint64(0); ; n++ {
		if _, ok := lead.wait(ctx, n); !ok {
			return
		}
		t.rng.Shuffle(len(sides), func(i, j int) { sides[i], sides[j] = sides[j], sides[i] })
		var busy []side
		for _, s := range sides {
			if !s.offer(n, lead) {
				busy = append(busy, s)
			}
		}
		for _, s := range busy {
			if d, ok := s.f.due(n); ok && s.f.admit(ctx, d, s.busy) {
				s.send(d)
			}
		}
	}
}

// offer publishes emission n if a worker is free at once. lead is the firing that
// waited until it was due.
func (s *side) offer(n uint64, lead *Firing) bool {
	d, ok := s.f.due(n)
	if !ok {
		return true
	}
	if s.f != lead {
		s.f.slack.Store(lead.slack.Load())
	}
	select {
	case s.busy <- struct{}{}:
		s.send(d)
		return true
	default:
		return false
	}
}
