package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/eventmeter/eventmeter/results"
)

// leakText is the profile of the runs whose target may leak: a little of every mode, in which
// subscriptions come and go.
const leakText = `name: leak
lanes:
  - {name: push, mode: push, subscriptions: 20, event: chat.message, churn: {rate: 1/s, pause: 500ms}}
  - {name: poll, mode: poll, subscriptions: 5, event: chat.message, poll: {minInterval: 1s}}
  - {name: webhook, mode: webhook, subscriptions: 2, event: chat.message}
upstream:
  sources: 10
  payload: {channel: general, text: "{{.Probe}}"}
schedule: {kind: poisson, rate: 10/s}
phases: {ready: 1m, drain: 10s, cooldown: 1m}
`

// leakRest is how long a run of leakText takes beside the warm-up and the measured phase, at most.
const leakRest = 5 * time.Minute

// plantedLeak is a kind of server: what it keeps each minute, in bytes.
type plantedLeak struct {
	name, faults string
	perMinute    float64
}

var plantedLeaks = []plantedLeak{
	{"no leak", "", 0},
	{"1 MiB a minute", "hoard(mib=1)", 1 << 20},
}

// leaked is what the runs of one kind of server showed.
type leaked struct {
	runs    int
	found   int            // runs in which the memory is called a leak
	others  map[string]int // runs, by another gauge that is called one
	unknown int            // runs without a verdict on memory
	covered int            // runs whose interval of the slope holds the planted rate
	slopes  []float64      // of the memory, a minute
}

func (l *leaked) add(leak map[string]results.Growth, perMinute float64) {
	if l.others == nil {
		l.others = map[string]int{}
	}
	l.runs++
	for name, g := range leak {
		if g.Verdict == results.LeakFound && name != "memory" {
			l.others[name]++
		}
	}
	memory := leak["memory"]
	l.slopes = append(l.slopes, memory.Slope)
	if memory.Low <= perMinute && perMinute <= memory.High {
		l.covered++
	}
	switch memory.Verdict {
	case results.LeakFound:
		l.found++
	case results.LeakNone:
	default:
		l.unknown++
	}
}

// runLeaks makes o.runs runs against a server of each kind, side by side, and prints how often a leak
// was found. It returns errGoal if a server without a leak was accused, or one with a leak was not.
func runLeaks(ctx context.Context, o options, dir string, out, log io.Writer) error {
	a, err := newReal(ctx, dir, log)
	if err != nil {
		return err
	}
	a.limit = o.warmup + o.measure + leakRest
	profile := filepath.Join(dir, "leak.yaml")
	if err := os.WriteFile(profile, []byte(leakText), 0o644); err != nil {
		return err
	}
	found := make([]leaked, len(plantedLeaks))
	var mu sync.Mutex // of found and log
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(o.parallel)
	for n := range o.runs {
		for i, p := range plantedLeaks {
			g.Go(func() error {
				at := filepath.Join(dir, fmt.Sprintf("leak-%d-%02d", i, n))
				args := []string{"--profile", profile, "--set", "phases.warmup=" + o.warmup.String(), "--set", "phases.measure=" + o.measure.String(), "--set", fmt.Sprintf("schedule.seed=%d", n+1)}
				if p.faults != "" {
					args = append(args, "--set", "target.embedded.faults='"+p.faults+"'")
				}
				code, err := a.launch(ctx, at, args...)
				if err != nil {
					return fmt.Errorf("%s, run %d: %w", p.name, n+1, err)
				}
				r, err := results.Load(at)
				if err != nil {
					return fmt.Errorf("%s, run %d: %w", p.name, n+1, err)
				}
				mu.Lock()
				defer mu.Unlock()
				for _, name := range slices.Sorted(maps.Keys(r.Target.Leak)) {
					fmt.Fprintf(log, "%s, run %d, exit code %d: %s: %s: %s\n", p.name, n+1, code, name, r.Target.Leak[name].Verdict, r.Target.Leak[name].Reason)
				}
				found[i].add(r.Target.Leak, p.perMinute)
				return nil
			})
		}
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return printLeaks(out, o, found)
}

// printLeaks prints the table.
func printLeaks(out io.Writer, o options, found []leaked) error {
	fmt.Fprintf(out, "%s, %s/%s, %d processors; %s measured after a warm-up of %s, %d runs of each kind, %d at once\n\n", time.Now().UTC().Format(time.DateOnly), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), o.measure, o.warmup, o.runs, o.parallel)
	fmt.Fprint(out, "| server | runs | memory called a leak | no verdict | other gauges called one | slope, MiB a minute: median (least to most) | its interval holds the planted one |  |\n|---|--:|--:|--:|---|--:|--:|---|\n")
	missed := false
	for i, p := range plantedLeaks {
		f := &found[i]
		others := "none"
		if len(f.others) > 0 {
			others = strings.Join(slices.Sorted(maps.Keys(f.others)), ", ")
		}
		ok := len(f.others) == 0 && f.unknown == 0
		if p.perMinute > 0 {
			ok = ok && f.found == f.runs
		} else {
			ok = ok && f.found == 0
		}
		verdict := "met"
		if !ok {
			verdict, missed = "MISSED", true
		}
		slices.Sort(f.slopes)
		fmt.Fprintf(out, "| %s | %d | %d | %d | %s | %s | %d | %s |\n", p.name, f.runs, f.found, f.unknown, others, slopeRange(f.slopes), f.covered, verdict)
	}
	if missed {
		return fmt.Errorf("%w: leaks", errGoal)
	}
	return nil
}

// slopeRange writes the median and the ends of sorted bytes a minute.
func slopeRange(sorted []float64) string {
	if len(sorted) == 0 {
		return "–"
	}
	const mib = 1 << 20
	return fmt.Sprintf("%.2f (%.2f to %.2f)", sorted[len(sorted)/2]/mib, sorted[0]/mib, sorted[len(sorted)-1]/mib)
}
