package run

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/results"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// shardedProfile has lanes whose sources fall into four groups: {0,4}, {1,5},
// {2,6} and {3,7}.
const shardedProfile = `
name: history
lanes:
  - {name: one, mode: push, subscriptions: 16, event: e, sources: "{{mod .Index 8}}"}
  - {name: two, mode: webhook, subscriptions: 22, event: e, sources: "{{mod .Index 4}}, {{add 4 (mod .Index 4)}}"}
  - {name: old, mode: poll, subscriptions: 9, event: e, sources: "{{mod .Index 8}}", maxAge: 1m}
upstream: {sources: 8, payload: {text: "{{.Probe}}"}}
schedule: {rate: 10/s}
phases: {measure: 100s, drain: 50ms, late: 40ms}
thresholds: ["*.lostSilent == 0", "one.latency.fromIntended.p99 < 20ms", "two.duplicates.rate < 50%", "run.upstream.accepted > 10"]
`

// Merge is [shard.Merge], which imports this package; see merge_link_test.go.
var Merge func(dirs []string) (*Outcome, error)

func parseProfile(t *testing.T, text string) *profiles.Profile {
	t.Helper()
	p, err := profiles.Parse("test", []byte(text), nil, systems.Table)
	must(t, err)
	return p
}

// book is a run without a target: only its ledger.
func book(t *testing.T, p *profiles.Profile, s *Shard) *pass {
	t.Helper()
	r, err := newRun(t.Context(), Options{Profile: p, Version: "v1", Shard: s})
	must(t, err)
	b := &pass{run: r, lanes: r.lanes}
	must(t, b.openLedger())
	return b
}

func testShard(index, count int) *Shard {
	return &Shard{
		Index: index, Count: count, Run: 0xfffffffe, // the numbers wrap
		Barrier: StartAt(time.Time{}),
		Target:  func(context.Context, []byte) (Shared, error) { return Shared{}, nil },
	}
}

// close makes a result of what the ledger has.
func (p *pass) closeBook(t *testing.T) results.PartPass {
	t.Helper()
	a := p.ledger.Account()
	if err := a.Check(); err != nil {
		t.Error(err)
	}
	p.wholeNames(&a)
	in := results.Generator{Reasons: []string{}}
	p.Add(a, make([]results.PartFigures, len(a.Lanes)), in, nil)
	return results.PartPass{
		Account:   a,
		Began:     1,
		BeganAt:   time.Unix(1, 0),
		Figures:   make([]results.PartFigures, len(a.Lanes)),
		Generator: in,
	}
}

// ledgers hands one history to the ledger of a whole run and to those of shards.
type ledgers struct {
	whole  *pass
	shards []*pass
	home   map[eventmeter.Sub][2]int // shard and local index
}

func newSplit(t *testing.T, p *profiles.Profile, n int) *ledgers {
	s := &ledgers{whole: book(t, p, nil), home: map[eventmeter.Sub][2]int{}}
	for i := range n {
		b := book(t, p, testShard(i, n))
		s.shards = append(s.shards, b)
		for lane, l := range b.lanes {
			for local, number := range l.numbers {
				s.home[eventmeter.Sub{Lane: uint16(lane), Index: uint32(number)}] = [2]int{i, local}
			}
		}
	}
	return s
}

func (s *ledgers) owner(source uint16) int { return s.shards[0].plan.Owner[source] }

// stamps gives the stamp of an emission in the whole run and in its shard's.
func (s *ledgers) stamps(source uint16, seq uint32) (whole, part eventmeter.Stamp) {
	whole = eventmeter.Stamp{Run: s.whole.ledger.Run(), Source: source, Seq: seq}
	part = eventmeter.Stamp{Run: s.shards[s.owner(source)].ledger.Run(), Source: source, Seq: seq}
	return whole, part
}

func (s *ledgers) fired(e eventmeter.Emission) {
	var part eventmeter.Stamp
	e.Stamp, part = s.stamps(e.Source, e.Seq)
	s.whole.ledger.Fired(e)
	e.Stamp = part
	s.shards[s.owner(e.Source)].ledger.Fired(e)
}

func (s *ledgers) resolved(source uint16, seq uint32, o eventmeter.Outcome, at eventmeter.Instant) {
	whole, part := s.stamps(source, seq)
	s.whole.ledger.Resolved(whole, o, at)
	s.shards[s.owner(source)].ledger.Resolved(part, o, at)
}

// of gives the ledger of a subscription and what it is called there.
func (s *ledgers) of(sub eventmeter.Sub) (*ledger.Ledger, eventmeter.Sub) {
	home := s.home[sub]
	return s.shards[home[0]].ledger, eventmeter.Sub{Lane: sub.Lane, Index: uint32(home[1])}
}

func (s *ledgers) delivered(d eventmeter.Delivery, stamps bool) {
	ledger, local := s.of(d.Sub)
	part := d
	part.Sub = local
	if stamps {
		d.Stamp, part.Stamp = s.stamps(d.Stamp.Source, d.Stamp.Seq)
	}
	s.whole.ledger.Delivered(d)
	ledger.Delivered(part)
}

func (s *ledgers) changed(c eventmeter.Transition) {
	s.whole.ledger.Changed(c)
	var ledger *ledger.Ledger
	ledger, c.Sub = s.of(c.Sub)
	ledger.Changed(c)
}

func (s *ledgers) noticed(n eventmeter.Notice) {
	s.whole.ledger.Noticed(n)
	var ledger *ledger.Ledger
	ledger, n.Sub = s.of(n.Sub)
	ledger.Noticed(n)
}

// TestMergedShardsEqualOneRun plays made-up histories, with everything that can
// go wrong, to one ledger and to those of four shards, and requires that what
// the shards archived gives, merged, the result of the one, to the last bucket.
func TestMergedShardsEqualOneRun(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			p := parseProfile(t, shardedProfile)
			s := newSplit(t, p, 4)
			play(s, rand.New(rand.NewPCG(seed, 1)))
			s.whole.closeBook(t)
			s.whole.finish(nil)
			var dirs []string
			for i, b := range s.shards {
				b.partPasses = append(b.partPasses, b.closeBook(t))
				part := b.part()
				b.finish(nil)
				dir := filepath.Join(t.TempDir(), fmt.Sprint(i))
				must(t, results.Save(dir, b.Result, b.Accounts))
				must(t, results.SavePart(dir, part))
				dirs = append(dirs, dir)
			}
			slices.Reverse(dirs) // the order in which they are named is all the same
			merged, err := Merge(dirs)
			must(t, err)
			sameResult(t, s.whole.Result, merged.Result)
			sameAccount(t, s.whole.Accounts[0], merged.Accounts[0])
			archiveAgain(t, merged)
			if merged.Result.Coverage != 1 || s.whole.Result.Lanes[0].Unexpected == 0 || s.whole.Result.Lanes[1].LostOrderUnknown == 0 {
				t.Errorf("the history tested too little: %+v", merged.Result.Lanes)
			}
		})
	}
}

// sameResult compares all but what a split run has of its own: the run id, the
// times of day, the phases, the generators, and the shards themselves.
func sameResult(t *testing.T, want, got *results.Result) {
	t.Helper()
	strip := func(r results.Result) results.Result {
		r.Run, r.Started, r.Finished, r.Phases, r.Generator, r.Shards, r.Coverage = "", time.Time{}, time.Time{}, nil, results.Generator{}, nil, 0
		r.Lanes = slices.Clone(r.Lanes)
		for i := range r.Lanes {
			r.Lanes[i].Examples = fewExamples(r.Lanes[i].Examples)
		}
		return r
	}
	a, err := json.Marshal(strip(*want))
	must(t, err)
	b, err := json.Marshal(strip(*got))
	must(t, err)
	if string(a) != string(b) {
		differ(t, string(a), string(b))
	}
}

// fewExamples leaves out kinds of which there were more than are kept: which
// of them are is not said.
func fewExamples(es []results.Example) []results.Example {
	n := map[string]int{}
	kind := func(e results.Example) string { k, _, _ := strings.Cut(e.Kind, ":"); return k }
	for _, e := range es {
		n[kind(e)]++
	}
	return slices.DeleteFunc(slices.Clone(es), func(e results.Example) bool { return n[kind(e)] >= 20 })
}

// sameAccount compares every counter, bucket and interval.
func sameAccount(t *testing.T, want, got ledger.Account) {
	t.Helper()
	text := func(a ledger.Account) string {
		a.Run, a.At = 0, 0
		a.Lanes = slices.Clone(a.Lanes)
		for i := range a.Lanes {
			a.Lanes[i].Examples = nil // compared as part of the result
		}
		out, err := json.Marshal(a)
		must(t, err)
		return string(out)
	}
	if a, b := text(want), text(got); a != b {
		differ(t, a, b)
	}
}

// differ shows where two texts part.
func differ(t *testing.T, a, b string) {
	t.Helper()
	at := 0
	for at < min(len(a), len(b)) && a[at] == b[at] {
		at++
	}
	cut := func(s string) string { return s[max(0, at-150):min(len(s), at+150)] }
	t.Errorf("one run\n…%s…\nmerged\n…%s…", cut(a), cut(b))
}

// archiveAgain requires that a merged result can be archived and read as any.
func archiveAgain(t *testing.T, o *Outcome) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "merged")
	must(t, results.Save(dir, o.Result, o.Accounts))
	if _, err := results.Rebuild(dir); err != nil {
		t.Error(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Error(err)
	}
}

// TestMergeRefuses has the errors about shards that do not belong together.
func TestMergeRefuses(t *testing.T) {
	t.Parallel()
	p := parseProfile(t, shardedProfile)
	save := func(t *testing.T, index, count int, change func(*results.Part, *results.Result)) string {
		b := book(t, p, testShard(index, count))
		b.partPasses = append(b.partPasses, b.closeBook(t))
		part := b.part()
		b.finish(nil)
		if change != nil {
			change(part, b.Result)
		}
		dir := t.TempDir()
		must(t, results.Save(dir, b.Result, b.Accounts))
		must(t, results.SavePart(dir, part))
		return dir
	}
	first := save(t, 0, 2, nil)
	for _, tt := range []struct {
		name, want string
		dir        string
	}{
		{"twice", "both shard 0", save(t, 0, 2, nil)},
		{"another profile", "of different profiles", save(t, 1, 2, func(p *results.Part, _ *results.Result) { p.Profile = "other" })},
		{"another version", "of different versions", save(t, 1, 2, func(_ *results.Part, r *results.Result) { r.Version = "v2" })},
		{"another run", "of different runs", save(t, 1, 2, func(p *results.Part, _ *results.Result) { p.Run = "00000001" })},
		{"another number", "of different numbers of shards", save(t, 1, 3, nil)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Merge([]string{first, tt.dir})
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want one line with %q", err, tt.want)
			}
		})
	}
	out, err := Merge([]string{first})
	must(t, err)
	if r := out.Result; !r.Partial || r.Reason != "shard 1 of 2 is missing" || len(r.Shards) != 2 || !r.Shards[1].Missing {
		t.Errorf("a missing shard: partial %t, %q, %+v", r.Partial, r.Reason, r.Shards)
	}
}

// must ends the test if a step of it has failed.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
