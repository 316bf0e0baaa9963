package stats

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/eventmeter/eventmeter/results"
)

// ComparisonSchema is the version of the JSON form of a [Comparison].
const ComparisonSchema = "eventmeter.comparison/1"

// CompareOptions tune a comparison. The zero value is ready to use.
type CompareOptions struct {
	// Alpha is how often two equal sides may be called different, over all
	// figures together. 0 means 0.05.
	Alpha float64
	// MinEffect is the smallest relative effect that matters: a smaller one
	// is never called a difference. 0 means 0.03, negative means none.
	MinEffect float64
	// Resamples is how many times intervals are resampled, at least 200. 0 means
	// 2000.
	Resamples int
}

// resolution is the relative effect that a finding of "same" rules out: the whole
// confidence interval lies within it.
const resolution = 0.10

func (o CompareOptions) filled() (CompareOptions, error) {
	o.Alpha, o.Resamples = cmp.Or(o.Alpha, 0.05), cmp.Or(o.Resamples, 2000)
	o.MinEffect = max(cmp.Or(o.MinEffect, 0.03), 0)
	switch {
	case !(o.Alpha > 0 && o.Alpha <= 0.5):
		return o, fmt.Errorf("%w: alpha %v: write a share above 0 and up to 0.5, such as 0.05", ErrCompare, o.Alpha)
	case !(o.MinEffect < 10):
		return o, fmt.Errorf("%w: smallest effect %v: write a share such as 0.03", ErrCompare, o.MinEffect)
	case o.Resamples < 200 || o.Resamples > 1_000_000:
		return o, fmt.Errorf("%w: %d resamples: write a number from 200 to 1000000", ErrCompare, o.Resamples)
	}
	return o, nil
}

// Comparison is the comparison of two sides. It depends only on the sides and the options: random
// draws are seeded from the run ids.
type Comparison struct {
	Schema string   `json:"schema"`
	A      SideInfo `json:"a"`
	B      SideInfo `json:"b"`
	// Alpha and MinEffect are the options as used.
	Alpha     float64 `json:"alpha"`
	MinEffect float64 `json:"minEffect"`
	// Resolution is the relative effect that a finding of "same" rules out.
	Resolution float64 `json:"resolution"`
	// Duet is set if the two runs were measured together.
	Duet *Duet `json:"duet,omitempty"`
	// Tested is how many figures share Alpha (Holm's correction).
	Tested int `json:"tested"`
	// Run holds the figures of the whole run, Lanes those of each lane that is in every run of both
	// sides, in A's order.
	Run   []Change     `json:"run"`
	Lanes []LaneChange `json:"lanes"`
	// Upstream holds the own figures of the upstream; they are not judged.
	Upstream []Shown `json:"upstream,omitempty"`
	// OnlyA and OnlyB are the lanes that one side lacks.
	OnlyA []string `json:"onlyA"`
	OnlyB []string `json:"onlyB"`
	// Warnings are reasons to doubt that the sides are comparable.
	Warnings []results.Warning `json:"warnings"`
	// Gates are the verdicts of the gates, if there were gates; see [Comparison.Judge].
	Gates []results.Verdict `json:"gates,omitempty"`
}

// Write writes c as indented JSON with a final newline.
func (c *Comparison) Write(w io.Writer) error {
	data, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return fmt.Errorf("write comparison: %w", err)
	}
	if _, err := w.Write(append(data, '\n')); err != nil {
		return fmt.Errorf("write comparison: %w", err)
	}
	return nil
}

// matchLanes returns the lanes of every run of both sides and notes the others.
func (c *Comparison) matchLanes(a, b *Side) []string {
	inA, inB := a.lanes(), b.lanes()
	var both []string
	for _, n := range inA {
		if slices.Contains(inB, n) {
			both = append(both, n)
		} else {
			c.OnlyA = append(c.OnlyA, n)
		}
	}
	for _, n := range inB {
		if !slices.Contains(inA, n) {
			c.OnlyB = append(c.OnlyB, n)
		}
	}
	return both
}

// Judge judges gates. A gate fails if the figure got worse by more than the gate's
// share and the whole 95 % confidence interval of the effect lies above 0; if A is 0,
// any rise exceeds any share. A gate is unjudged if there is no confidence
// interval, if one side lacks the lane, or if an archive is doubtful.
func (c *Comparison) Judge(gates []Gate) (out []results.Verdict) {
	for _, g := range gates {
		if why := c.doubt(g.path); why != "" {
			out = append(out, g.unjudged(g.where, "it cannot be judged: "+why))
			continue
		}
		if g.where == "run" {
			out = append(out, g.judge("", c.Run))
			continue
		}
		found := false
		for i := range c.Lanes {
			if g.where == "*" || g.where == c.Lanes[i].Name {
				found = true
				out = append(out, g.judge(c.Lanes[i].Name, c.Lanes[i].Figures))
			}
		}
		if !found {
			out = append(out, g.unjudged(g.where, "the lane is not on both sides"))
		}
	}
	return out
}

// doubt says why a figure of an archive is doubtful; "" = it is not. The sides of a duet share
// what the machine did: only their pairs are compared.
func (c *Comparison) doubt(path string) string {
	for _, w := range c.Warnings {
		times := strings.HasPrefix(path, "latency.")
		switch {
		case w.Code == "partial", c.Duet == nil && w.Code == "bottleneck", c.Duet == nil && times && w.Code == results.MachineBusy:
			return w.Text
		}
	}
	return ""
}

// LaneChange is the comparison of one lane.
type LaneChange struct {
	Name    string   `json:"name"`
	System  string   `json:"system"`
	Mode    string   `json:"mode"`
	Figures []Change `json:"figures"`
	// Paired is set if the latencies are those of pairs.
	Paired *Paired `json:"paired,omitempty"`
}

// Finding is what a comparison says about one figure.
type Finding string

// The findings.
const (
	// Same: no difference of Resolution or more, or one too small to matter.
	Same Finding = "same"
	// Better and Worse: B differs from A, and by MinEffect or more.
	Better Finding = "better"
	Worse  Finding = "worse"
	// NotEnough: the runs can neither show nor rule out a difference.
	NotEnough Finding = "not enough data"
)

// Change is the comparison of one figure. Of every figure that is compared,
// less is better.
type Change struct {
	// Figure is its path in the lane (or in the result, for figures of the
	// run), as thresholds and gates write it.
	Figure string `json:"figure"`
	// Per is what the figure was divided by for the comparison: expected,
	// delivered, or empty.
	Per string `json:"per,omitempty"`
	// Unit is ns, requests, bytes or share.
	Unit string `json:"unit"`
	// A and B are the values: of the one run, of all intervals together, or
	// the median of the runs. Null: not measured.
	A *float64 `json:"a"`
	B *float64 `json:"b"`
	// Effect is B/A-1, or B-A where Absolute is set because A is 0. Low and
	// High bound its 95 % confidence interval; null is without bound where
	// the other one is set, and no interval where neither is.
	Effect   *float64 `json:"effect"`
	Absolute bool     `json:"absolute,omitempty"`
	Low      *float64 `json:"low"`
	High     *float64 `json:"high"`
	// P is the probability of such a difference, or a greater one, between equal
	// sides; Adjusted is P after Holm's correction over all figures.
	P        *float64 `json:"p"`
	Adjusted *float64 `json:"adjusted"`
	// Detectable is the smallest effect that runs as long and as noisy as these would
	// show four times out of five, in the terms of Effect.
	Detectable *float64 `json:"detectable"`
	Finding    Finding  `json:"finding"`
	// Method names the test. Reason says why there is none, or why the finding is
	// what it is.
	Method string `json:"method,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Changed reports whether the figure was found better or worse.
func (c *Change) Changed() bool { return c.Finding == Better || c.Finding == Worse }

// number is v for JSON, or nil for infinities and NaN, which JSON lacks.
func number(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

func nameList(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// Shown is a figure of both sides that is not judged: of the upstream's own
// figures, some are better when they are greater, and most are neither.
type Shown struct {
	// Figure is its name; the name of a quantile begins with that of its timing.
	Figure string `json:"figure"`
	// Unit is ns, or empty for a count.
	Unit string `json:"unit,omitempty"`
	// A and B are the median of the runs that have the figure; null = none has.
	A *float64 `json:"a"`
	B *float64 `json:"b"`
}
