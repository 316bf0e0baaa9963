package prom

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mcpload/mcpload"
	"github.com/mcpload/mcpload/sinks"
)

const (
	counter = prometheus.CounterValue
	gauge   = prometheus.GaugeValue
)

// oneLane is what the metrics of a lane are read from.
type oneLane struct {
	*sinks.LiveLane
	*sinks.LaneDetail
	figures map[string]float64
}

// wholeRun is what the metrics of a run are read from.
type wholeRun struct {
	Run
	passes []passState
}

// family is one metric: how it is called, and how it is read from an X.
type family[X any] struct {
	name, help string
	labels     []string // beside those of every metric of its kind
	kind       prometheus.ValueType
	of         func(x *X, emit func(v float64, labels ...string))
	desc       *prometheus.Desc
}

// LaneLabels are the labels of every metric of a lane, RunLabels those of every
// metric of a run.
var (
	LaneLabels = []string{"system", "mode", "lane", "run"}
	RunLabels  = []string{"run"}
)

func newFamily[X any](base []string, kind prometheus.ValueType, name, help string, labels []string, of func(x *X, emit func(float64, ...string))) family[X] {
	return family[X]{
		name: name, help: help, labels: labels, kind: kind, of: of,
		desc: prometheus.NewDesc(name, help, append(append([]string(nil), base...), labels...), nil),
	}
}

// single is a metric of a lane with no label of its own.
func single(kind prometheus.ValueType, name, help string, of func(x *oneLane) int64) family[oneLane] {
	return newFamily(LaneLabels, kind, name, help, nil, func(x *oneLane, emit func(float64, ...string)) { emit(float64(of(x))) })
}

// several is a metric of a lane with one label of its own.
func several(name, help, label string, of func(x *oneLane, emit func(float64, ...string))) family[oneLane] {
	return newFamily(LaneLabels, counter, name, help, []string{label}, of)
}

// byCause is a metric of the lane's calls. Events on streams are no calls, so
// that their bytes are added where asked for.
func byCause(name, help string, events func(x *oneLane) int64, of func(t *sinks.Traffic) int64) family[oneLane] {
	return several(name, help, "cause", func(x *oneLane, emit func(float64, ...string)) {
		for c := range mcpload.Causes {
			v := of(&x.Traffic[c])
			if mcpload.Cause(c) == mcpload.Events && events != nil {
				v = max(v, events(x))
			}
			emit(float64(v), mcpload.Cause(c).String())
		}
	})
}

// laneFamilies are the metrics of each lane.
var laneFamilies = []family[oneLane]{
	single(gauge, "mcpload_subscriptions", "Subscriptions that the lane was declared with.", func(x *oneLane) int64 { return int64(x.Subscriptions) }),
	single(gauge, "mcpload_subscriptions_open", "Subscriptions that are active now.", func(x *oneLane) int64 { return x.Open }),
	single(gauge, "mcpload_subscriptions_attaching", "Subscriptions that are asked for and not active yet.", func(x *oneLane) int64 { return x.Attaching }),
	single(counter, "mcpload_subscriptions_failed_total", "Attempts to subscribe that failed.", func(x *oneLane) int64 { return x.LiveLane.Failed }),
	single(counter, "mcpload_subscriptions_broken_total", "Subscriptions that failed after they had been active.", func(x *oneLane) int64 { return x.Broken }),
	newFamily(LaneLabels, counter, "mcpload_subscription_active_seconds_total", "Time that subscriptions were active, added up.", nil,
		func(x *oneLane, emit func(float64, ...string)) { emit(x.Active.Seconds()) }),

	single(counter, "mcpload_deliveries_expected_total", "Owed pairs of an event and a subscription. While the run is on its way, a pair counts as soon as it, or a newer one of its source, has come.", func(x *oneLane) int64 { return x.Expected }),
	single(counter, "mcpload_deliveries_total", "Owed pairs that came at least once.", func(x *oneLane) int64 { return x.Delivered }),
	single(gauge, "mcpload_deliveries_outstanding", "Owed pairs that have not come, and may still.", func(x *oneLane) int64 { return x.Outstanding }),
	single(gauge, "mcpload_deliveries_missing", "Owed pairs that have not come although a newer event of the source has, and all that is lost for good.", func(x *oneLane) int64 { return x.Holes }),
	several("mcpload_deliveries_lost_total", "Owed pairs that never came, by whether the target said so. Those of subscriptions that are still open are counted when they end.", "kind",
		func(x *oneLane, emit func(float64, ...string)) {
			emit(float64(x.LostSilent), "silent")
			emit(float64(x.LostAnnounced), "announced")
		}),
	several("mcpload_duplicates_total", "Second and later copies.", "kind", func(x *oneLane, emit func(float64, ...string)) {
		emit(float64(x.Duplicates.SameEvent), "same_event")
		// As in a result: a copy whose first id is forgotten is one that its
		// client cannot tell, either.
		emit(float64(x.Duplicates.SameEmission+x.Duplicates.Forgotten), "same_emission")
		emit(float64(x.Duplicates.Requested), "requested")
	}),
	single(counter, "mcpload_deliveries_out_of_order_total", "First deliveries that came after one of the same source that happened later.", func(x *oneLane) int64 { return x.OutOfOrder }),
	single(counter, "mcpload_deliveries_late_total", "First deliveries later than phases.late after intended.", func(x *oneLane) int64 { return x.Late }),
	several("mcpload_unexpected_total", "Copies that should not have come.", "kind", func(x *oneLane, emit func(float64, ...string)) {
		emit(float64(x.Unexpected.ForeignRun), "foreign_run")
		emit(float64(x.Unexpected.NeverFired), "never_fired")
		emit(float64(x.Unexpected.NotSubscribed), "not_subscribed")
		emit(float64(x.Unexpected.Stale), "stale")
	}),
	single(counter, "mcpload_deliveries_recovered_total", "Pairs that came although firing failed.", func(x *oneLane) int64 { return x.Recovered }),
	single(counter, "mcpload_deliveries_in_flight_total", "Deliveries of events that were on their way while the subscription became active.", func(x *oneLane) int64 { return x.InFlight }),
	single(counter, "mcpload_deliveries_replayed_total", "Deliveries older than the subscription, on a lane that asked for them.", func(x *oneLane) int64 { return x.Replayed }),
	single(counter, "mcpload_deliveries_foreign_total", "Copies of events that another shard fired.", func(x *oneLane) int64 { return x.Foreign }),
	single(counter, "mcpload_deliveries_unprobed_total", "Events without a probe id: other traffic of the same server.", func(x *oneLane) int64 { return x.Unprobed }),
	single(counter, "mcpload_gaps_total", "Runs of lost events. Those of subscriptions that are still open are counted when they end.", func(x *oneLane) int64 { return x.Gaps }),
	single(counter, "mcpload_gap_announcements_total", "Announcements by the target that events are missing.", func(x *oneLane) int64 { return x.Announcements }),
	single(counter, "mcpload_gap_false_alarms_total", "Announcements with nothing missing beside them.", func(x *oneLane) int64 { return x.FalseAlarms }),
	single(counter, "mcpload_cursors_overclaimed_total", "Cursors that claimed more than had been delivered.", func(x *oneLane) int64 { return x.Overclaimed }),

	single(counter, "mcpload_event_messages_total", "Copies of events that came, whatever became of them, warm-up included.", func(x *oneLane) int64 { return x.EventMessages }),
	single(counter, "mcpload_event_message_bytes_total", "Bytes of the copies of events that came.", func(x *oneLane) int64 { return x.EventBytes }),
	byCause("mcpload_requests_total", "Requests in either direction. All causes but events are refresh overhead.", nil, func(t *sinks.Traffic) int64 { return t.Requests }),
	byCause("mcpload_sent_bytes_total", "Bytes sent by this side.", nil, func(t *sinks.Traffic) int64 { return t.Up }),
	byCause("mcpload_received_bytes_total", "Bytes received by this side.", func(x *oneLane) int64 { return x.EventBytes }, func(t *sinks.Traffic) int64 { return t.Down }),
	byCause("mcpload_connections_opened_total", "TCP connections opened.", nil, func(t *sinks.Traffic) int64 { return t.Connections }),
	byCause("mcpload_call_failures_total", "Calls that failed.", nil, func(t *sinks.Traffic) int64 { return t.Failures }),

	single(counter, "mcpload_reconnects_total", "Streams that were opened again.", func(x *oneLane) int64 { return x.Reconnects }),
	single(counter, "mcpload_dead_streams_total", "Streams on which nothing came for too long.", func(x *oneLane) int64 { return x.DeadStreams }),
	single(counter, "mcpload_terminated_total", "Subscriptions that the target ended.", func(x *oneLane) int64 { return x.Terminated }),
	single(counter, "mcpload_transient_errors_total", "Errors that the target said will pass.", func(x *oneLane) int64 { return x.TransientErrors }),
	single(counter, "mcpload_rejected_total", "Webhook deliveries that were refused: unsigned, stale, or for nobody.", func(x *oneLane) int64 { return x.Rejected }),
	single(counter, "mcpload_malformed_total", "Messages that could not be read.", func(x *oneLane) int64 { return x.Malformed }),

	newFamily(LaneLabels, gauge, "mcpload_figure", "What only one system has, by its name in result.json (lanes[].figures). Shown when the lane is over.", []string{"figure"},
		func(x *oneLane, emit func(float64, ...string)) {
			for name, v := range x.figures {
				emit(v, name)
			}
		}),
}

// runFamilies are the metrics of each run.
var runFamilies = []family[wholeRun]{
	newFamily(RunLabels, gauge, "mcpload_run_info", "1, for each run that is shown.", []string{"profile", "version", "upstream"},
		func(x *wholeRun, emit func(float64, ...string)) { emit(1, x.Profile, x.Version, x.Upstream) }),
	newFamily(RunLabels, gauge, "mcpload_phase", "1 for the phase that the run is in, 0 for the others.", []string{"phase"}, phases),
	ofShots("mcpload_events_fired_total", "Measured events that were sent.", func(s *sinks.Shots) int64 { return s.Fired }),
	newFamily(RunLabels, counter, "mcpload_events_resolved_total", "Measured events by what became of them: accepted by the upstream, uncertain, or refused.", []string{"outcome"},
		func(x *wholeRun, emit func(float64, ...string)) {
			s, _ := x.shots()
			emit(float64(s.Accepted), "accepted")
			emit(float64(s.Uncertain), "uncertain")
			emit(float64(s.Refused), "refused")
		}),
	ofShots("mcpload_events_dropped_total", "Measured shots that were due while every worker was busy, and were never sent.", func(s *sinks.Shots) int64 { return s.Dropped }),
	newFamily(RunLabels, gauge, "mcpload_events_pending", "Measured events that were sent and are not answered yet.", nil,
		func(x *wholeRun, emit func(float64, ...string)) {
			s, _ := x.shots()
			emit(float64(s.Pending))
		}),
	newFamily(RunLabels, counter, "mcpload_events_warmup_fired_total", "Events of the warm-up, which enter no figure.", nil,
		func(x *wholeRun, emit func(float64, ...string)) {
			_, w := x.shots()
			emit(float64(w.Fired))
		}),
	newFamily(RunLabels, counter, "mcpload_process_cpu_seconds_total", "CPU time of the generator and of the target, since each process started.", []string{"process"},
		func(x *wholeRun, emit func(float64, ...string)) {
			x.usage(func(u Usage, process string) { emit(u.CPU, process) })
		}),
	newFamily(RunLabels, gauge, "mcpload_process_resident_memory_bytes", "Resident memory of the generator and of the target.", []string{"process"},
		func(x *wholeRun, emit func(float64, ...string)) {
			x.usage(func(u Usage, process string) { emit(float64(u.Memory), process) })
		}),
	newFamily(RunLabels, gauge, "mcpload_goroutines", "Goroutines of the generator.", nil,
		func(_ *wholeRun, emit func(float64, ...string)) { emit(float64(runtime.NumGoroutine())) }),
}

func ofShots(name, help string, of func(*sinks.Shots) int64) family[wholeRun] {
	return newFamily(RunLabels, counter, name, help, nil, func(x *wholeRun, emit func(float64, ...string)) {
		s, _ := x.shots()
		emit(float64(of(&s)))
	})
}

// Phases are the values of the label phase, in their order.
var Phases = []string{"attach", "warm-up", "measure", "drain", "detach", PhaseDone}

func phases(x *wholeRun, emit func(float64, ...string)) {
	if len(x.passes) == 0 {
		return
	}
	now := x.passes[len(x.passes)-1].phase
	for _, name := range Phases {
		v := 0.0
		if name == now {
			v = 1
		}
		emit(v, name)
	}
}

// shots adds up the passes.
func (x *wholeRun) shots() (measured, warmUp sinks.Shots) {
	for i := range x.passes {
		m, w := x.passes[i].detail.Measured, x.passes[i].detail.WarmUp
		measured.Fired += m.Fired
		measured.Accepted += m.Accepted
		measured.Uncertain += m.Uncertain
		measured.Refused += m.Refused
		measured.Pending += m.Pending
		measured.Dropped += m.Dropped
		warmUp.Fired += w.Fired
	}
	return measured, warmUp
}

// usage calls f for each process that could be read, with the latest values.
func (x *wholeRun) usage(f func(Usage, string)) {
	if len(x.passes) == 0 {
		return
	}
	last := &x.passes[len(x.passes)-1]
	if last.generator.OK {
		f(last.generator, "generator")
	}
	if last.target.OK {
		f(last.target, "target")
	}
}
