package report

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/eventmeter/eventmeter/results"
)

// Capacity writes a capacity for a terminal: the maximum load, all steps, the scalability law and
// the cost sheet. No line of the tables is wider than 100 columns.
func Capacity(w io.Writer, c *results.Capacity) error {
	p := &printer{w: w}
	p.capacityHead(c)
	p.curve(c)
	p.law(c)
	p.costs(c)
	p.warnings(c.Warnings)
	return p.err
}

func (p *printer) capacityHead(c *results.Capacity) {
	p.printf(
		"capacity of %s, %d steps in %s",
		targetText(&c.Target),
		len(c.Steps),
		results.Nanos(c.Finished.Sub(c.Started)),
	)
	if c.Partial {
		p.printf(" · PARTIAL: %s", Clean(c.Reason))
	}
	p.printf("\nSLO: %s\n\n%s\n", sloText(c.SLO), maximumText(c))
	p.beside("  ", 2, Clean(c.Stopped))
	p.printf("\n")
}

// sloText is the SLO on one line.
func sloText(l results.CapacitySLO) string {
	var out []string
	for _, bound := range l.Bounds() {
		if bound.Value > 0 {
			out = append(out, bound.Label()+" < "+bound.Value.String())
		}
	}
	out = append(
		out,
		fmt.Sprintf("loss <= %.3g %%", 100*l.Loss),
		fmt.Sprintf("backlog growth <= %.3g %% of the offered rate", 100*l.Backlog),
	)
	for _, m := range l.Metrics {
		out = append(out, Clean(m))
	}
	return strings.Join(out, ", ")
}

// maximumText is the maximum load in one or two lines.
func maximumText(c *results.Capacity) string {
	k := c.Maximum
	if k.Load == 0 {
		return "No load met the SLO (" + c.Outcome + ")."
	}
	text := fmt.Sprintf("%s %s", figure(k.Load), c.Unit)
	if c.Outcome != "found" {
		text = "at least " + text + " (" + c.Outcome + ")"
	}
	text += fmt.Sprintf(", interval %s; %d of %d trials passed", interval(k.From, k.To), k.Passed, k.Passed+k.Failed)
	if n := k.AboveFailed + k.AbovePassed; n > 0 {
		text += fmt.Sprintf(", %d of %d at %s did not", k.AboveFailed, n, figure(k.Above))
	}
	return text + fmt.Sprintf(
		"\n%s events/s × %s deliveries per event = %s deliveries/s",
		figure(k.Events),
		figure(k.FanOut),
		figure(k.Deliveries),
	)
}

func interval(from, to float64) string {
	low, high := "open", "open"
	if from > 0 {
		low = figure(from)
	}
	if to > 0 {
		high = figure(to)
	}
	return low + " to " + high
}

// figure writes a number with four significant digits.
func figure(v float64) string {
	if math.Abs(v) >= 1000 {
		return count(int64(math.Round(v)))
	}
	return fmt.Sprintf("%.4g", v)
}

// stepCells is one row of the steps: number, purpose, load, offered and achieved rate, latencies of
// the worst lane (p50 and p99 scheduled → received, p99 published → received), losses, growth of
// the backlog, CPUs and memory of the target, verdict.
func stepCells(s *results.CapacityStep) []string {
	var worst results.CapacityStepLane
	for _, l := range s.Lanes {
		if l.FromIntended.P99 >= worst.FromIntended.P99 {
			worst = l
		}
	}
	cpu, memory := "–", "–"
	if t := s.Target; t != nil {
		cpu, memory = fmt.Sprintf("%.2f", t.CPUShare), bytes(float64(t.Memory))
	}
	purpose, verdict := s.Purpose, s.Verdict
	if s.Lane != "" {
		purpose += " " + s.Lane
	}
	if s.Generator.Bottleneck {
		verdict += " !"
	}
	growth := fmt.Sprintf("%+.1f%%", 100*s.Backlog.Share)
	if s.Offered == 0 {
		growth = "–"
	}
	return []string{
		fmt.Sprint(s.Number),
		purpose,
		figure(s.Load),
		figure(s.Offered),
		figure(s.Achieved),
		quantile(worst.FromIntended, worst.FromIntended.P50),
		quantile(worst.FromIntended, worst.FromIntended.P99),
		quantile(worst.FromSent, worst.FromSent.P99),
		count(s.Lost),
		growth,
		cpu,
		memory,
		verdict,
	}
}

var stepColumns = []struct {
	name  string
	width int
	left  bool
}{
	{"", 3, false},
	{" purpose", 10, true},
	{"load", 7, false},
	{"offered", 8, false},
	{"achieved", 9, false},
	{"p50", 8, false},
	{"p99", 8, false},
	{"p99 sent", 9, false},
	{"lost", 6, false},
	{"backlog", 8, false},
	{"CPUs", 5, false},
	{"memory", 9, false},
	{" verdict", 10, true},
}

func (p *printer) curve(c *results.Capacity) {
	row := func(cells []string) {
		var b strings.Builder
		for i, col := range stepColumns {
			if text := cells[i]; col.left {
				b.WriteString(padRight(" "+shorten(strings.TrimPrefix(text, " "), col.width-1), col.width))
			} else {
				b.WriteString(padLeft(shorten(text, col.width-1), col.width))
			}
		}
		p.printf("%s\n", strings.TrimRight(b.String(), " "))
	}
	names := make([]string, len(stepColumns))
	total := 0
	for i, col := range stepColumns {
		names[i] = col.name
		total += col.width
	}
	row(names)
	p.printf("%s\n", strings.Repeat("─", total))
	busy := false
	for i := range c.Steps {
		row(stepCells(&c.Steps[i]))
		busy = busy || c.Steps[i].Generator.Bottleneck
	}
	p.printf(
		"\nload in %s; offered and achieved in deliveries/s; p50, p99: scheduled → received, worst lane;\n"+
			"p99 sent: published → received; backlog: its growth over the offered rate; CPUs, memory: of the target\n",
		c.Unit,
	)
	if busy {
		p.printf("! the generator was the bottleneck in this step\n")
	}
	p.printf("\n")
}

func (p *printer) law(c *results.Capacity) {
	if c.Law == nil {
		p.printf("Universal Scalability Law: %s\n\n", Clean(c.LawRefused))
		return
	}
	l := c.Law
	p.printf("Universal Scalability Law, N = load / %s\n", figure(l.Unit))
	for _, r := range []struct {
		name string
		v    results.CapacityRange
	}{{"lambda", l.Lambda}, {"sigma", l.Sigma}, {"kappa", l.Kappa}} {
		p.printf("  %s %-10s 95 %% interval %.4g to %.4g\n", padRight(r.name, 8), fmt.Sprintf("%.4g", r.v.Value), r.v.Low, r.v.High)
	}
	if l.Peak != nil {
		p.printf(
			"  %s %-10s 95 %% interval %.4g to %.4g, in %.0f %% of the resamples\n",
			padRight("peak at", 8),
			figure(l.Peak.Value),
			l.Peak.Low,
			l.Peak.High,
			100*l.PeakShare,
		)
	}
	p.printf("  fitted to %s\n", lawFit(l))
	for _, d := range l.Doubts {
		p.printf("  doubt: %s\n", Clean(d))
	}
	p.printf("\n")
}

// lawFit says how well the law describes the steps.
func lawFit(l *results.CapacityLaw) string {
	return fmt.Sprintf(
		"%d steps at %d loads from %s to %s; off by %.1f %% (root mean square), at worst %.1f %%; R² %.3f",
		l.Points,
		l.Loads,
		figure(l.Low),
		figure(l.High),
		100*l.Residual,
		100*l.Worst,
		l.R2,
	)
}

// costRows are the rows of the cost sheet, with a column for each lane.
var costRows = []struct {
	label string
	value func(*results.CapacityCost) string
}{
	{"1,000 idle subscriptions for an hour", noCost},
	{"  CPU", func(c *results.CapacityCost) string { return costCPU(c.Idle) }},
	{"  memory", func(c *results.CapacityCost) string { return costOf(c.Idle.Memory, bytes) }},
	{"  requests", func(c *results.CapacityCost) string { return costOf(c.Idle.Requests, ratio) }},
	{"  bytes", func(c *results.CapacityCost) string { return costOf(c.Idle.Bytes, bytes) }},
	{"the target, for an hour", noCost},
	{"  CPU", func(c *results.CapacityCost) string { return costPart(c.Base, costCPU) }},
	{"  memory", func(c *results.CapacityCost) string {
		return costPart(c.Base, func(o results.CostOf) string { return costOf(o.Memory, bytes) })
	}},
	{"a million events, without deliveries", noCost},
	{"  CPU", func(c *results.CapacityCost) string { return costPart(c.Event, costCPU) }},
	{"a million delivered events", noCost},
	{"  CPU", func(c *results.CapacityCost) string { return costCPU(c.Delivered) }},
	{"  requests", func(c *results.CapacityCost) string { return costOf(c.Delivered.Requests, ratio) }},
	{"  bytes", func(c *results.CapacityCost) string { return costOf(c.Delivered.Bytes, bytes) }},
}

// noCost is the value of a row that is a heading.
func noCost(*results.CapacityCost) string { return "" }

// basisText says what the costs of a lane were measured on.
func basisText(l *results.CapacityCost) string {
	return Clean(strings.Trim(l.Idle.Basis+"; "+l.Delivered.Basis, "; "))
}

func costOf(v *float64, as func(float64) string) string {
	if v == nil {
		return "not measured"
	}
	return as(*v)
}

// costPart is a part of the sheet that may not have been measured.
func costPart(c *results.CostOf, as func(results.CostOf) string) string {
	if c == nil {
		return "not measured"
	}
	return as(*c)
}

func costCPU(c results.CostOf) string {
	if c.CPU == nil && c.Resolution > 0 {
		return "< " + figure(c.Resolution) + " s"
	}
	return costOf(c.CPU, func(v float64) string { return figure(v) + " s" })
}

func (p *printer) costs(c *results.Capacity) {
	if len(c.Costs) == 0 {
		return
	}
	p.printf("%s", padRight("cost to the target", labelWidth+4))
	for _, l := range c.Costs {
		p.printf("%s", padLeft(shorten(l.Lane+" ("+l.Mode+")", 17), 18))
	}
	p.printf("\n%s\n", strings.Repeat("─", labelWidth+4+18*len(c.Costs)))
	for _, r := range costRows {
		var b strings.Builder
		b.WriteString(padRight(r.label, labelWidth+4))
		for i := range c.Costs {
			b.WriteString(padLeft(r.value(&c.Costs[i]), 18))
		}
		p.printf("%s\n", strings.TrimRight(b.String(), " "))
	}
	p.printf("\n")
	for i := range c.Costs {
		l := &c.Costs[i]
		p.printf("%s: %s\n", Clean(l.Lane), basisText(l))
		for _, m := range l.Missing {
			p.beside("  note: ", 4, Clean(m))
		}
	}
	p.printf("\n")
}

// CapacityMarkdown writes a capacity as tables in Markdown. Text from a target is escaped.
func CapacityMarkdown(w io.Writer, c *results.Capacity) error {
	p := &printer{w: w}
	p.printf("### Capacity of %s\n\n**%s**\n\n", Markup(targetText(&c.Target)), Markup(strings.ReplaceAll(maximumText(c), "\n", "; ")))
	if c.Partial {
		p.printf("**Partial:** %s\n\n", Markup(c.Reason))
	}
	p.printf("SLO: %s. %s.\n\n", Markup(sloText(c.SLO)), Markup(strings.TrimSuffix(c.Stopped, ".")))
	p.printf(
		"| # | purpose | load, %s | offered/s | achieved/s | p50 | p99 | p99 published → received | "+
			"lost | backlog | CPUs | memory | verdict |\n"+
			"|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|\n",
		c.Unit,
	)
	for i := range c.Steps {
		cells := stepCells(&c.Steps[i])
		for j := range cells {
			cells[j] = Markup(cells[j])
		}
		p.row(cells...)
	}
	p.printf("\n")
	if len(c.Costs) > 0 {
		head, line := "| cost to the target |", "|---|"
		for _, l := range c.Costs {
			head += " " + Markup(l.Lane+" ("+l.Mode+")") + " |"
			line += "--:|"
		}
		p.printf("%s\n%s\n", head, line)
		for _, r := range costRows {
			cells := []string{strings.TrimSpace(r.label)}
			for i := range c.Costs {
				cells = append(cells, markLess(r.value(&c.Costs[i])))
			}
			p.row(cells...)
		}
		p.printf("\n")
	}
	for _, w := range c.Warnings {
		p.printf("- ⚠️ %s\n", Markup(w.Text))
	}
	return p.err
}
