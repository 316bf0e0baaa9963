package bench

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/loadgen"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/results"
)

// planOf makes the plan of a profile with these lanes, as YAML.
func planOf(t *testing.T, lanes string, sources, shards int) (*plan, []*lane) {
	t.Helper()
	p := parseProfile(t, fmt.Sprintf("name: plan\nlanes:\n%s\nupstream: {sources: %d, event: e, payload: {text: \"{{.Probe}}\"}}\nschedule: {rate: 10/s}\n", lanes, sources))
	var all []*lane
	for i, l := range p.Lanes {
		n, err := newLane(i, l)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, n)
	}
	return newPlan(all, sources, shards), all
}

func TestPlan(t *testing.T) {
	t.Parallel()
	const (
		ten   = `  - {name: ten, mode: push, subscriptions: 40, event: e, sources: "{{mod .Index 10}}"}`
		all   = `  - {name: all, mode: poll, subscriptions: 10, event: e}`
		pairs = `  - {name: pairs, mode: push, subscriptions: 12, event: e, sources: "{{mod .Index 3}}, {{add 3 (mod .Index 3)}}"}`
		none  = `  - {name: none, mode: push, subscriptions: 5, event: e, sources: none}`
		six   = "  - {name: six, system: sep-1803, mode: push, subscriptions: 10, event: e, sources: \"{{div .Index 4}}\", sep1803: {perSession: 4}}"
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
		{"nothing is heard", none, 2, 2, 1, true, "[3 2]"},
		{"sessions stay together", six, 3, 2, 1, true, "[6 4]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, lanes := planOf(t, tt.lanes, tt.sources, tt.shards)
			if got := p.coverage(); got != tt.coverage {
				t.Errorf("coverage %v, want %v", got, tt.coverage)
			}
			if (p.owner != nil) != tt.bySource {
				t.Errorf("owners %v", p.owner)
			}
			var sizes []int
			seen := map[int]int{}
			for s := range tt.shards {
				sizes = append(sizes, len(p.subs[s][0]))
				for _, i := range p.subs[s][0] {
					seen[i]++
					heard := whole(lanes[0].templates.Sources(i), tt.sources)
					if tt.coverage == 1 && !slices.Equal(p.hears(s, heard), heard) {
						t.Errorf("subscription %d hears %v, and in shard %d only %v", i, heard, s, p.hears(s, heard))
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
		"constant": loadgen.Constant{Rate: 300}, "poisson": loadgen.Poisson{Rate: 300, Seed: 5}, "burst": loadgen.Burst{Size: 7, Every: 50 * time.Millisecond, Spread: time.Millisecond},
		"ramp": loadgen.Ramp{From: 10, To: 500, Over: 2 * time.Second}, "sine": loadgen.Sine{Mean: 200, Amplitude: 150, Period: time.Second},
		"trace": loadgen.Trace{Offsets: []time.Duration{0, 1, 1, 5e8, 6e8, 6e8, 7e8, 8e8, 9e8}},
	} {
		for _, bySource := range []bool{true, false} {
			for _, cycle := range []int{10, len(replayed)} {
				t.Run(fmt.Sprint(name, " ", bySource, " ", cycle), func(t *testing.T) {
					p := &plan{shards: 4}
					if bySource {
						p.owner = []int{0, 1, 2, 3, 0, 1, 2, 3, 1, 1}
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

func checkParts(t *testing.T, p *plan, whole loadgen.Schedule, cycle int, sourceOf func(int) uint16) {
	t.Helper()
	const until = 2 * time.Second
	fired := map[uint64]time.Duration{}
	for shard := range p.shards {
		part := p.part(whole, shard, cycle, sourceOf)
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

// TestForeign checks what shards make of copies of each other's emissions.
func TestForeign(t *testing.T) {
	t.Parallel()
	p := parseProfile(t, `
name: foreign
lanes:
  - {name: all, mode: push, subscriptions: 2, event: e}
  - {name: own, mode: push, subscriptions: 2, event: e, sources: "{{.Index}}"}
upstream: {sources: 2, payload: {text: "{{.Probe}}"}}
schedule: {rate: 10/s}
`)
	b := book(t, p, testShard(0, 2))
	mine, other := b.plan.owner[0], uint16(1)
	if mine != 0 || b.plan.owner[1] != 1 {
		t.Fatal(b.plan.owner)
	}
	sibling, _ := (&run{opts: Options{Shard: testShard(1, 2)}, id: b.id, lanes: b.lanes}).runID(0)
	for lane := range uint16(2) {
		sub := eventmeter.Sub{Lane: lane}
		b.ledger.Changed(eventmeter.Transition{Sub: sub, To: eventmeter.Attaching, At: 1})
		b.ledger.Changed(eventmeter.Transition{Sub: sub, To: eventmeter.Active, At: 2})
		for _, stamp := range []eventmeter.Stamp{
			{Run: sibling, Source: other, Seq: 1}, {Run: sibling + 2, Source: other, Seq: 1}, // of its next pass
			{Run: sibling, Source: 9, Seq: 1}, {Run: sibling + 4, Seq: 1}, {Run: b.ledger.Run() + 2, Seq: 1},
		} {
			b.ledger.Delivered(eventmeter.Delivery{Sub: sub, Stamp: stamp, Probed: true, At: 5, Bytes: 3})
		}
	}
	part := b.closeBook(t)
	all, own := part.Account.Lanes[0], part.Account.Lanes[1]
	if all.Foreign != 2 || all.Unexpected.NeverFired != 1 || all.Unexpected.ForeignRun != 2 || all.Unexpected.NotSubscribed != 0 {
		t.Errorf("a lane that hears everything: %d foreign, %+v", all.Foreign, all.Unexpected)
	}
	if own.Foreign != 0 || own.Unexpected.NotSubscribed != 2 || own.Unexpected.NeverFired != 1 || own.Unexpected.ForeignRun != 2 {
		t.Errorf("a lane that hears its own: %d foreign, %+v", own.Foreign, own.Unexpected)
	}
	if got := results.NewLane(&part.Account.Lanes[0]); got.Detail.Foreign != 2 || got.Expected != 0 {
		t.Errorf("in the result: %+v", got.Detail)
	}
}

func TestMergeFigures(t *testing.T) {
	t.Parallel()
	a := map[string]float64{"cuts": 3, "avoidedShare": 0.5, "fetchesAvoided": 5, "pageReads": 10, "bytesPerClientHour": 100, "clientHours": 1, "ttlMs": 500, "observedLeast": 4, "observedMost": 9, "detachedMax": 7}
	b := map[string]float64{"cuts": 4, "avoidedShare": 1, "fetchesAvoided": 30, "pageReads": 30, "bytesPerClientHour": 200, "clientHours": 3, "ttlMs": 500, "observedLeast": 5, "observedMost": 6, "detachedMax": 5}
	got, most := mergeFigures([]results.PartFigures{{Values: a}, {Values: b}})
	want := map[string]float64{"cuts": 7, "avoidedShare": 0.875, "fetchesAvoided": 35, "pageReads": 40, "bytesPerClientHour": 175, "clientHours": 4, "ttlMs": 500, "observedLeast": 4, "observedMost": 9, "detachedMax": 7}
	for name, v := range want {
		if got.Values[name] != v {
			t.Errorf("%s: %v, want %v", name, got.Values[name], v)
		}
	}
	if len(got.Values) != len(want) || !slices.Equal(most, []string{"detachedMax"}) {
		t.Errorf("%v, most %v", got.Values, most)
	}
}

// TestCommonHash: shards differ in where their webhooks arrive, and in nothing
// else.
func TestCommonHash(t *testing.T) {
	t.Parallel()
	hash := func(change func(p *profiles.Profile)) string {
		p := parseProfile(t, shardedProfile)
		change(p)
		h, err := commonHash(p)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	same := hash(func(*profiles.Profile) {})
	if hash(func(p *profiles.Profile) {
		p.Lanes[1].Webhook.Callback, p.Lanes[1].Webhook.Listen = "https://10.0.0.7:8443", ":8443"
	}) != same {
		t.Error("another callback makes another run")
	}
	if hash(func(p *profiles.Profile) { p.Lanes[1].Subscriptions++ }) == same {
		t.Error("another number of subscriptions makes the same run")
	}
}
