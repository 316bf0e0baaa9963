// Package prom shows the figures of runs, while they are on their way, as
// metrics of Prometheus. It counts nothing itself: at each scrape it asks the
// ledger, so that the path of the deliveries does not know of it, and when a
// run is over it shows what the account says, to the last event.
package prom

import (
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mcpload/mcpload/sinks"
)

// Run names what is measured.
type Run struct {
	// ID is the run's name in its result: bounded, and the same nowhere else.
	ID, Profile, Version, Upstream string
}

// Source is where the figures of a pass come from. A [sinks.Ledger] is one.
type Source interface {
	Detail() sinks.Detail
}

// Usage is what a process has used. CPU is in seconds since it started, Memory
// its resident bytes. OK is false when it cannot be read.
type Usage struct {
	CPU    float64
	Memory int64
	OK     bool
}

// Watch says where the figures of one pass of a run come from.
type Watch struct {
	Source Source
	// Phase returns the name of the phase that the pass is in.
	Phase func() string
	// Generator and Target read a process; nil where there is none to read.
	// They are called by one goroutine at a time.
	Generator, Target func() Usage
}

// Collector is a [prometheus.Collector] over any number of runs. It is safe for
// concurrent use.
type Collector struct {
	mu   sync.Mutex
	runs []*Following
}

// New makes a collector and registers it.
func New(with prometheus.Registerer) (*Collector, error) {
	c := &Collector{}
	if err := with.Register(c); err != nil {
		return nil, fmt.Errorf("register the metrics: %w", err)
	}
	return c, nil
}

// Following is one run that a collector follows. Its methods do nothing on nil.
type Following struct {
	run    Run
	mu     sync.Mutex
	passes []*Pass
}

// Begin adds a run. It is shown from now on, also when it is over. On nil it
// returns nil, which is a run that nobody follows.
func (c *Collector) Begin(run Run) *Following {
	if c == nil {
		return nil
	}
	f := &Following{run: run}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs = append(c.runs, f)
	return f
}

// Pass is one pass of a run: all lanes, or one where they take turns. Its
// methods do nothing on nil.
type Pass struct {
	mu      sync.Mutex
	watch   Watch
	settled bool
	state   passState
}

// passState is what one scrape shows of a pass.
type passState struct {
	detail            sinks.Detail
	figures           []map[string]float64 // by lane, of a settled pass
	phase             string
	generator, target Usage
	expected          []int64 // the highest shown of each lane
}

// Pass adds a pass to the run.
func (f *Following) Pass(w Watch) *Pass {
	if f == nil {
		return nil
	}
	p := &Pass{watch: w}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.passes = append(f.passes, p)
	return p
}

// Settle ends a pass with its account, and with what only the systems of its
// lanes have: nil figures, or one set for each lane. Nothing that was given to
// [Following.Pass] is asked after it has returned. A nil account leaves the
// figures as they were last; a second call does nothing.
func (p *Pass) Settle(a *sinks.Account, figures []map[string]float64) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.settled {
		return
	}
	p.look()
	p.settled = true
	p.watch = Watch{}
	p.state.phase = PhaseDone
	for i := range p.state.detail.Lanes {
		p.state.detail.Lanes[i].Open, p.state.detail.Lanes[i].Attaching = 0, 0
	}
	if a != nil {
		p.state.detail, p.state.figures, p.state.expected = a.Detail(), figures, nil
	}
}

// PhaseDone is the phase of a pass that is over.
const PhaseDone = "done"

// look asks for everything once; the caller holds the lock.
func (p *Pass) look() {
	if p.settled {
		return
	}
	s := &p.state
	s.detail = p.watch.Source.Detail()
	s.phase = p.watch.Phase()
	s.generator = read(p.watch.Generator, s.generator)
	s.target = read(p.watch.Target, s.target)
	if s.expected == nil {
		s.expected = make([]int64, len(s.detail.More))
	}
	// A subscription that ends takes what was on its way to it out of the
	// owed ones. A counter must not fall.
	for i := range s.detail.More {
		s.expected[i] = max(s.expected[i], s.detail.More[i].Expected)
		s.detail.More[i].Expected = s.expected[i]
	}
}

// read keeps the last values of a process that is gone.
func read(f func() Usage, last Usage) Usage {
	if f == nil {
		return last
	}
	if u := f(); u.OK {
		return u
	}
	return last
}

// snapshot returns what the pass shows now.
func (p *Pass) snapshot() passState {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.look()
	return p.state
}

// Describe implements [prometheus.Collector].
func (c *Collector) Describe(to chan<- *prometheus.Desc) {
	for _, f := range laneFamilies {
		to <- f.desc
	}
	for _, f := range runFamilies {
		to <- f.desc
	}
	for _, f := range laneHistograms {
		to <- f.desc
	}
	for _, f := range runHistograms {
		to <- f.desc
	}
}

// Collect implements [prometheus.Collector]. A scrape takes as long as looking
// at every subscription does.
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	c.mu.Lock()
	runs := append([]*Following(nil), c.runs...)
	c.mu.Unlock()
	for _, f := range runs {
		f.collect(to)
	}
}

func (f *Following) collect(to chan<- prometheus.Metric) {
	f.mu.Lock()
	passes := append([]*Pass(nil), f.passes...)
	f.mu.Unlock()
	all := make([]passState, len(passes))
	for i, p := range passes {
		all[i] = p.snapshot()
	}
	whole := wholeRun{Run: f.run, passes: all}
	for _, m := range runFamilies {
		m.of(&whole, func(v float64, labels ...string) {
			to <- prometheus.MustNewConstMetric(m.desc, m.kind, v, append([]string{f.run.ID}, labels...)...)
		})
	}
	for _, m := range runHistograms {
		to <- histogram(m.desc, m.of(&whole), f.run.ID)
	}
	for i := range all {
		f.collectLanes(to, &all[i])
	}
}

func (f *Following) collectLanes(to chan<- prometheus.Metric, s *passState) {
	for i := range s.detail.Lanes {
		x := oneLane{LiveLane: &s.detail.Lanes[i], LaneDetail: &s.detail.More[i]}
		if s.figures != nil {
			x.figures = s.figures[i]
		}
		labels := []string{x.System, string(x.Mode), x.Name, f.run.ID}
		for _, m := range laneFamilies {
			m.of(&x, func(v float64, more ...string) {
				to <- prometheus.MustNewConstMetric(m.desc, m.kind, v, append(append([]string(nil), labels...), more...)...)
			})
		}
		for _, m := range laneHistograms {
			to <- histogram(m.desc, []sinks.Distribution{m.of(&x)}, labels...)
		}
	}
}
