package boards

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/grafana/grafana-foundation-sdk/go/dashboard"

	"github.com/eventmeter/eventmeter/internal/promtest"
	"github.com/eventmeter/eventmeter/results"
)

// The runs: two that compare the modes, the first with its lanes in turns and
// the second with faults; a run with lists; one in two shards; and a search for
// a capacity. The warm-ups are long enough for Prometheus to come by before
// anything counts.
var liveCommands = []struct {
	name string
	args string
}{
	{
		"turns",
		"run --profile compare --set lanes.push.subscriptions=20 --set lanes.poll.subscriptions=20 --set lanes.webhook.subscriptions=20 " +
			"--set phases.order=turns --set phases.warmup=2s --set phases.measure=2s --set phases.drain=2s",
	},
	{
		"faults",
		"run --profile compare --set lanes.push.subscriptions=20 --set lanes.poll.subscriptions=20 --set lanes.webhook.subscriptions=20 " +
			"--set phases.warmup=3s --set phases.measure=4s --set phases.drain=2s --set " +
			"target.embedded.faults=drop(every=7);duplicate(every=5);delay(every=3,fixed=200ms);early",
	},
	{
		"lists",
		"run --profile sep-2549 --set lanes.ttl.subscriptions=8 --set lanes.notified.subscriptions=8 --set " +
			"lanes.no-cache.subscriptions=2 --set phases.warmup=3s --set phases.measure=4s --set phases.drain=5s --set " +
			"schedule.rate=4/s",
	},
	{"shards", "run --profile smoke --processes 2 --set phases.warmup=3s --set phases.measure=3s"},
	{
		"capacity",
		"capacity --from 20 --to 40 --set capacity.step=600ms --set phases.warmup=200ms --set phases.drain=1s --set " +
			"capacity.idle=1s --set capacity.confirm=1 --set capacity.precision=0.5 --set capacity.slo.p99=200ms",
	},
}

// TestLive runs eventmeter under the eyes of a real Prometheus, and then asks it
// every query of every dashboard.
func TestLive(t *testing.T) {
	if testing.Short() {
		t.Skip("real runs take half a minute")
	}
	rules, err := filepath.Abs("../prometheus/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	promtest.Program(t) // before anything is built for nothing
	s := promtest.Start(t, promtest.Options{Rules: []string{rules}})
	began := time.Now()
	k6 := serveK6(t)
	all := map[string]*command{}
	targets := []string{k6.Listener.Addr().String()}
	for _, c := range liveCommands {
		one := &command{name: c.name, args: strings.Fields(c.args), dir: filepath.Join(t.TempDir(), c.name), front: newFront(t)}
		all[c.name] = one
		targets = append(targets, one.front.Listener.Addr().String())
	}
	s.Scrape(t, targets...)
	program := build(t)
	for name, c := range all {
		promtest.Await(t, "Prometheus to look for "+name, func() bool { return c.front.asPrometheus() != nil })
	}
	for _, c := range liveCommands[:1] {
		all[c.name].start(t, program)
	}
	all["turns"].front.awaitGiven(t, "turns", 2) // so that the other run begins later
	for _, c := range liveCommands[1:] {
		all[c.name].start(t, program)
	}
	for _, c := range liveCommands {
		all[c.name].wait(t)
	}
	for _, c := range liveCommands {
		all[c.name].front.awaitLast(t, s, c.name)
	}
	w := window{began, time.Now()}

	runs := map[string]string{}
	for _, name := range []string{"turns", "faults", "lists", "shards"} {
		runs[name] = load(t, all[name].dir).Run
	}
	for _, c := range []struct {
		file   string
		chosen map[string]string
	}{
		{"compare.json", map[string]string{"run": runs["turns"], "other": runs["faults"]}},
		{"run.json", map[string]string{"run": runs["faults"]}},
		{"capacity.json", nil},
		{"fleet.json", map[string]string{"fleet": runs["shards"]}},
		{"lists.json", map[string]string{"run": runs["lists"], "other": runs["lists"]}},
	} {
		t.Run(c.file, func(t *testing.T) {
			d := strict(t, c.file)
			values, options := settle(t, s, &d, w, c.chosen)
			t.Logf("variables %v", options)
			askAll(t, s, &d, w, values)
		})
	}
	t.Run("values", func(t *testing.T) { checkValues(t, s, w, all["turns"].dir, all["faults"].dir) })
	t.Run("shift", func(t *testing.T) { checkShift(t, s, w, all["turns"].dir, all["faults"].dir) })
	t.Run("none", func(t *testing.T) {
		d := strict(t, "compare.json")
		values, _ := settle(t, s, &d, w, map[string]string{"run": runs["faults"]})
		if values["other"] != "none" || values["shift"] != "1" {
			t.Errorf("at first %s is laid over, moved by %s", values["other"], values["shift"])
		}
	})
	t.Run("compose", func(t *testing.T) { checkCommand(t, program) })
	t.Run("alerts", func(t *testing.T) { checkAlerts(t, s, w, runs["faults"]) })
}

func load(t *testing.T, dir string) *results.Result {
	t.Helper()
	r, err := results.Load(filepath.Join(dir, "result.json"))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// unanswered are the queries that may have no answer: the run that is laid over
// has its lanes side by side.
var unanswered = map[string]bool{"Target CPU per event received, by mode B": true}

// askAll asks every query, and wants an answer with a number in it.
func askAll(t *testing.T, s *promtest.Server, d *dashboard.Dashboard, w window, values map[string]string) {
	t.Helper()
	asked := 0
	for _, p := range panels(d) {
		for _, q := range expressions(t, p) {
			expr := fill(t, q.Expr, values)
			heat := q.Format != nil && *q.Format == "heatmap"
			if !heat {
				expr = "(" + expr + ") >= 0" // without NaN, which is no data
			}
			var got []promtest.Sample
			var err error
			if q.Instant != nil && *q.Instant {
				got, err = s.TryQuery(expr, w.to)
			} else {
				got, err = s.TryRange(expr, w.from, w.to, time.Second)
			}
			asked++
			switch {
			case err != nil:
				t.Errorf("%s %s: %v", *p.Title, *q.RefId, err)
			case len(got) == 0 && !unanswered[*p.Title+" "+*q.RefId]:
				t.Errorf("%s %s: no data: %s", *p.Title, *q.RefId, expr)
			case heat && len(got) > 0 && !got[0].Histogram:
				t.Errorf("%s %s: no histogram: %s", *p.Title, *q.RefId, expr)
			}
		}
	}
	for _, a := range d.Annotations.List {
		expr := fill(t, queries(t, d)["annotation "+a.Name], values)
		got, err := s.TryRange(expr, w.from, w.to, time.Second)
		if err == nil && len(got) == 0 && a.Name == burstAnnotation &&
			len(s.Query(t, `last_over_time(eventmeter_run_info{run="`+values["run"]+`",schedule!="burst"}[`+w.seconds()+`])`, w.to)) > 0 {
			continue // its schedule has none
		}
		if err != nil || len(got) == 0 {
			t.Errorf("annotation %s: %d series, %v", a.Name, len(got), err)
			continue
		}
		asked++
		if at := time.UnixMilli(int64(got[0].Value)); at.Before(w.from) || at.After(w.to) {
			t.Errorf("annotation %s is at %v, and the run was from %v to %v", a.Name, at, w.from, w.to)
		}
	}
	if asked < 5 {
		t.Errorf("%d queries", asked)
	}
}

// checkShift holds what the other run is moved by to when both began.
func checkShift(t *testing.T, s *promtest.Server, w window, one, other string) {
	t.Helper()
	a, b := load(t, one), load(t, other)
	d := strict(t, "compare.json")
	values, options := settle(t, s, &d, w, map[string]string{"run": a.Run, "other": b.Run})
	var shift float64
	if _, err := fmt.Sscan(values["shift"], &shift); err != nil {
		t.Fatal(err)
	}
	if want := a.Started.Sub(b.Started).Seconds() * 1000; math.Abs(shift-want) > 1 {
		t.Errorf("the other run is moved by %v ms, and the one began %v ms after it", shift, want)
	}
	if len(options["run"]) < 4 || options["other"][0] != "none" || options["run"][0] == a.Run {
		t.Errorf("runs, the newest first: %v; laid over %v", options["run"], options["other"])
	}
}

// checkAlerts looks whether the lost events of the faults were told.
func checkAlerts(t *testing.T, s *promtest.Server, w window, run string) {
	t.Helper()
	for _, mode := range modes {
		expr := fmt.Sprintf(
			`last_over_time(ALERTS{alertname="EventsLost",alertstate="firing",run=%q,mode=%q}[%s])`,
			run,
			mode.name,
			w.seconds(),
		)
		promtest.Await(t, "the alert of "+mode.name, func() bool {
			got, err := s.TryQuery(expr, time.Now())
			return err == nil && len(got) == 1
		})
	}
}
