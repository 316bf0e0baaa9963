package report

import (
	"html"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/eventmeter/eventmeter/results"
)

// lowResult is a run of a lane with deliveries, some below the resolution limit, and of lanes to
// which nothing was owed.
func lowResult(lanes ...string) *results.Result {
	r := &results.Result{
		Upstream:  results.Upstream{Kind: "inject", Accepted: 10, Published: 10},
		Generator: results.Generator{ReadDelay: results.Quantiles{Count: 1, P99: 2e6}},
	}
	for _, name := range lanes {
		l := results.Lane{
			Name:          name,
			System:        "events",
			Mode:          "push",
			Subscriptions: 2,
			Ready:         results.Ready{Active: 2, Time: results.Quantiles{Count: 2, P99: 3e6}},
		}
		if name == "hears" {
			l.Expected, l.Delivered, l.LostSilent = 20, 19, 1
			l.Latency = results.Latency{
				FromIntended:    results.Quantiles{Count: 19, P50: 1e6, P99: 5e6},
				FromSent:        results.Quantiles{Count: 19, P50: 1e6},
				BelowResolution: []string{"fromIntended.p50"},
			}
			l.Overhead.PerDelivered = results.Share{Requests: 0.5, Bytes: 12}
		}
		r.Lanes = append(r.Lanes, l)
	}
	return r
}

// cellsOf are the cells of a table by row and lane. Rows of the same name stand under different
// headings, so their cells are joined.
type cellsOf map[string]map[string]string

func (c cellsOf) add(row, lane, cell string) {
	row = strings.TrimSpace(row)
	if c[row] == nil {
		c[row] = map[string]string{}
	}
	c[row][lane] += "/" + cell
}

func textCells(t *testing.T, r *results.Result) cellsOf {
	out := cellsOf{}
	lines := strings.Split(write(t, func(w io.Writer) error { return Text(w, r) }), "\n")
	lines = lines[3:] // the mode
	for _, line := range lines[2:] {
		if strings.HasPrefix(line, "~") || strings.HasPrefix(line, "verdict") {
			break
		}
		runes := []rune(padRight(line, labelWidth+columnWidth*len(r.Lanes)))
		if strings.TrimSpace(line) == "" {
			continue
		}
		for i, l := range r.Lanes {
			from := labelWidth + columnWidth*i
			out.add(string(runes[:labelWidth]), l.Name, strings.TrimSpace(string(runes[from:from+columnWidth])))
		}
	}
	return out
}

func htmlCells(t *testing.T, r *results.Result) cellsOf {
	out := cellsOf{}
	_, table, _ := strings.Cut(page1(t, Page{Result: r}), `<table class="figures">`)
	table, _, _ = strings.Cut(table, "</table>")
	cell := regexp.MustCompile(`<td class="n[^"]*">([^<]*)</td>`)
	for _, m := range regexp.MustCompile(`(?s)<tr[^>]*><th scope="row"[^>]*>([^<]*)</th>(.*?)</tr>`).FindAllStringSubmatch(table, -1) {
		cells := cell.FindAllStringSubmatch(m[2], -1)
		for i, l := range r.Lanes {
			text := ""
			if cells != nil {
				text = html.UnescapeString(cells[i][1])
			}
			out.add(html.UnescapeString(m[1]), l.Name, text)
		}
	}
	return out
}

func markdownCells(t *testing.T, r *results.Result) cellsOf {
	out := cellsOf{}
	var names []string
	for line := range strings.Lines(write(t, func(w io.Writer) error { return Markdown(w, r) })) {
		if !strings.HasPrefix(line, "|") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|\n"), "|")
		for i := range cells {
			cells[i] = strings.NewReplacer(`\~`, "~", `\!`, "!").Replace(strings.TrimSpace(cells[i]))
		}
		switch {
		case names == nil:
			names = cells
		case strings.HasPrefix(cells[0], "---"):
		default:
			for i, name := range names[1:] {
				out.add(name, cells[0], cells[i+1])
			}
		}
	}
	return out
}

// TestThreeFormsOfOneTable: cells that are empty, marked or left out in the text are so on the page
// and in the summary.
func TestThreeFormsOfOneTable(t *testing.T) {
	for name, tt := range map[string]struct {
		lanes []string
		has   bool // deliveries
	}{
		"one is deaf":   {lanes: []string{"hears", "deaf"}, has: true},
		"all are":       {lanes: []string{"deaf", "mute"}},
		"none is":       {lanes: []string{"hears"}, has: true},
		"deaf and deaf": {lanes: []string{"deaf", "hears", "mute"}, has: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := lowResult(tt.lanes...)
			text, page, summary := textCells(t, r), htmlCells(t, r), markdownCells(t, r)
			if !maps.EqualFunc(text, page, maps.Equal) {
				t.Errorf("text\n%v\npage\n%v", text, page)
			}
			if _, there := text["delivered"]; there != (tt.has) {
				t.Errorf("the row of deliveries: %t, want %t", there, tt.has)
			}
			if cells, there := text["delivered"]; there && slices.Contains(tt.lanes, "deaf") &&
				(cells["deaf"] != "/" || cells["hears"] != "/19") {
				t.Errorf("deliveries: %v", cells)
			}
			short := map[string]string{} // long name by short one
			for _, g := range groups {
				head := ""
				for _, x := range g {
					if x.label[0] != ' ' {
						head = x.label
					}
					if x.short != "" {
						short[x.short] = head + "|" + x.label
					}
				}
			}
			for name, cells := range summary {
				_, label, _ := strings.Cut(short[name], "|")
				for lane, cell := range cells {
					// Several rows have this label: one of them is meant.
					if long := text[strings.TrimSpace(label)][lane]; !slices.Contains(
						strings.Split(long, "/"),
						strings.TrimPrefix(cell, "/"),
					) {
						t.Errorf("summary: %s of %s is %q, the text says %q", name, lane, cell, long)
					}
				}
			}
			if _, there := summary["p50"]; there != (tt.has) {
				t.Errorf("the summary has a column of medians: %t, want %t", there, tt.has)
			}
			if tt.has && summary["p50"]["hears"] != "/~1.00ms" {
				t.Errorf("the summary's median is not marked as below the resolution limit: %v", summary["p50"])
			}
			if slices.Contains(tt.lanes, "deaf") && tt.has &&
				(summary["overhead per event, requests"]["deaf"] != "/" || summary["silent loss"]["deaf"] != "/") {
				t.Errorf("the summary has zeros of a lane that hears nothing: %v", summary)
			}
		})
	}
}

// A latency has its interval beside it, and marks for what speaks against it.
func TestIntervalBesideALatency(t *testing.T) {
	for _, c := range []struct {
		in   results.Interval
		want string
	}{
		{results.Interval{Low: 11_800_000, High: 13_900_000}, "12.3ms (11.8–13.9)"},
		{results.Interval{Low: 812_000, High: 13_900_000}, "12.3ms (812µs–13.9ms)"},
		{results.Interval{Low: 11_800_000, Doubt: results.FewEvents}, "12.3ms (11.8–?)"},
		{results.Interval{Low: 812_000, Doubt: results.FewEvents}, "12.3ms (812µs–?)"},
		{results.Interval{Low: 11_800_000, High: 13_900_000, Doubt: results.Drift}, "12.3ms (11.8–13.9)!"},
		{results.Interval{Low: 11_800_000, Doubt: results.OffSchedule}, "12.3ms (11.8–?)!"},
	} {
		l := results.Lane{Latency: results.Latency{
			FromIntended: results.Quantiles{
				Count: 9,
				P50:   1e6,
				P99:   12_300_000,
			},
			Intervals: map[string]results.Interval{"fromIntended.p99": c.in},
		}}
		if got := latency("fromIntended.p99")(&l); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
		l.Latency.BelowResolution = []string{"fromIntended.p99"}
		if got := latency("fromIntended.p99")(&l); got != "~"+c.want {
			t.Errorf("%q, want ~%q", got, c.want)
		}
		if got := latency("fromIntended.p50")(&l); got != "1.00ms" {
			t.Errorf("without an interval: %q", got)
		}
		if got := latency("fromSent.p99")(&l); got != "–" {
			t.Errorf("without samples: %q", got)
		}
		notes := strings.Join(latencyNotes(&results.Result{Lanes: []results.Lane{l}}), "\n")
		for note, want := range map[string]bool{"95 %": true, "(from–?)": c.in.High == 0,
			"! in doubt": strings.HasSuffix(c.want, "!"), "~ below": true} {
			if strings.Contains(notes, note) != want {
				t.Errorf("%s: the note %q is there: %v\n%s", c.want, note, !want, notes)
			}
		}
	}
}

// Columns are as wide as their cells, and no table is wider than the report.
func TestTablesFitTheWidth(t *testing.T) {
	var r results.Result
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		in := results.Interval{Low: 812_000, High: 13_900_000}
		q := results.Quantiles{Count: 9, P50: 1e6, P90: 2e6, P99: 12_300_000, P999: 14e6}
		r.Lanes = append(
			r.Lanes,
			results.Lane{
				Name:      name,
				Expected:  9,
				Delivered: 9,
				Latency:   results.Latency{FromIntended: q, FromSent: q, Intervals: map[string]results.Interval{"fromIntended.p99": in}},
			},
		)
	}
	var out strings.Builder
	p := &printer{w: &out}
	p.tables(lanesOf(&r))
	if n := strings.Count(out.String(), "12.3ms (812µs–13.9ms)"); n != 5 || strings.Contains(out.String(), "…") {
		t.Errorf("%d intervals\n%s", n, &out)
	}
	for line := range strings.Lines(out.String()) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > width {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}
