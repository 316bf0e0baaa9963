package report

import (
	stdbytes "bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"slices"
	"time"

	"github.com/eventmeter/eventmeter/results"
)

//go:embed page
var page embed.FS

// HTML writes a single file that shows one run, or several overlaid. The file makes no network
// requests, and its content security policy forbids them. Figures come from the results; only the
// curves are read from the logs.
func HTML(w io.Writer, runs []Page) error {
	if len(runs) == 0 {
		return fmt.Errorf("an HTML report needs at least one run")
	}
	v := newView(runs)
	return writePage(w, "report.html", v, &v.shell, true)
}

// shell is what every page has.
type shell struct {
	Title  string
	Policy string
	Style  template.CSS
	// Library and Script are empty in pages whose charts need no script.
	Library, Script template.JS
}

// writePage writes a page from its template, complete or not at all. s is the shell of the view v.
func writePage(w io.Writer, name string, v any, s *shell, scripts bool) error {
	style, err := asset("uPlot.min.css", "report.css")
	if err != nil {
		return err
	}
	s.Style = template.CSS(style)
	s.Policy = "default-src 'none'; base-uri 'none'; form-action 'none'; style-src " + digest(style)
	if scripts {
		library, err := asset("uPlot.min.js")
		if err != nil {
			return err
		}
		script, err := asset("report.js")
		if err != nil {
			return err
		}
		s.Library, s.Script = template.JS(library), template.JS(script)
		s.Policy += fmt.Sprintf("; script-src %s %s", digest(library), digest(script))
	}
	t, err := template.New(name).
		Funcs(template.FuncMap{"clean": Clean, "mark": mark, "outline": outline, "right": right}).
		ParseFS(page, "page/"+name, "page/parts.html")
	if err != nil {
		return fmt.Errorf("the page's template: %w", err)
	}
	var out stdbytes.Buffer
	if err := t.Execute(&out, v); err != nil {
		return fmt.Errorf("the page: %w", err)
	}
	_, err = w.Write(out.Bytes())
	return err
}

// asset concatenates files of the page.
func asset(names ...string) (string, error) {
	var all []byte
	for _, n := range names {
		b, err := page.ReadFile("page/" + n)
		if err != nil {
			return "", fmt.Errorf("the page's parts: %w", err)
		}
		all = append(all, b...)
	}
	return string(stdbytes.ReplaceAll(all, []byte("\r\n"), []byte("\n"))), nil
}

// digest is the hash by which a policy allows one script or style.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

func newView(runs []Page) *view {
	v := &view{shell: shell{Title: titleOf(runs[0].Result)}, Several: len(runs) > 1, ShardHead: shardHead, Percentiles: percentileNames()}
	if v.Several {
		var names []string
		for i := range runs {
			names = append(names, Clean(runs[i].Name))
		}
		v.Title = "eventmeter: " + listed(names)
	}
	of := huesOf(runs)
	columns := make([][]column, len(runs))
	for i := range runs {
		p := &runs[i]
		v.Runs = append(v.Runs, newRunView(p))
		for j := range p.Result.Lanes {
			l := &p.Result.Lanes[j]
			c := column{Lane: Clean(l.Name), Mode: Clean(l.Mode), Hue: of[l.Name], run: i, place: j}
			if v.Several {
				c.Run = Clean(p.Name)
			}
			columns[i] = append(columns[i], c)
		}
	}
	v.Data.Shapes = shapes[:]
	v.Data.Runs = make([]runData, len(runs))
	for i := range runs {
		p := &runs[i]
		v.addCharts(p, i, columns[i])
		v.Meaning = append(v.Meaning, meaning(p, v.Several)...)
		name := ""
		if v.Several {
			name = Clean(p.Name) + ": "
		}
		if text := lead(p); text != "" {
			v.Leads = append(v.Leads, name+text)
		}
		for _, text := range latencyNotes(p.Result) {
			v.Notes = append(v.Notes, name+text)
		}
	}
	v.Columns = slices.Concat(columns...)
	if v.Several {
		v.Columns = laneByLane(v.Columns)
	}
	var lanes []laneOf
	for _, c := range v.Columns {
		r := runs[c.run].Result
		lanes = append(lanes, laneOf{&r.Upstream, &r.Lanes[c.place]})
	}
	v.Groups = tableRows(lanes)
	v.Costs = costs(v.Columns, lanes)
	v.Anomalies = anomaliesOf(v.Columns, lanes, runs)
	v.Tiles = tilesOf(v.Columns, lanes, runs)
	v.Strips = stripsOf(v.Columns, runs)
	v.Own = ownOf(v.Columns, lanes, runs)
	return v
}

// titleOf names a run: by the name that a person gave it, its profile, and when it began.
func titleOf(r *results.Result) string {
	title := profileName(r)
	if name := Clean(r.Name); name != "" {
		title = name + " (" + title + ")"
	}
	return dated(title, r.Started)
}

// dated is the title of a page about what began at a time.
func dated(what string, began time.Time) string {
	return what + ", " + began.UTC().Format("2 January 2006 15:04 UTC") + " · eventmeter"
}

// laneByLane places lanes of the same name side by side: each lane of all runs, in the order of
// first appearance.
func laneByLane(columns []column) []column {
	var names []string
	for _, c := range columns {
		if !slices.Contains(names, c.Lane) {
			names = append(names, c.Lane)
		}
	}
	out := slices.Clone(columns)
	slices.SortStableFunc(out, func(a, b column) int { return slices.Index(names, a.Lane) - slices.Index(names, b.Lane) })
	return out
}

// tableRows are the rows of the text report, so that both reports agree.
func tableRows(lanes []laneOf) [][]tableRow {
	var out [][]tableRow
	for _, g := range rowsOf(lanes) {
		var rows []tableRow
		for _, r := range g {
			row := tableRow{Label: r.label, Indent: r.label[0] == ' ', Head: r.headline(), Span: len(lanes) + 1}
			for _, l := range lanes {
				row.Cells = append(row.Cells, tableCell{Clean(r.cell(l)), r.class(l)})
			}
			rows = append(rows, row)
		}
		out = append(out, rows)
	}
	return out
}
