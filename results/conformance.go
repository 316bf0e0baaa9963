package results

import (
	"github.com/eventmeter/eventmeter/internal/conform"
)

// Conformance is what the run saw of the rows by which the working group's suite judges a server.
type Conformance struct {
	Held    int `json:"held"`    // rows that were seen and not broken
	Broken  int `json:"broken"`  // rows that were broken: must + should + shape
	NotSeen int `json:"notSeen"` // rows that the run had no occasion to judge
	Must    int `json:"must"`    // broken rows that quote a MUST
	Should  int `json:"should"`  // broken rows that quote a SHOULD
	Shape   int `json:"shape"`   // broken rows about the form of a message
	// every row, in the order of docs/conformance.md
	Rows []ConformanceRow `json:"rows"`
}

// ConformanceRow is one row.
type ConformanceRow struct {
	Row     string `json:"row"`     // as in docs/conformance.md
	Level   string `json:"level"`   // must, should or shape
	Verdict string `json:"verdict"` // held, broken or not seen
	Seen    int64  `json:"seen"`    // occasions on which it was judged, in the whole run
	Broken  int64  `json:"broken"`  // how often it was broken
	// broken / seen
	Share float64 `json:"share"`
	// why it was not seen
	Why string `json:"why,omitempty"`
	// the first message that broke it; absent where the row is judged by another count
	First *ConformanceExample `json:"first,omitempty"`
}

// ConformanceExample is a message that broke a row.
type ConformanceExample struct {
	Lane         string `json:"lane"`
	Subscription uint32 `json:"subscription"` // its number in the lane, in the whole run
	At           Nanos  `json:"at"`           // since the run began
	Message      string `json:"message"`      // its first 200 bytes
}

// The verdicts of a row.
const (
	RowHeld    = "held"
	RowBroken  = "broken"
	RowNotSeen = "not seen"
)

// NewConformance judges every row; nil where no lane was judged.
func NewConformance(a conform.Account) *Conformance {
	if a == nil {
		return nil
	}
	c := &Conformance{Rows: make([]ConformanceRow, 0, len(conform.Rows))}
	for i := range conform.Rows {
		of := &conform.Rows[i]
		row := rowOf(of, a[of.Name])
		switch row.Verdict {
		case RowBroken:
			c.count(of.Level)
		case RowHeld:
			c.Held++
		default:
			c.NotSeen++
		}
		c.Rows = append(c.Rows, row)
	}
	return c
}

// rowOf judges one row.
func rowOf(of *conform.Row, n conform.Count) ConformanceRow {
	row := ConformanceRow{Row: of.Name, Level: string(of.Level), Verdict: RowHeld, Seen: n.Seen, Broken: n.Broken}
	switch {
	case n.Broken > 0:
		row.Verdict, row.Share = RowBroken, float64(n.Broken)/float64(n.Seen)
	case n.Seen == 0:
		row.Verdict, row.Why = RowNotSeen, of.Unseen
		if row.Why == "" {
			row.Why = "no occasion in this run"
		}
	}
	if x := n.First; x != nil {
		row.First = &ConformanceExample{Lane: x.Lane, Subscription: x.Subscription, At: Nanos(x.At), Message: x.Message}
	}
	return row
}

// count counts a broken row.
func (c *Conformance) count(l conform.Level) {
	c.Broken++
	switch l {
	case conform.Must:
		c.Must++
	case conform.Should:
		c.Should++
	default:
		c.Shape++
	}
}
