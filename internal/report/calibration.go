package report

import (
	"fmt"
	"io"
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
	suite := newSuite("eventmeter", c.Started, c.Took, junitProperty{"profile", c.Profile}, junitProperty{"version", c.Version})
	whole := junitCase{Class: "eventmeter.run", Name: "all cases ran"}
	if c.Broken != "" {
		whole.Error = problem("partial", Clean(c.Broken))
	}
	suite.Cases = append(suite.Cases, whole)
	for i := range c.Rows {
		r := &c.Rows[i]
		row := junitCase{Class: "eventmeter." + Clean(r.Lane), Name: r.name()}
		if !r.Passed {
			row.Failure = problem("calibration", Clean(r.Text))
		}
		suite.Cases = append(suite.Cases, row)
	}
	return writeJUnit(w, c.Took, suite)
}

// CalibrationMarkdown writes a calibration for a job's summary page: the number of equal rows, and
// the rows that differ.
func CalibrationMarkdown(w io.Writer, c *Calibration) error {
	p := &printer{w: w}
	p.printf(
		"### eventmeter: calibration %s\n\n%d of %d rows equal, in %s.\n\n",
		Markup(c.Profile),
		len(c.Rows)-c.failed(),
		len(c.Rows),
		results.Nanos(c.Took),
	)
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

// CalibrationHTML writes a calibration as a single file: each case with its lanes, planned beside
// measured. The file makes no network requests and runs no script.
func CalibrationHTML(w io.Writer, c *Calibration) error {
	v := newCalibrationView(c)
	return writePage(w, "calibration.html", v, &v.shell, false)
}

type calibrationView struct {
	shell

	Word, Class, Verdict, Where string
	Cases                       []calibrationCase
}

// calibrationCase is one case with the rows of its lanes.
type calibrationCase struct {
	Name   string
	Failed bool
	Rows   []CalibrationRow
}

func newCalibrationView(c *Calibration) *calibrationView {
	v := &calibrationView{
		Where: fmt.Sprintf(
			"eventmeter %s · %s, %s",
			Clean(c.Version),
			c.Started.UTC().Format("2006-01-02 15:04:05 UTC"),
			results.Nanos(c.Took),
		),
	}
	v.Title = dated("Calibration "+Clean(c.Profile), c.Started)
	at := map[string]int{}
	for _, r := range c.Rows {
		name := Clean(r.Case)
		n, known := at[name]
		if !known {
			n, at[name] = len(v.Cases), len(v.Cases)
			v.Cases = append(v.Cases, calibrationCase{Name: name})
		}
		v.Cases[n].Rows = append(v.Cases[n].Rows, CalibrationRow{Case: name, Lane: Clean(r.Lane), Passed: r.Passed, Text: Clean(r.Text)})
		v.Cases[n].Failed = v.Cases[n].Failed || !r.Passed
	}
	rows := fmt.Sprintf("%d of %s: the measured figures are the planned ones.", len(c.Rows)-c.failed(), plural(len(c.Rows), "row"))
	switch {
	case c.Broken != "":
		v.Word, v.Class, v.Verdict = "partial", "partial", "The calibration ended early: "+Clean(c.Broken)+". "+rows
	case c.failed() > 0:
		v.Word, v.Class, v.Verdict = "fail", "fail", rows
	default:
		v.Word, v.Class, v.Verdict = "pass", "pass", rows
	}
	return v
}
