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
	style, err := asset("uPlot.min.css", "report.css")
	if err != nil {
		return err
	}
	library, err := asset("uPlot.min.js")
	if err != nil {
		return err
	}
	script, err := asset("report.js")
	if err != nil {
		return err
	}
	t, err := template.New("report.html").Funcs(template.FuncMap{"clean": Clean}).ParseFS(page, "page/report.html")
	if err != nil {
		return fmt.Errorf("the page's template: %w", err)
	}
	v := newView(runs)
	v.Style, v.Library, v.Script = template.CSS(style), template.JS(library), template.JS(script)
	v.Policy = fmt.Sprintf("default-src 'none'; base-uri 'none'; form-action 'none'; style-src %s; script-src %s %s", digest(style), digest(library), digest(script))
	var out stdbytes.Buffer // complete or not at all
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
	v := &view{Title: "eventmeter: " + profileName(runs[0].Result), Several: len(runs) > 1, ShardHead: shardHead}
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
	v.Finds = findings(v.Columns, lanes, runs)
	v.Own = ownOf(v.Columns, lanes, runs)
	return v
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
