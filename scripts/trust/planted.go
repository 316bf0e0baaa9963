package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/eventmeter/eventmeter/internal/conform"
	"github.com/eventmeter/eventmeter/internal/refserver/breach"
	"github.com/eventmeter/eventmeter/results"
)

// plantedLoad is how many subscriptions a check has under load here, and plantedAbove
// the number above which a server breaks a row under load alone: more than there are at
// rest.
const (
	plantedLoad  = 200
	plantedAbove = 100
)

// occasion is what makes the occasion of a row that a check of the built-in profile has
// none for.
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

// beyond are the rows that lanes judge and that a check cannot see broken here, and why.
// TestPlantedRows plants them.
var beyond = map[string]string{
	"removal-error-not-found":        "needs the end of an event type, which the steps need, too",
	"removal-error-schema-changed":   "needs the end of an event type, which the steps need, too",
	"truncated-false-when-no-replay": "needs an event type without replay, and the lanes of this check have one with it",
	"envelope-terminated":            "needs the end of an event type, which the steps need, too",
	"stream-final-result-shape":      "comes at the end of the server, after that of the check",
	"ssrf-reject-non-routable":       "this server is told to accept private addresses, since its callbacks are on this machine",
}

// beforeLoad are the rows that are judged before there is a load, and at that alone.
const beforeLoad = "the handshake comes before the first subscription"

func early(row string) bool {
	return strings.HasPrefix(row, "capability-") || row == "fallback-method-not-found"
}

// unplantable says why a row that is planted cannot be broken here; "" = it can.
func unplantable(row string, onlyLoad bool) string {
	i := slices.IndexFunc(conform.Rows[:], func(r conform.Row) bool { return r.Name == row })
	of := &conform.Rows[i]
	switch {
	case beyond[row] != "":
		return beyond[row]
	case of.Unseen != "" && of.Check == "":
		return of.Unseen
	case onlyLoad && early(row):
		return beforeLoad
	}
	return ""
}

// verdict is what a check found on a server that breaks one row.
type verdict struct {
	atRest, load     []string // broken rows
	surplus, missing []string // what should not be broken, and what should
	why              string   // why the row is not broken
	err              error    // there is no result
}

// runPlanted checks a server that breaks one row on purpose, for each row that can be
// broken, or each of o.only, and prints a table: this row must be broken, unless there is
// a reason why it cannot, and no other but those that follow from it. With onlyLoad the
// row is broken only while many subscriptions are open, and must be held at rest.
func runPlanted(ctx context.Context, o options, dir string, onlyLoad bool, out, log io.Writer) error {
	a, err := newReal(ctx, dir, log)
	if err != nil {
		return err
	}
	var rows []string
	for _, r := range conform.Rows {
		if breach.Has(r.Name) && (o.only == "all" || slices.Contains(strings.Split(o.only, ","), r.Name)) {
			rows = append(rows, r.Name)
		}
	}
	if len(rows) == 0 {
		return fmt.Errorf("-only %s: no such row; docs/faults.md lists them", o.only)
	}
	found := make([]*verdict, len(rows))
	var mu sync.Mutex // of log
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(o.parallel)
	for i, row := range rows {
		g.Go(func() error {
			v := a.plant(ctx, row, onlyLoad)
			mu.Lock()
			defer mu.Unlock()
			found[i] = v
			fmt.Fprintf(log, "%s: %s\n", row, v)
			return ctx.Err()
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return printPlanted(out, rows, found, o.parallel)
}

// printPlanted prints the table.
func printPlanted(out io.Writer, rows []string, found []*verdict, parallel int) error {
	exact, beyond, wrong := 0, 0, 0
	fmt.Fprintf(
		out,
		"%s, %s/%s, %d processors, %d checks at once, %d subscriptions under load\n\n| row that the server breaks | broken at rest | broken under load | |\n|---|---|---|---|\n",
		time.Now().UTC().Format(time.DateOnly),
		runtime.GOOS,
		runtime.GOARCH,
		runtime.NumCPU(),
		parallel,
		plantedLoad,
	)
	for i, row := range rows {
		v := found[i]
		switch {
		case v.wrong():
			wrong++
		case v.why != "":
			beyond++
		default:
			exact++
		}
		fmt.Fprintf(out, "| `%s` | %s | %s | %s |\n", row, strings.Join(v.atRest, ", "), strings.Join(v.load, ", "), v)
	}
	fmt.Fprintf(out, "\n%d rows are broken as planted, %d cannot be seen broken by such a check, %d are wrong.\n", exact, beyond, wrong)
	if wrong > 0 {
		return fmt.Errorf("%w: %d rows", errGoal, wrong)
	}
	return nil
}

func (v *verdict) wrong() bool { return v.err != nil || len(v.surplus)+len(v.missing) > 0 }

// String says what is wrong, or why the row is not broken; exact is neither.
func (v *verdict) String() string {
	switch {
	case v.err != nil:
		return fmt.Sprintf("**no result**: %v", v.err)
	case v.wrong():
		return fmt.Sprintf("**wrong**: too many %v, missing %v %s", v.surplus, v.missing, v.why)
	case v.why != "":
		return "not broken: " + v.why
	}
	return "exact"
}

// plant checks a server that breaks a row.
func (a *actual) plant(ctx context.Context, row string, onlyLoad bool) *verdict {
	ctx, cancel := context.WithTimeout(ctx, 2*runLimit)
	defer cancel()
	of := occasions[row]
	fault := "break(row=" + row
	if onlyLoad {
		fault += fmt.Sprintf(", above=%d", plantedAbove)
	}
	args := []string{
		"check",
		"--quiet",
		"--format=json",
		"--duration",
		cmp.Or(of.measure, "5s"),
		"--set",
		"target.embedded.faults='" + strings.TrimSuffix(fault+"); "+of.beside, "; ") + "'",
		"--subscriptions",
		fmt.Sprint(plantedLoad),
		"--denied",
		`private.note {"principal": "b"}`,
	}
	for _, set := range of.set {
		args = append(args, "--set", set)
	}
	c := exec.CommandContext(ctx, a.binary, args...)
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	interruptible(c)
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return &verdict{err: err}
	}
	var found results.Check
	if json.Unmarshal(stdout.Bytes(), &found) != nil {
		return &verdict{err: errors.New(strings.TrimSpace(stderr.String()))}
	}
	return judged(row, onlyLoad, &found)
}

// judged holds what a check found to what was planted.
func judged(row string, onlyLoad bool, found *results.Check) *verdict {
	v := &verdict{}
	follows := []string{row}
	for _, f := range breach.Table[breach.Row(row)].Follows {
		follows = append(follows, string(f))
	}
	var of results.CheckRow
	for _, r := range found.Rows {
		if r.AtRest != nil && r.AtRest.Verdict == results.RowBroken {
			v.atRest = append(v.atRest, r.Row)
		}
		if r.UnderLoad != nil && r.UnderLoad.Verdict == results.RowBroken {
			v.load = append(v.load, r.Row)
		}
		if r.Row == row {
			of = r
		}
	}
	for _, r := range slices.Concat(v.atRest, v.load) {
		if !slices.Contains(follows, r) && !slices.Contains(v.surplus, r) {
			v.surplus = append(v.surplus, r)
		}
	}
	if onlyLoad && len(v.atRest) > 0 {
		v.surplus = append(v.surplus, "at rest")
	}
	held := func(r *results.ConformanceRow) bool { return r != nil && r.Verdict == results.RowHeld }
	broken := of.Finding == results.RowBrokenUnderLoad
	if !onlyLoad { // a part may have no occasion
		broken = of.Finding == results.RowBroken && !held(of.AtRest) && !held(of.UnderLoad)
	}
	if broken {
		return v
	}
	if v.why = unplantable(row, onlyLoad); v.why == "" {
		v.missing = []string{row}
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
	return v
}
