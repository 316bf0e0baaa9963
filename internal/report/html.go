package report

import (
	stdbytes "bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"

	"github.com/mcpload/mcpload/results"
)

// Page is one run of an HTML report.
type Page struct {
	// Name tells the runs of one report apart. It may be empty where there is
	// one run.
	Name   string
	Result *results.Result
	// Logs are the interval histograms by lane. A lane without one has no
	// curves.
	Logs map[string]*results.Log
	// Timelines are what happened when, by lane; a lane without one is not
	// drawn over time.
	Timelines map[string]results.Timeline
	// Profile is the profile as it can be run again, in YAML; empty = the form
	// that the result holds.
	Profile string
}

//go:embed page
var page embed.FS

// HTML writes one file that shows one run, or several laid over each other: it
// asks nothing of any network, and its policy forbids it to. Figures are those
// of the results; only the curves are read from the logs.
func HTML(w io.Writer, runs []Page) error {
	if len(runs) == 0 {
		return fmt.Errorf("an HTML report needs a run")
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
	var out stdbytes.Buffer // whole or not at all
	if err := t.Execute(&out, v); err != nil {
		return fmt.Errorf("the page: %w", err)
	}
	_, err = w.Write(out.Bytes())
	return err
}

// asset joins files of the page.
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

// digest is how a policy names the one script or style that it lets through.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// view is what the template shows.
type view struct {
	Title   string
	Policy  string
	Style   template.CSS
	Library template.JS
	Script  template.JS
	Runs    []runView
	Several bool
	Columns []column
	Groups  [][]tableRow
	Meaning []string
	Curves  []curveRow
	Times   []timeTable
	Quiet   string // said in place of the chart of incidents, when there were none
	Costs   []bars
	Finds   []finding
	Own     []ownFigures
	Data    chartData
}

// column is a lane of a run.
type column struct {
	Run, Lane, Mode string
	Hue             int
}

type tableRow struct {
	Label  string
	Indent bool
	Head   bool
	Cells  []string
	Span   int // columns of the table
}

// runView is what is said of one run as a whole.
type runView struct {
	Name       string
	Result     *results.Result
	Where      string
	Started    string
	Took       string
	Fired      string
	Word       string // the verdict in a word: pass, fail, doubtful, partial, or part of a shard
	Verdict    string
	Thresholds []results.Verdict
	Health     [][2]string
	Profile    string
	Repeat     string
}

// Label names a column in a line of text.
func (c column) Label() string {
	if c.Run == "" {
		return c.Lane
	}
	return c.Run + " · " + c.Lane
}

func newView(runs []Page) *view {
	v := &view{Title: "mcpload", Several: len(runs) > 1}
	var lanes []*results.Lane
	for i := range runs {
		p := &runs[i]
		v.Runs = append(v.Runs, newRunView(p))
		for j := range p.Result.Lanes {
			l := &p.Result.Lanes[j]
			lanes = append(lanes, l)
			c := column{Lane: Clean(l.Name), Mode: Clean(l.Mode), Hue: hue(v.Columns, l.Name)}
			if v.Several {
				c.Run = Clean(p.Name)
			}
			v.Columns = append(v.Columns, c)
		}
		if i == 0 {
			v.Title = "mcpload: " + profileName(p.Result)
		}
	}
	v.Groups = tableRows(lanes)
	for i := range runs {
		v.Meaning = append(v.Meaning, meaning(&runs[i], v.Several)...)
	}
	v.Data.Runs = make([]runData, len(runs))
	at := 0
	for i := range runs {
		n := len(runs[i].Result.Lanes)
		v.addCharts(&runs[i], i, v.Columns[at:at+n])
		at += n
	}
	v.Costs = costs(v.Columns, lanes)
	v.Finds = findings(v.Columns, lanes)
	v.Own = ownOf(v.Columns, lanes)
	return v
}

// hues is how many colours the page's style has; beyond that they come again.
const hues = 8

// hue is the colour of a lane: the same for the same name in every run.
func hue(before []column, lane string) int {
	known := map[string]bool{}
	for _, c := range before {
		if c.Lane == Clean(lane) {
			return c.Hue
		}
		known[c.Lane] = true
	}
	return len(known) % hues
}

// tableRows are the rows of the text report, so that the two cannot differ.
func tableRows(lanes []*results.Lane) [][]tableRow {
	var out [][]tableRow
	for _, g := range groups {
		var rows []tableRow
		for _, r := range g {
			row := tableRow{Label: r.label, Indent: len(r.label) > 1 && r.label[0] == ' '}
			for _, l := range lanes {
				row.Cells = append(row.Cells, Clean(r.value(l)))
			}
			row.Head, row.Span = allEmpty(row.Cells), len(row.Cells)+1
			rows = append(rows, row)
		}
		out = append(out, rows)
	}
	return out
}

func allEmpty(cells []string) bool {
	for _, c := range cells {
		if c != "" {
			return false
		}
	}
	return true
}
