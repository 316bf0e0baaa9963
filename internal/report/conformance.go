package report

import (
	"fmt"

	"github.com/eventmeter/eventmeter/internal/conform"
	"github.com/eventmeter/eventmeter/results"
)

// conformanceLine is the verdict of the rows; "" where no lane was judged.
func conformanceLine(r *results.Result) string {
	c := r.Conformance
	if c == nil {
		return ""
	}
	return fmt.Sprintf("%s held, %d broken, %d not seen in this run", plural(c.Held, "row"), c.Broken, c.NotSeen)
}

// conformanceRow is a row as reports show it.
type conformanceRow struct {
	Row, Level, Verdict string
	Requires            string
	// Count is how often it was seen, or broken of how often.
	Count string
	First string // the first message that broke it, or why it was not seen
}

// conformanceRows are the rows with a verdict, all if it is "".
func conformanceRows(r *results.Result, verdict string) (rows []conformanceRow) {
	if r.Conformance == nil {
		return nil
	}
	for i := range r.Conformance.Rows {
		x := &r.Conformance.Rows[i]
		if verdict != "" && x.Verdict != verdict {
			continue
		}
		out := conformanceRow{
			Row:     Clean(x.Row),
			Level:   Clean(x.Level),
			Verdict: Clean(x.Verdict),
			First:   Clean(x.Why),
		}
		if of := conform.Find(x.Row); of != nil {
			out.Requires = of.Requires
		}
		switch {
		case x.Broken > 0:
			out.Count = fmt.Sprintf("%s of %s (%.3g %%)", count(x.Broken), count(x.Seen), 100*x.Share)
		case x.Seen > 0:
			out.Count = count(x.Seen)
		}
		if f := x.First; f != nil {
			out.First = fmt.Sprintf("first by %s %d at %s: %s", Clean(f.Lane), f.Subscription, f.At, Clean(f.Message))
		}
		rows = append(rows, out)
	}
	return rows
}

// text is the row in one line, without its name.
func (c *conformanceRow) text() string {
	s := fmt.Sprintf("%s (%s): %s", c.Requires, c.Level, c.Count)
	if c.First != "" {
		s += ", " + c.First
	}
	return s
}

// conformance says how the rows fared, and names those that are broken.
func (p *printer) conformance(r *results.Result) {
	line := conformanceLine(r)
	if line == "" {
		return
	}
	p.printf("conformance: %s\n", line)
	for _, row := range conformanceRows(r, results.RowBroken) {
		p.beside("BROKEN     ", noteIndent, row.Row+": "+row.text())
	}
	p.printf("\n")
}

// conformanceMarkdown is the same in Markdown.
func (p *printer) conformanceMarkdown(r *results.Result) {
	line := conformanceLine(r)
	if line == "" {
		return
	}
	p.printf("**Conformance:** %s\n\n", Markup(line))
	broken := conformanceRows(r, results.RowBroken)
	if len(broken) == 0 {
		return
	}
	p.printf("| broken row | level | promise | how often | first |\n|---|---|---|--:|---|\n")
	for _, c := range broken {
		p.row(Markup(c.Row), c.Level, Markup(c.Requires), Markup(c.Count), Markup(c.First))
	}
	p.printf("\n")
}
