package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"sync"

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

// verdict is what a check found on a server that breaks one row.
type verdict struct {
	row              string
	atRest, load     []string // broken rows
	unseen           bool     // the row itself was not seen at all
	surplus, missing []string // what should not be broken, and what should
}

// runPlanted checks a server that breaks one row on purpose, for each row that can be
// broken, or each of o.only: this row must be broken, or not seen, and no other but
// those that follow from it. With onlyLoad the row is broken only while many
// subscriptions are open, and must be held at rest.
func runPlanted(ctx context.Context, o options, dir string, onlyLoad bool, out, log io.Writer) error {
	a, err := newReal(ctx, dir, log)
	if err != nil {
		return err
	}
	rows := make([]string, 0, len(breach.Table))
	for _, r := range conform.Rows {
		if breach.Has(r.Name) {
			rows = append(rows, r.Name)
		}
	}
	if o.only != "all" {
		rows = strings.Split(o.only, ",")
	}
	var mu sync.Mutex // of the counts and of out
	exact, unseen, wrong := 0, 0, 0
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(o.parallel)
	for _, row := range rows {
		g.Go(func() error {
			v, err := a.plant(ctx, row, onlyLoad)
			if err != nil {
				return fmt.Errorf("%s: %w", row, err)
			}
			mu.Lock()
			defer mu.Unlock()
			switch {
			case len(v.surplus)+len(v.missing) > 0:
				wrong++
				fmt.Fprintf(out, "%-44s WRONG: broken at rest %v, under load %v; too many %v, missing %v\n", row, v.atRest, v.load, v.surplus, v.missing)
			case v.unseen:
				unseen++
				fmt.Fprintf(out, "%-44s not seen, and no other row is broken\n", row)
			default:
				exact++
				fmt.Fprintf(out, "%-44s at rest %v, under load %v\n", row, v.atRest, v.load)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d rows broken as planted, %d not seen by a check, %d wrong\n", exact, unseen, wrong)
	if wrong > 0 {
		return fmt.Errorf("%w: %d rows", errGoal, wrong)
	}
	return nil
}

// plant checks a server that breaks a row.
func (a *actual) plant(ctx context.Context, row string, onlyLoad bool) (*verdict, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*runLimit)
	defer cancel()
	fault := "break(row=" + row + ")"
	if onlyLoad {
		fault = fmt.Sprintf("break(row=%s, above=%d)", row, plantedAbove)
	}
	c := exec.CommandContext(ctx, a.binary, "check", "--quiet", "--json", "--measure", "5s", "--set", "target.embedded.faults='"+fault+"'",
		"--subscriptions", fmt.Sprint(plantedLoad), "--denied", `private.note {"principal": "b"}`)
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return nil, err
	}
	var found results.Check
	if err := json.Unmarshal(stdout.Bytes(), &found); err != nil {
		return nil, fmt.Errorf("%w: %s", err, strings.TrimSpace(stderr.String()))
	}
	return judged(row, onlyLoad, &found), nil
}

// judged holds what a check found to what was planted.
func judged(row string, onlyLoad bool, found *results.Check) *verdict {
	v := &verdict{row: row}
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
	seen := func(r *results.ConformanceRow) bool { return r != nil && r.Verdict != results.RowNotSeen }
	v.unseen = !seen(of.AtRest) && !seen(of.UnderLoad)
	switch {
	case onlyLoad && len(v.atRest) > 0:
		v.surplus = append(v.surplus, "at rest")
	case v.unseen, slices.Contains(v.load, row), !onlyLoad && slices.Contains(v.atRest, row):
	default:
		v.missing = []string{row}
	}
	return v
}
