package metrics

import (
	"slices"

	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// laneFamilies are the metrics of each lane: those of its counts, which the
// ledger declares, and what only the run knows.
var laneFamilies = slices.Concat(countFamilies(), turnFamilies, figureFamilies)

func countFamilies() []family[oneLane] {
	var out []family[oneLane]
	for _, m := range ledger.LaneMetrics {
		out = append(out, newFamily(LaneLabels, kindOf(m.Gauge), m.Name, m.Help, some(m.Label), func(x *oneLane, emit emitter) {
			for _, p := range m.Parts {
				emit(p.Of(x.LiveLane), some(p.Value)...)
			}
		}))
	}
	return out
}

var turnFamilies = []family[oneLane]{
	newFamily(
		LaneLabels,
		counter,
		"eventmeter_turn_cpu_seconds_total",
		"CPU time of the target while the run published and drained in this lane's turn. Only where lanes take turns: "+
			"otherwise it cannot be attributed to a lane.",
		nil,
		func(x *oneLane, emit emitter) {
			if v, ok := x.health.Used[Target]; ok && x.alone {
				emit(v)
			}
		},
	),
}

var figureFamilies = []family[oneLane]{
	newFamily(
		LaneLabels,
		gauge,
		"eventmeter_figure",
		"Figures that only one system has, by their name and in their unit in result.json (lanes[].figures).",
		[]string{"figure"},
		func(x *oneLane, emit emitter) {
			for name, v := range x.own.Values {
				emit(v, name)
			}
		},
	),
}

var laneHistograms = []histogramFamily[oneLane]{
	laneHistogram(
		"eventmeter_latency_from_intended_seconds",
		"From the scheduled instant of the event until it was received, of first deliveries.",
		func(x *oneLane) ledger.Distribution { return x.FromIntended },
	),
	laneHistogram("eventmeter_latency_from_sent_seconds", "From sending the event until it was received, of first deliveries.",
		func(x *oneLane) ledger.Distribution { return x.FromSent }),
	laneHistogram("eventmeter_subscription_ready_seconds", "From the subscribe request until the subscription was confirmed active.",
		func(x *oneLane) ledger.Distribution { return x.Ready }),
	newHistogram(
		LaneLabels,
		"eventmeter_figure_seconds",
		"Times that only one system has, by their name in result.json (lanes[].timings).",
		[]string{"figure"},
		func(x *oneLane, emit histogramEmitter) { emit.all(x.own.Timings) },
	),
}

func laneHistogram(name, help string, of func(x *oneLane) ledger.Distribution) histogramFamily[oneLane] {
	return newHistogram(LaneLabels, name, help, nil, func(x *oneLane, emit histogramEmitter) {
		emit([]ledger.Distribution{of(x)})
	})
}
