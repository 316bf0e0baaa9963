package selfbench

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"
)

// Names of the files that Write makes.
const (
	jsonFile = "bench.json"
	pageFile = "README.md"
)

// Write creates a folder and writes the report to it, as JSON and as a Markdown
// page.
func (r *Report) Write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("eventbench: %w", err)
	}
	text, err := r.JSON()
	if err != nil {
		return err
	}
	for name, b := range map[string][]byte{jsonFile: text, pageFile: []byte(r.Page(dir))} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			return fmt.Errorf("eventbench: %w", err)
		}
	}
	return nil
}

// JSON returns the report as indented JSON.
func (r *Report) JSON() ([]byte, error) {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("eventbench: %w", err)
	}
	return append(b, '\n'), nil
}

// Text prints the report as text, a line for each figure.
func (r *Report) Text(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range r.Rows {
		fmt.Fprintf(t, "\n%s\n", row.Title)
		fmt.Fprintf(t, "\tgoal\tbaseline\tpeers\tmeasured\t\n")
		for _, l := range row.Lines {
			fmt.Fprintf(t, "  %s\t%s\t%s\t%s\t%s\t%s\n", l.What, dash(l.Goal), l.baseline(), l.peers(), l.Measured, l.Verdict)
			if l.Note != "" {
				fmt.Fprintf(t, "    %s\n", l.Note)
			}
		}
		for _, p := range row.Curve {
			fmt.Fprintf(t, "  %s\n", p)
		}
		for _, n := range row.notes() {
			fmt.Fprintf(t, "  %s\n", n)
		}
	}
	fmt.Fprintln(t)
	for _, n := range r.Notes {
		fmt.Fprintln(t, n)
	}
	fmt.Fprintf(t, "%s. Took %s.\n", r.Machine, r.Took.Round(time.Second))
	return t.Flush()
}

// notes are the notes of a row, with the reason why it is not complete.
func (row *Row) notes() []string {
	if row.Failed == "" {
		return row.Notes
	}
	return append([]string{"Not complete: " + row.Failed}, row.Notes...)
}

// Page is the report as Markdown, to stand in the folder dir: its link to what
// the lines mean leads from there.
func (r *Report) Page(dir string) string {
	var b strings.Builder
	repeats := fmt.Sprintf("medians of %d (lowest–highest)", r.Repeats)
	if r.Repeats == 1 {
		repeats = "each measured once"
	}
	fmt.Fprintf(&b, "# What eventmeter itself costs\n\n%s. Measured on %s in %s, scale %g, %s.\n",
		r.Machine, r.Began.Format("2006-01-02"), r.Took.Round(time.Second), r.Scale, repeats)
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "%s\n", n)
	}
	fmt.Fprintf(
		&b,
		"\nEach client and each target is a process of its own, and all of them share the processors. %s says what each line means.\n",
		meaningFrom(dir),
	)
	for _, row := range r.Rows {
		fmt.Fprintf(&b, "\n## %s\n\n", row.Title)
		if len(row.Lines) > 0 {
			b.WriteString("| | goal | baseline | peers | measured | |\n|---|---|---|---|---|---|\n")
		}
		for _, l := range row.Lines {
			what := cell(l.What)
			if l.Note != "" {
				what += "<br>" + cell(l.Note)
			}
			fmt.Fprintf(
				&b,
				"| %s | %s | %s | %s | **%s** | %s |\n",
				what,
				cell(dash(l.Goal)),
				cell(l.baseline()),
				cell(l.peers()),
				cell(l.Measured.String()),
				l.Verdict,
			)
		}
		if len(row.Curve) > 0 {
			b.WriteString(
				"\n| client | streams | processes | events/s | KiB per stream | µs per delivery | deliveries | |\n|---|---:|---:|---:|---:|---:|---:|---|\n",
			)
		}
		for _, p := range row.Curve {
			fmt.Fprintf(
				&b,
				"| %s | %s | %d | %s | %s | %s | %s | %s |\n",
				cell(p.Client),
				grouped(int64(p.Streams)),
				p.Processes,
				number(p.Rate),
				number(p.Memory),
				number(p.CPU),
				grouped(p.Delivered),
				p.loss(),
			)
		}
		for _, n := range row.notes() {
			fmt.Fprintf(&b, "\n%s\n", n)
		}
	}
	return b.String()
}

// meanings is the page that defines the lines, relative to the top of the
// checkout.
const meanings = "docs/benchmarks.md"

// meaningFrom names that page: as a link if the folder is in a checkout.
func meaningFrom(dir string) string {
	top, err := filepath.Abs(dir)
	for up := ""; err == nil; up += "../" {
		if _, missing := os.Stat(filepath.Join(top, filepath.FromSlash(meanings))); missing == nil {
			return "[" + meanings + "](" + up + meanings + ")"
		}
		above := filepath.Dir(top)
		if above == top {
			break
		}
		top = above
	}
	return "eventmeter's " + meanings
}

func (l *Line) baseline() string {
	if l.Baseline == nil {
		return "–"
	}
	return l.Baseline.String()
}

func (l *Line) peers() string {
	if len(l.Peers) == 0 {
		return "–"
	}
	var all []string
	for _, p := range l.Peers {
		all = append(all, p.Name+" "+p.Value.String())
	}
	return strings.Join(all, "; ")
}

func (p Point) loss() string {
	if p.Complete {
		return "nothing lost"
	}
	return "**not complete**"
}

// String is the point as one line.
func (p Point) String() string {
	return fmt.Sprintf("%s: %s streams, %d process(es), %s events/s: %s KiB per stream, %s µs per delivery, %s",
		p.Client, grouped(int64(p.Streams)), p.Processes, number(p.Rate), number(p.Memory), number(p.CPU), strings.Trim(p.loss(), "*"))
}

// String is the machine as one line.
func (m Machine) String() string {
	parts := []string{fmt.Sprintf("%s/%s", m.OS, m.Arch)}
	if m.Kernel != "" {
		parts[0] += " " + m.Kernel
	}
	parts = append(parts, fmt.Sprintf("%d processors", m.CPUs))
	if m.CPU != "" {
		parts[1] += " (" + m.CPU + ")"
	}
	if m.Memory > 0 {
		parts = append(parts, fmt.Sprintf("%.1f GiB of memory, %.1f available", float64(m.Memory)/(1<<30), float64(m.Free)/(1<<30)))
	}
	if m.Files > 0 {
		parts = append(parts, grouped(int64(m.Files))+" files a process")
	}
	parts = append(parts, m.Go)
	if m.Commit != "" {
		parts = append(parts, "commit "+m.Commit)
	}
	return strings.Join(parts, ", ")
}

func dash(s string) string {
	if s == "" {
		return "–"
	}
	return s
}

func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
