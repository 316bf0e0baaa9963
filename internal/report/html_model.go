package report

import (
	"html/template"

	"github.com/eventmeter/eventmeter/results"
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

// view is what the template shows.
type view struct {
	Title       string
	Policy      string
	Style       template.CSS
	Library     template.JS
	Script      template.JS
	Runs        []runView
	Several     bool
	Columns     []column // lane by lane, each of all runs
	Groups      [][]tableRow
	Resolutions []string
	Leads       []string
	Meaning     []string
	Curves      []curveRow
	Times       []timeTable
	Say         captions
	Quiet       string // said in place of the chart of incidents, when there were none
	Costs       []bars
	Finds       []finding
	Own         []ownFigures
	Data        chartData

	ShardHead []string
}

// column is a lane of a run.
type column struct {
	Run, Lane, Mode string
	Hue             int
	run, place      int
}

// Label names a column in a line of text.
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

// runView is what is said of one run as a whole.
type runView struct {
	Name       string
	Result     *results.Result
	Where      string
	Agreed     string
	Started    string
	Took       string
	Fired      string
	Word       string // the verdict in a word
	Class      string // of the verdict in the page
	Verdict    string
	Unclean    []uncleanLine
	Thresholds []heldRow
	Shards     []shardRow
	Health     [][2]string
	Profile    string
	Repeat     string
}
