package report

import (
	"encoding/xml"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/eventmeter/eventmeter/results"
)

type junitSuites struct {
	XMLName  xml.Name     `xml:"testsuites"`
	Name     string       `xml:"name,attr"`
	Tests    int          `xml:"tests,attr"`
	Failures int          `xml:"failures,attr"`
	Errors   int          `xml:"errors,attr"`
	Time     string       `xml:"time,attr"`
	Suites   []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name       string          `xml:"name,attr"`
	Tests      int             `xml:"tests,attr"`
	Failures   int             `xml:"failures,attr"`
	Errors     int             `xml:"errors,attr"`
	Time       string          `xml:"time,attr"`
	Timestamp  string          `xml:"timestamp,attr"`
	Properties []junitProperty `xml:"properties>property"`
	Cases      []junitCase     `xml:"testcase"`
	Out        string          `xml:"system-out,omitempty"`
}

type junitProperty struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

type junitCase struct {
	Class   string        `xml:"classname,attr"`
	Name    string        `xml:"name,attr"`
	Time    string        `xml:"time,attr"`
	Failure *junitProblem `xml:"failure"`
	Error   *junitProblem `xml:"error"`
}

type junitProblem struct {
	Type    string `xml:"type,attr"`
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// JUnit writes results as a JUnit report, which every CI system reads. Each threshold is a test
// case for each lane, with eventmeter.LANE as its class (eventmeter.run for figures of the run);
// two more say that the run was complete and that the generator was not the bottleneck. A missed
// threshold is a failure. A partial run, a bottleneck and a threshold that was not evaluated are
// errors, because they say nothing about the target; none of them is skipped, because a CI system
// counts a skipped test as good. A row of conformance that was seen
// is a test case of the class eventmeter.conformance. Unclean figures and warnings are the suite's output, and the
// upstream's own figures its properties. Each result is a suite, named by its profile and numbered
// in order.
func JUnit(w io.Writer, runs ...*results.Result) error {
	var suites []junitSuite
	var took time.Duration
	for i, r := range runs {
		suite := junitOf(r)
		if len(runs) > 1 {
			suite.Name = fmt.Sprintf("eventmeter %d: %s", i+1, profileName(r))
		}
		took += r.Took().Duration()
		suites = append(suites, suite)
	}
	return writeJUnit(w, took, suites...)
}

// newSuite returns a suite without test cases.
func newSuite(name string, began time.Time, took time.Duration, properties ...junitProperty) junitSuite {
	for i := range properties {
		properties[i].Value = Clean(properties[i].Value)
	}
	return junitSuite{Name: name, Time: secondsText(took), Timestamp: began.UTC().Format(time.RFC3339), Properties: properties}
}

// junitOf returns the suite of one run.
func junitOf(r *results.Result) junitSuite {
	suite := newSuite("eventmeter", r.Started, r.Took().Duration(), junitProperty{"run", r.Run}, junitProperty{"version", r.Version},
		junitProperty{"target", r.Target.URL}, junitProperty{"protocol", protocolText(r)})
	for _, f := range upstreamValues(&r.Upstream) {
		suite.Properties = append(suite.Properties, junitProperty{"upstream." + f.path, f.text})
	}
	whole := junitCase{Class: "eventmeter.run", Name: "the run was complete"}
	if r.Partial {
		whole.Error = problem("partial", Clean(r.Reason))
	}
	sound := junitCase{Class: "eventmeter.run", Name: "the generator was not the bottleneck"}
	if r.Generator.Bottleneck {
		sound.Error = problem("bottleneck", bottleneck(r))
	}
	suite.Cases = append(suite.Cases, whole, sound)
	for i := range r.Thresholds {
		v := &r.Thresholds[i]
		c := junitCase{Class: "eventmeter.run", Name: Clean(v.Threshold)}
		if v.Lane != "" {
			c.Class = "eventmeter." + Clean(v.Lane)
		}
		switch verdictWord(v) {
		case wordFailed:
			c.Failure = problem("threshold", Clean(thresholdText(v)))
		case wordNotEvaluated:
			c.Error = problem("not-evaluated", Clean(thresholdText(v)))
		}
		suite.Cases = append(suite.Cases, c)
	}
	for _, row := range conformanceRows(r, "") {
		c := junitCase{Class: "eventmeter.conformance", Name: row.Row}
		switch row.Verdict {
		case results.RowNotSeen:
			continue // a CI system counts a skipped test as good
		case results.RowBroken:
			c.Failure = problem("conformance", row.text())
		}
		suite.Cases = append(suite.Cases, c)
	}
	for _, u := range uncleanLines(lanesOf(r)) {
		suite.Out += "not clean: " + u.String() + "\n"
	}
	for _, w := range r.Warnings {
		suite.Out += "warning: " + warningText(w) + "\n"
	}
	return suite
}

// writeJUnit counts the test cases of suites and writes them as one document.
func writeJUnit(w io.Writer, took time.Duration, suites ...junitSuite) error {
	doc := junitSuites{Name: "eventmeter", Time: secondsText(took), Suites: suites}
	for i := range suites {
		s := &suites[i]
		for k := range s.Cases {
			c := &s.Cases[k]
			c.Time = "0" // a run is measured as a whole
			s.Tests++
			if c.Failure != nil {
				s.Failures++
			}
			if c.Error != nil {
				s.Errors++
			}
		}
		doc.Tests, doc.Failures, doc.Errors = doc.Tests+s.Tests, doc.Failures+s.Failures, doc.Errors+s.Errors
	}
	data, err := xml.MarshalIndent(doc, "", "  ")
	if err != nil {
		return fmt.Errorf("write JUnit report: %w", err)
	}
	if _, err := fmt.Fprintf(w, "%s%s\n", xml.Header, data); err != nil {
		return fmt.Errorf("write JUnit report: %w", err)
	}
	return nil
}

func problem(kind, message string) *junitProblem {
	return &junitProblem{Type: kind, Message: message, Text: message}
}

func bottleneck(r *results.Result) string {
	text := "the generator was the bottleneck"
	for i, reason := range r.Generator.Reasons {
		sep := "; "
		if i == 0 {
			sep = ": "
		}
		text += sep + Clean(reason)
	}
	return text
}

func warningText(w results.Warning) string {
	if w.Lane == "" {
		return Clean(w.Text)
	}
	return Clean(w.Lane) + ": " + Clean(w.Text)
}

func secondsText(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 3, 64) }
