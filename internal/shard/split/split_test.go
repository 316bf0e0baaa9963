package split

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/loadgen"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/profiles"
)

// planOf makes the plan of a profile with these lanes, as YAML.
func planOf(t *testing.T, lanes string, sources, shards int) (*Plan, []Lane) {
	t.Helper()
	p, err := profiles.Parse(
		"test",
		fmt.Appendf(
			nil,
			"name: plan\nlanes:\n%s\nupstream: {sources: %d, event: e, payload: {text: \"{{.Probe}}\"}}\nschedule: {rate: 10/s}\n",
			lanes,
			sources,
		),
		nil,
		systems.Table,
	)
	if err != nil {
		t.Fatal(err)
	}
	var all []Lane
	for _, l := range p.Lanes {
		templates, err := profiles.CompileLane(l)
		if err != nil {
			t.Fatal(err)
		}
		all = append(
			all,
			Lane{Subscriptions: l.Subscriptions, Unit: unit(t, &l), Sources: templates.Sources, HasNoSources: l.HasNoSources()},
		)
	}
	return New(all, sources, shards), all
}

func TestPlan(t *testing.T) {
	t.Parallel()
	const (
		ten   = `  - {name: ten, mode: push, subscriptions: 40, event: e, sources: "{{mod .Index 10}}"}`
		all   = `  - {name: all, mode: poll, subscriptions: 10, event: e}`
		pairs = `  - {name: pairs, mode: push, subscriptions: 12, event: e, sources: "{{mod .Index 3}}, {{add 3 (mod .Index 3)}}"}`
		none  = `  - {name: none, mode: push, subscriptions: 5, event: e, sources: none}`
		six   = "  - {name: six, system: sep-1803, mode: push, subscriptions: 10, event: e, sources: \"{{div .Index 4}}\", " +
			"sep1803: {perSession: 4}}"
	)
	for _, tt := range []struct {
		name            string
		lanes           string
		sources, shards int
		coverage        float64
		bySource        bool
		subs            string // of the first lane, by shard
	}{
		{"one source a subscription", ten, 10, 4, 1, true, "[12 12 8 8]"},
		{"all hear all", all, 10, 4, 0.26, true, "[3 3 2 2]"}, // (3·3 + 3·3 + 2·2 + 2·2) / 100
		{"one source", all, 1, 4, 0.25, false, "[3 3 2 2]"},
		{"sources that hang together", pairs, 6, 3, 1, true, "[4 4 4]"},
		{"more shards than groups", pairs, 6, 4, 0.25, false, "[3 3 3 3]"},
		{"nothing is owed", none, 2, 2, 1, true, "[3 2]"},
		{"sessions stay together", six, 3, 2, 1, true, "[6 4]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, lanes := planOf(t, tt.lanes, tt.sources, tt.shards)
			if got := p.Coverage(); got != tt.coverage {
				t.Errorf("coverage %v, want %v", got, tt.coverage)
			}
			if (p.Owner != nil) != tt.bySource {
				t.Errorf("owners %v", p.Owner)
			}
			var sizes []int
			seen := map[int]int{}
			for s := range tt.shards {
				sizes = append(sizes, len(p.Subs[s][0]))
				for _, i := range p.Subs[s][0] {
					seen[i]++
					owed := whole(lanes[0].Sources(i), tt.sources)
					if tt.coverage == 1 && !slices.Equal(p.Owed(s, owed), owed) {
						t.Errorf("subscription %d hears %v, and in shard %d only %v", i, owed, s, p.Owed(s, owed))
					}
				}
			}
			if fmt.Sprint(sizes) != tt.subs || len(seen) != lanes[0].Subscriptions {
				t.Errorf("subscriptions %v, %d of them; want %s", sizes, len(seen), tt.subs)
			}
		})
	}
}

// TestPartsAreTheSchedule holds what all shards fire against the one schedule,
// emission by emission.
func TestPartsAreTheSchedule(t *testing.T) {
	t.Parallel()
	replayed := []uint16{0, 2, 2, 1, 0, 2, 3}
	for name, schedule := range map[string]loadgen.Schedule{
		"constant": loadgen.Constant{Rate: 300}, "poisson": loadgen.Poisson{Rate: 300, Seed: 5},
		"burst": loadgen.Burst{Size: 7, Every: 50 * time.Millisecond, Spread: time.Millisecond},
		"ramp":  loadgen.Ramp{From: 10, To: 500, Over: 2 * time.Second}, "sine": loadgen.Sine{Mean: 200, Amplitude: 150, Period: time.Second},
		"trace": loadgen.Trace{Offsets: []time.Duration{0, 1, 1, 5e8, 6e8, 6e8, 7e8, 8e8, 9e8}},
	} {
		for _, bySource := range []bool{true, false} {
			for _, cycle := range []int{10, len(replayed)} {
				t.Run(fmt.Sprint(name, " ", bySource, " ", cycle), func(t *testing.T) {
					p := &Plan{shards: 4}
					if bySource {
						p.Owner = []int{0, 1, 2, 3, 0, 1, 2, 3, 1, 1}
					}
					sourceOf := func(n int) uint16 { return uint16(n) }
					if cycle == len(replayed) {
						sourceOf = func(n int) uint16 { return replayed[n] }
					}
					checkParts(t, p, schedule, cycle, sourceOf)
				})
			}
		}
	}
}

func checkParts(t *testing.T, p *Plan, whole loadgen.Schedule, cycle int, sourceOf func(int) uint16) {
	t.Helper()
	const until = 2 * time.Second
	fired := map[uint64]time.Duration{}
	for shard := range p.shards {
		part := p.Part(whole, shard, cycle, sourceOf)
		last := uint64(0)
		for k := uint64(0); ; k++ {
			at, ok := part.At(k)
			if !ok || at >= until {
				break
			}
			n := part.Number(k)
			if _, twice := fired[n]; twice || k > 0 && n <= last {
				t.Fatalf("shard %d publishes event %d after %d", shard, n, last)
			}
			fired[n], last = at, n
		}
	}
	n := loadgen.Count(whole, until)
	if uint64(len(fired)) != n {
		t.Fatalf("%d events, want %d", len(fired), n)
	}
	for i := range n {
		if at, _ := whole.At(i); fired[i] != at {
			t.Fatalf("event %d at %v, want %v", i, fired[i], at)
		}
	}
}

// unit is how many subscriptions of a lane stay together.
func unit(t *testing.T, l *profiles.Lane) int {
	of, err := systems.Find(l.System)
	if err != nil {
		t.Fatal(err)
	}
	if of.Unit == nil {
		return 1
	}
	return of.Unit(&driver.Options{System: l.System, Mode: eventmeter.Mode(l.Mode), Settings: l.Settings})
}
