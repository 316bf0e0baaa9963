// Package metrics shows the figures of runs in progress as Prometheus metrics. It
// counts nothing itself: at each scrape it asks the ledger, so it costs deliveries
// nothing. When a run is over it shows the figures of the account.
package metrics

import (
	"fmt"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/internal/figure"
	"github.com/eventmeter/eventmeter/results"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// Watch looks at a pass. It is called by one goroutine at a time.
type Watch func() Look

// Collector is a [prometheus.Collector] over any number of runs and searches. The
// zero value is not registered; use it for [Collector.Looks] alone. It is safe for
// concurrent use.
type Collector struct {
	mu       sync.Mutex
	keep     int
	runs     []*Following
	searches []*Search
	lanes    metricsOfLanes
}

// Options of a collector; the zero value keeps everything.
type Options struct {
	// Keep is the largest number of runs shown, the newest; 0 is all.
	Keep int
	// Figures are those that only some systems have.
	Figures figure.Tables
}

// New makes a collector and registers it.
func New(with prometheus.Registerer, o Options) (*Collector, error) {
	c := &Collector{keep: o.Keep, lanes: newMetricsOfLanes(o.Figures)}
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
	shards func() []Shard
	done   bool
	result *results.Result
	last   Figures // of the upstream, with the result
}

// Begin adds a run, which is shown from now on, even after its end. On nil it returns
// nil, a run that is not shown.
func (c *Collector) Begin(run Run) *Following {
	if c == nil {
		return nil
	}
	for _, s := range []*string{&run.ID, &run.Name, &run.Profile, &run.Version, &run.Upstream, &run.Schedule, &run.Fleet, &run.Shard} {
		*s = strings.ToValidUTF8(*s, "\uFFFD")
	}
	f := &Following{run: run}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs = append(c.runs, f)
	if c.keep > 0 && len(c.runs) > c.keep {
		c.runs = append([]*Following(nil), c.runs[len(c.runs)-c.keep:]...)
	}
	return f
}

// Shards makes the run show its shards as well.
func (f *Following) Shards(look func() []Shard) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.shards = look
}

// Finish ends the run, with its result or nil, and the upstream's final figures.
func (f *Following) Finish(r *results.Result, upstream Figures) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.done = true
	if r != nil {
		f.result, f.last = r, upstream
	}
}

// Pass is one pass of a run: all lanes, or one where they take turns. Its
// methods do nothing on nil.
type Pass struct {
	mu       sync.Mutex
	watch    Watch
	frozen   bool // the figures do not change any more
	settled  bool
	look     Look
	expected []int64 // the highest shown of each lane
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

// Freeze leaves the figures as they were last, and returns when nobody looks at
// the pass any more: what is looked at afterwards for [Pass.Settle] is never
// older than what was shown, so that no counter falls.
func (p *Pass) Freeze() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.frozen = true
}

// Settle ends a pass with its last look, where there is one; nil leaves the
// figures as they are now. The watch is not called after it has returned; a
// second call does nothing.
func (p *Pass) Settle(last *Look) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.settled {
		return
	}
	if last != nil {
		h := p.look.Health
		p.look = *last
		p.look.Health.keep(&h)
	} else {
		p.again()
	}
	p.settled, p.watch, p.expected = true, nil, nil
	d := &p.look.Detail
	for i := range d.Lanes {
		d.Lanes[i].Open, d.Lanes[i].Attaching = 0, 0
	}
	// As in a result: an emission without an answer is uncertain.
	d.Measured.Uncertain += d.Measured.Pending
	d.Measured.Pending = 0
}

// again takes another look; the caller holds the lock.
func (p *Pass) again() {
	if p.frozen || p.settled {
		return
	}
	before := p.look.Health
	p.look = p.watch()
	more := p.look.Detail.Lanes
	if len(p.expected) != len(more) {
		p.expected = make([]int64, len(more))
	}
	// A subscription that ends takes what was on its way to it out of the
	// owed ones. A counter must not fall.
	for i := range more {
		p.expected[i] = max(p.expected[i], more[i].Expected)
		more[i].Expected = p.expected[i]
	}
	p.look.Health.keep(&before)
}

// keep keeps the last values of processes that are gone.
func (h *Health) keep(last *Health) {
	if !h.Target.OK {
		h.Target = last.Target
	}
	if !h.Generator.OK {
		h.Generator = last.Generator
	}
}

// snapshot returns what the pass shows now.
func (p *Pass) snapshot() Look {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.again()
	return p.look
}

// Looks returns a look at every pass of the newest run.
func (c *Collector) Looks() []Look {
	c.mu.Lock()
	var f *Following
	if n := len(c.runs); n > 0 {
		f = c.runs[n-1]
	}
	c.mu.Unlock()
	if f == nil {
		return nil
	}
	f.mu.Lock()
	passes := append([]*Pass(nil), f.passes...)
	f.mu.Unlock()
	out := make([]Look, len(passes))
	for i, p := range passes {
		out[i] = p.snapshot()
	}
	return out
}

// Describe implements [prometheus.Collector].
func (c *Collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range c.lanes.described() {
		to <- d.desc
	}
}

// Collect implements [prometheus.Collector]. A scrape takes as long as looking
// at every subscription does.
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	c.mu.Lock()
	runs := append([]*Following(nil), c.runs...)
	searches := append([]*Search(nil), c.searches...)
	c.mu.Unlock()
	for _, f := range runs {
		f.collect(to, &c.lanes)
	}
	for _, s := range searches {
		s.collect(to)
	}
}

func (f *Following) collect(to chan<- prometheus.Metric, lanes *metricsOfLanes) {
	f.mu.Lock()
	passes := append([]*Pass(nil), f.passes...)
	whole := wholeRun{Run: f.run, result: f.result, last: f.last, done: f.done}
	shards := f.shards
	f.mu.Unlock()
	for _, p := range passes {
		whole.passes = append(whole.passes, p.snapshot())
	}
	show(to, &whole, runFamilies, runHistograms, f.run.ID)
	for i := range whole.passes {
		l := &whole.passes[i]
		for j := range l.Detail.Lanes {
			x := oneLane{LiveLane: &l.Detail.Lanes[j], alone: len(l.Detail.Lanes) == 1 && whole.turns(), health: &l.Health}
			if j < len(l.Own) {
				x.own = l.Own[j]
			}
			show(to, &x, lanes.families, lanes.histograms, x.System, string(x.Mode), x.Name, f.run.ID)
		}
	}
	var parts []Shard
	switch {
	case shards != nil:
		parts = shards()
	case f.run.Shard != "":
		parts = []Shard{ShardOf(f.run.Shard, !whole.done, whole.passes)}
	}
	for i := range parts {
		show(to, &parts[i], shardFamilies, nil, f.run.Fleet, parts[i].Index)
	}
}

// show emits every metric of x.
func show[X any](to chan<- prometheus.Metric, x *X, families []family[X], histograms []histogramFamily[X], base ...string) {
	for i := range families {
		m := &families[i]
		m.of(x, func(v float64, own ...string) {
			to <- prometheus.MustNewConstMetric(m.desc, m.kind, v, labelled(base, own)...)
		})
	}
	for i := range histograms {
		m := &histograms[i]
		m.of(x, func(d []ledger.Distribution, own ...string) {
			to <- histogram(m.desc, d, labelled(base, own)...)
		})
	}
}

// labelled joins label values. Those that came from elsewhere are cleaned; some may
// be no text at all, which a metric does not take.
func labelled(base, own []string) []string {
	out := append(append(make([]string, 0, len(base)+len(own)), base...), own...)
	for i, v := range out {
		out[i] = errtext.Plain(v)
	}
	return out
}
