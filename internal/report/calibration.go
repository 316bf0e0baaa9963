package report

import (
	"io"
	"strconv"
	"time"

	"github.com/eventmeter/eventmeter/results"
)

// Calibration is the outcome of a profile with cases: the planned and the measured figures of each
// lane.
type Calibration struct {
	Profile string // name of the profile
	Version string // version of the program
	Started time.Time
	Took    time.Duration
	Rows    []CalibrationRow
	// Broken says why the calibration ended before its last case; "" = it did not.
	Broken string
}

// CalibrationRow is one lane of one case.
type CalibrationRow struct {
	Case, Lane string
	Passed     bool
	Text       string // the figures planned and measured
}

// name is the name of a row where its lane is shown separately.
func (r *CalibrationRow) name() string { return "case " + Clean(r.Case) + ": plan = measured" }

func (c *Calibration) failed() (n int) {
	for i := range c.Rows {
		if !c.Rows[i].Passed {
			n++
		}
	}
	return n
}

// CalibrationJUnit writes a calibration as a JUnit report: a test case for each row, with
// eventmeter.LANE as its class, and one that all cases ran.
func CalibrationJUnit(w io.Writer, c *Calibration) error {
	suite := junitSuite{
		Name: "eventmeter", Tests: len(c.Rows) + 1, Failures: c.failed(),
		Time: strconv.FormatFloat(c.Took.Seconds(), 'f', 3, 64), Timestamp: c.Started.UTC().Format(time.RFC3339),
		Properties: []junitProperty{{"profile", Clean(c.Profile)}, {"version", Clean(c.Version)}},
	}
	whole := junitCase{Class: "eventmeter.run", Name: "all cases ran", Time: "0"}
	if c.Broken != "" {
		whole.Error = problem("partial", Clean(c.Broken))
		suite.Errors = 1
	}
	suite.Cases = append(suite.Cases, whole)
	for i := range c.Rows {
		r := &c.Rows[i]
		row := junitCase{Class: "eventmeter." + Clean(r.Lane), Name: r.name(), Time: "0"}
		if !r.Passed {
			row.Failure = problem("calibration", Clean(r.Text))
		}
		suite.Cases = append(suite.Cases, row)
	}
	return writeXML(w, junitSuites{
		Name: "eventmeter", Tests: suite.Tests, Failures: suite.Failures, Errors: suite.Errors, Time: suite.Time, Suites: []junitSuite{suite},
	})
}

// CalibrationMarkdown writes a calibration for a job's summary page: the number of equal rows, and
// the rows that differ.
func CalibrationMarkdown(w io.Writer, c *Calibration) error {
	p := &printer{w: w}
	p.printf("### eventmeter: calibration %s\n\n%d of %d rows equal, in %s.\n\n", Markup(c.Profile), len(c.Rows)-c.failed(), len(c.Rows), results.FormatNanos(results.Nanos(c.Took)))
	if c.Broken != "" {
		p.printf("**Partial:** %s\n\n", Markup(c.Broken))
	}
	if c.failed() == 0 {
		return p.err
	}
	p.printf("| | case | lane | planned and measured |\n|---|---|---|---|\n")
	for i := range c.Rows {
		if r := &c.Rows[i]; !r.Passed {
			p.row("❌", Markup(r.Case), Markup(r.Lane), Markup(r.Text))
		}
	}
	p.printf("\n")
	return p.err
}

// CalibrationAnnotations is [Annotations] for a calibration, with rows in place of thresholds.
func CalibrationAnnotations(w io.Writer, c *Calibration, system string) error {
	r := &results.Result{Started: c.Started, Finished: c.Started.Add(c.Took), Partial: c.Broken != "", Reason: c.Broken}
	for i := range c.Rows {
		row := &c.Rows[i]
		r.Thresholds = append(r.Thresholds, results.Verdict{Threshold: row.name(), Lane: row.Lane, Passed: row.Passed, Text: row.Text})
	}
	return Annotations(w, r, system)
}
