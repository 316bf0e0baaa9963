package results

import (
	"io"
	"time"

	"github.com/eventmeter/eventmeter/internal/conform"
)

// CheckSchema is the schema of a [Check].
const CheckSchema = "eventmeter.check/1"

// CheckStages are the names of the parts of a check.
var CheckStages = [2]string{"at rest", "under load"}

// Check is what a check found: the rows at rest and under load.
type Check struct {
	Schema   string       `json:"schema"`
	Version  string       `json:"version"` // of eventmeter
	Started  time.Time    `json:"started"`
	Finished time.Time    `json:"finished"`
	Target   Target       `json:"target"`
	Event    string       `json:"event"`  // the event type that was checked
	Stages   []CheckStage `json:"stages"` // at rest, then under load
	// rows that were held at rest and broken under load
	UnderLoad int `json:"brokenUnderLoad"`
	// other broken rows
	Broken  int        `json:"broken"`
	Held    int        `json:"held"`    // rows that were held in each stage that saw them
	NotSeen int        `json:"notSeen"` // rows that no stage saw
	Must    int        `json:"must"`    // broken rows that quote a MUST
	Rows    []CheckRow `json:"rows"`    // every row, in the order of docs/conformance.md
}

// CheckStage is one part of a check.
type CheckStage struct {
	Name          string   `json:"name"` // at rest or under load
	Subscriptions int      `json:"subscriptions"`
	Rate          float64  `json:"rate"`                 // of events, per second
	Delivered     int64    `json:"delivered"`            // events received, of those owed
	Rounds        int      `json:"rounds"`               // how often every step was taken
	Bottleneck    []string `json:"bottleneck,omitempty"` // why the generator was the bottleneck; absent = it was not
	Ended         string   `json:"ended,omitempty"`      // why it ended early; absent = it did not
}

// CheckRow is one row of a check.
type CheckRow struct {
	Row     string `json:"row"`     // as in docs/conformance.md
	Level   string `json:"level"`   // must, should or shape
	Finding string `json:"finding"` // broken under load, broken, held or not seen
	// absent where there was no such stage
	AtRest    *ConformanceRow `json:"atRest,omitempty"`
	UnderLoad *ConformanceRow `json:"underLoad,omitempty"`
}

// RowBrokenUnderLoad is the finding of a row that was held at rest.
const RowBrokenUnderLoad = "broken under load"

// CheckSeen is what a stage saw. Why is why rows were not seen. A nil account means
// that there was no stage.
type CheckSeen struct {
	Account conform.Account
	Why     map[string]string
}

// verdict returns the row as the stage saw it.
func (s *CheckSeen) verdict(of *conform.Row) *ConformanceRow {
	if s.Account == nil {
		return nil
	}
	row := rowOf(of, s.Account[of.Name])
	if why := s.Why[of.Name]; why != "" && row.Verdict == RowNotSeen {
		row.Why = why
	}
	return &row
}

// Judge sets the rows and their counts.
func (c *Check) Judge(rest, load CheckSeen) {
	for i := range conform.Rows {
		of := &conform.Rows[i]
		row := CheckRow{Row: of.Name, Level: string(of.Level), AtRest: rest.verdict(of), UnderLoad: load.verdict(of)}
		is := func(verdict string) (rest, load bool) {
			return row.AtRest != nil && row.AtRest.Verdict == verdict, row.UnderLoad != nil && row.UnderLoad.Verdict == verdict
		}
		brokenAtRest, brokenUnderLoad := is(RowBroken)
		heldAtRest, heldUnderLoad := is(RowHeld)
		switch {
		case heldAtRest && brokenUnderLoad:
			row.Finding = RowBrokenUnderLoad
			c.UnderLoad++
		case brokenAtRest || brokenUnderLoad:
			row.Finding = RowBroken
			c.Broken++
		case heldAtRest || heldUnderLoad:
			row.Finding = RowHeld
			c.Held++
		default:
			row.Finding = RowNotSeen
			c.NotSeen++
		}
		if (brokenAtRest || brokenUnderLoad) && of.Level == conform.Must {
			c.Must++
		}
		c.Rows = append(c.Rows, row)
	}
}

// Write writes the check as JSON.
func (c *Check) Write(w io.Writer) error {
	return writeJSON(w, "check", c)
}
