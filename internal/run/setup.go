package run

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/conform"
	"github.com/eventmeter/eventmeter/internal/dialguard"
	"github.com/eventmeter/eventmeter/internal/health"
	"github.com/eventmeter/eventmeter/internal/metrics"
	"github.com/eventmeter/eventmeter/internal/refserver/faults"
	"github.com/eventmeter/eventmeter/internal/shard/split"
	"github.com/eventmeter/eventmeter/internal/summary"
	"github.com/eventmeter/eventmeter/loadgen"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/loadgen/upstream"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/results"
	"github.com/eventmeter/eventmeter/sinks"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// run is the state of one run.
type run struct {
	*summary.Summary
	opts    Options
	profile *profiles.Profile
	clock   *eventmeter.Clock
	id      uint32
	guard   *dialguard.Guard // checks every connection
	lanes   []*lane

	// listed is what the list of event types showed of the rows of conformance. It
	// counts as that lane's.
	listed    conform.Account
	listedFor *lane
	types     []driver.EventType // that the target lists

	followed *metrics.Following // nil without metrics
	target   targetSide
	subs     [][]ledger.SubCounts
	backlog  *Backlog // if Options requested it
	passNo   uint32

	plan       *split.Plan // nil unless the run is a shard
	siblings   []int       // processes of other shards on this machine
	sources    []netip.Addr
	common     string
	partPasses []results.PartPass

	trace    []upstream.TraceEntry // of upstream.kind replay
	times    loadgen.Trace         // of schedule.kind trace
	tracer   *upstream.TraceRecorder
	traced   bool // a trace was started
	entries  int64
	traceErr error

	hurried bool // stopped before anything was measured
}

// Check checks everything that can be checked without touching the target.
func Check(ctx context.Context, opts Options) error {
	_, err := newRun(ctx, opts)
	return err
}

// newRun checks everything that can be checked without touching the target.
func newRun(ctx context.Context, opts Options) (*run, error) {
	p := opts.Profile
	r := &run{opts: opts, profile: p, clock: eventmeter.NewClock(), id: NewID(), guard: opts.Guard}
	if r.guard == nil {
		r.guard = dialguard.New(nil)
	}
	thresholds, until, err := r.checkProfile(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.readTraces(); err != nil {
		return nil, err
	}
	if opts.Shard != nil {
		if err := opts.Shard.check(p, opts.Record != nil); err != nil {
			return nil, err
		}
		r.id = opts.Shard.Run
		if r.common, err = commonHash(p); err != nil {
			return nil, err
		}
	}
	for i, l := range p.Lanes {
		compiled, err := newLane(i, l)
		if err != nil {
			return nil, fmt.Errorf("%w: lane %s: %w", ErrProfile, l.Name, err)
		}
		r.lanes = append(r.lanes, compiled)
	}
	if err := r.shardLanes(); err != nil {
		return nil, err
	}
	if err := checkFiles(r.mine(), health.FileLimit()); err != nil {
		return nil, err
	}
	text, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("write the profile into the result: %w", err)
	}
	if opts.Backlog {
		r.backlog = new(Backlog)
	}
	r.Summary = summary.New(
		summary.Options{Profile: p, Thresholds: thresholds, Until: until, Part: opts.Shard != nil, Result: r.emptyResult(text)},
	)
	r.warnSecrets()
	r.warnAssumptions()
	if opts.Together != nil {
		r.Warn(
			"duet",
			"",
			"another target was measured at the same time on this machine: these figures are for the comparison of the two, and "+
				"are not those of a run alone",
		)
	}
	return r, nil
}

// checkProfile checks the parts of the profile that need no target: thresholds,
// conditions, hosts and faults.
func (r *run) checkProfile(ctx context.Context) ([]results.Threshold, []results.Condition, error) {
	thresholds, until, err := Judges(r.profile)
	if err != nil {
		return nil, nil, err
	}
	return thresholds, until, r.checkReach(ctx)
}

// Judges returns the thresholds and the conditions of a profile. The error wraps [ErrProfile]
// and says which of them name lanes or figures that cannot exist.
func Judges(p *profiles.Profile) ([]results.Threshold, []results.Condition, error) {
	thresholds, err := results.ParseThresholds(p.Thresholds)
	known := results.Known{Lanes: map[string][]string{}}
	if table := upstream.FigureTables.Of(p.Upstream.Kind); table != nil {
		known.Upstream = table.Names()
	}
	var names, receive []string
	for _, l := range p.Lanes {
		names = append(names, l.Name)
		if !l.HasNoSources() {
			receive = append(receive, l.Name)
		}
		known.Lanes[l.Name] = systems.FigureTables.Of(l.System).Names()
	}
	for _, t := range thresholds {
		err = errors.Join(err, t.CheckLanes(names), t.CheckNames(known))
	}
	until, bad := results.ParseConditions(p.Phases.Until)
	for _, c := range until {
		bad = errors.Join(bad, c.CheckLanes(receive))
	}
	if bad != nil {
		err = errors.Join(err, fmt.Errorf("phases.until: %w", bad))
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrProfile, err)
	}
	return thresholds, until, nil
}

// checkReach checks the hosts that the run connects to, and the faults.
func (r *run) checkReach(ctx context.Context) error {
	p := r.profile
	if err := checkHosts(ctx, r.guard, p, r.opts.AllowHosts); err != nil {
		return err
	}
	if r.opts.TargetMetrics != "" {
		if err := CheckHost(ctx, r.guard, r.opts.TargetMetrics, "--target-metrics", r.opts.AllowHosts); err != nil {
			return err
		}
	}
	if p.Target.Embedded.Faults != "" {
		if err := checkFaults(p); err != nil {
			return fmt.Errorf("%w: target.embedded.faults: %w", ErrProfile, err)
		}
	}
	return nil
}

// emptyResult returns the result before anything is measured.
func (r *run) emptyResult(profile json.RawMessage) *results.Result {
	p := r.profile
	return &results.Result{
		Schema:  results.Schema,
		Version: r.opts.Version,
		Run:     Name(r.id, r.opts.Shard),
		Name:    r.opts.Name,
		Started: time.Now().UTC(),
		Profile: profile,
		Host:    health.Host(),
		Part:    r.opts.Shard.place(),
		Upstream: results.Upstream{
			Kind: p.Upstream.Kind, Sources: p.Upstream.Sources,
		},
		Phases:   []results.Phase{},
		Lanes:    []results.Lane{},
		Warnings: []results.Warning{},
	}
}

// warnSecrets names the secrets that are not hidden.
func (r *run) warnSecrets() {
	if u, err := url.Parse(r.profile.Target.URL); err == nil && (u.Host == "" || sinks.Loopback(u.Hostname())) {
		return // the target is on this machine, as in first steps with any token
	}
	for _, s := range listSecrets(r.profile) {
		if why := whyShown(r.profile, s.value); s.credential && why != "" {
			r.Warn("secret-not-hidden", "", "%s is not hidden where the target repeats it, because it is %s", s.field, why)
		}
	}
}

// warnAssumptions names the assumptions about the clients that lanes imitate.
func (r *run) warnAssumptions() {
	for _, l := range r.lanes {
		for _, text := range l.Webhook.Assumptions(l.Client) {
			r.Warn("assumption", l.Name, "client %s: %s", l.Client, text)
		}
	}
}

// Name returns the run id in results. A shard's index is appended.
func Name(id uint32, s *Shard) string {
	if s == nil {
		return fmt.Sprintf("%08x", id)
	}
	return fmt.Sprintf("%08x-%d", id, s.Index)
}

// NewID picks the number that tells this run's events from those of other runs.
func NewID() uint32 {
	var b [4]byte
	_, _ = rand.Read(b[:]) // it never fails
	return binary.BigEndian.Uint32(b[:])
}

// mine returns the profile with the lanes of this process; a shard has a part of each
// lane.
func (r *run) mine() *profiles.Profile {
	p := *r.profile
	p.Lanes = make([]profiles.Lane, len(r.lanes))
	for i, l := range r.lanes {
		p.Lanes[i] = l.Lane
	}
	return &p
}

// readTraces reads the trace files that the profile names and checks them against it:
// the profile alone does not say how much is published.
func (r *run) readTraces() error {
	u, s, p := r.profile.Upstream, r.profile.Schedule, r.profile.Phases
	if u.Kind == "replay" {
		var err error
		if r.trace, err = readTrace(u.Replay.File); err != nil {
			return fmt.Errorf("%w: upstream.replay.file: %w", ErrProfile, err)
		}
	}
	if s.Kind != "trace" {
		return nil
	}
	times := r.trace
	if u.Kind != "replay" || s.File != u.Replay.File {
		var err error
		if times, err = readTrace(s.File); err != nil {
			return fmt.Errorf("%w: schedule.file: %w", ErrProfile, err)
		}
	}
	r.times = loadgen.Trace{Warp: s.Warp}
	for _, e := range times {
		r.times.Offsets = append(r.times.Offsets, e.At)
	}
	if peak := r.times.Peak(); float64(peak) > float64(r.profile.Limits.Rate) {
		return fmt.Errorf(
			"%w: schedule.file: %s has %d events within a second, above the limit of %v; lower schedule.warp, or raise limits.rate",
			ErrProfile,
			s.File,
			peak,
			r.profile.Limits.Rate,
		)
	}
	if loadgen.Count(r.times, p.Warmup+p.Measure) == loadgen.Count(r.times, p.Warmup) {
		last, _ := r.times.At(uint64(len(times) - 1))
		return fmt.Errorf(
			"%w: schedule.file: %s has no event between phases.warmup (%v) and the end of phases.measure (%v); its last is at %v",
			ErrProfile,
			s.File,
			p.Warmup,
			p.Warmup+p.Measure,
			last,
		)
	}
	return nil
}

// checkFaults reads the faults of the embedded target and refuses faults that have no
// effect on any system of the profile: the run would seem to have withstood them.
func checkFaults(p *profiles.Profile) error {
	spec, err := faults.Load(p.Target.Embedded.Faults)
	if err != nil {
		return err
	}
	places := make([]faults.Place, len(p.Lanes))
	for i, l := range p.Lanes {
		places[i] = faults.Place{System: l.System, Mode: eventmeter.Mode(l.Mode)}
	}
	return spec.Check(places)
}
