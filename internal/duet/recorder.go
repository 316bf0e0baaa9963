package duet

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/stats"
	"github.com/eventmeter/eventmeter/profiles"
)

// maxCells bounds the deliveries that one side can record, which are 128 MiB. Events
// beyond it are not paired.
const maxCells = 32 << 20

// recorder keeps the latency of the first copy of each measured delivery of one run.
type recorder struct {
	eventmeter.Recorder // ignores all other calls

	lanes   []int // where each lane's subscriptions begin among all
	subs    int   // of all lanes
	cells   atomic.Int64
	run     atomic.Uint32
	sources []source
}

// source has the published events of one source, by sequence number from 1.
type source struct {
	mu     sync.RWMutex
	events []*event
}

// event is a measured emission; of others only the place is kept.
type event struct {
	number          uint64
	intended, fired eventmeter.Instant
	// took has the latency of each subscription in units, 0 = none yet.
	took []atomic.Uint32
}

// unit is the resolution of latencies in pairs, so that four bytes hold seven minutes.
const unit = 100 * time.Nanosecond

func newRecorder(p *profiles.Profile) *recorder {
	r := &recorder{Recorder: eventmeter.Tee(), sources: make([]source, max(p.Upstream.Sources, 1))}
	for _, l := range p.Lanes {
		r.lanes = append(r.lanes, r.subs)
		r.subs += l.Subscriptions
	}
	return r
}

// Fired implements [eventmeter.Recorder].
func (r *recorder) Fired(e eventmeter.Emission) {
	var of *event
	if e.Measured && r.cells.Add(int64(r.subs)) <= maxCells {
		of = &event{number: e.Number, intended: e.Intended, fired: e.Fired, took: make([]atomic.Uint32, r.subs)}
	}
	r.run.Store(e.Run)
	s := &r.sources[e.Source]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, of)
}

// Delivered implements [eventmeter.Recorder].
func (r *recorder) Delivered(d eventmeter.Delivery) {
	if !d.Probed || d.Stamp.Run != r.run.Load() || int(d.Stamp.Source) >= len(r.sources) {
		return
	}
	s := &r.sources[d.Stamp.Source]
	s.mu.RLock()
	var of *event
	if n := int(d.Stamp.Seq); n > 0 && n <= len(s.events) {
		of = s.events[n-1]
	}
	s.mu.RUnlock()
	at := r.lanes[d.Sub.Lane] + int(d.Sub.Index)
	if of == nil || at >= len(of.took) {
		return
	}
	took := min(max(d.At.Sub(of.intended)/unit, 1), 1<<32-1)
	of.took[at].CompareAndSwap(0, uint32(took))
}

// byNumber returns the measured events by their place in the schedule. Sequence
// numbers do not do: a side that drops an emission has fewer.
func (r *recorder) byNumber() map[uint64]*event {
	all := map[uint64]*event{}
	for i := range r.sources {
		for _, e := range r.sources[i].events {
			if e != nil {
				all[e.number] = e
			}
		}
	}
	return all
}

// pairs joins what the recorders of two runs that have ended have recorded.
func pairs(p *profiles.Profile, of [2]*recorder) *stats.Duet {
	a, b := of[0].byNumber(), of[1].byNumber()
	maps.DeleteFunc(a, func(n uint64, _ *event) bool { return b[n] == nil })
	numbers := slices.Sorted(maps.Keys(a))
	out := &stats.Duet{Events: len(numbers), Lanes: map[string]*stats.Pairs{}}
	for _, n := range numbers {
		if a[n].lag() < b[n].lag() {
			out.FirstA++
		}
	}
	for i, l := range p.Lanes {
		lane := stats.NewPairs(len(numbers))
		for k, n := range numbers {
			both := [2]*event{a[n], b[n]}
			for sub := range l.Subscriptions {
				var intended, sent [2]time.Duration
				for side, e := range both {
					intended[side] = time.Duration(e.took[of[0].lanes[i]+sub].Load()) * unit
					sent[side] = intended[side] - e.lag()
				}
				if intended[0] > 0 && intended[1] > 0 {
					lane.Add(k, intended, sent)
				}
			}
		}
		out.Lanes[l.Name] = lane
	}
	return out
}

// lag is how late the event was published. The instants of two runs are of two clocks,
// and their lags are not.
func (e *event) lag() time.Duration { return e.fired.Sub(e.intended) }
