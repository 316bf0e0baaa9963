package metrics

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventmeter/eventmeter/internal/conform"
	"github.com/eventmeter/eventmeter/internal/figure"
	"github.com/eventmeter/eventmeter/results"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// runFamilies are the metrics of each run.
var runFamilies = slices.Concat(identityFamilies, conformanceFamilies, phaseFamilies, firingFamilies, processFamilies)

func ofRun(kind prometheus.ValueType, name, help string, of func(x *wholeRun, emit emitter), own ...string) family[wholeRun] {
	return newFamily(RunLabels, kind, name, help, own, of)
}

// once returns a metric that appears with the result.
func once(name, help string, of func(x *wholeRun) float64) family[wholeRun] {
	return ofRun(gauge, name, help, func(x *wholeRun, emit emitter) {
		if x.result != nil {
			emit(of(x))
		}
	})
}

var identityFamilies = []family[wholeRun]{
	ofRun(
		gauge,
		"eventmeter_run_info",
		"1, for each run that is shown. name is the one that was given with --name, or empty. fleet is the name that all "+
			"shards of a run share, or that of the run if it is not split; shard is the index of this shard, or empty.",
		func(x *wholeRun, emit emitter) {
			emit(1, x.Name, x.Profile, x.Version, x.Upstream, x.Schedule, x.Fleet, x.Shard)
		},
		"name",
		"profile",
		"version",
		"upstream",
		"schedule",
		"fleet",
		"shard",
	),
	ofRun(
		gauge,
		"eventmeter_run_start_timestamp_seconds",
		"When the run began.",
		func(x *wholeRun, emit emitter) { emit(seconds(x.Started)) },
	),
	once(
		"eventmeter_run_end_timestamp_seconds",
		"When the run ended. Like every metric that comes from the result, it appears only then.",
		func(x *wholeRun) float64 { return seconds(x.result.Finished) },
	),
	once("eventmeter_run_partial", "1 if the run ended early.", func(x *wholeRun) float64 { return truth(x.result.Partial) }),
	once(
		"eventmeter_run_bottleneck",
		"1 if the figures describe the generator more than the target.",
		func(x *wholeRun) float64 { return truth(x.result.Generator.Bottleneck) },
	),
	ofRun(gauge, "eventmeter_run_warnings", "Warnings of the result, by their code.", func(x *wholeRun, emit emitter) {
		if x.result == nil {
			return
		}
		n := map[string]float64{}
		for _, w := range x.result.Warnings {
			n[w.Code]++
		}
		for code, v := range n {
			emit(v, code)
		}
	}, "code"),
	ofThresholds(
		"eventmeter_threshold_passed",
		"1 for a threshold of the profile that held, 0 for one that failed or was not evaluated. lane is empty for a figure of the run.",
		func(v *results.Verdict) bool { return v.Passed },
	),
	ofThresholds(
		"eventmeter_threshold_evaluated",
		"1 for a threshold of the profile that was evaluated, 0 for one that judged nothing: nothing was owed to the lane, "+
			"it received nothing at all, or its latency is in doubt.",
		func(v *results.Verdict) bool { return v.NotEvaluated == "" },
	),
}

// ofThresholds is a metric with a value for every threshold and lane, once the run is over.
func ofThresholds(name, help string, is func(*results.Verdict) bool) family[wholeRun] {
	return ofRun(gauge, name, help, func(x *wholeRun, emit emitter) {
		if x.result == nil {
			return
		}
		seen := map[[2]string]bool{} // a profile may name one twice
		for i := range x.result.Thresholds {
			v := &x.result.Thresholds[i]
			if key := [2]string{v.Threshold, v.Lane}; !seen[key] {
				seen[key] = true
				emit(truth(is(v)), v.Threshold, v.Lane)
			}
		}
	}, "threshold", "lane")
}

var conformanceFamilies = []family[wholeRun]{
	ofRun(
		gauge,
		"eventmeter_conformance_broken_rows",
		"Rows of conformance that the target broke so far, by level: must, should, shape. Present only if a lane speaks MCP Events.",
		func(x *wholeRun, emit emitter) {
			if c := x.conformance(); c != nil {
				emit(float64(c.Must), string(conform.Must))
				emit(float64(c.Should), string(conform.Should))
				emit(float64(c.Shape), string(conform.Shape))
			}
		},
		"level",
	),
	ofRun(
		counter,
		"eventmeter_conformance_broken_total",
		"How often the target broke a row of conformance that was seen; 0 if the row held.",
		func(x *wholeRun, emit emitter) {
			c := x.conformance()
			if c == nil {
				return
			}
			for i := range c.Rows {
				if row := &c.Rows[i]; row.Seen > 0 {
					emit(float64(row.Broken), row.Level, row.Row)
				}
			}
		},
		"level",
		"row",
	),
}

// conformance returns the rows so far, as the result has them; nil where no lane is
// judged.
func (x *wholeRun) conformance() *results.Conformance {
	if x.result != nil {
		return x.result.Conformance
	}
	var all conform.Account
	for i := range x.passes {
		p := &x.passes[i]
		for j := range min(len(p.Own), len(p.Detail.Lanes)) {
			l := &p.Detail.Lanes[j]
			all = all.Plus(p.Own[j].Conform.Of(l.Name, l.Duplicates.SameEmission))
		}
	}
	return results.NewConformance(all)
}

var phaseFamilies = []family[wholeRun]{
	ofRun(
		gauge,
		"eventmeter_phase",
		"1 for the phase that the run is in, 0 for the others: attach, wait (for other shards), warm-up, "+
			"measure, drain, detach, cool-down, done.",
		phases,
		"phase",
	),
	ofRun(
		gauge,
		"eventmeter_phase_start_timestamp_seconds",
		"When a phase began. lane is empty unless lanes take turns.",
		func(x *wholeRun, emit emitter) {
			x.eachPhase(func(p *Phase) { emit(seconds(p.Start), p.Lane, p.Name) })
		},
		"lane",
		"phase",
	),
	ofRun(gauge, "eventmeter_phase_end_timestamp_seconds", "When a phase was over.", func(x *wholeRun, emit emitter) {
		x.eachPhase(func(p *Phase) {
			if !p.End.IsZero() {
				emit(seconds(p.End), p.Lane, p.Name)
			}
		})
	}, "lane", "phase"),
	ofRun(counter, "eventmeter_bursts_total", "Bursts of the schedule that were due, warm-up included.", func(x *wholeRun, emit emitter) {
		if x.Schedule != "burst" {
			return
		}
		var n int64
		for i := range x.passes {
			n += x.passes[i].Bursts
		}
		emit(float64(n))
	}),
	ofRun(
		gauge,
		"eventmeter_burst_start_timestamp_seconds",
		"When the last burst of the schedule was due.",
		func(x *wholeRun, emit emitter) {
			for i := len(x.passes) - 1; i >= 0; i-- {
				if at := x.passes[i].Burst; !at.IsZero() {
					emit(seconds(at))
					return
				}
			}
		},
	),
}

var firingFamilies = []family[wholeRun]{
	ofEmissions(
		counter,
		"eventmeter_events_published_total",
		"Measured events that were sent.",
		func(measured, _ *ledger.Scheduled) int64 { return measured.Fired },
	),
	ofRun(
		counter,
		"eventmeter_events_resolved_total",
		"Measured events by what became of them: accepted by the upstream, uncertain, or refused.",
		func(x *wholeRun, emit emitter) {
			s, _ := x.emissions()
			emit(float64(s.Accepted), "accepted")
			emit(float64(s.Uncertain), "uncertain")
			emit(float64(s.Refused), "refused")
		},
		"outcome",
	),
	ofEmissions(
		counter,
		"eventmeter_events_dropped_total",
		"Measured events that were due while every worker was busy, and were never sent.",
		func(measured, _ *ledger.Scheduled) int64 { return measured.Dropped },
	),
	ofEmissions(
		gauge,
		"eventmeter_events_pending",
		"Measured events that were sent and are not answered yet.",
		func(measured, _ *ledger.Scheduled) int64 { return measured.Pending },
	),
	ofEmissions(
		counter,
		"eventmeter_events_warmup_published_total",
		"Events of the warm-up, which enter no figure.",
		func(_, warmUp *ledger.Scheduled) int64 { return warmUp.Fired },
	),
	ofRun(
		gauge,
		"eventmeter_upstream_figure",
		"Figures that only one kind of upstream has, by their name and in their unit in result.json (upstream.figures).",
		func(x *wholeRun, emit emitter) {
			for name, v := range x.upstream().Values {
				emit(v, name)
			}
		},
		"figure",
	),
}

var processFamilies = []family[wholeRun]{
	ofRun(counter, "eventmeter_process_cpu_seconds_total", "CPU time of the generator and of the target, since each process started.",
		func(x *wholeRun, emit emitter) {
			x.usage(func(u Usage, process string) { emit(u.CPU, process) })
		}, "process"),
	ofRun(gauge, "eventmeter_process_resident_memory_bytes", "Resident memory of the generator and of the target.",
		func(x *wholeRun, emit emitter) {
			x.usage(func(u Usage, process string) { emit(float64(u.Memory), process) })
		}, "process"),
	ofRun(
		counter,
		"eventmeter_measured_cpu_seconds_total",
		"CPU time while the run published and drained: of the generator, and of the target where it can be read.",
		overPasses(func(h *Health) map[string]float64 { return h.Used }, func(a, b float64) float64 { return a + b }),
		"process",
	),
	ofRun(gauge, "eventmeter_process_resident_memory_max_bytes", "Largest resident memory while the run published and drained.",
		overPasses(func(h *Health) map[string]int64 { return h.Most }, func(a, b int64) int64 { return max(a, b) }), "process"),
	ofRun(
		gauge,
		"eventmeter_generator_others_cores",
		"CPU time of all other processes of the machine over wall time, since publishing began.",
		func(x *wholeRun, emit emitter) {
			if x.result != nil {
				emit(x.result.Generator.Others)
			} else if h := x.health(); h.Measured {
				emit(h.Others)
			}
		},
	),
	ofRun(gauge, "eventmeter_generator_goroutines", "Goroutines of the generator.", func(x *wholeRun, emit emitter) {
		if len(x.passes) > 0 {
			emit(float64(x.health().Goroutines))
		}
	}),
}

// overPasses reads a figure of each process that any pass knows, joined over the passes.
func overPasses[N int64 | float64](of func(*Health) map[string]N, join func(a, b N) N) func(*wholeRun, emitter) {
	return func(x *wholeRun, emit emitter) {
		for _, process := range []string{Generator, Target} {
			var all N
			var known bool
			for i := range x.passes {
				v, ok := of(&x.passes[i].Health)[process]
				all, known = join(all, v), known || ok
			}
			if known {
				emit(float64(all), process)
			}
		}
	}
}

// health is the latest.
func (x *wholeRun) health() *Health {
	if len(x.passes) == 0 {
		return new(Health)
	}
	return &x.passes[len(x.passes)-1].Health
}

var runHistograms = []histogramFamily[wholeRun]{
	runHistogram(
		"eventmeter_upstream_lag_seconds",
		"From scheduled until the upstream began to send, of measured events.",
		func(l *Look) ledger.Distribution { return l.Detail.FireLag },
	),
	runHistogram(
		"eventmeter_upstream_answer_seconds",
		"From sending until the upstream had answered, of measured events that were accepted.",
		func(l *Look) ledger.Distribution { return l.Detail.FireLatency },
	),
	runHistogram(
		"eventmeter_generator_read_delay_seconds",
		"From writing a byte to a loopback connection until this process had read it, tried every 7 ms, and more rarely in "+
			"a long run: the generator's own share in every latency.",
		func(l *Look) ledger.Distribution { return l.Health.ReadDelay },
	),
	runHistogram(
		"eventmeter_generator_timer_lag_seconds",
		"How late a timer of 10 ms woke, in a long run of up to 100 ms.",
		func(l *Look) ledger.Distribution { return l.Health.TimerLag },
	),
	runHistogram(
		"eventmeter_generator_gc_pause_seconds",
		"Stop-the-world pauses of the generator's garbage collector.",
		func(l *Look) ledger.Distribution { return l.Health.GCPauses },
	),
	newHistogram(
		RunLabels,
		"eventmeter_upstream_figure_seconds",
		"Times that only one kind of upstream has, by their name in result.json (upstream.timings).",
		[]string{"figure"},
		func(x *wholeRun, emit histogramEmitter) { emit.all(x.upstream().Timings) },
	),
}

func runHistogram(name, help string, of func(*Look) ledger.Distribution) histogramFamily[wholeRun] {
	return newHistogram(RunLabels, name, help, nil, func(x *wholeRun, emit histogramEmitter) {
		all := make([]ledger.Distribution, len(x.passes))
		for i := range x.passes {
			all[i] = of(&x.passes[i])
		}
		emit(all)
	})
}

func ofEmissions(kind prometheus.ValueType, name, help string, of func(measured, warmUp *ledger.Scheduled) int64) family[wholeRun] {
	return ofRun(kind, name, help, func(x *wholeRun, emit emitter) {
		measured, warmUp := x.emissions()
		emit(float64(of(&measured, &warmUp)))
	})
}

// Phases are the values of the label phase, in their order.
var Phases = []string{"attach", "wait", "warm-up", "measure", "drain", "detach", "cool-down", PhaseDone}

func phases(x *wholeRun, emit emitter) {
	now := ""
	x.eachPhase(func(p *Phase) { now = p.Name })
	if x.done {
		now = PhaseDone
	}
	for _, name := range Phases {
		emit(truth(name == now), name)
	}
}

// upstream returns the upstream's figures; one upstream serves all passes.
func (x *wholeRun) upstream() Figures {
	switch {
	case x.result != nil:
		return x.last
	case len(x.passes) == 0:
		return Figures{}
	}
	return x.passes[len(x.passes)-1].Upstream
}

func (x *wholeRun) eachPhase(do func(*Phase)) {
	for i := range x.passes {
		for j := range x.passes[i].Phases {
			do(&x.passes[i].Phases[j])
		}
	}
}

// turns reports whether lanes take turns.
func (x *wholeRun) turns() bool {
	turns := false
	x.eachPhase(func(p *Phase) { turns = turns || p.Lane != "" })
	return turns
}

// emissions adds up the passes.
func (x *wholeRun) emissions() (measured, warmUp ledger.Scheduled) {
	for i := range x.passes {
		figure.AddCounts(&measured, &x.passes[i].Detail.Measured)
		figure.AddCounts(&warmUp, &x.passes[i].Detail.WarmUp)
	}
	return measured, warmUp
}

// usage calls f for each process that could be read, with the latest values.
func (x *wholeRun) usage(f func(Usage, string)) {
	h := x.health()
	if h.Generator.OK {
		f(h.Generator, Generator)
	}
	if h.Target.OK {
		f(h.Target, Target)
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// seconds returns a time in seconds since 1970.
func seconds(t time.Time) float64 { return float64(t.UnixNano()) / 1e9 }
