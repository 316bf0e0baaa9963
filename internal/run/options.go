package run

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/dialguard"
	"github.com/eventmeter/eventmeter/internal/embedded"
	"github.com/eventmeter/eventmeter/internal/metrics"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/results"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// Options say what to run and what to report while it runs. Profile must be set.
type Options struct {
	Profile *profiles.Profile
	// AllowHosts names the hosts, besides this machine, that may be loaded.
	AllowHosts []string
	// Embedded starts the reference target for a profile without a target URL.
	// The run stops it.
	Embedded func(context.Context, embedded.Options) (embedded.Server, error)
	// EmbeddedCommand is the command that starts the reference target over
	// standard input and output, for a profile that asks for it, with the
	// options in a file.
	EmbeddedCommand func(optionsFile string) ([]string, error)
	// Stop, when it is closed, ends the run early but in order: publishing
	// stops, the drain and the detach are done. Cancelling the context of [Run]
	// instead ends it at once.
	Stop <-chan struct{}
	// Progress, when not nil, is called a few times per second from one
	// goroutine.
	Progress func(Progress)
	// Record, when not nil, gets a trace of what is published, or, where nothing
	// is (upstream.kind none), of what arrives. Where lanes take turns, it is that
	// of the first.
	Record io.Writer
	// Checkpoint, when not nil, is called every few seconds from the time when
	// publishing begins, from one goroutine, with the outcome so far: it has no
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
	Accounts []ledger.Account
	// Traced is how many entries Options.Record got; TraceErr says that some
	// are missing.
	Traced   int64
	TraceErr error
	// Part is what a merge needs, where the run is a shard; else nil.
	Part *results.Part

	// Subscriptions are the counts of each subscription, by lane.
	Subscriptions [][]ledger.SubCounts

	// Backlog is what was owed and not delivered, where Options asked for it.
	Backlog *Backlog
}

// Progress is a snapshot of a run.
type Progress struct {
	// Phase is attach, warm-up, measure, drain or detach; Lane is set when
	// lanes take turns.
	Phase, Lane string
	// Elapsed and Limit are of the phase. It may end before its limit.
	Elapsed, Limit time.Duration
	Live           ledger.Live
	// Trouble says that the target does not answer; "" if it does.
	Trouble string
}

// Shard makes a run one of several that load the same target together. Each
// opens its part of every lane's subscriptions, publishes its part of the schedule,
// and measures that on its own clock. shard.Merge adds up what they archive.
type Shard struct {
	// Index is from 0 to Count-1. There are at least 2.
	Index, Count int
	// Run is the base of the run numbers of all shards, which must be equal in
	// all of them, and in no other run.
	Run uint32
	// Barrier is called when all subscriptions of a pass (from 0; there are
	// several when lanes take turns) are active. It returns when publishing begins
	// by the wall clock, which may lie ahead; a time that is past is an error.
	Barrier func(ctx context.Context, pass int) (time.Time, error)
	// Target, where not nil, gives the embedded target that all shards share;
	// callbacks is the PEM of what it has to trust.
	Target func(ctx context.Context, callbacks []byte) (Shared, error)
}

// Shared is an embedded target that another process started.
type Shared struct {
	Ready embedded.Ready
	// Siblings are the processes of the run on this machine, without this one
	// and the target: their work belongs to the run.
	Siblings []int
	// Source is the address that connections to the target come from, so that
	// shards of one machine do not share the ports of one; not valid = any.
	Source netip.Addr
}

// The errors that callers branch on; the command turns each into an exit code.
var (
	// ErrProfile: the profile asks for something that is not possible or not
	// allowed.
	ErrProfile = errors.New("the profile cannot be run")
	// ErrTarget: the target cannot be reached, does not offer what the profile
	// asks for, or went away.
	ErrTarget = errors.New("target")
)

// ErrStopped is returned for a run that was stopped by [Options.Stop].
var ErrStopped = errors.New("stopped on request")

// AttachError says that the target did not take all subscriptions.
type AttachError struct{ Err error }

func (e AttachError) Error() string { return e.Err.Error() }

func (e AttachError) Unwrap() error { return e.Err }
