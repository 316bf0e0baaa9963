package report

import (
	"io"
	"slices"
	"strings"

	"github.com/eventmeter/eventmeter/internal/stats"
	"github.com/eventmeter/eventmeter/results"
)

// CompareMarkdown writes a comparison as a comment for a pull request: changes first, then every
// figure, folded. Text from a target is escaped.
func CompareMarkdown(w io.Writer, c *stats.Comparison) error {
	p := &printer{w: w}
	p.printf("### eventmeter comparison\n\n**A** %s  \n**B** %s\n\n", Markup(sideText(c.A)), Markup(sideText(c.B)))
	for _, w := range c.Warnings {
		p.printf("⚠️ %s  \n", Markup(warningText(w)))
	}
	v := newComparisonView(c)
	p.printf("**%s:** %s\n\n", Markup(strings.ToUpper(v.Word[:1])+v.Word[1:]), Markup(v.Verdict))
	for _, g := range v.Gates {
		p.printf("**Gate** %s  \n", Markup(g.Text))
	}
	if c.Gates != nil {
		p.printf("\n")
	}
	changed := 0
	for _, finding := range []stats.Finding{stats.Worse, stats.Better} {
		row := func(lane string, f *stats.Change) {
			if f.Finding == finding {
				changed += p.changedRow(lane, f, changed == 0)
			}
		}
		for i := range c.Lanes {
			for k := range c.Lanes[i].Figures {
				row(c.Lanes[i].Name, &c.Lanes[i].Figures[k])
			}
		}
		for k := range c.Run {
			row("whole run", &c.Run[k])
		}
	}
	if changed == 0 {
		p.printf("No figure differs.\n")
	}
	p.printf("\n<details><summary>All figures</summary>\n\n")
	for i := range c.Lanes {
		p.changeTable(laneTitle(&c.Lanes[i]), c.Lanes[i].Figures)
	}
	if len(c.Run) > 0 {
		p.changeTable("whole run", c.Run)
	}
	p.shownTable(c.Upstream)
	p.printf("</details>\n\n")
	for _, note := range compareNotes(c) {
		p.printf("%s  \n", Markup(note))
	}
	return p.err
}

func (p *printer) changedRow(lane string, c *stats.Change, first bool) int {
	if !c.Changed() {
		return 0
	}
	if first {
		p.printf("| | lane | figure | A | B | change | 95 %% interval | p |\n|---|---|---|--:|--:|--:|--:|--:|\n")
	}
	mark := "🟢 better"
	if c.Finding == stats.Worse {
		mark = "🔴 **worse**"
	}
	t := changeTexts(c)
	p.row(mark, Markup(lane), Markup(figureLabel(c)), t.a, t.b, t.effect, t.bounds, markLess(t.p))
	return 1
}

func (p *printer) changeTable(title string, figures []stats.Change) {
	p.printf("**%s**\n\n| figure | A | B | change | 95 %% interval | p | |\n|---|--:|--:|--:|--:|--:|---|\n", Markup(title))
	for i := range figures {
		c := &figures[i]
		t := changeTexts(c)
		p.row(Markup(figureLabel(c)), t.a, t.b, markTilde(t.effect), t.bounds, markLess(t.p), string(c.Finding))
	}
	p.printf("\n")
}

func markLess(s string) string { return strings.ReplaceAll(s, "<", "&lt;") }

func markTilde(s string) string { return strings.ReplaceAll(s, "~", `\~`) }

func (p *printer) row(cells ...string) { p.printf("| %s |\n", strings.Join(cells, " | ")) }

// Markdown writes a summary of a result for a job's summary page or a comment: the figures of the
// lanes, thresholds and warnings. Text from a target is escaped.
func Markdown(w io.Writer, r *results.Result) error {
	p := &printer{w: w}
	p.printf(
		"### eventmeter: %s\n\n%s published by %s from %s in %s.\n\n",
		Markup(whereText(r)),
		plural(r.Upstream.Published, "event"),
		Markup(r.Upstream.Kind),
		plural(r.Upstream.Sources, "source"),
		r.Took(),
	)
	for i := range r.Until {
		p.printf("%s.\n\n", Markup(r.Until[i].String()))
	}
	if r.Partial {
		p.printf("**Partial:** %s\n\n", Markup(r.Reason))
	}
	for _, reason := range r.Generator.Reasons {
		if r.Generator.Bottleneck {
			p.printf("**The generator was the bottleneck:** %s\n\n", Markup(reason))
		}
	}
	if r.Part != nil {
		p.printf("Shard %d of %d: thresholds are judged on the merged run.\n\n", r.Part.Index, r.Part.Count)
	}
	j := judge(r)
	p.printf("**%s:** %s\n\n", Markup(strings.ToUpper(j.word[:1])+j.word[1:]), Markup(j.text))
	for _, u := range j.unclean {
		p.printf("- **%s**&#58; %s\n", Markup(u.Label), Markup(u.Lanes))
	}
	if len(j.unclean) > 0 {
		p.printf("\n")
	}
	for _, s := range settingLines(r) {
		p.printf("%s.\n\n", Markup(s))
	}
	p.laneTable(r)
	p.upstreamTable(&r.Upstream)
	if len(r.Thresholds) > 0 {
		p.printf("| | threshold | lane | measured |\n|---|---|---|--:|\n")
		for i := range r.Thresholds {
			v := &r.Thresholds[i]
			p.row(
				map[string]string{wordHeld: "✅", wordFailed: "❌", wordNotEvaluated: "⚠️ not evaluated"}[verdictWord(v)],
				Markup(v.Threshold),
				Markup(v.Lane),
				Markup(v.Text),
			)
		}
		p.printf("\n")
	}
	p.conformanceMarkdown(r)
	for _, row := range leakRows(r) {
		p.printf("- target, %s: %s\n", row[0], Markup(row[1]))
	}
	for _, w := range r.Warnings {
		p.printf("- ⚠️ %s\n", Markup(warningText(w)))
	}
	return p.err
}

// laneTable has a row for each lane and a column for each figure.
func (p *printer) laneTable(r *results.Result) {
	lanes := lanesOf(r)
	var columns []row
	names := []string{"lane"}
	for _, x := range slices.Concat(rowsOf(lanes)...) {
		switch {
		case x.short != "":
			columns, names = append(columns, x), append(names, x.short)
		case slices.ContainsFunc(lanes, x.unclean):
			columns, names = append(columns, x), append(names, x.label)
		}
	}
	p.row(names...)
	p.printf("|---|---%s|\n", strings.Repeat("|--:", max(0, len(columns)-1)))
	for _, l := range lanes {
		cells := []string{Markup(l.lane.Name)}
		for _, c := range columns {
			cells = append(cells, Markup(c.cell(l)))
		}
		p.row(cells...)
	}
	p.printf("\n")
	for _, text := range latencyNotes(r) {
		p.printf("%s\n\n", Markup(text))
	}
}

// Markup escapes text from a target for Markdown, inside and outside of table cells, so that it
// contains no markup, HTML, link or mention.
func Markup(s string) string {
	var b strings.Builder
	for _, c := range Clean(s) {
		switch {
		case c == '@':
			// A mention would notify a user; this space has no width.
			b.WriteString("@\u200b")
		case c == '<':
			b.WriteString("&lt;")
		case c == '>':
			b.WriteString("&gt;")
		case c == '&':
			b.WriteString("&amp;")
		case c == ':':
			// Addresses become links everywhere.
			b.WriteString("&#58;")
		case strings.ContainsRune("\\`*_{}[]()#+!|~$^", c):
			b.WriteByte('\\')
			b.WriteRune(c)
		default:
			b.WriteRune(c)
		}
	}
	return b.String()
}
