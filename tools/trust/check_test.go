package trust

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/eventmeter/eventmeter/internal/check"
	"github.com/eventmeter/eventmeter/internal/conform"
	"github.com/eventmeter/eventmeter/internal/refserver/breach"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/results"
)

// A check has so many subscriptions under load. A server that breaks a row under load alone does so above the other
// number, which is more than there are at rest.
const checkLoad, breakAbove = 200, 100

// occasion is what a row needs to be seen and a check of the built-in profile lacks.
type occasion struct {
	beside  string   // other faults
	set     []string // of the profile
	measure string
}

var (
	gaps      = occasion{beside: "announce(rate=0.1, seed=1)"}
	listening = occasion{set: []string{"lanes.push.events.listen=true", "target.embedded.typesEvery=1s"}}
	silence   = occasion{set: []string{"lanes.quiet.push.heartbeat=3s", "target.embedded.heartbeat=500ms"}}
	occasions = map[string]occasion{
		"capability-list-changed-gated":    listening,
		"capability-empty-settings":        listening,
		"delivery-dual-sign-on-rotation":   {set: []string{"schedule.rate=100/s"}}, // some within a second
		"error-resource-exhausted":         {beside: "refuse(code=-32025, every=15)"},
		"envelope-gap":                     gaps,
		"envelope-signed-like-deliveries":  gaps,
		"envelope-webhook-id-format":       gaps,
		"stream-gap-resends-active":        gaps,
		"stream-error-is-recoverable":      {beside: "trouble(every=5)"},
		"stream-heartbeat-required":        silence,
		"stream-heartbeat-not-sse-comment": silence,
		"stream-heartbeat-interval":        {set: []string{"lanes.quiet.push.heartbeat=30s"}, measure: "45s"},
	}
)

// beyond are rows that lanes judge and that a check cannot see broken here, and why. TestPlantedRows plants them.
var beyond = map[string]string{
	"removal-error-not-found":        "needs the end of an event type, which the steps need, too",
	"removal-error-schema-changed":   "needs the end of an event type, which the steps need, too",
	"truncated-false-when-no-replay": "needs an event type without replay, and the lanes of this check have one with it",
	"envelope-terminated":            "needs the end of an event type, which the steps need, too",
	"stream-final-result-shape":      "comes at the end of the server, after that of the check",
	"ssrf-reject-non-routable":       "this server is told to accept private addresses, since its callbacks are on this machine",
}

// unseen says why a check cannot see a row broken; "" = it can.
func unseen(row string, onlyLoad bool) string {
	of := conform.Find(row)
	judges := func(s check.Step) bool {
		return slices.ContainsFunc(s.Rows, func(id conform.ID) bool { return conform.Rows[id].Name == row })
	}
	switch {
	case beyond[row] != "":
		return beyond[row]
	case of.Unseen != "" && !slices.ContainsFunc(check.Steps, judges):
		return of.Unseen
	case onlyLoad && (strings.HasPrefix(row, "capability-") || row == "fallback-method-not-found"):
		return "the handshake comes before the first subscription"
	}
	return ""
}

// TestPlanted checks a server for each row that it can break: this row must be broken, unless there is a reason why a
// check cannot see it, and no other but those that follow from it.
func TestPlanted(t *testing.T) { plantAll(t, "planted.md", false) }

// TestPlantedLoad does so with servers that break the row while many subscriptions are open. It must be held at rest.
func TestPlantedLoad(t *testing.T) { plantAll(t, "planted-load.md", true) }

func plantAll(t *testing.T, file string, onlyLoad bool) {
	needsFull(t)
	p := build(t)
	var found []*verdict
	t.Run("rows", func(t *testing.T) {
		for _, r := range conform.Rows {
			if !breach.Has(r.Name) || !selected(r.Name) {
				continue
			}
			v := &verdict{row: r.Name}
			found = append(found, v)
			t.Run(r.Name, func(t *testing.T) {
				t.Parallel()
				if p.plant(t, v, onlyLoad); v.wrong() {
					t.Error(v)
				}
			})
		}
	})
	if len(found) == 0 {
		t.Fatalf("-only %s: no such row; docs/faults.md lists them", *only)
	}
	text := fmt.Sprintf("%s, %d subscriptions under load\n\n", conditions(), checkLoad) +
		"| row that the server breaks | broken at rest | broken under load | |\n|---|---|---|---|\n"
	exact, hidden, wrong := 0, 0, 0
	for _, v := range found {
		switch {
		case v.wrong():
			wrong++
		case v.why != "":
			hidden++
		default:
			exact++
		}
		text += fmt.Sprintf("| `%s` | %s | %s | %s |\n", v.row, strings.Join(v.atRest, ", "), strings.Join(v.load, ", "), v)
	}
	text += fmt.Sprintf("\n%d rows are broken as planted, %d cannot be seen broken by such a check, %d are wrong.\n", exact, hidden, wrong)
	publish(t, file, text)
}

// verdict is what a check found on a server that breaks a row.
type verdict struct {
	row              string
	atRest, load     []string // broken rows
	surplus, missing []string // what should not be broken, and what should
	why              string   // why the row is not broken
	judged           bool
}

func (v *verdict) wrong() bool { return !v.judged || len(v.surplus)+len(v.missing) > 0 }

// String says what is wrong, or why the row is not broken; exact is neither.
func (v *verdict) String() string {
	switch {
	case !v.judged:
		return "**no result**"
	case v.wrong():
		return fmt.Sprintf("**wrong**: too many %v, missing %v%s", v.surplus, v.missing, v.why)
	case v.why != "":
		return "not broken: " + v.why
	}
	return "exact"
}

// plant checks a server that breaks a row.
func (p program) plant(t *testing.T, v *verdict, onlyLoad bool) {
	of := occasions[v.row]
	fault := "break(row=" + v.row
	if onlyLoad {
		fault += fmt.Sprintf(", above=%d", breakAbove)
	}
	fault = strings.TrimSuffix(fault+"); "+of.beside, "; ")
	args := []string{"check", "--quiet", "--format=json", "--duration", cmp.Or(of.measure, "5s"),
		"--set", "target.embedded.faults='" + fault +
			"'", "--subscriptions", fmt.Sprint(checkLoad), "--denied", `private.note {"principal": "b"}`}
	for _, set := range of.set {
		args = append(args, "--set", set)
	}
	_, stdout, stderr := p.start(t, args...)
	var found results.Check
	if json.Unmarshal(stdout, &found) != nil {
		t.Fatalf("no result: %s", stderr)
	}
	v.judge(&found, onlyLoad)
}

// judge compares what a check found with what was planted.
func (v *verdict) judge(found *results.Check, onlyLoad bool) {
	v.judged = true
	expected := []string{v.row}
	expected = append(expected, breach.Table[v.row].Follows...)
	is := func(r *results.ConformanceRow, verdict string) bool { return r != nil && r.Verdict == verdict }
	var of results.CheckRow
	for _, r := range found.Rows {
		if is(r.AtRest, results.RowBroken) {
			v.atRest = append(v.atRest, r.Row)
		}
		if is(r.UnderLoad, results.RowBroken) {
			v.load = append(v.load, r.Row)
		}
		if r.Row == v.row {
			of = r
		}
	}
	for _, r := range slices.Concat(v.atRest, v.load) {
		if !slices.Contains(expected, r) && !slices.Contains(v.surplus, r) {
			v.surplus = append(v.surplus, r)
		}
	}
	if onlyLoad && len(v.atRest) > 0 {
		v.surplus = append(v.surplus, "at rest")
	}
	broken := of.Finding == results.RowBrokenUnderLoad
	if !onlyLoad { // one part may lack an occasion
		broken = of.Finding == results.RowBroken && !is(of.AtRest, results.RowHeld) && !is(of.UnderLoad, results.RowHeld)
	}
	if broken {
		return
	}
	if v.why = unseen(v.row, onlyLoad); v.why != "" {
		return
	}
	v.missing = []string{v.row}
	for _, r := range []*results.ConformanceRow{of.AtRest, of.UnderLoad} {
		if r != nil && r.Verdict != results.RowBroken {
			v.why += " (" + cmp.Or(r.Why, r.Verdict) + ")"
		}
	}
	for _, s := range found.Stages {
		if s.Ended != "" {
			v.why += " (" + s.Name + " ended: " + s.Ended + ")"
		}
	}
}

// TestClean runs every built-in profile that is one run of less than an hour. The embedded target has no faults: no row
// may be broken.
func TestClean(t *testing.T) {
	needsFull(t)
	p := build(t)
	text := fmt.Sprintf("%s, %d runs of each profile\n\n| profile | runs that judged | rows held | rows broken | exit "+
		"codes |\n|---|---|---|---|---|\n",
		conditions(), *runs)
	var names []string
	for _, b := range profiles.Builtin() {
		if !slices.Contains([]string{"calibrate", "capacity", "soak"}, b.Name) && selected(b.Name) {
			names = append(names, b.Name)
		}
	}
	found := make([]cleaned, len(names))
	t.Run("profiles", func(t *testing.T) {
		// One of each, -runs times: a profile that strains the machine runs beside others.
		for n := range *runs {
			for i, name := range names {
				t.Run(fmt.Sprint(name, n), func(t *testing.T) {
					t.Parallel()
					dir := t.TempDir()
					code := p.run(t, dir, "--profile", name)
					var r results.Result
					readJSON(t, filepath.Join(dir, "result.json"), &r)
					for _, row := range found[i].add(code, r.Conformance) {
						t.Errorf("%s is broken %d times of %d: %+v", row.Row, row.Broken, row.Seen, row.First)
					}
				})
			}
		}
	})
	for i, name := range names {
		text += fmt.Sprintf("| %s | %s |\n", name, &found[i])
	}
	publish(t, "clean.md", text)
}

// cleaned is what the runs of a profile showed. Its methods are safe for concurrent use.
type cleaned struct {
	mu     sync.Mutex
	held   []int          // rows that were held, for each run that judged
	codes  map[int]int    // runs, by exit code
	broken map[string]int // runs, by row that was broken
}

// add adds a run, and returns the rows that it broke; c may be nil.
func (f *cleaned) add(code int, c *results.Conformance) (broken []results.ConformanceRow) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.codes == nil {
		f.codes, f.broken = map[int]int{}, map[string]int{}
	}
	f.codes[code]++
	if c == nil {
		return nil
	}
	f.held = append(f.held, c.Held)
	for _, r := range c.Rows {
		if r.Verdict == results.RowBroken {
			f.broken[r.Row]++
			broken = append(broken, r)
		}
	}
	return broken
}

// String is the row of a table, without the name.
func (f *cleaned) String() string {
	held := "–"
	if len(f.held) > 0 {
		if held = fmt.Sprint(slices.Min(f.held)); slices.Min(f.held) < slices.Max(f.held) {
			held += fmt.Sprint("–", slices.Max(f.held))
		}
	}
	rows := cmp.Or(strings.Join(slices.Sorted(maps.Keys(f.broken)), ", "), "none")
	var codes []string
	for _, code := range slices.Sorted(maps.Keys(f.codes)) {
		codes = append(codes, fmt.Sprintf("%d × %d", f.codes[code], code))
	}
	return fmt.Sprintf("%d | %s | %s | %s", len(f.held), held, rows, strings.Join(codes, ", "))
}

// A check that finds the planted row, one that accuses another, and one that finds nothing.
func TestJudge(t *testing.T) {
	broken, held := &results.ConformanceRow{Verdict: results.RowBroken}, &results.ConformanceRow{Verdict: results.RowHeld}
	row := func(name, finding string, part *results.ConformanceRow) results.CheckRow {
		return results.CheckRow{Row: name, Finding: finding, AtRest: part, UnderLoad: part}
	}
	for want, rows := range map[string][]results.CheckRow{
		"exact": {row("list-implemented", results.RowBroken, broken)},
		"**wrong**: too many [list-pagination], missing []": {
			row("list-implemented", results.RowBroken, broken), row("list-pagination", results.RowBroken, broken)},
		"**wrong**: too many [], missing [list-implemented] (held) (held)": {row("list-implemented", results.RowHeld, held)},
	} {
		v := &verdict{row: "list-implemented"}
		if v.judge(&results.Check{Rows: rows}, false); v.String() != want {
			t.Errorf("%s; want %s", v, want)
		}
	}
}

func TestCleaned(t *testing.T) {
	var f cleaned
	f.add(0, nil)
	f.add(0, &results.Conformance{Held: 4})
	f.add(4, &results.Conformance{Held: 3, Rows: []results.ConformanceRow{{Row: "x", Verdict: results.RowBroken}, {Row: "y"}}})
	if got, want := f.String(), "2 | 3–4 | x | 2 × 0, 1 × 4"; got != want {
		t.Errorf("%s; want %s", got, want)
	}
}
