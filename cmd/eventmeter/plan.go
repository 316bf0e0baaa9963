package main

import (
	"errors"
	"fmt"
	goio "io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/eventmeter/eventmeter/internal/plan"
	"github.com/eventmeter/eventmeter/internal/report"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/results"
)

// planFlags are the flags of the plan command, as written.
type planFlags struct {
	subscribers    float64
	rate, fanOut   string
	modes          []string
	ttl, pollEvery time.Duration
	slo            []string
	headroom       string
	cpu            float64
	memory         string
	connections    float64
	over           string
	format         formatFlags
}

func newPlanCommand(io streams) *cobra.Command {
	f := planFlags{ttl: 30 * time.Minute, headroom: "30%"}
	c := &cobra.Command{
		Use:   "plan DIR...",
		Short: "Compute from capacity searches how many pods a workload takes",
		Long: `Plan reads the cost sheets of capacity searches and computes what a workload takes
in each delivery mode: CPU, memory, connections, bandwidth, and pods, each with a 95 %
interval. It names the resource that binds first, and the cheapest mode. Several
searches of one target make the intervals narrower. See docs/planning.md.`,
		Example: `  eventmeter plan results/runs/push --subscribers 40000 --rate 20/s --fan-out 400 --pod-cpu 1 --pod-memory 1GiB
  eventmeter plan push-1 push-2 webhook-1 --rate 20/s --fan-out 1% --slo 'p99 < 250ms' \
      --pod-cpu 1 --over subscribers=10000..1000000`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, dirs []string) error { return makePlan(dirs, f, io) },
	}
	addFlags(c, []flagSpec{
		{&f.subscribers, "subscribers", "subscriptions, on all pods together"},
		{&f.rate, "rate", "events published, such as 20/s or 300/m"},
		{&f.fanOut, "fan-out", "subscriptions that receive each event, a number or a share such as 1%"},
		{&f.ttl, "ttl", "life of a webhook subscription, refreshed after three quarters; 0 = no expiry"},
		{&f.pollEvery, "poll-interval", "time between two polls of a subscription (default: as measured)"},
		{&f.slo, "slo", "limit that the searches must have had, such as p99<250ms (repeatable)"},
		{&f.headroom, "headroom", "share of each pod that stays free"},
		{&f.cpu, "pod-cpu", "CPUs of a pod; 0 = no bound"},
		{&f.memory, "pod-memory", "memory of a pod, such as 1GiB"},
		{&f.connections, "pod-connections", "connections that a pod may have open, such as its limit of files; 0 = no bound"},
		{&f.over, "over", "a table over a range: subscribers, rate or fan-out=FROM..TO"},
	})
	c.Flags().StringSliceVar(&f.modes, "mode", nil, "mode to plan for: poll, push or webhook (default: all of the searches)")
	f.format.add(c, formatText, formatMarkdown, formatJSON)
	return c
}

// makePlan is the plan command.
func makePlan(dirs []string, f planFlags, io streams) error {
	w, err := f.workload()
	if err != nil {
		return usageError{err}
	}
	if err := f.format.check(); err != nil {
		return err
	}
	searches, err := readSearches(dirs)
	if err != nil {
		return usageError{err}
	}
	if err := f.checkSLO(searches); err != nil {
		return usageError{err}
	}
	sheets, err := plan.Sheets(searches)
	if err != nil {
		return usageError{err}
	}
	if sheets, err = f.only(sheets); err != nil {
		return usageError{err}
	}
	if f.over != "" {
		return f.table(sheets, w, io)
	}
	p := plan.Make(sheets, w)
	return f.format.all(io, rendering{
		formatText:     reportOf(report.Plan, p),
		formatMarkdown: reportOf(report.PlanMarkdown, p),
		formatJSON:     indented(p),
	})
}

// readSearches reads the capacities of directories.
func readSearches(dirs []string) ([]plan.Search, error) {
	var out []plan.Search
	for _, dir := range dirs {
		in, err := os.Open(filepath.Join(dir, results.CapacityFile))
		if err != nil {
			return nil, fmt.Errorf("%s: give the directory of a capacity search, as eventmeter capacity --out writes it: %w", dir, err)
		}
		c, err := results.ReadCapacity(in)
		in.Close()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", dir, err)
		}
		out = append(out, plan.Search{Name: dir, Capacity: c})
	}
	return out, nil
}

// workload reads the flags of the workload.
func (f *planFlags) workload() (plan.Workload, error) {
	w := plan.Workload{
		Subscribers: f.subscribers,
		TTL:         f.ttl,
		PollEvery:   f.pollEvery,
		Pod:         plan.Pod{CPU: f.cpu, Connections: f.connections},
	}
	if f.over != "" {
		name, from, _, err := f.span()
		if err != nil {
			return w, err
		}
		if err := f.first(name, from); err != nil {
			return w, err
		}
		w.Subscribers = f.subscribers
	}
	if f.subscribers == 0 || f.rate == "" || f.fanOut == "" {
		return w, errors.New("--subscribers, --rate and --fan-out: a workload needs all three; one of them may be in --over")
	}
	rate, err := profiles.ParseRate(f.rate)
	if err != nil {
		return w, fmt.Errorf("--rate %q: %w", f.rate, err)
	}
	w.Rate = float64(rate)
	if w.FanOut, err = f.receivers(w.Subscribers); err != nil {
		return w, err
	}
	if w.Headroom, err = share(f.headroom); err != nil {
		return w, fmt.Errorf("--headroom %q: write a share like 30%%", f.headroom)
	}
	if f.memory != "" {
		memory, err := profiles.ParseBytes(f.memory)
		if err != nil {
			return w, fmt.Errorf("--pod-memory %q: %w", f.memory, err)
		}
		w.Pod.Memory = float64(memory)
	}
	if err := w.Check(); err != nil {
		return w, fmt.Errorf("the workload: %w", err)
	}
	return w, nil
}

// first sets the flag that a table varies to its first value.
func (f *planFlags) first(name string, from float64) error {
	text := strconv.FormatFloat(from, 'f', -1, 64)
	given := false
	switch name {
	case "subscribers":
		given, f.subscribers = f.subscribers != 0, from
	case "rate":
		given, f.rate = f.rate != "", text
	case "fan-out":
		given, f.fanOut = f.fanOut != "", text
	}
	if given {
		return fmt.Errorf("--%s has no effect beside --over %s; leave one of them out", name, f.over)
	}
	return nil
}

// receivers is the number of deliveries per event with so many subscribers.
func (f *planFlags) receivers(subscribers float64) (float64, error) {
	v, err := share(f.fanOut)
	if err != nil {
		return 0, fmt.Errorf("--fan-out %q: write a number of subscriptions, or a share of them like 1%%", f.fanOut)
	}
	if strings.HasSuffix(f.fanOut, "%") {
		v *= subscribers
	}
	return v, nil
}

// share reads a number, or a number of percent.
func share(text string) (float64, error) {
	number, percent := strings.CutSuffix(text, "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, errors.New("not a number")
	}
	if percent {
		v /= 100
	}
	return v, nil
}

// checkSLO refuses searches whose SLO was not as strict.
func (f *planFlags) checkSLO(searches []plan.Search) error {
	for _, text := range f.slo {
		if b, err := results.ParseMetricBound(text); err == nil && !isFigure(b.Metric) {
			for _, s := range searches {
				if !slices.Contains(s.Capacity.SLO.Metrics, b.String()) {
					return fmt.Errorf("--slo %q: the search in %s did not have this limit; repeat it with --slo '%s'", text, s.Name, text)
				}
			}
			continue
		}
		set, err := sloOverride(text)
		if err != nil {
			return err
		}
		figure, value, _ := strings.Cut(strings.TrimPrefix(set, "capacity.slo."), "=")
		for _, s := range searches {
			l := s.Capacity.SLO
			was, asked := 0.0, 0.0
			if v, ok := map[string]results.Nanos{"p50": l.P50, "p90": l.P90, "p95": l.P95, "p99": l.P99, "p999": l.P999}[figure]; ok {
				bound, err := time.ParseDuration(value)
				if err != nil {
					return err
				}
				was, asked = v.Duration().Seconds(), bound.Seconds()
				if v == 0 {
					was = math.Inf(1)
				}
			} else {
				was = map[string]float64{"loss": l.Loss, "backlog": l.Backlog}[figure]
				if asked, err = strconv.ParseFloat(value, 64); err != nil {
					return err
				}
			}
			if was > asked {
				return fmt.Errorf(
					"--slo %q: the search in %s had no limit as strict as this; repeat it with --slo '%s'",
					text,
					s.Name,
					text,
				)
			}
		}
	}
	return nil
}

// only leaves the sheets of the modes that were asked for.
func (f *planFlags) only(sheets []plan.Sheet) ([]plan.Sheet, error) {
	if len(f.modes) == 0 {
		return sheets, nil
	}
	var out []plan.Sheet
	for _, mode := range f.modes {
		found := false
		for _, s := range sheets {
			if s.Mode == mode {
				found, out = true, append(out, s)
			}
		}
		if !found {
			return nil, fmt.Errorf("--mode %s: no search has a lane of this mode", mode)
		}
	}
	return out, nil
}

// rowsOfTable is the number of rows of a table over a range.
const rowsOfTable = 7

// varied are the values that a table can vary.
var varied = map[string]func(*plan.Workload) *float64{
	"subscribers": func(w *plan.Workload) *float64 { return &w.Subscribers },
	"rate":        func(w *plan.Workload) *float64 { return &w.Rate },
	"fan-out":     func(w *plan.Workload) *float64 { return &w.FanOut },
}

// table plans a range of one value, at equal ratios.
func (f *planFlags) table(sheets []plan.Sheet, w plan.Workload, io streams) error {
	name, from, to, err := f.span()
	if err != nil {
		return usageError{err}
	}
	var plans []plan.Plan
	for i := range rowsOfTable {
		at := w
		v := from * math.Pow(to/from, float64(i)/(rowsOfTable-1))
		*varied[name](&at) = v
		if name == "subscribers" {
			at.Subscribers = math.Round(v)
			if at.FanOut, err = f.receivers(at.Subscribers); err != nil {
				return usageError{err}
			}
		}
		if err := at.Check(); err != nil {
			return usagef("--over %q: at %.4g: %w", f.over, v, err)
		}
		plans = append(plans, plan.Make(sheets, at))
	}
	value := func(w plan.Workload) string {
		v := *varied[name](&w)
		if v >= 1000 {
			return strconv.FormatFloat(v, 'f', 0, 64)
		}
		return strconv.FormatFloat(v, 'g', 4, 64)
	}
	return f.format.all(io, rendering{
		formatText:     func(w goio.Writer) error { return report.PlanTable(w, name, value, plans, false) },
		formatMarkdown: func(w goio.Writer) error { return report.PlanTable(w, name, value, plans, true) },
		formatJSON:     indented(plans),
	})
}

// span reads the flag over.
func (f *planFlags) span() (name string, from, to float64, err error) {
	bad := fmt.Errorf(
		"--over %q: want subscribers, rate or fan-out=FROM..TO with 0 < FROM < TO, such as subscribers=10000..1000000",
		f.over,
	)
	name, span, _ := strings.Cut(f.over, "=")
	low, high, ok := strings.Cut(span, "..")
	if varied[name] == nil || !ok {
		return "", 0, 0, bad
	}
	from, errFrom := strconv.ParseFloat(low, 64)
	to, errTo := strconv.ParseFloat(high, 64)
	if errFrom != nil || errTo != nil || !(from > 0) || !(to > from) || math.IsInf(to, 0) {
		return "", 0, 0, bad
	}
	return name, from, to, nil
}
