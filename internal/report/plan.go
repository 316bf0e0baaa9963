package report

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/eventmeter/eventmeter/internal/plan"
)

// planRow is a row of the table of a plan.
type planRow struct {
	label string
	cell  func(plan.Need) string
}

var planRows = []planRow{
	{"pods", podsCell},
	{"  bound by", func(n plan.Need) string { return dash(n.Binds) }},
	{"CPU of all pods, cores", func(n plan.Need) string { return rangePointer(n.CPU, cores) }},
	{"  of each pod", func(n plan.Need) string { return rangePointer(n.PodCPU, cores) }},
	{"memory of all pods", func(n plan.Need) string { return rangePointer(n.Memory, bytes) }},
	{"  of each pod", func(n plan.Need) string { return rangePointer(n.PodMemory, bytes) }},
	{"connections", func(n plan.Need) string { return figure(n.Connections.Value) }},
	{"requests/s", func(n plan.Need) string { return figure(n.Requests.Value) }},
	{"bytes/s from subscribers", func(n plan.Need) string { return rangeOf(n.In, bytes) }},
	{"bytes/s to subscribers", func(n plan.Need) string { return rangeOf(n.Out, bytes) }},
	{"load generator: CPU, cores", func(n plan.Need) string { return rangeOf(n.GeneratorCPU, cores) }},
	{"load generator: memory", func(n plan.Need) string { return rangeOf(n.GeneratorMemory, bytes) }},
}

func cores(v float64) string { return fmt.Sprintf("%.3g", v) }

func dash(s string) string {
	if s == "" {
		return "–"
	}
	return s
}

func rangeOf(r plan.Range, as func(float64) string) string {
	return fmt.Sprintf("%s (%s to %s)", as(r.Value), as(r.Low), as(r.High))
}

func rangePointer(r *plan.Range, as func(float64) string) string {
	if r == nil {
		return "not measured"
	}
	return rangeOf(*r, as)
}

func podsCell(n plan.Need) string {
	if n.Never {
		return "none suffices"
	}
	if n.AtMost && n.Pods.High > 0 {
		return "at most " + figure(n.Pods.High)
	}
	if n.Pods.High == 0 {
		return fmt.Sprintf("%s (%s to open)", figure(n.Pods.Value), figure(n.Pods.Low))
	}
	return rangeOf(n.Pods, figure)
}

// workloadText is a workload on one line.
func workloadText(w plan.Workload) string {
	out := []string{
		fmt.Sprintf("%s subscribers", figure(w.Subscribers)),
		fmt.Sprintf("%s events/s × %s deliveries per event = %s deliveries/s", figure(w.Rate), figure(w.FanOut), figure(w.Rate*w.FanOut)),
	}
	ttl := "no expiry"
	if w.TTL > 0 {
		ttl = "TTL " + short(w.TTL)
	}
	out = append(out, ttl)
	if w.PollEvery > 0 {
		out = append(out, "a poll every "+short(w.PollEvery))
	}
	return strings.Join(out, ", ")
}

func podText(w plan.Workload) string {
	var of []string
	if w.Pod.CPU > 0 {
		of = append(of, "CPU "+cores(w.Pod.CPU))
	}
	if w.Pod.Memory > 0 {
		of = append(of, bytes(w.Pod.Memory))
	}
	if w.Pod.Connections > 0 {
		of = append(of, figure(w.Pod.Connections)+" connections")
	}
	return fmt.Sprintf("pods of %s, of which %.0f %% stays free", strings.Join(of, ", "), 100*w.Headroom)
}

func short(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}

// cheapestText names the cheapest mode; clean makes the name of a lane safe.
func cheapestText(p plan.Plan, clean func(string) string) string {
	if p.Cheapest == "" {
		return "Cheapest mode: not decided, because " + p.Why + "."
	}
	return "Cheapest mode: " + clean(p.Cheapest) + ", because " + p.Why + "."
}

const planHead = "value (95 % interval)"

// Plan writes a plan for a terminal.
func Plan(w io.Writer, p plan.Plan) error {
	out := &printer{w: w}
	out.printf("%s\n%s\n\n", workloadText(p.Workload), podText(p.Workload))
	table := [][]string{{planHead}}
	for _, n := range p.Needs {
		table[0] = append(table[0], Clean(n.Lane+" ("+n.Mode+")"))
	}
	for _, r := range planRows {
		row := []string{r.label}
		for _, n := range p.Needs {
			row = append(row, r.cell(n))
		}
		table = append(table, row)
	}
	out.grid(table)
	out.printf("\n%s\n", cheapestText(p, Clean))
	for _, n := range p.Needs {
		for _, text := range n.Warnings {
			label := "warning " + Clean(n.Lane) + ": "
			out.beside(label, utf8.RuneCountInString(label), Clean(text))
		}
	}
	return out.err
}

// grid writes a table whose first row is a head, and whose first column is on the
// left.
func (p *printer) grid(table [][]string) {
	widths := make([]int, len(table[0]))
	for _, row := range table {
		for i, cell := range row {
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	for i, row := range table {
		var b strings.Builder
		total := 0
		for j, cell := range row {
			if j == 0 {
				b.WriteString(padRight(cell, widths[0]))
			} else {
				b.WriteString(padLeft(cell, widths[j]+2))
			}
			total += widths[j] + 2
		}
		p.printf("%s\n", strings.TrimRight(b.String(), " "))
		if i == 0 {
			p.printf("%s\n", strings.Repeat("─", total-2))
		}
	}
}

// PlanMarkdown writes a plan as Markdown.
func PlanMarkdown(w io.Writer, p plan.Plan) error {
	out := &printer{w: w}
	out.printf("### Plan\n\n%s; %s.\n\n", workloadText(p.Workload), podText(p.Workload))
	head, line := []string{planHead}, "|---|"
	for _, n := range p.Needs {
		head = append(head, Markup(n.Lane+" ("+n.Mode+")"))
		line += "--:|"
	}
	out.row(head...)
	out.printf("%s\n", line)
	for _, r := range planRows {
		row := []string{strings.TrimSpace(r.label)}
		for _, n := range p.Needs {
			row = append(row, r.cell(n))
		}
		out.row(row...)
	}
	out.printf("\n%s\n\n", cheapestText(p, Markup))
	for _, n := range p.Needs {
		for _, text := range n.Warnings {
			out.printf("- ⚠️ %s: %s\n", Markup(n.Lane), Markup(text))
		}
	}
	return out.err
}

// PlanTable writes plans for a range of one value of the workload, which is named and
// written by value: a row for each plan and mode.
func PlanTable(w io.Writer, name string, value func(plan.Workload) string, plans []plan.Plan, markdown bool) error {
	out := &printer{w: w}
	head := []string{name, "mode", "pods", "bound by", "CPU, cores", "memory", "bytes/s out"}
	table := [][]string{head}
	lane := Clean
	if markdown {
		lane = Markup
	}
	far := map[string]bool{}
	for _, p := range plans {
		for _, n := range p.Needs {
			table = append(
				table,
				[]string{
					value(p.Workload),
					lane(n.Lane),
					podsCell(n),
					dash(n.Binds),
					rangePointer(n.CPU, cores),
					rangePointer(n.Memory, bytes),
					rangeOf(n.Out, bytes),
				},
			)
			for _, text := range n.Warnings {
				far[n.Lane+": "+text] = true
			}
		}
	}
	if markdown {
		out.row(head...)
		out.printf("|%s\n", strings.Repeat("--:|", len(head)))
		for _, row := range table[1:] {
			out.row(row...)
		}
	} else {
		out.printf("%s, %s\n\n", podText(plans[0].Workload), planHead)
		out.grid(table)
	}
	if len(far) > 0 {
		out.printf("\nThere are warnings; plan one value alone to read them.\n")
	}
	return out.err
}
