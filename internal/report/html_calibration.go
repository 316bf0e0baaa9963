package report

import (
	"fmt"
	"io"

	"github.com/eventmeter/eventmeter/results"
)

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
		Where: fmt.Sprintf("eventmeter %s · %s, %s", Clean(c.Version), c.Started.UTC().Format("2006-01-02 15:04:05 UTC"), results.FormatNanos(results.Nanos(c.Took))),
	}
	v.Title = fmt.Sprintf("Calibration %s, %s · eventmeter", Clean(c.Profile), c.Started.UTC().Format("2 January 2006 15:04 UTC"))
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
	rows := fmt.Sprintf("%d of %s: the measured figures are the planned ones.", len(c.Rows)-c.failed(), plural(int64(len(c.Rows)), "row"))
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
