package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/eventmeter/eventmeter/results"
)

// leak runs servers that leak and servers that do not side by side, and counts the verdicts of
// target.leak. Hypothesis: after a warm-up that is longer than the server keeps events, a leak of
// 1 MiB a minute is found in every run of ten minutes, and no clean server is accused.
type leak struct {
	Warmup   float64      `json:"warmupSeconds"`
	Measured float64      `json:"measuredSeconds"`
	AtOnce   int          `json:"atOnce"` // runs side by side
	Servers  []leakServer `json:"servers"`
}

// leakServer is a kind of server.
type leakServer struct {
	Name    string    `json:"name"`
	Planted float64   `json:"plantedMiBPerMinute"` // what it keeps and cannot free
	Runs    []leakRun `json:"runs"`
}

// leakRun is what one run said of its target.
type leakRun struct {
	Memory results.LeakVerdict `json:"memory"`
	Slope  float64             `json:"slopeMiBPerMinute"` // of the resident memory
	Low    float64             `json:"low"`               // 95 % interval of the slope
	High   float64             `json:"high"`
	Others []string            `json:"others"` // other gauges that are called a leak
}

const (
	leakRuns   = 20 // of each kind of server
	leakAtOnce = 20
	mib        = 1 << 20
)

// leakWarmup is longer than the reference server keeps events: ten minutes, in which its memory rises.
const leakWarmup = 11 * time.Minute

// leakText is a little of every mode, in which subscriptions come and go.
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

func (s *leak) measure(ctx context.Context, l *lab) error {
	measured := l.duration(10*time.Minute, 30*time.Second)
	s.Measured, s.AtOnce = measured.Seconds(), leakAtOnce
	profile := filepath.Join(l.temp, "leak.yaml")
	if err := os.WriteFile(profile, []byte(leakText), 0o644); err != nil {
		return err
	}
	s.Warmup = l.duration(leakWarmup, 2*time.Second).Seconds()
	s.Servers = []leakServer{{Name: "keeps nothing"}, {Name: "keeps 1 MiB a minute", Planted: 1}}
	var mu sync.Mutex // of s
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(leakAtOnce)
	for n := range l.subscriptions(leakRuns, 1) {
		for i, server := range s.Servers {
			g.Go(func() error {
				args := []string{"--profile", profile, "--set", fmt.Sprintf("phases.warmup=%gs", s.Warmup), "--set", "phases.measure=" + measured.String(), "--set", fmt.Sprintf("schedule.seed=%d", n+1)}
				if server.Planted > 0 {
					args = append(args, "--set", fmt.Sprintf("target.embedded.faults='hoard(mib=%g)'", server.Planted))
				}
				r, err := l.run(ctx, fmt.Sprintf("leak-%d-%02d", i, n), args...)
				if err != nil {
					return err
				}
				mu.Lock()
				defer mu.Unlock()
				s.Servers[i].Runs = append(s.Servers[i].Runs, leakRunOf(r.Target.Leak))
				return nil
			})
		}
	}
	return g.Wait()
}

func leakRunOf(gauges map[string]results.Growth) leakRun {
	m := gauges["memory"]
	r := leakRun{Memory: m.Verdict, Slope: m.Slope / mib, Low: m.Low / mib, High: m.High / mib, Others: []string{}}
	for _, name := range slices.Sorted(maps.Keys(gauges)) {
		if name != "memory" && gauges[name].Verdict == results.LeakFound {
			r.Others = append(r.Others, name)
		}
	}
	return r
}

// called counts the runs whose memory has a verdict.
func (s leakServer) called(v results.LeakVerdict) int {
	n := 0
	for _, r := range s.Runs {
		if r.Memory == v {
			n++
		}
	}
	return n
}

func (s leakServer) slopes() spread {
	var v []float64
	for _, r := range s.Runs {
		v = append(v, r.Slope)
	}
	return spreadOf(v)
}

func (s *leak) write(p *page) {
	clean, leaky := s.Servers[0], s.Servers[1]
	found, accused := leaky.called(results.LeakFound), clean.called(results.LeakFound)
	others := 0
	for _, server := range s.Servers {
		for _, r := range server.Runs {
			others += len(r.Others)
		}
	}
	verdict := "The hypothesis held: every leak is found, and no clean server is accused."
	if found < len(leaky.Runs) || accused > 0 || others > 0 {
		verdict = "The hypothesis did not hold: it was that every leak is found, and no clean server is accused."
	}
	p.answer("**A server that keeps 1 MiB more a minute was called a leak in %d of %d runs of %s, and a server that keeps nothing in %d of %d**, after a warm-up of %s. %s",
		found, len(leaky.Runs), ofSeconds(s.Measured), accused, len(clean.Runs), ofSeconds(s.Warmup), verdict)
	p.text("Each run has a target of its own: 20 push streams, of which one a second ends and opens again, five pollers, two webhooks, ten events a second, and a cool-down of a minute. %d runs were made at once. The leak is the fault `hoard(mib=1)`: memory that the server cannot free.", s.AtOnce)
	rows := [][]string{}
	for _, server := range s.Servers {
		rows = append(rows, []string{server.Name, count(len(server.Runs)), count(server.called(results.LeakFound)), count(server.called(results.LeakUnknown)), server.slopes().String()})
	}
	p.table([]string{"server", "runs", "memory called a leak", "no verdict", "slope of the memory, MiB a minute: median (least–most)"}, rows)
	if others == 0 {
		p.text("Files and threads were called a leak in none of the runs.")
	} else {
		p.text("**Another gauge was called a leak in %d cases**, see `data.json`.", others)
	}
	p.chart("slopes", "The slope of the resident memory in each run, with its 95 % interval, for both kinds of servers", s.chart())
	p.heading("What was expected")
	p.text("What a server keeps is the least that its memory grows by: 0 and 1 MiB a minute. A Go program holds up to twice what it uses, because its collector lets the heap double before it runs (`GOGC=100`), so 2 MiB a minute are possible. The verdict is about whether memory rises and stays, and **the slope is not what is lost**: here the median was %s times the planted leak.", number(leaky.slopes().Median/leaky.Planted))
	p.changesIt("A warm-up that is shorter than the server keeps anything. The buffer of the reference server holds the events of ten minutes, so that clients can ask for them again. It grows for ten minutes under constant load and stays in the cool-down, as a leak does: [with a warm-up of 30 s](../2026-11-24-leak/README.md) the clean server was accused in 20 of 20 runs.")
	p.changesIt("A smaller leak, a shorter run, or a server whose memory varies more than this one's.")
}

func (s *leak) chart() chart {
	c := chart{title: "Growth of the target's memory, run by run", x: axis{title: "run, sorted by slope"}, y: axis{title: "MiB a minute"}}
	longest := 0
	for _, server := range s.Servers {
		runs := slices.SortedFunc(slices.Values(server.Runs), func(a, b leakRun) int {
			return int(1e6 * (a.Slope - b.Slope))
		})
		line := series{name: server.Name}
		for i, r := range runs {
			line.points = append(line.points, point{x: float64(i + 1), y: r.Slope, low: r.Low, high: r.High})
		}
		c.series = append(c.series, line)
		longest = max(longest, len(runs))
	}
	for _, planted := range []float64{0, 1, 2} {
		name := fmt.Sprintf("expected: %g MiB a minute", planted)
		if planted == 2 {
			name = "expected at most, with a heap that doubles: 2 MiB a minute"
		}
		c.series = append(c.series, series{name: name, expected: true, points: []point{{x: 1, y: planted}, {x: float64(longest), y: planted}}})
	}
	return c
}
