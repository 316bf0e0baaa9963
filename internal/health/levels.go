package health

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/shirou/gopsutil/v4/process"

	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/stats/leak"
	"github.com/eventmeter/eventmeter/results"
)

// gaugeMetrics are the metrics of a target that are followed, and what they are called in a result. They
// are those of Prometheus' client libraries for Go and Node. The values of a gauge are added up over its
// labels.
var gaugeMetrics = map[string]string{
	metricMemory:                    "memory",
	"go_memstats_heap_inuse_bytes":  "heap",
	"nodejs_heap_size_used_bytes":   "heap",
	"process_open_fds":              "files",
	"go_goroutines":                 "goroutines",
	"go_threads":                    "threads",
	"nodejs_active_handles_total":   "handles",
	"nodejs_active_resources_total": "resources",
}

// sessionGauge is the end of the names of gauges that count sessions.
const sessionGauge = "sessions"

const (
	// levelEvery is the least pause between two samples of a process. levelRest is the least pause as
	// a multiple of the time that a sample took: to count thousands of files takes milliseconds.
	levelEvery = time.Second / 2
	levelRest  = 200
	// mostLevels bounds the samples that are kept of a gauge; then every second one is given up, and
	// the pause is doubled. It is far above the number that a verdict needs.
	mostLevels = 2048
)

// Levels follows the gauges of the target: its memory, files, threads and others that its metrics
// have.
type Levels struct {
	tree   *tree // nil = the target's metrics are read
	read   func() map[string]float64
	now    func() float64
	cancel context.CancelFunc
	done   sync.WaitGroup

	levels map[string][]leak.Point // of the goroutine, until it ended
	every  time.Duration
}

// FollowLevels follows the target until [Levels.Stop] is called; now returns seconds. It returns nil if
// there is nothing to follow, which Stop allows.
func FollowLevels(o WatchOptions, now func() float64) *Levels {
	l := &Levels{now: now, levels: map[string][]leak.Point{}, every: levelEvery}
	switch {
	case o.TargetMetrics != nil:
		l.read, l.every = o.TargetMetrics.gauges, scrapeEvery
	default:
		t := newTree(o.TargetPIDs)
		if t == nil {
			return nil
		}
		l.tree, l.read = t, t.gauges
	}
	l.take()
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	l.done.Go(func() {
		defer crash.Guard()
		l.follow(ctx)
	})
	return l
}

// Stop takes a last sample, ends the watch and returns the samples of each gauge, in order of time. Later
// calls return the same.
func (l *Levels) Stop() map[string][]leak.Point {
	if l == nil {
		return nil
	}
	l.cancel()
	l.done.Wait()
	return l.levels
}

func (l *Levels) follow(ctx context.Context) {
	pause, last := l.every, time.Duration(0)
	for {
		t := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			t.Stop()
			// In a long watch, a pause may be as long as the cool-down.
			l.take()
			return
		case <-t.C:
			took := l.take()
			// The shorter of two: one that other processes held up does not thin the samples.
			pause, last = max(l.every, levelRest*min(took, last)), took
		}
	}
}

// take takes a sample, and returns how long that took without the look for new processes, which
// has a pause of its own.
func (l *Levels) take() time.Duration {
	if l.tree != nil {
		l.tree.refresh()
	}
	began := time.Now()
	l.add(l.now(), l.read())
	return time.Since(began)
}

func (l *Levels) add(at float64, all map[string]float64) {
	thin := false
	for name, v := range all {
		l.levels[name] = append(l.levels[name], leak.Point{Seconds: at, Value: v})
		thin = thin || len(l.levels[name]) >= mostLevels
	}
	if !thin {
		return
	}
	l.every *= 2
	for name, points := range l.levels {
		kept := points[:0]
		for i := 0; i < len(points); i += 2 {
			kept = append(kept, points[i])
		}
		l.levels[name] = kept
	}
}

// gauges reads the gauges of the processes, added up. What the system does not tell is left
// out.
func (t *tree) gauges() map[string]float64 {
	all := map[string]float64{}
	t.each(func(p *process.Process) {
		add := func(name string, v float64) {
			if v > 0 {
				all[name] += v
			}
		}
		if m, err := p.MemoryInfo(); err == nil {
			add("memory", float64(m.RSS))
		}
		add("files", float64(files(p)))
		if n, err := p.NumThreads(); err == nil {
			add("threads", float64(n))
		}
	})
	return all
}

// files counts the open files of a process; 0 if the system does not say.
func files(p *process.Process) int64 {
	// Since Linux 6.2, the size of this directory is their number: proc_pid_fd(5).
	if info, err := os.Stat(fmt.Sprintf("/proc/%d/fd", p.Pid)); err == nil && info.Size() > 0 {
		return info.Size()
	}
	n, err := p.NumFDs()
	if err != nil {
		return 0
	}
	return int64(n)
}

// gauges reads the gauges of the target; none if that fails, because the next reading may succeed.
func (m *Metrics) gauges() map[string]float64 {
	all, err := m.read(scrapeAge)
	if err != nil {
		return nil
	}
	return gaugesIn(all)
}

// gaugesIn returns the gauges among metrics, by their names in a result.
func gaugesIn(families map[string]*dto.MetricFamily) map[string]float64 {
	all := map[string]float64{}
	for metric, f := range families {
		name, known := gaugeMetrics[metric]
		if !known && f.GetType() == dto.MetricType_GAUGE && strings.HasSuffix(metric, sessionGauge) {
			name, known = "sessions", true
		}
		if v, ok := sum(f); known && ok {
			all[name] += v
		}
	}
	return all
}

// Marks are the times of a pass, in seconds, by the clock given to [FollowLevels].
type Marks struct {
	Attach  float64 // the first subscription is about to open
	From    float64 // the measured phase begins
	To      float64 // and ends
	Cool    float64 // the cool-down begins, which goes on until the watch is stopped; 0 = there was none
	Cooled  float64 // and ends; 0 = it was not completed
	Varying bool    // the load of the measured phase changes by plan
	Planned bool    // there should have been a cool-down
}

// leastRise is the smallest rise that counts, by gauge: some pages of memory and a few files come and go.
func leastRise(name string) float64 {
	switch name {
	case "memory", "heap":
		return 1 << 20
	}
	return 5
}

// Growths judges the gauges of a target.
func Growths(levels map[string][]leak.Point, m Marks) map[string]results.Growth {
	if len(levels) == 0 {
		return nil
	}
	out := map[string]results.Growth{}
	for name, points := range levels {
		g := leak.Gauge{Before: between(points, 0, m.Attach), Measured: between(points, m.From, m.To), Least: leastRise(name)}
		if m.Cooled > 0 {
			g.After = between(points, (m.Cool+m.Cooled)/2, math.Inf(1))
		}
		out[name] = growth(name, g, m)
	}
	return out
}

// between returns the points from one time to another.
func between(points []leak.Point, from, to float64) []leak.Point {
	i := slices.IndexFunc(points, func(p leak.Point) bool { return p.Seconds >= from })
	if i < 0 {
		return nil
	}
	n := slices.IndexFunc(points[i:], func(p leak.Point) bool { return p.Seconds > to })
	if n < 0 {
		return points[i:]
	}
	return points[i : i+n]
}

// growth judges a gauge.
func growth(name string, g leak.Gauge, m Marks) results.Growth {
	out := results.Growth{Verdict: results.LeakUnknown, Points: int64(len(g.Measured))}
	f, ok := leak.Judge(g)
	switch {
	case !ok:
		out.Reason = fmt.Sprintf(
			"the measured phase has %d samples, and a trend needs two in each of %d equal windows: raise phases.measure",
			len(g.Measured),
			leak.Windows,
		)
		if len(g.Measured) >= 2*leak.Windows {
			out.Reason = fmt.Sprintf(
				"of %d equal windows of the measured phase one has fewer than two samples: the machine was too busy to take them",
				leak.Windows,
			)
		}
		if len(g.Measured) > 0 {
			out.Start = g.Measured[0].Value
		}
		return out
	case m.Varying:
		out.Reason = "the load of the schedule changes by plan, so a rise may be the load's: use kind constant, poisson, burst or sine"
		return out
	}
	out.Slope, out.Low, out.High = f.Slope, f.Low, f.High
	out.Rise, out.Before, out.Start = f.Rise, f.Before, f.Start
	if len(g.After) > 0 {
		out.After = f.After
	}
	rises := fmt.Sprintf("it rises by %s a minute under constant load", amount(name, f.Slope))
	between := fmt.Sprintf("%s to %s a minute", amount(name, f.Low), amount(name, f.High))
	switch {
	case f.Verdict == leak.Flat:
		out.Verdict, out.Reason = results.LeakNone, "it does not rise under constant load ("+between+")"
	case f.Verdict == leak.Back:
		out.Verdict, out.Reason = results.LeakNone, rises+", and comes back in the cool-down"
	case f.Verdict == leak.Unsure:
		out.Reason = "its readings vary too much to say whether it rises (" + between + "): raise phases.measure"
	case f.Verdict == leak.Stopped:
		out.Reason = rises + ", but not evenly, as a buffer does that fills: raise phases.warmup or phases.measure"
	case f.Verdict == leak.Leak:
		out.Verdict, out.Reason = results.LeakFound, fmt.Sprintf(
			"%s, and in the cool-down it stays %s above its value after the warm-up; a buffer that fills looks the "+
				"same, unless the warm-up filled it",
			rises,
			amount(name, f.After-f.Start),
		)
	case len(g.After) == 0 && m.Cooled > 0:
		out.Reason = rises + "; it could not be read in the cool-down"
	case len(g.After) == 0 && m.Planned:
		out.Reason = rises + "; the cool-down, which shows whether it comes back, was not completed"
	case len(g.After) == 0:
		out.Reason = rises + "; there was no cool-down that shows whether it comes back: set phases.cooldown"
	default:
		out.Reason = rises + ", and falls in the cool-down, but not to its value before the load: raise phases.measure and phases.cooldown"
	}
	return out
}

// amount writes a value of a gauge with three digits.
func amount(name string, v float64) string {
	switch name {
	case "memory", "heap":
		return fmt.Sprintf("%.3g MiB", v/(1<<20))
	}
	return fmt.Sprintf("%.3g", v)
}
