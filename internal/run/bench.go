// Package bench is the conductor: it takes a profile through its phases
// (attach, warm-up, measure, drain, detach) and returns the result. It is the
// only room where generators, sinks, ledger and target meet.
package run

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/dialguard"
	"github.com/eventmeter/eventmeter/internal/embedded"
	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/internal/health"
	"github.com/eventmeter/eventmeter/internal/metrics"
	"github.com/eventmeter/eventmeter/internal/shard/split"
	"github.com/eventmeter/eventmeter/internal/summary"
	"github.com/eventmeter/eventmeter/loadgen"
	"github.com/eventmeter/eventmeter/loadgen/upstream"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/results"
	"github.com/eventmeter/eventmeter/sinks"
)

// Options say what to run and how to tell about it. Profile must be set.
type Options struct {
	Profile *profiles.Profile
	// AllowHosts names the hosts, besides this machine, that may be loaded.
	AllowHosts []string
	// Embedded starts the reference target for a profile without a target URL;
	// args are flags of the serve command. The run stops it.
	Embedded func(ctx context.Context, args []string) (embedded.Server, error)
	// EmbeddedCommand is the command that starts the reference target over
	// standard input and output, for a profile that asks for it; args are flags
	// of the serve command.
	EmbeddedCommand func(args []string) ([]string, error)
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
	// Checkpoint, when not nil, is called every few seconds from the time when
	// firing begins, from one goroutine, with the outcome so far: it has no
	// accounts, and its result is partial. An error becomes a warning.
	Checkpoint func(*Outcome) error
	// Collector, when not nil, shows the figures as metrics while they come.
	Collector *metrics.Collector
	// Version of the program, for the result.
	Version string

	// Shard, when not nil, makes this run one of several.
	Shard *Shard

	// Recorder, when not nil, sees what the ledger sees.
	Recorder eventmeter.Recorder
	// Subscriptions fills in Outcome.Subscriptions.
	Subscriptions bool
	// Measured, when not nil, is called after each pass, while the target is still
	// there. admin is the base URL of the embedded target's admin listener, "" of
	// any other target; client connects where the run may. An error ends the run.
	Measured func(ctx context.Context, admin string, client *http.Client) error

	polls time.Duration // how long a drain waits for polls beyond phases.drain; 0 = driver.PollPatience

	// Backlog fills in Outcome.Backlog.
	Backlog bool
	// Idle has nothing published.
	Idle bool
	// Keep, when not nil, holds the embedded target from one run to the next. It is
	// the caller's to stop.
	Keep *embedded.Keep
	// Guard checks every connection; nil = one of the run's own. Runs that share it
	// resolve each name once.
	Guard *dialguard.Guard
	// TargetMetrics is the address of the target's metrics in Prometheus' text
	// format, for a target whose process is not one of this machine. Its host is
	// held to the same rule as the target's.
	TargetMetrics string
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
	// Part is what a merge needs, where the run is a shard; else nil.
	Part *results.Part

	// Subscriptions are the counts of each subscription, by lane.
	Subscriptions [][]sinks.SubCounts

	// Backlog is how what was owed moved, where Options asked for it.
	Backlog *Backlog
}

// Run runs the profile.
//
// When the run ended early, Outcome is partial, and the error says why; it
// wraps [ErrProfile], [ErrTarget], [context.Canceled] or [ErrStopped]. Outcome
// is nil if nothing was measured. A nil error means that the run is whole;
// whether it met its thresholds, and whether the generator was the bottleneck,
// is in the result.
func Run(ctx context.Context, opts Options) (*Outcome, error) {
	secrets := SecretsOf(opts.Profile)
	if save := opts.Checkpoint; save != nil {
		opts.Checkpoint = func(o *Outcome) error {
			scrubOutcome(o, secrets)
			return save(o)
		}
	}
	out, err := doRun(ctx, opts, secrets)
	return out, secrets.ScrubError(err)
}

func scrubOutcome(o *Outcome, secrets *errtext.Secrets) {
	secrets.ScrubAll(o.Result)
	if o.Part != nil {
		secrets.ScrubAll(o.Part)
	}
}

func doRun(ctx context.Context, opts Options, secrets *errtext.Secrets) (*Outcome, error) {
	opening, opened, release := UntilStop(ctx, opts.Stop)
	defer release()
	r, err := newRun(opening, opts)
	if err == nil {
		defer r.close()
		err = r.open(opening)
	}
	if stopped := opened(); stopped && err != nil {
		if r != nil {
			r.hurried = true
		}
		return nil, ErrStopped // whatever that looked like from inside
	}
	if err != nil {
		return nil, err
	}
	r.follow()
	out, err := r.passes(ctx)
	if out == nil {
		r.hurried = errors.Is(err, ErrStopped)
		r.followed.Finish(nil, metrics.Figures{})
	} else {
		scrubOutcome(out, secrets) // before anybody else reads it
		r.followed.Finish(out.Result, r.Upstream)
	}
	return out, err
}

// UntilStop gives a context that is also cancelled by stop, until opened is
// called, which says whether it was. Nothing has been measured by then that would
// have to be drained. release must be called when nothing uses the context any
// more.
func UntilStop(ctx context.Context, stop <-chan struct{}) (opening context.Context, opened func() bool, release func()) {
	opening, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	stopped := make(chan bool, 1)
	go func() {
		defer crash.Guard()
		select {
		case <-stop:
			cancel(ErrStopped)
			stopped <- true
		case <-done:
			stopped <- false
		}
	}()
	return opening, func() bool {
		close(done)
		return <-stopped
	}, func() { cancel(nil) }
}

// ErrStopped is returned for a run that was stopped by [Options.Stop].
var ErrStopped = errors.New("stopped on request")

// run is one run on its way.
type run struct {
	*summary.Summary
	opts    Options
	profile *profiles.Profile
	clock   *eventmeter.Clock
	id      uint32
	guard   *dialguard.Guard // of every connection
	lanes   []*lane

	followed *metrics.Following // nil where nobody wants metrics
	target   targetSide
	subs     [][]sinks.SubCounts
	backlog  *Backlog // where it is wanted
	passNo   uint32

	plan       *split.Plan // of a shard
	siblings   []int       // processes of other shards on this machine
	sources    []netip.Addr
	common     string
	partPasses []results.PartPass

	trace    []upstream.TraceEntry // of upstream.kind replay
	times    loadgen.Trace         // of schedule.kind trace
	tracer   *upstream.TraceRecorder
	traced   bool // a trace was begun
	entries  int64
	traceErr error

	hurried bool // somebody wants to leave, and nothing was measured
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
	thresholds, err := r.checkProfile(ctx)
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
	r.Summary = summary.New(summary.Options{Profile: p, Thresholds: thresholds, Part: opts.Shard != nil, Result: r.emptyResult(text)})
	r.warnSecrets()
	return r, nil
}

// checkProfile holds the profile against what is known without the target:
// thresholds, hosts and faults.
func (r *run) checkProfile(ctx context.Context) ([]results.Threshold, error) {
	p := r.profile
	thresholds, err := results.ParseThresholds(p.Thresholds)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProfile, err)
	}
	names := make([]string, len(p.Lanes))
	for i, l := range p.Lanes {
		names[i] = l.Name
	}
	for _, t := range thresholds {
		if err := t.CheckLanes(names); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrProfile, err)
		}
	}
	if err := checkHosts(ctx, r.guard, p, r.opts.AllowHosts); err != nil {
		return nil, err
	}
	if r.opts.TargetMetrics != "" {
		if err := CheckHost(ctx, r.guard, r.opts.TargetMetrics, "--target-metrics", r.opts.AllowHosts); err != nil {
			return nil, err
		}
	}
	if p.Target.Embedded.Faults != "" {
		if err := checkFaults(p); err != nil {
			return nil, fmt.Errorf("%w: target.embedded.faults: %w", ErrProfile, err)
		}
	}
	return thresholds, nil
}

// emptyResult is the result before anything was measured.
func (r *run) emptyResult(profile json.RawMessage) *results.Result {
	p := r.profile
	return &results.Result{
		Schema:  results.Schema,
		Version: r.opts.Version,
		Run:     Name(r.id, r.opts.Shard),
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

// Name is the run id in results: that of a shard has its index behind it.
func Name(id uint32, s *Shard) string {
	if s == nil {
		return fmt.Sprintf("%08x", id)
	}
	return fmt.Sprintf("%08x-%d", id, s.Index)
}

// NewID picks the number that tells this run's events from all others'.
func NewID() uint32 {
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
	if len(r.Accounts) == 0 {
		return nil, err
	}
	part := r.part() // with the warnings so far: those about figures are for the merged ones
	r.finish(err)
	return &Outcome{Result: r.Result, Accounts: r.Accounts, Traced: r.entries, TraceErr: r.traceErr, Part: part, Subscriptions: r.subs, Backlog: r.backlog}, err
}

// finish fills in what is known only at the end.
func (r *run) finish(err error) {
	r.SetUpstream(r.upstreamFigures())
	r.warnEnded()
	r.Result.Target.Stdio = r.stdioFigures()
	r.warnStamps()
	r.Finish(err, r.firstFailure())
}
