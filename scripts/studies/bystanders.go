package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/eventmeter/eventmeter/results"
)

// bystanders asks what idle streams cost a client that only calls tools/list, on the reference server
// and on servers made with three SDKs.
//
// Hypotheses, stated before anything was measured:
//   - idle streams cost a bystander nothing: its p95 is that beside one stream;
//   - a server's memory rises by the same amount with each stream;
//   - servers refuse only where they have a limit, and say so.
type bystanders struct {
	Servers []bystanderServer `json:"servers"`
	Missing string            `json:"missing,omitempty"` // why servers of npm packages were left out
}

// bystanderServer is one server, with rising numbers of streams.
type bystanderServer struct {
	Name  string          `json:"name"`
	Sizes []bystanderSize `json:"sizes"`
	// Limited is the same server with the limit of streams that its SDK has by default, where it has
	// one; Sizes were measured without.
	Limited *bystanderSize `json:"limited,omitempty"`
}

// bystanderSize is the outcome of runs with a number of streams.
type bystanderSize struct {
	Streams   int    `json:"streams"` // asked for
	Active    int64  `json:"active"`  // open, in the last run
	Refused   int64  `json:"refused"` // attempts that failed, in the last run
	Why       string `json:"why,omitempty"`
	P95Ms     spread `json:"p95Ms"` // of tools/list
	MemoryMiB spread `json:"memoryMiB"`
	OpenMs    spread `json:"openMs"`          // until all streams stood, or were refused
	Requests  int64  `json:"requests"`        // of the bystander, sum
	Failed    int64  `json:"failed"`          // of them
	Broke     string `json:"broke,omitempty"` // why a run has no result
}

const (
	bystanderRepeats = 2
	bystanderProfile = `name: bystanders
target: {embedded: {lists: {entries: 20}}}
lanes:
  # Each stream waits for changes of one of nineteen resources, and none of them changes.
  - name: idle
    system: updates
    mode: push
    subscriptions: 1000
    attach: {onFailure: continue}
    arguments: {n: "{{mod .Index 19}}"}
    updates: {resource: "list://item/{n}", identify: none}
  - name: bystander
    system: requests
    mode: poll
    subscriptions: 1
    requests: {method: tools/list, rate: 100/s}
upstream: {kind: none}
phases: {ready: 4m, warmup: 1s, measure: 8s, drain: 10s}
`
	// nodeServers is where the servers of npm packages are, in this module.
	nodeServers = "internal/interop/testdata"
)

// bystanderTarget is how a server is started and reached.
type bystanderTarget struct {
	name    string
	command []string // nil = the embedded reference server
	// limit are further arguments, without which the server has its SDK's limit of streams.
	unlimited []string
	set       []string
}

func (s *bystanders) measure(ctx context.Context, l *lab) error {
	file, err := l.profile(bystanderProfile)
	if err != nil {
		return err
	}
	targets, err := s.targets()
	if err != nil {
		return err
	}
	var sizes []int
	for _, n := range []int{1000, 5000, 15_000} {
		sizes = append(sizes, l.subscriptions(n, n/50))
	}
	for _, t := range targets {
		server := bystanderServer{Name: t.name}
		for _, n := range append([]int{1}, sizes...) {
			size, err := t.beside(ctx, l, file, n, bystanderRepeats, t.unlimited)
			if err != nil {
				return err
			}
			server.Sizes = append(server.Sizes, size)
		}
		if t.unlimited != nil {
			limited, err := t.beside(ctx, l, file, 1500, 1, nil) // more than the limit, at every scale
			if err != nil {
				return err
			}
			server.Limited = &limited
		}
		s.Servers = append(s.Servers, server)
	}
	return nil
}

// targets returns the servers that can be started here.
func (s *bystanders) targets() ([]bystanderTarget, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	root, err := moduleRoot()
	if err != nil {
		return nil, err
	}
	targets := []bystanderTarget{
		// It needs an upstream, which once a second changes the resource that no stream waits for.
		{name: "reference server", set: []string{"target.era=modern", "lanes.idle.sources=none", "upstream.kind=inject", "upstream.event=list.changed", "upstream.payload.uri=list://item/19", "upstream.payload.probe={{.Probe}}", "schedule.rate=1/s"}},
		{name: "Go SDK", command: []string{self, goServerArg}, set: []string{"target.era=modern"}},
	}
	dir := filepath.Join(root, filepath.FromSlash(nodeServers))
	if _, err := exec.LookPath("node"); err != nil {
		s.Missing = "Node is not installed"
		return targets, nil
	}
	if _, err := os.Stat(filepath.Join(dir, "node_modules")); err != nil {
		s.Missing = "their packages are not installed (`npm ci --prefix " + nodeServers + " --ignore-scripts`)"
		return targets, nil
	}
	items := "lanes.idle.updates.resource=test://items/{n}"
	return append(targets,
		bystanderTarget{name: "@modelcontextprotocol/sdk 1.32.2", command: []string{"node", filepath.Join(dir, "sdk1.mjs"), "--until-eof"}, set: []string{"target.era=legacy", items}},
		bystanderTarget{name: "@modelcontextprotocol/server 2.4.0", command: []string{"node", filepath.Join(dir, "sdk2.mjs"), "--until-eof"}, unlimited: []string{"--max-subscriptions", "1000000"}, set: []string{"target.era=modern", items}},
	), nil
}

// beside makes the runs of one size, each with a server of its own.
func (t *bystanderTarget) beside(ctx context.Context, l *lab, file string, n, repeats int, more []string) (bystanderSize, error) {
	out := bystanderSize{Streams: n}
	var p95, memory, open []float64
	for i := range repeats {
		name := strings.Map(func(r rune) rune {
			if strings.ContainsRune("@/ .", r) {
				return '-'
			}
			return r
		}, fmt.Sprintf("%s-%d-%d", strings.TrimPrefix(t.name, "@"), n, i+1))
		if t.unlimited != nil && more == nil {
			name += "-limited"
		}
		r, err := t.once(ctx, l, file, name, n, more)
		switch {
		case ctx.Err() != nil:
			return out, ctx.Err()
		case fellOver(err):
			out.Broke = complaint(err.Error())
			continue
		case err != nil:
			return out, err
		}
		idle, by := &r.Lanes[0], &r.Lanes[1]
		out.Active, out.Refused, out.Why = idle.Ready.Active, idle.Ready.Failed, commonest(idle.Ready.Reasons)
		out.Requests += int64(by.Figures["requests"])
		out.Failed += int64(by.Figures["failed"])
		p95, open = append(p95, by.Figures["latencyP95Ms"]), append(open, attached(r).Seconds()*1e3)
		if r.Target.Process != nil {
			memory = append(memory, float64(r.Target.Process.Memory)/(1<<20))
		}
	}
	for to, of := range map[*spread][]float64{&out.P95Ms: p95, &out.MemoryMiB: memory, &out.OpenMs: open} {
		if len(of) > 0 {
			*to = spreadOf(of)
		}
	}
	return out, nil
}

// once makes one run.
func (t *bystanderTarget) once(ctx context.Context, l *lab, file, name string, n int, more []string) (r *results.Result, err error) {
	args := []string{"--profile", file, "--set", fmt.Sprintf("lanes.idle.subscriptions=%d", n), "--set", fmt.Sprintf("phases.measure=%v", l.duration(8*time.Second, 2*time.Second))}
	for _, set := range t.set {
		args = append(args, "--set", set)
	}
	if t.command != nil {
		server, err := startServer(ctx, append(slices.Clone(t.command), more...))
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, server.end()) }()
		args = append(args, "--target", server.URL)
	}
	return l.run(ctx, name, args...)
}

// fellOver reports whether a run ended because its target went away or accepted nothing, which is a
// result. Any other error is one of the study.
func fellOver(err error) bool {
	const targetGone = 3 // as docs/endings.md has it
	var exit *exec.ExitError
	return errors.As(err, &exit) && exit.ExitCode() == targetGone
}

// complaint returns the line of an output that says why the program ended.
func complaint(text string) string {
	first, rest, _ := strings.Cut(strings.TrimSpace(text), "\n")
	for line := range strings.Lines(rest) {
		if why, ok := strings.CutPrefix(strings.TrimSpace(line), "eventmeter: "); ok {
			return why
		}
	}
	return first
}

// commonest returns the most frequent reason.
func commonest(reasons map[string]int64) string {
	best := ""
	for _, why := range slices.Sorted(maps.Keys(reasons)) {
		if best == "" || reasons[why] > reasons[best] {
			best = why
		}
	}
	return best
}
