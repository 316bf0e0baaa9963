// Package bench is the conductor: it takes a profile through its phases
// (attach, warm-up, measure, drain, detach) and returns the result. It is the
// only room where generators, sinks, ledger and target meet.
package bench

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/mcpload/mcpload"
	"github.com/mcpload/mcpload/loadgen"
	"github.com/mcpload/mcpload/loadgen/upstream"
	"github.com/mcpload/mcpload/profiles"
	"github.com/mcpload/mcpload/results"
	"github.com/mcpload/mcpload/sinks"
)

// Options say what to run and how to tell about it. Profile must be set.
type Options struct {
	Profile *profiles.Profile
	// AllowHosts names the hosts, besides this machine, that may be loaded.
	AllowHosts []string
	// Embedded starts the reference target for a profile without a target URL;
	// args are flags of the serve command. The run stops it.
	Embedded func(ctx context.Context, args []string) (*Child, error)
	// Stop, when it is closed, ends the run early but in order: firing stops,
	// the drain and the detach are done. Cancelling the context of [Run]
	// instead ends it at once.
	Stop <-chan struct{}
	// Progress, when not nil, is called a few times per second from one
	// goroutine.
	Progress func(Progress)
	// Record, when not nil, gets a trace of what is fired, or, where nothing is
	// (upstream.kind none), of what arrives. Where lanes take turns, it is that
	// of the first.
	Record io.Writer
	// Version of the program, for the result.
	Version string

	tape *tape // of a calibration: what was fired
}

// Outcome is a finished run. Accounts has one account, or one for each lane
// when lanes take turns; the lanes' time series are in there.
type Outcome struct {
	Result   *results.Result
	Accounts []sinks.Account
	// Traced is how many entries Options.Record got; TraceErr says that some
	// are missing.
	Traced   int64
	TraceErr error

	subs [][]sinks.SubCounts // of a calibration: each lane's subscriptions
}

// Run runs the profile.
//
// When the run ended early, Outcome is partial, and the error says why; it
// wraps [ErrProfile], [ErrTarget], [context.Canceled] or [ErrStopped]. Outcome
// is nil if nothing was measured. A nil error means that the run is whole;
// whether it met its thresholds, and whether the generator was the bottleneck,
// is in the result.
func Run(ctx context.Context, opts Options) (*Outcome, error) {
	r, err := newRun(ctx, opts)
	if err != nil {
		return nil, err
	}
	defer r.close()
	if err := r.open(ctx); err != nil {
		return nil, err
	}
	return r.passes(ctx)
}

// ErrStopped is returned for a run that was stopped by [Options.Stop].
var ErrStopped = errors.New("stopped on request")

// run is one run on its way.
type run struct {
	opts       Options
	profile    *profiles.Profile
	thresholds []results.Threshold
	clock      *mcpload.Clock
	id         uint32
	lanes      []*lane

	target   targetSide
	accounts []sinks.Account
	subs     [][]sinks.SubCounts
	passNo   uint32

	trace    []upstream.TraceEntry // of upstream.kind replay
	times    loadgen.Trace         // of schedule.kind trace
	tracer   *upstream.TraceRecorder
	traced   bool // a trace was begun
	entries  int64
	traceErr error

	warnMu               sync.Mutex
	result               *results.Result
	fireLag, fireLatency sinks.Timing // of all passes
	unsound              []string     // what is wrong with the ledger itself
}

// newRun checks everything that can be checked without touching the target.
func newRun(ctx context.Context, opts Options) (*run, error) {
	p := opts.Profile
	r := &run{opts: opts, profile: p, clock: mcpload.NewClock(), id: newRunID()}
	var err error
	if r.thresholds, err = results.ParseThresholds(p.Thresholds); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProfile, err)
	}
	names := make([]string, len(p.Lanes))
	for i, l := range p.Lanes {
		names[i] = l.Name
	}
	for _, t := range r.thresholds {
		if err := t.CheckLanes(names); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrProfile, err)
		}
	}
	if err := checkHosts(ctx, p, opts.AllowHosts); err != nil {
		return nil, err
	}
	if p.Target.Embedded.Faults != "" {
		if err := checkFaults(p); err != nil {
			return nil, fmt.Errorf("%w: target.embedded.faults: %w", ErrProfile, err)
		}
	}
	if err := checkFiles(p, fileLimit()); err != nil {
		return nil, err
	}
	if err := r.readTraces(); err != nil {
		return nil, err
	}
	for i, l := range p.Lanes {
		compiled, err := newLane(i, l)
		if err != nil {
			return nil, fmt.Errorf("%w: lane %s: %w", ErrProfile, l.Name, err)
		}
		r.lanes = append(r.lanes, compiled)
	}
	text, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("write the profile into the result: %w", err)
	}
	r.result = &results.Result{
		Schema:  results.Schema,
		Version: opts.Version,
		Run:     fmt.Sprintf("%08x", r.id),
		Started: time.Now().UTC(),
		Profile: text,
		Host:    thisHost(),
		Upstream: results.Upstream{
			Kind: p.Upstream.Kind, Sources: p.Upstream.Sources,
		},
		Phases:   []results.Phase{},
		Lanes:    []results.Lane{},
		Warnings: []results.Warning{},
	}
	return r, nil
}

// newRunID picks the number that tells this run's events from all others'.
func newRunID() uint32 {
	var b [4]byte
	_, _ = rand.Read(b[:]) // it never fails
	return binary.BigEndian.Uint32(b[:])
}

// passes runs all lanes together or one after the other, and finishes the
// result.
func (r *run) passes(ctx context.Context) (*Outcome, error) {
	var err error
	if r.profile.Phases.Order == "turns" {
		for _, l := range r.lanes {
			if err = r.pass(ctx, []*lane{l}); err != nil {
				break
			}
		}
	} else {
		err = r.pass(ctx, r.lanes)
	}
	if len(r.accounts) == 0 {
		return nil, err
	}
	r.finish(err)
	return &Outcome{Result: r.result, Accounts: r.accounts, Traced: r.entries, TraceErr: r.traceErr, subs: r.subs}, err
}

// finish fills in what is known only at the end.
func (r *run) finish(err error) {
	res := r.result
	res.Finished = time.Now().UTC()
	if err != nil {
		res.Partial, res.Reason = true, err.Error()
	}
	r.upstreamFigures()
	for i := range res.Lanes {
		res.Lanes[i].Latency.MarkFloor(res.Instrument.OwnDelay.P99)
	}
	res.Thresholds = []results.Verdict{}
	for _, t := range r.thresholds {
		res.Thresholds = append(res.Thresholds, t.Check(res)...)
	}
	r.warn()
}
