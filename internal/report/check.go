package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/eventmeter/eventmeter/internal/conform"
	"github.com/eventmeter/eventmeter/results"
)

// checkColumns are the widths of the columns of a check's table: the row, the level,
// at rest.
var checkColumns = [...]int{40, 8, 24}

// Check writes a check as text: first what was held at rest and broken under load, then
// what was broken, then how many rows were held, and why the others were not seen.
func Check(w io.Writer, c *results.Check) error {
	p := &printer{w: w}
	p.printf("check of %s: %s\n", targetText(&c.Target), Clean(c.Event))
	for _, s := range c.Stages {
		p.beside(fmt.Sprintf("  %-10s ", s.Name), 13, stageText(s))
	}
	p.printf("\n%s\n", CheckLine(c))
	p.checkTable("held at rest, broken under load", c, results.RowBrokenUnderLoad)
	p.checkTable("broken", c, results.RowBroken)
	p.checkUnseen(c)
	return p.err
}

// CheckLine is the sum of a check.
func CheckLine(c *results.Check) string {
	return fmt.Sprintf(
		"%s held, %d broken, of these %d under load alone, %d not seen",
		plural(c.Held, "row"),
		c.Broken+c.UnderLoad,
		c.UnderLoad,
		c.NotSeen,
	)
}

func stageText(s results.CheckStage) string {
	text := fmt.Sprintf(
		"%s, %s events/s, %s received, all steps %s",
		plural(s.Subscriptions, "subscription"),
		figure(s.Rate),
		plural(s.Delivered, "event"),
		plural(s.Rounds, "time"),
	)
	if len(s.Bottleneck) > 0 {
		text += "; the generator was the bottleneck: " + Clean(strings.Join(s.Bottleneck, "; "))
	}
	if s.Ended != "" {
		text += "; ENDED EARLY: " + Clean(s.Ended)
	}
	return text
}

// checkTable writes the rows with a finding.
func (p *printer) checkTable(head string, c *results.Check, finding string) {
	first := true
	for i := range c.Rows {
		row := &c.Rows[i]
		if row.Finding != finding {
			continue
		}
		if first {
			p.printf("\n%s:\n", head)
			p.checkRow("row", "level", results.CheckStages[0], results.CheckStages[1])
			first = false
		}
		p.checkRow(row.Row, row.Level, verdictText(row.AtRest), verdictText(row.UnderLoad))
		for _, of := range []*results.ConformanceRow{row.AtRest, row.UnderLoad} {
			if of != nil && of.First != nil {
				p.beside("  "+requirement(row.Row)+": ", 4, exampleText(of.First))
				break
			}
		}
	}
}

func (p *printer) checkRow(cells ...string) {
	text := ""
	for i, cell := range cells {
		if i < len(checkColumns) {
			cell = padRight(cell, checkColumns[i])
		}
		text += cell + " "
	}
	p.printf("  %s\n", text[:len(text)-1])
}

// verdictText is a row's verdict in a stage, with counts where it is broken.
func verdictText(r *results.ConformanceRow) string {
	switch {
	case r == nil:
		return "-"
	case r.Verdict == results.RowBroken:
		return fmt.Sprintf("broken, %s of %s", count(r.Broken), count(r.Seen))
	}
	return r.Verdict
}

func requirement(row string) string {
	if of := conform.Find(row); of != nil {
		return of.Requires
	}
	return Clean(row)
}

func exampleText(x *results.ConformanceExample) string {
	return Clean(x.Lane) + " at " + x.At.String() + ": " + Clean(x.Message)
}

// checkUnseen writes why rows were not seen, each reason once.
func (p *printer) checkUnseen(c *results.Check) {
	by := map[string][]string{}
	for i := range c.Rows {
		row := &c.Rows[i]
		of := row.AtRest
		if of == nil {
			of = row.UnderLoad
		}
		if row.Finding == results.RowNotSeen && of != nil {
			by[of.Why] = append(by[of.Why], row.Row)
		}
	}
	if len(by) == 0 {
		return
	}
	p.printf("\nnot seen:\n")
	for _, why := range slices.Sorted(maps.Keys(by)) {
		text := ""
		for i, row := range by[why] {
			if i > 0 {
				text += ", "
			}
			text += Clean(row)
		}
		p.beside("  "+Clean(why)+": ", 4, text)
	}
}

// CheckJUnit writes a check as a JUnit report: a test case for each row that was seen,
// of the class of its stage, and one for each stage, which fails if it ended early.
func CheckJUnit(w io.Writer, c *results.Check) error {
	took := c.Finished.Sub(c.Started)
	suite := newSuite("eventmeter check", c.Started, took,
		junitProperty{"version", c.Version}, junitProperty{"target", c.Target.URL}, junitProperty{"event", c.Event})
	for _, s := range c.Stages {
		whole := junitCase{Class: "eventmeter.check", Name: s.Name}
		switch {
		case s.Ended != "":
			whole.Error = problem("partial", Clean(s.Ended))
		case len(s.Bottleneck) > 0:
			whole.Error = problem("bottleneck", Clean(strings.Join(s.Bottleneck, "; ")))
		}
		suite.Cases = append(suite.Cases, whole)
	}
	for i := range c.Rows {
		for j, of := range []*results.ConformanceRow{c.Rows[i].AtRest, c.Rows[i].UnderLoad} {
			if of == nil || of.Verdict == results.RowNotSeen {
				continue // a CI system counts a skipped test as good
			}
			tested := junitCase{Class: "eventmeter.check." + results.CheckStages[j], Name: Clean(of.Row)}
			if of.Verdict == results.RowBroken {
				text := requirement(of.Row) + ": " + verdictText(of)
				if of.First != nil {
					text += "; first: " + exampleText(of.First)
				}
				tested.Failure = problem("conformance", text)
			}
			suite.Cases = append(suite.Cases, tested)
		}
	}
	return writeJUnit(w, took, suite)
}
