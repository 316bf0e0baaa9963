package metrics

import (
	"cmp"
	"slices"

	"github.com/eventmeter/eventmeter/internal/figure"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// ownFamilies are the metrics that figures of systems have under names of their
// own, beside eventmeter_figure and eventmeter_figure_seconds.
func ownFamilies(tables figure.Tables) (families []family[oneLane], histograms []histogramFamily[oneLane]) {
	for _, t := range tables {
		for i := range t.Figures {
			first := &t.Figures[i]
			if first.Metric == nil {
				continue
			}
			shown := slices.DeleteFunc(
				slices.Clone(t.Figures),
				func(f figure.Figure) bool { return f.Metric == nil || f.Metric.Name != first.Metric.Name },
			)
			switch {
			case shown[0].Name != first.Name: // it is there
			case first.Timing:
				histograms = append(histograms, ownHistogram(t, first))
			default:
				families = append(families, ownFamily(t, shown))
			}
		}
	}
	return families, histograms
}

// ownFamily is a metric of the lanes of a table's systems that shows one figure,
// or several by a label.
func ownFamily(t *figure.Table, shown []figure.Figure) family[oneLane] {
	m := shown[0].Metric
	return newFamily(LaneLabels, kindOf(m.Gauge), m.Name, cmp.Or(m.Help, shown[0].Help), some(m.Label), func(x *oneLane, emit emitter) {
		if !slices.Contains(t.Systems, x.System) {
			return
		}
		for _, f := range shown {
			if v, ok := x.own.Values[f.Name]; ok {
				emit(f.Metric.Shown(v), some(f.Metric.Value)...)
			}
		}
	})
}

// ownHistogram is the same of a timing.
func ownHistogram(t *figure.Table, f *figure.Figure) histogramFamily[oneLane] {
	return newHistogram(LaneLabels, f.Metric.Name, cmp.Or(f.Metric.Help, f.Help), nil, func(x *oneLane, emit histogramEmitter) {
		if d, ok := x.own.Timings[f.Name]; ok && slices.Contains(t.Systems, x.System) {
			emit([]ledger.Distribution{d})
		}
	})
}

// metricsOfLanes are all metrics of a lane.
type metricsOfLanes struct {
	families   []family[oneLane]
	histograms []histogramFamily[oneLane]
}

func newMetricsOfLanes(tables figure.Tables) metricsOfLanes {
	families, histograms := ownFamilies(tables)
	return metricsOfLanes{slices.Concat(laneFamilies, families), slices.Concat(laneHistograms, histograms)}
}

// described is what there is to know of every metric, in the order of the docs.
func (m *metricsOfLanes) described() []about {
	var out []about
	out = appendAbout(out, m.families, m.histograms)
	out = appendAbout(out, runFamilies, runHistograms)
	out = appendAbout(out, shardFamilies, nil)
	out = appendAbout(out, searchFamilies, nil)
	return out
}
