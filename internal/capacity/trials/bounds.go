package trials

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter/internal/health"
	"github.com/eventmeter/eventmeter/internal/run"
	"github.com/eventmeter/eventmeter/results"
)

// The metrics that are known of a process without its own metrics.
const (
	metricCPU    = "process_cpu_seconds_total"
	metricMemory = "process_resident_memory_bytes"
)

// readBounds reads the bounds of the SLO on metrics, and checks that the target has
// them.
func (s *finder) readBounds() error {
	var names []string
	for _, text := range s.p.Capacity.SLO.Metrics {
		b, err := results.ParseMetricBound(text)
		if err != nil {
			return fmt.Errorf("%w: capacity.slo.metrics: %w", run.ErrProfile, err)
		}
		if slices.ContainsFunc(s.bounds, func(o results.MetricBound) bool { return o.String() == b.String() }) {
			return fmt.Errorf("%w: capacity.slo.metrics: %q is there twice", run.ErrProfile, text)
		}
		s.bounds = append(s.bounds, b)
		names = append(names, b.Metric)
		if s.opts.TargetMetrics == "" && (b.Metric != metricMemory || b.Rate) && (b.Metric != metricCPU || !b.Rate) {
			return fmt.Errorf(
				"%w: capacity.slo.metrics: %q: only %s and rate(%s) are known of a process; give --target-metrics for others",
				run.ErrProfile,
				text,
				metricMemory,
				metricCPU,
			)
		}
	}
	if len(names) == 0 || s.opts.TargetMetrics == "" {
		return nil
	}
	has, err := health.NewMetrics(s.opts.TargetMetrics, s.opts.Guard).Values(names)
	if err != nil {
		return fmt.Errorf("%w: %w", run.ErrTarget, err)
	}
	for _, b := range s.bounds {
		if _, ok := has[b.Metric]; !ok {
			return fmt.Errorf(
				"%w: capacity.slo.metrics: %q: %s has no such metric; open it to see which there are",
				run.ErrProfile,
				b,
				s.opts.TargetMetrics,
			)
		}
	}
	return nil
}

// readEvery is the pause between two readings of metrics.
const readEvery = time.Second

// samples are readings of metrics while a step publishes. A nil pointer has none.
type samples struct {
	bounds []results.MetricBound
	remote bool

	mu          sync.Mutex
	first, last time.Time
	begin, end  map[string]float64
	low, high   map[string]float64
}

// sample has the run read the metrics of the target's bounds while it publishes.
func (s *finder) sample(o *run.Options) *samples {
	if len(s.bounds) == 0 {
		return nil
	}
	out := &samples{bounds: s.bounds, remote: o.TargetMetrics != "", low: map[string]float64{}, high: map[string]float64{}}
	if !out.remote {
		return out
	}
	metrics := health.NewMetrics(o.TargetMetrics, o.Guard)
	var names []string
	for _, b := range s.bounds {
		names = append(names, b.Metric)
	}
	o.Beside = func(ctx context.Context, _ run.Beside) {
		tick := time.NewTicker(readEvery)
		defer tick.Stop()
		for {
			// A reading that fails is one less; a step without any is not judged.
			if values, err := metrics.Values(names); err == nil {
				out.add(time.Now(), values)
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}
	return out
}

func (s *samples) add(at time.Time, values map[string]float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.begin == nil {
		s.first, s.begin = at, values
	}
	s.last, s.end = at, values
	for name, v := range values {
		if least, ok := s.low[name]; !ok || v < least {
			s.low[name] = v
		}
		if most, ok := s.high[name]; !ok || v > most {
			s.high[name] = v
		}
	}
}

// judged returns the value that decides each bound, by its text. A bound whose metric
// was not read is missing. process may be nil.
func (s *samples) judged(process *results.Process) map[string]float64 {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]float64{}
	for _, b := range s.bounds {
		switch {
		case !s.remote && process == nil:
		case !s.remote && b.Metric == metricMemory:
			out[b.String()] = float64(process.Memory)
		case !s.remote:
			out[b.String()] = process.CPUShare
		case b.Rate:
			from, has := s.begin[b.Metric]
			to, still := s.end[b.Metric]
			if seconds := s.last.Sub(s.first).Seconds(); has && still && seconds > 0 && to >= from {
				out[b.String()] = (to - from) / seconds
			}
		default:
			of := s.low
			if b.Upper() {
				of = s.high
			}
			if v, ok := of[b.Metric]; ok {
				out[b.String()] = v
			}
		}
	}
	return out
}
