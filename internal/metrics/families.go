package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventmeter/eventmeter/results"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

const (
	counter = prometheus.CounterValue
	gauge   = prometheus.GaugeValue
)

// LaneLabels are the labels of every metric of a lane, RunLabels those of every
// metric of a run, ShardLabels those of one of its shards, SearchLabels those of
// a search for the capacity. A metric may have more of its own, with values that
// the program knows beforehand or the profile names.
var (
	LaneLabels   = []string{"system", "mode", "lane", "run"}
	RunLabels    = []string{"run"}
	ShardLabels  = []string{"run", "shard"}
	SearchLabels = []string{"search"}
)

// oneLane holds the values of a lane's metrics.
type oneLane struct {
	*ledger.LiveLane
	own    Figures
	alone  bool // it has its turn alone
	health *Health
}

// wholeRun holds the values of a run's metrics.
type wholeRun struct {
	Run
	passes []Look
	result *results.Result // nil until it is there
	last   Figures         // of the upstream, with the result
	done   bool
}

// emitter takes a value, and those of the labels that only this metric has.
type emitter = func(v float64, labels ...string)

// family is one metric: how it is called, and how it is read from an X.
type family[X any] struct {
	about
	kind prometheus.ValueType
	of   func(x *X, emit emitter)
}

func newFamily[X any](base []string, kind prometheus.ValueType, name, help string, own []string, of func(x *X, emit emitter)) family[X] {
	a := aboutOf(base, map[prometheus.ValueType]string{counter: "counter", gauge: "gauge"}[kind], name, help, own)
	return family[X]{about: a, kind: kind, of: of}
}

func kindOf(isGauge bool) prometheus.ValueType {
	if isGauge {
		return gauge
	}
	return counter
}

// some is the only label of a metric, or its value; none where it is "".
func some(label string) []string {
	if label == "" {
		return nil
	}
	return []string{label}
}

func appendAbout[X any](to []about, families []family[X], histograms []histogramFamily[X]) []about {
	for _, f := range families {
		to = append(to, f.about)
	}
	for _, h := range histograms {
		to = append(to, h.about)
	}
	return to
}
