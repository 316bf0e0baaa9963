package results

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/eventmeter/eventmeter/internal/errtext"
)

// CapacitySchema is the version of the capacity format that this package
// writes and reads.
const CapacitySchema = "eventmeter.capacity/1"

// CapacityFile is the name of a capacity within its directory.
const CapacityFile = "capacity.json"

// Capacity is what a search for the largest load found out. Loads are in the
// unit of the axis; durations are in nanoseconds unless a field says otherwise.
type Capacity struct {
	Schema   string    `json:"schema"`   // always eventmeter.capacity/1
	Version  string    `json:"version"`  // of the program that made it
	Started  time.Time `json:"started"`  // wall clock, UTC
	Finished time.Time `json:"finished"` // wall clock, UTC
	// Partial is true when the search was broken off; Reason says why.
	Partial bool   `json:"partial"`
	Reason  string `json:"reason,omitempty"` // why it is partial
	// Profile is the profile of the search, without secrets.
	Profile json.RawMessage `json:"profile"`
	Target  Target          `json:"target"` // the server that was measured
	Host    Host            `json:"host"`   // the machine that measured
	// Axis is rate, subscriptions or burst; Unit is that of a load, in words.
	Axis string      `json:"axis"`
	Unit string      `json:"unit"` // of a load
	SLO  CapacitySLO `json:"slo"`  // what a load had to meet
	// Outcome is found; none: not even the lowest load met the SLO; bound: the
	// highest did; generator: above the maximum load the generator was the limit;
	// exhausted: too many trials disagreed; or searching: it was broken off.
	Outcome string `json:"outcome"`
	// Stopped is why the search ended, in words.
	Stopped string          `json:"stopped"`
	Maximum CapacityMaximum `json:"maximum"` // where the search stood at its end
	Steps   []CapacityStep  `json:"steps"`   // the whole curve, in the order in which it was measured
	// Law is the Universal Scalability Law fitted to the curve; it is absent
	// where no fit could be trusted, and LawRefused says why.
	Law        *CapacityLaw   `json:"law,omitempty"`
	LawRefused string         `json:"lawRefused,omitempty"` // why there is no law
	Costs      []CapacityCost `json:"costs"`                // the cost sheet, a line for each lane
	Warnings   []Warning      `json:"warnings"`             // what a reader should know
}

// CapacitySLO is the SLO. A latency of 0 asks for nothing.
type CapacitySLO struct {
	P50     Nanos   `json:"p50"`     // limit of the median, scheduled → received
	P90     Nanos   `json:"p90"`     // bound of the 90th percentile
	P99     Nanos   `json:"p99"`     // bound of the 99th percentile
	P999    Nanos   `json:"p999"`    // bound of the 99.9th percentile
	Loss    float64 `json:"loss"`    // largest share of deliveries missing after the drain
	Backlog float64 `json:"backlog"` // largest growth of the backlog, as a share of what is offered
}

// CapacityKnee is the largest load that meets the SLO, and how sure that is.
type CapacityMaximum struct {
	// Load is the largest that met the SLO below all that did not; 0 when
	// there is none. Above is the smallest that did not; 0 when there is none.
	Load  float64 `json:"load"`
	Above float64 `json:"above"` // the smallest load that did not meet the SLO
	// From and To are the interval that repeated trials leave: no trial at or
	// below From failed, and none at or above To passed. 0 = open on that side.
	From float64 `json:"from"`
	To   float64 `json:"to"` // see from
	// Passed and Failed count the clear trials of Load; AbovePassed and
	// AboveFailed those of Above.
	Passed      int `json:"passed"`      // trials of load that met the SLO
	Failed      int `json:"failed"`      // trials of load that did not
	AbovePassed int `json:"abovePassed"` // trials of above that met the SLO
	AboveFailed int `json:"aboveFailed"` // trials of above that did not
	// Events and Deliveries are per second at Load; FanOut is deliveries per
	// event.
	Events     float64  `json:"events"`
	Deliveries float64  `json:"deliveries"` // per second at load
	FanOut     float64  `json:"fanOut"`     // deliveries per event
	Limits     []string `json:"limits"`     // what the load above did not meet
}

// CapacityStep is one trial of one load.
type CapacityStep struct {
	Number int `json:"number"` // from 1
	// Dir is the archive of the run, relative to the capacity's; "" where
	// nothing could be measured.
	Dir string `json:"dir"`
	// Purpose is bracket, bisect, confirm or retry; recover: the lowest load,
	// after an overload that did not drain; idle or cost: for the cost sheet.
	Purpose string  `json:"purpose"`
	Lane    string  `json:"lane,omitempty"` // the only lane of an idle or cost step
	Load    float64 `json:"load"`           // in the unit of the axis
	// Verdict is passed, failed, unclear (not met, and the generator may be
	// why) or aside (it was not judged).
	Verdict string   `json:"verdict"`
	Reasons []string `json:"reasons"` // why it is not passed
	// Events is what the schedule offers, per second; Offered is Events times
	// FanOut, and Achieved is what came, while it was measured.
	Events   float64 `json:"events"`
	FanOut   float64 `json:"fanOut"`   // deliveries expected per accepted event
	Offered  float64 `json:"offered"`  // deliveries per second that were due
	Achieved float64 `json:"achieved"` // copies received per second
	// Expected, Delivered and Lost are those of all lanes.
	Expected  int64              `json:"expected"`
	Delivered int64              `json:"delivered"`        // of all lanes
	Lost      int64              `json:"lost"`             // silent or announced, of all lanes
	Undrained int64              `json:"undrained"`        // owed and not delivered when the drain was over
	Backlog   CapacityBacklog    `json:"backlog"`          // while it was measured
	Lanes     []CapacityStepLane `json:"lanes"`            // latencies, lane by lane
	Target    *Process           `json:"target,omitempty"` // what the target used
	// Generator is how the generator fared.
	Generator Generator `json:"generator"`
}

// CapacityBacklog is what was owed and not yet delivered during a step.
type CapacityBacklog struct {
	// Growth is in deliveries per second; Error is its standard error.
	Growth float64 `json:"growth"`
	Error  float64 `json:"error"` // standard error of growth
	Share  float64 `json:"share"` // growth over what was offered
	Most   int64   `json:"most"`  // the most that was seen
}

// CapacityStepLane is one lane of a step.
type CapacityStepLane struct {
	Name          string    `json:"name"`          // as in the profile
	Mode          string    `json:"mode"`          // poll, push or webhook
	Subscriptions int       `json:"subscriptions"` // how many there were
	Lost          int64     `json:"lost"`          // silent or announced
	FromIntended  Quantiles `json:"fromIntended"`  // scheduled → received
	FromSent      Quantiles `json:"fromSent"`      // published → received
}

// CapacityLaw is X(N) = lambda·N / (1 + sigma·(N−1) + kappa·N·(N−1)), with N the
// load over Unit and X deliveries per second.
type CapacityLaw struct {
	Unit   float64       `json:"unit"`   // the load that counts as N = 1
	Lambda CapacityRange `json:"lambda"` // deliveries per second at N = 1
	Sigma  CapacityRange `json:"sigma"`  // contention
	Kappa  CapacityRange `json:"kappa"`  // coherency
	// Peak is the load at which the law has its maximum; PeakShare is the share
	// of the resamples that have one.
	Peak      *CapacityRange `json:"peak,omitempty"`
	PeakShare float64        `json:"peakShare"` // share of the resamples that have a peak
	Points    int            `json:"points"`    // steps
	Loads     int            `json:"loads"`     // different loads among them
	Low       float64        `json:"low"`       // lowest load
	High      float64        `json:"high"`      // highest load
	Residual  float64        `json:"residual"`  // root mean square, as a share
	Worst     float64        `json:"worst"`     // worst residual, as a share
	R2        float64        `json:"r2"`        // share of the variance explained
	Doubts    []string       `json:"doubts"`    // why it should be read with care
}

// CapacityRange is a value with its 95 % interval.
type CapacityRange struct {
	Value float64 `json:"value"` // fitted to all points
	Low   float64 `json:"low"`   // 2.5 % of the resamples are below
	High  float64 `json:"high"`  // 2.5 % are above
}

// CapacityCost is what one delivery mode costs the target.
type CapacityCost struct {
	Lane string `json:"lane"` // as in the profile
	Mode string `json:"mode"` // poll, push or webhook
	// Idle is the cost of 1,000 subscriptions held for an hour in which nothing
	// happens, Delivered that of a million delivered events.
	Idle      CostOf `json:"idle"`
	Delivered CostOf `json:"delivered"` // of a million delivered events
	// Missing is what was not measured, or only badly, and why, in words.
	Missing []string `json:"missing"`
}

// CostOf is the cost of an amount of something. A null figure was not measured.
type CostOf struct {
	// CPU is seconds of CPU time of the target; Resolution is the least that
	// could be told from nothing.
	CPU        *float64 `json:"cpu"`
	Resolution float64  `json:"resolution"` // CPU seconds, the smallest measurable amount
	Memory     *float64 `json:"memory"`     // bytes of resident memory
	// Requests, and Bytes both ways: of idle those that carried no event, of
	// delivered those that did.
	Requests *float64 `json:"requests"`
	Bytes    *float64 `json:"bytes"`
	// Basis is what was measured: "20 subscriptions for 3.5s".
	Basis string `json:"basis"`
}

// Write writes c as indented JSON with a final newline.
func (c *Capacity) Write(w io.Writer) error {
	data, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return fmt.Errorf("write capacity: %w", err)
	}
	if _, err := w.Write(append(data, '\n')); err != nil {
		return fmt.Errorf("write capacity: %w", err)
	}
	return nil
}

// ReadCapacity reads one capacity, strictly: an unknown field, another schema
// or anything after it is an error that wraps [ErrFormat].
func ReadCapacity(in io.Reader) (*Capacity, error) {
	data, err := readBounded(in, maxResultBytes)
	if err != nil {
		return nil, fmt.Errorf("read capacity: %w", err)
	}
	var head struct {
		Schema string `json:"schema"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, fmt.Errorf("%w: %s", ErrFormat, jsonProblem(data, err))
	}
	if head.Schema != CapacitySchema {
		return nil, fmt.Errorf("%w: its schema is %q and this program reads %q; use the program's version that wrote it", ErrFormat, head.Schema, CapacitySchema)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	c := new(Capacity)
	if err := dec.Decode(c); err != nil {
		return nil, fmt.Errorf("%w: %s", ErrFormat, jsonProblem(data, err))
	}
	if err := plausible(c); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	for i, s := range c.Steps {
		if s.Expected != s.Delivered+s.Lost || s.Number != i+1 {
			return nil, fmt.Errorf("%w: step %d of %d: %d expected are not %d delivered + %d lost", ErrFormat, s.Number, i+1, s.Expected, s.Delivered, s.Lost)
		}
	}
	errtext.CleanAll(c)
	return c, nil
}

// IsCapacity tells whether dir holds a capacity, and not a run.
func IsCapacity(dir string) bool {
	info, err := os.Stat(filepath.Join(dir, CapacityFile))
	return err == nil && !info.IsDir()
}

// RebuildCapacity loads the capacity in dir and rebuilds the result of every
// step from its archive (see [Rebuild]). A step that says something else than
// its archive is refused with an error that wraps [ErrFormat].
func RebuildCapacity(dir string) (*Capacity, error) {
	f, err := openRegular(filepath.Join(dir, CapacityFile))
	if err != nil {
		return nil, fmt.Errorf("load capacity: %w", err)
	}
	defer f.Close()
	c, err := ReadCapacity(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	for _, s := range c.Steps {
		if s.Dir == "" {
			continue
		}
		if !filepath.IsLocal(s.Dir) {
			return nil, fmt.Errorf("%w: step %d: %q leads out of the directory", ErrFormat, s.Number, s.Dir)
		}
		if err := s.hold(filepath.Join(dir, s.Dir)); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%w: step %d: %w; a capacity has an archive for each step", ErrFormat, s.Number, err)
		} else if err != nil {
			return nil, fmt.Errorf("step %d: %w", s.Number, err)
		}
	}
	return c, nil
}

// hold compares a step with the archive of its run.
func (s *CapacityStep) hold(dir string) error {
	r, err := Rebuild(dir)
	if err != nil {
		return err
	}
	var of CapacityStep
	of.Fill(r)
	if of.Expected != s.Expected || of.Lost != s.Lost || len(of.Lanes) != len(s.Lanes) {
		return fmt.Errorf("%w: %s has %d of %d deliveries lost, and the capacity says %d of %d; one of them was changed", ErrFormat, dir, of.Lost, of.Expected, s.Lost, s.Expected)
	}
	for i := range of.Lanes {
		if of.Lanes[i] != s.Lanes[i] {
			return fmt.Errorf("%w: %s: lane %s is not what the capacity says; one of them was changed", ErrFormat, dir, of.Lanes[i].Name)
		}
	}
	return nil
}

// Fill takes from the result of a step what the capacity says of it.
func (s *CapacityStep) Fill(r *Result) {
	s.Generator, s.Target = r.Generator, r.Target.Process
	s.Expected, s.Delivered, s.Lost = 0, 0, 0
	s.Lanes = []CapacityStepLane{}
	for _, l := range r.Lanes {
		lost := l.Lost()
		s.Expected += l.Expected
		s.Delivered += l.Delivered
		s.Lost += lost
		s.Lanes = append(s.Lanes, CapacityStepLane{
			Name: l.Name, Mode: l.Mode, Subscriptions: l.Subscriptions, Lost: lost,
			FromIntended: l.Latency.FromIntended, FromSent: l.Latency.FromSent,
		})
	}
	if r.Upstream.Accepted > 0 {
		s.FanOut = float64(s.Expected) / float64(r.Upstream.Accepted)
	}
}
