package report

import "github.com/eventmeter/eventmeter/results"

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
