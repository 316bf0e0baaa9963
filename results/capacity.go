package results

import (
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

// Capacity is the outcome of a search for the maximum load. Loads are in the unit of the axis;
// durations are in nanoseconds unless a field says otherwise.
type Capacity struct {
	Schema  string `json:"schema"`  // always eventmeter.capacity/1
	Version string `json:"version"` // of the program that made it
	// the name that a person gave the search (--name)
	Name     string    `json:"name,omitempty"`
	Started  time.Time `json:"started"`  // wall clock, UTC
	Finished time.Time `json:"finished"` // wall clock, UTC
	// whether the search was interrupted
	Partial bool   `json:"partial"`
	Reason  string `json:"reason,omitempty"` // why it was interrupted
	// the profile of the search, without secrets
	Profile json.RawMessage `json:"profile"`
	// the built-in profile or the file that the profile was read from
	Source string      `json:"source,omitempty"`
	Target Target      `json:"target"` // the server that was measured
	Host   Host        `json:"host"`   // the machine that measured
	Axis   string      `json:"axis"`   // rate, subscriptions or burst
	Unit   string      `json:"unit"`   // unit of a load
	SLO    CapacitySLO `json:"slo"`    // the SLO that a load had to meet
	// found; none: the lowest load did not meet the SLO; bound: the highest load met it; generator:
	// above the maximum load the generator was the limit; exhausted: too many trials disagreed;
	// searching: the search was interrupted
	Outcome string `json:"outcome"`
	// why the search ended
	Stopped string          `json:"stopped"`
	Maximum CapacityMaximum `json:"maximum"` // the maximum load at the end of the search
	Steps   []CapacityStep  `json:"steps"`   // all steps, in the order of measurement
	// the Universal Scalability Law fitted to the steps; absent where no fit can be trusted
	Law        *CapacityLaw   `json:"law,omitempty"`
	LawRefused string         `json:"lawRefused,omitempty"` // why no law was fitted
	Costs      []CapacityCost `json:"costs"`                // the cost sheet, one entry per lane
	Warnings   []Warning      `json:"warnings"`             // what a reader of the figures should know
}

// CapacitySLO is the service level objective. A latency of 0 is no bound.
type CapacitySLO struct {
	P50     Nanos   `json:"p50"`     // bound of the median, scheduled → received
	P90     Nanos   `json:"p90"`     // bound of the 90th percentile
	P95     Nanos   `json:"p95"`     // bound of the 95th percentile
	P99     Nanos   `json:"p99"`     // bound of the 99th percentile
	P999    Nanos   `json:"p999"`    // bound of the 99.9th percentile
	Loss    float64 `json:"loss"`    // largest allowed share of deliveries missing after the drain
	Backlog float64 `json:"backlog"` // largest allowed growth of the backlog, as a share of the offered rate
	// bounds of metrics of the target
	Metrics []string `json:"metrics,omitempty"`
}

// Bounds are the bounds of the quantiles, scheduled → received; a value of 0 is none.
func (l *CapacitySLO) Bounds() []Quantile {
	return Quantiles{P50: l.P50, P90: l.P90, P95: l.P95, P99: l.P99, P999: l.P999}.All()
}

// CapacityMaximum is the largest load that meets the SLO, with its uncertainty.
type CapacityMaximum struct {
	// the largest load that met the SLO, below all loads that did not; 0 = none
	Load  float64 `json:"load"`
	Above float64 `json:"above"` // the smallest load that did not meet the SLO; 0 = none
	// no trial at or below this load failed; 0 = open
	From        float64 `json:"from"`
	To          float64 `json:"to"`          // no trial at or above this load passed; 0 = open
	Passed      int     `json:"passed"`      // trials of load that met the SLO
	Failed      int     `json:"failed"`      // trials of load that did not
	AbovePassed int     `json:"abovePassed"` // trials of above that met the SLO
	AboveFailed int     `json:"aboveFailed"` // trials of above that did not
	// events per second at load
	Events     float64  `json:"events"`
	Deliveries float64  `json:"deliveries"` // deliveries per second at load
	FanOut     float64  `json:"fanOut"`     // deliveries per event
	Limits     []string `json:"limits"`     // why the load above failed
}

// CapacityStep is one trial of one load.
type CapacityStep struct {
	Number int `json:"number"` // from 1
	// archive of the run, relative to the directory of the capacity; "" where nothing could be
	// measured
	Dir string `json:"dir"`
	// bracket, bisect, confirm or retry; recover: the lowest load, after an overload that did not
	// drain; idle or cost: for the cost sheet
	Purpose string  `json:"purpose"`
	Lane    string  `json:"lane,omitempty"` // the only lane of an idle or cost step
	Load    float64 `json:"load"`           // in the unit of the axis
	// passed, failed, unclear (not met, and the generator may be the cause) or aside (not judged)
	Verdict string   `json:"verdict"`
	Reasons []string `json:"reasons"` // why it did not pass
	// events per second of the schedule
	Events   float64 `json:"events"`
	FanOut   float64 `json:"fanOut"`   // deliveries expected per accepted event
	Offered  float64 `json:"offered"`  // deliveries due per second: events × fanOut
	Achieved float64 `json:"achieved"` // copies received per second in the measured phase
	// of all lanes
	Expected  int64              `json:"expected"`
	Delivered int64              `json:"delivered"`        // of all lanes
	Lost      int64              `json:"lost"`             // silent or announced losses, of all lanes
	Undrained int64              `json:"undrained"`        // owed and not delivered at the end of the drain
	Backlog   CapacityBacklog    `json:"backlog"`          // backlog in the measured phase
	Lanes     []CapacityStepLane `json:"lanes"`            // latencies, lane by lane
	Target    *Process           `json:"target,omitempty"` // the target's use of its machine
	// what was judged by the bounds of the SLO on metrics, by bound: the value that is furthest
	// towards the limit while the step published
	Metrics map[string]float64 `json:"metrics,omitempty"`
	// the generator's own health
	Generator Generator `json:"generator"`
	// the work that the CPU times of target and generator paid for, in a step with one lane
	Usage *CapacityUsage `json:"usage,omitempty"`
}

// CapacityUsage is the work of a step with one lane while its processes were watched: from the
// warm-up to the end of the drain.
type CapacityUsage struct {
	Seconds       float64 `json:"seconds"`       // how long the processes were watched
	Subscriptions int     `json:"subscriptions"` // subscriptions that were open
	Events        int64   `json:"events"`        // events published, warm-up included
	Deliveries    int64   `json:"deliveries"`    // copies of events received, warm-up included
	// connections of the lane, opened in the whole step
	Connections int64 `json:"connections"`
	// the lane's traffic in the measured window
	Measured OverheadWindow `json:"measured"`
}

// CapacityBacklog describes the deliveries that were owed and not yet made during a step.
type CapacityBacklog struct {
	// deliveries per second
	Growth float64 `json:"growth"`
	Error  float64 `json:"error"` // standard error of growth
	Share  float64 `json:"share"` // growth over the offered rate
	Most   int64   `json:"most"`  // largest backlog seen
}

// CapacityStepLane is one lane of a step.
type CapacityStepLane struct {
	Name          string    `json:"name"`          // as in the profile
	Mode          string    `json:"mode"`          // poll, push or webhook
	Subscriptions int       `json:"subscriptions"` // number of subscriptions
	Lost          int64     `json:"lost"`          // silent or announced losses
	FromIntended  Quantiles `json:"fromIntended"`  // scheduled → received
	FromSent      Quantiles `json:"fromSent"`      // published → received
}

// CapacityLaw is X(N) = lambda·N / (1 + sigma·(N−1) + kappa·N·(N−1)), with N the
// load over Unit and X deliveries per second.
type CapacityLaw struct {
	Unit   float64       `json:"unit"`   // the load at N = 1
	Lambda CapacityRange `json:"lambda"` // deliveries per second at N = 1
	Sigma  CapacityRange `json:"sigma"`  // contention
	Kappa  CapacityRange `json:"kappa"`  // coherency
	// the load at which the law has its maximum
	Peak      *CapacityRange `json:"peak,omitempty"`
	PeakShare float64        `json:"peakShare"` // share of the resamples that have a peak
	Points    int            `json:"points"`    // steps
	Loads     int            `json:"loads"`     // different loads among them
	Low       float64        `json:"low"`       // lowest load
	High      float64        `json:"high"`      // highest load
	Residual  float64        `json:"residual"`  // root mean square, as a share
	Worst     float64        `json:"worst"`     // worst residual, as a share
	R2        float64        `json:"r2"`        // share of the variance explained
	Doubts    []string       `json:"doubts"`    // reasons to read the fit with care
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
	// cost of 1,000 idle subscriptions for an hour
	Idle      CostOf `json:"idle"`
	Delivered CostOf `json:"delivered"` // cost of a million delivered events
	// cost of taking a million events and finding their subscribers, apart from their deliveries
	Event *CostOf `json:"event,omitempty"`
	// cost of the target for an hour with one idle subscription
	Base *CostOf `json:"base,omitempty"`
	// what was not measured, or only roughly, and why
	Missing []string `json:"missing"`
}

// CostOf is the cost of an amount of work. A null figure was not measured.
type CostOf struct {
	// seconds of CPU time of the target
	CPU        *float64 `json:"cpu"`
	Resolution float64  `json:"resolution"` // CPU seconds, the smallest cost that could be distinguished from zero
	Memory     *float64 `json:"memory"`     // bytes of resident memory
	// requests: without an event for idle, with an event for delivered
	Requests *float64 `json:"requests"`
	Bytes    *float64 `json:"bytes"` // in both directions, counted like requests
	// what was measured, such as "20 subscriptions for 3.5s"
	Basis string `json:"basis"`
}

// Write writes c as indented JSON with a final newline, as [Result.Write] does.
func (c *Capacity) Write(w io.Writer) error {
	bound(c, &c.Warnings)
	if err := c.check(); err != nil {
		return fmt.Errorf("write capacity: %w: %w", ErrFormat, err)
	}
	return writeJSON(w, "capacity", c)
}

// check verifies the invariants of a capacity.
func (c *Capacity) check() error {
	if err := plausible(c); err != nil {
		return err
	}
	for i, s := range c.Steps {
		if s.Expected != s.Delivered+s.Lost || s.Number != i+1 {
			return fmt.Errorf("step %d of %d: %d expected are not %d delivered + %d lost", s.Number, i+1, s.Expected, s.Delivered, s.Lost)
		}
	}
	return nil
}

// ReadCapacity reads one capacity strictly. An unknown field, another schema or trailing data is an
// error that wraps [ErrFormat].
func ReadCapacity(in io.Reader) (*Capacity, error) {
	data, err := readBounded(in, maxResultBytes)
	if err != nil {
		return nil, fmt.Errorf("read capacity: %w", err)
	}
	c := new(Capacity)
	if err := decode(data, CapacitySchema, c); err != nil {
		return nil, err
	}
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	errtext.CleanAll(c)
	return c, nil
}

// IsCapacity reports whether dir holds a capacity and not a run.
func IsCapacity(dir string) bool {
	info, err := os.Stat(filepath.Join(dir, CapacityFile))
	return err == nil && !info.IsDir()
}

// RebuildCapacity loads the capacity in dir and rebuilds the result of every step from its archive
// (see [Rebuild]). A step that contradicts its archive is an error that wraps [ErrFormat].
func RebuildCapacity(dir string) (*Capacity, error) {
	c, err := load("capacity", filepath.Join(dir, CapacityFile), ReadCapacity)
	if err != nil {
		return nil, err
	}
	for _, s := range c.Steps {
		if s.Dir == "" {
			continue
		}
		if !filepath.IsLocal(s.Dir) {
			return nil, fmt.Errorf("%w: step %d: %q leads out of the directory", ErrFormat, s.Number, s.Dir)
		}
		if err := s.checkArchive(filepath.Join(dir, s.Dir)); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%w: step %d: %w; a capacity has an archive for each step", ErrFormat, s.Number, err)
		} else if err != nil {
			return nil, fmt.Errorf("step %d: %w", s.Number, err)
		}
	}
	return c, nil
}

// checkArchive compares a step with the archive of its run.
func (s *CapacityStep) checkArchive(dir string) error {
	r, err := Rebuild(dir)
	if err != nil {
		return err
	}
	var of CapacityStep
	of.Fill(r)
	if of.Expected != s.Expected || of.Lost != s.Lost || len(of.Lanes) != len(s.Lanes) {
		return fmt.Errorf(
			"%w: %s has %d of %d deliveries lost, and the capacity says %d of %d; one of them was changed",
			ErrFormat,
			dir,
			of.Lost,
			of.Expected,
			s.Lost,
			s.Expected,
		)
	}
	for i := range of.Lanes {
		if of.Lanes[i] != s.Lanes[i] {
			return fmt.Errorf("%w: %s: lane %s is not what the capacity says; one of them was changed", ErrFormat, dir, of.Lanes[i].Name)
		}
	}
	return nil
}

// Fill sets the figures of a step from the result of its run.
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
