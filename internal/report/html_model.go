package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/eventmeter/eventmeter/results"
)

// Page is one run of an HTML report.
type Page struct {
	// Name distinguishes the runs of a report. It may be empty if there is one run.
	Name   string
	Result *results.Result
	// Logs are the interval histograms by lane. A lane without a log has no curves.
	Logs map[string]*results.Log
	// Timelines are the timelines by lane. A lane without a timeline is not drawn over time.
	Timelines map[string]results.Timeline
	// Profile is the profile in YAML, as it can be run again; empty = the form in the result.
	Profile string
}

// view is the data of the template.
type view struct {
	shell

	Runs      []runView
	Several   bool
	Columns   []column // by lane, over all runs
	Groups    [][]tableRow
	Notes     []string
	Leads     []string
	Meaning   []string
	Curves    []curveRow
	Times     []timeTable
	Say       captions
	Quiet     string // replaces the chart of incidents when there were none
	Costs     []bars
	Anomalies []anomaly
	Tiles     []tile
	Strips    *strips
	Own       []ownFigures
	Data      chartData

	ShardHead, Percentiles []string
	// Comparison is that of the runs, nil where there is none.
	Comparison *comparisonView
}

// column is a lane of a run.
type column struct {
	Run, Lane, Mode string
	Hue             int
	run, place      int
}

// Label is the name of a column in running text.
func (c column) Label() string {
	if c.Run == "" {
		return c.Lane
	}
	return c.Run + " · " + c.Lane
}

type tableRow struct {
	Label  string
	Indent bool
	Head   bool
	Cells  []tableCell
	Span   int // columns of the table
}

type tableCell struct {
	Text  string
	Class string // of a figure that should be 0
}

// runView is the part of the page about one run.
type runView struct {
	Name       string
	Result     *results.Result
	Where      string
	Protocol   string
	Started    string
	Took       string
	Published  string
	Until      []string
	Word       string // the verdict in a word
	Class      string // CSS class of the verdict
	Verdict    string
	Unclean    []uncleanLine
	Thresholds []thresholdRow
	// Conformance is the verdict of the rows, Rows the rows themselves; "" and none
	// where no lane was judged.
	Conformance string
	Rows        []conformanceRow
	Shards      []shardRow
	// Leak is what the target holds that it should have given back.
	Leak    [][2]string
	Phases  string
	Health  [][2]string
	Profile string
	Repeat  string
}

// tile is what is most asked of a lane.
type tile struct {
	Column   column
	System   string
	Standing string // beside the other lanes; "" where they are not compared
	Class    string // CSS class of the standing
	P99      string // "" where nothing was delivered
	Interval string // of the p99
	Notes    []string
	Rows     []tileRow
}

type tileRow struct {
	Label, Text string
	Class       string
}

// tilesOf returns a tile for each lane, in the order of columns.
func tilesOf(columns []column, lanes []laneOf, runs []Page) []tile {
	standings := make([]map[string]standing, len(runs))
	for i := range runs {
		standings[i] = map[string]standing{}
		for _, s := range standingsOf(&runs[i]) {
			standings[i][s.lane.Name] = s
		}
	}
	var out []tile
	for i, x := range lanes {
		t := tile{Column: columns[i], System: Clean(x.lane.System)}
		if s, compared := standings[columns[i].run][x.lane.Name]; compared {
			t.Standing, t.Class = s.text()
		}
		t.latency(x.lane)
		t.rows(x)
		out = append(out, t)
	}
	return out
}

func (t *tile) latency(l *results.Lane) {
	const p99 = "fromIntended.p99"
	q := l.Latency.FromIntended
	if q.Count == 0 {
		return
	}
	t.P99 = q.P99.String()
	in, there := l.Latency.Intervals[p99]
	switch {
	case there && in.High > 0:
		t.Interval = fmt.Sprintf("95 %% interval %s to %s", in.Low, in.High)
	case there:
		t.Interval = fmt.Sprintf("at least %s; too few events for an upper bound", in.Low)
	}
	if slices.Contains(l.Latency.BelowResolution, p99) {
		t.Notes = append(t.Notes, "below the resolution limit")
	}
	if there && in.Doubt != "" && in.Doubt != results.FewEvents {
		t.Notes = append(t.Notes, "in doubt: "+strings.ReplaceAll(Clean(in.Doubt), "-", " "))
	}
}

func (t *tile) rows(x laneOf) {
	l := x.lane
	add := func(label, text string) { t.Rows = append(t.Rows, tileRow{Label: label, Text: text}) }
	bad := func(label, text string) { t.Rows = append(t.Rows, tileRow{label, text, "unclean"}) }
	if x.hasNoDeliveries() {
		add("subscriptions", count(l.Ready.Active))
		return
	}
	if l.Latency.FromIntended.Count > 0 {
		add("p50", l.Latency.FromIntended.P50.String())
	}
	add("expected", count(l.Expected))
	add("delivered", count(l.Delivered))
	if n := l.Expected - l.Delivered; n > 0 {
		bad("lost", fmt.Sprintf("%s (%.3g %%)", count(n), 100*float64(n)/float64(l.Expected)))
	} else {
		add("lost", "0")
	}
	if d := l.Duplicates.SameEvent + l.Duplicates.SameEmission; d > 0 {
		bad("duplicates", count(d))
	} else {
		add("duplicates", "0")
	}
	if share := l.Overhead.TotalPerDelivered; share != (results.Share{}) {
		add("wire cost per event", bytes(share.Bytes))
	}
}
