package calibrate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/internal/embedded"
	"github.com/eventmeter/eventmeter/internal/run"
	"github.com/eventmeter/eventmeter/internal/runtest"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/results"
)

const (
	matrixLane = `
  - name: %s
    system: %s
    mode: %s
    subscriptions: 3
    event: chat.message
    arguments: {channel: "channel-{{mod .Index 2}}"}
    sources: "{{mod .Index 2}}"
    attach: {concurrency: 1, onFailure: continue}`
	matrixRest = `
  - name: requests
    system: sep-975
    mode: push
    subscriptions: 2
    sep975: {steps: 25, step: 40ms, logEvery: 5, disconnect: none}
  - name: ids
    system: sep-975
    mode: push
    subscriptions: 2
    sep975: {via: lastEventId, steps: 25, step: 40ms, logEvery: 5, disconnect: none}
  - name: lists
    system: sep-2549
    mode: poll
    subscriptions: 2
    event: chat.message
    sep2549: {use: 20/s, notifications: true}
  - name: resources
    system: updates
    mode: push
    subscriptions: 4
    event: chat.message
    arguments: {n: "{{mod .Index 2}}"}
    sources: "{{mod .Index 2}}"
    updates: {resource: "list://item/{n}"}
    attach: {concurrency: 1, onFailure: continue}
upstream:
  sources: 2
  payload: {channel: "channel-{{.Source}}", text: "{{.Probe}}", list: tools, uri: "list://item/{{.Source}}"}
schedule: {kind: constant, rate: 40/s}
phases: {warmup: 100ms, measure: 700ms, drain: 3s}
target: {embedded: {lists: {entries: 20, page: 10, ttl: 1h}}}
`
)

// TestMatrix runs faults that are chosen by seeds against every system and
// mode, in one process: each count of each subscription must be the plan's.
func TestMatrix(t *testing.T) {
	t.Parallel() // it mostly waits
	var text strings.Builder
	text.WriteString("name: matrix\nlanes:")
	for _, l := range [][3]string{
		{"push", "events", "push"}, {"poll", "events", "poll"}, {"webhook", "events", "webhook"},
		{"triggers", "smithery", "webhook"}, {"updates", "sep-1803", "push"}, {"callbacks", "sep-1803", "webhook"},
	} {
		fmt.Fprintf(&text, matrixLane, l[0], l[1], l[2])
	}
	text.WriteString(matrixRest)
	p, err := profiles.Parse("matrix.yaml", []byte(text.String()), nil, systems.Table)
	if err != nil {
		t.Fatal(err)
	}
	six := []string{"push", "poll", "webhook", "triggers", "updates", "callbacks"}
	add := func(lanes []string, set []string, specs ...string) {
		for _, seed := range []int{31, 32} {
			var all []string
			for i, spec := range specs {
				if strings.Contains(spec, "rate") {
					spec = strings.Replace(spec, ")", fmt.Sprintf(", seed=%d)", seed+10*i), 1)
				}
				all = append(all, spec)
			}
			joined := strings.Join(all, "; ")
			p.Cases = append(p.Cases, profiles.Case{Name: joined, Faults: joined, Lanes: lanes, Set: set})
		}
	}
	patient := []string{"phases.drain=10s"} // each refusal holds the next delivery up, on a busy machine for long
	add(six, patient, "drop(rate=0.2)", "duplicate(rate=0.2)", "reid(rate=0.2)", "misdeliver(rate=0.2)")
	add(six, patient, "malformed(rate=0.2)", "delay(rate=0.5, uniform=5ms..40ms)")
	add([]string{"webhook", "triggers", "callbacks"}, patient, "oversize(rate=0.1)", "signature(rate=0.2, sign=wrong)", "repeat(rate=0.3)")
	add([]string{"webhook", "triggers"}, patient, "noretry()", "signature(rate=0.2, sign=wrong)", "drop(rate=0.1)")
	add([]string{"updates"}, []string{"target.era=legacy"}, "cut(rate=0.15, replay=true)", "cut(rate=0.15, replay=false)", "drop(rate=0.2)")
	add(
		[]string{"requests"},
		[]string{"phases.warmup=0s"},
		"drop(rate=0.2)",
		"duplicate(rate=0.2)",
		"cut(rate=0.1, replay=true)",
		"cut(rate=0.1, replay=false)",
	)
	add(
		[]string{"ids"},
		[]string{"phases.warmup=0s"},
		"drop(rate=0.2)",
		"duplicate(rate=0.2)",
		"cut(rate=0.1, replay=true)",
		"cut(rate=0.1, replay=false)",
	)
	add([]string{"lists"}, []string{"upstream.sources=1", "schedule.rate=20/s"}, "stale(rate=0.3)", "duplicate(rate=0.3)")
	add([]string{"resources"}, nil, "drop(rate=0.2)", "duplicate(rate=0.2)", "delay(rate=0.5, uniform=5ms..40ms)")
	add([]string{"resources"}, []string{"target.era=legacy"}, "drop(rate=0.2)", "duplicate(rate=0.2)", "refuse(code=-32013, every=3)")
	rows := 0
	err = Run(t.Context(), run.Options{Profile: p, Embedded: runtest.InProcess}, func(done []Row) {
		for _, r := range done {
			rows++
			if !r.Passed {
				t.Errorf("%s: %s: %+v", r.Case, r.Lane, r.Checks)
			}
		}
	})
	if want := 2 * (6 + 6 + 3 + 2 + 1 + 1 + 1 + 1 + 1 + 1); err != nil || rows != want {
		t.Errorf("%d rows of %d: %v", rows, want, err)
	}
}

// TestCutsOfStreamsThatAreAway: a stream that takes longer to open again than until the
// next cut makes a run unsound, which is repeated more slowly, and no count wrong.
func TestCutsOfStreamsThatAreAway(t *testing.T) {
	t.Parallel() // it mostly waits
	p, err := profiles.Parse("away.yaml", []byte("name: away\nlanes:"+fmt.Sprintf(matrixLane, "updates", "sep-1803", "push")+`
    push: {backoff: {min: 1200ms, max: 1200ms}}
upstream: {sources: 2, payload: {channel: "channel-{{.Source}}", text: "{{.Probe}}"}}
schedule: {kind: constant, rate: 40/s}
phases: {warmup: 100ms, measure: 700ms, drain: 3s}
`), nil, systems.Table)
	if err != nil {
		t.Fatal(err)
	}
	p.Cases = []profiles.Case{{Name: "away", Faults: "cut(every=10, offset=5, replay=false)", Lanes: []string{"updates"}}}
	rows := 0
	err = Run(t.Context(), run.Options{Profile: p, Embedded: runtest.InProcess}, func(done []Row) {
		for _, r := range done {
			if rows++; !r.Passed {
				t.Errorf("%+v", r.Checks)
			}
		}
	})
	if err != nil || rows != 1 {
		t.Errorf("%d rows: %v", rows, err)
	}
}

// TestTargetsThatDoNotAnswer: a target of our own that does not answer in time has no
// processor. That ends a calibration only where it happens again and again.
func TestTargetsThatDoNotAnswer(t *testing.T) {
	t.Parallel()
	p, err := profiles.Parse("late.yaml", []byte("name: late\nlanes:"+fmt.Sprintf(matrixLane, "push", "events", "push")+`
upstream: {sources: 2, payload: {channel: "channel-{{.Source}}", text: "{{.Probe}}"}}
schedule: {kind: constant, rate: 40/s}
phases: {warmup: 100ms, measure: 500ms, drain: 3s}
`), nil, systems.Table)
	if err != nil {
		t.Fatal(err)
	}
	p.Cases = []profiles.Case{{Name: "late", Lanes: []string{"push"}}}
	for _, c := range []struct{ late, rows int }{{1, 1}, {100, 0}} {
		late, rows := c.late, 0
		start := func(ctx context.Context, o embedded.Options) (embedded.Server, error) {
			if late--; late >= 0 {
				return nil, fmt.Errorf("handshake: %w", context.DeadlineExceeded)
			}
			return runtest.InProcess(ctx, o)
		}
		err := Run(t.Context(), run.Options{Profile: p, Embedded: start}, func(done []Row) { rows += len(done) })
		if rows != c.rows || (c.rows == 0) != errors.Is(err, errBusy) {
			t.Errorf("%d late ones: %d rows, %v", c.late, rows, err)
		}
	}
}

func TestStarved(t *testing.T) {
	good, bad := []Row{{Passed: true}}, []Row{{Passed: true}, {}}
	busy := results.Generator{Bottleneck: true, Reasons: []string{"timers were late"}}
	for _, c := range []struct {
		rows []Row
		g    results.Generator
		want string
	}{
		{good, busy, ""}, {bad, results.Generator{}, ""},
		{bad, busy, "rows differ, and the generator was the bottleneck: timers were late"},
	} {
		if got := starved(c.rows, c.g); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
