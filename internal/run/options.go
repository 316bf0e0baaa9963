package run

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/conform"
	"github.com/eventmeter/eventmeter/internal/dialguard"
	"github.com/eventmeter/eventmeter/internal/embedded"
	"github.com/eventmeter/eventmeter/internal/metrics"
	"github.com/eventmeter/eventmeter/loadgen"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/results"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// Options are the options of a run. Profile must be set.
type Options struct {
	Profile *profiles.Profile
	// AllowHosts names the hosts, besides this machine, that may be loaded.
	AllowHosts []string
	// Embedded starts the reference server for a profile without a target URL. The
	// run stops the target.
	Embedded func(context.Context, embedded.Options) (embedded.Server, error)
	// EmbeddedCommand returns the command that starts the reference server over
	// standard input and output, with the options in a file. It is used for a profile
	// with target.embedded.transport: stdio.
	EmbeddedCommand func(optionsFile string) ([]string, error)
	// Stop ends the run early but in order when it is closed: publishing stops, then
	// the run drains and detaches. Cancelling the context of [Run] ends it at once
	// instead.
	Stop <-chan struct{}
	// Progress, if not nil, is called a few times per second from a single goroutine.
	Progress func(Progress)
	// Record, if not nil, receives a trace of the published events, or of the
	// received events with upstream.kind none. If lanes take turns, it is the trace
	// of the first turn.
	Record io.Writer
	// Checkpoint, if not nil, is called every few seconds from a single goroutine,
	// beginning when publishing begins. The outcome has no accounts, and its result
	// is partial. An error becomes a warning.
	Checkpoint func(*Outcome) error
	// Collector, if not nil, shows the figures as live metrics.
	Collector *metrics.Collector
	// Version is the version of the program, for the result.
	Version string
	// Name is the name that a person gave the run; see [results.CheckName]. It may be "".
	Name string

	// Shard, if not nil, makes this run one of several.
	Shard *Shard

	// Together, if not nil, makes this run one of a duet: the runs that share it wait
	// for each other, and publish each emission together.
	Together *loadgen.Together

	// Recorder, if not nil, is called beside the ledger with everything that is
	// recorded.
	Recorder eventmeter.Recorder
	// Subscriptions requests Outcome.Subscriptions.
	Subscriptions bool
	// Measured, if not nil, is called after each pass, while the target is still
	// there. admin is the base URL of the embedded target's admin listener, "" for
	// any other target; client connects only where the run may. An error ends the
	// run.
	Measured func(ctx context.Context, admin string, client *http.Client) error

	patience time.Duration // longest wait of a drain after phases.drain; 0 = driver.Patience

	// Beside, if not nil, is called in each pass when publishing begins, and works
	// beside it. The run goes on publishing until the schedule or Stop ends it; then
	// it cancels ctx and waits for Beside to return.
	Beside func(ctx context.Context, b Beside)

	// Unmeasured, if not nil, is called if the run ends before it measures anything, with
	// what was seen of the rows of conformance until then.
	Unmeasured func(conform.Account)

	// Backlog requests Outcome.Backlog.
	Backlog bool
	// Idle suppresses publishing.
	Idle bool
	// Keep, if not nil, keeps the embedded target from one run to the next. The
	// caller must stop it.
	Keep *embedded.Keep
	// Guard checks every connection; nil = a new one. Runs that share a guard resolve
	// each name once.
	Guard *dialguard.Guard
	// TargetMetrics is the URL of the target's metrics in Prometheus' text format,
	// for a target whose process is on another machine. Its host needs the same
	// permission as the target's.
	TargetMetrics string
}

// Beside is what [Options.Beside] is given of a run.
type Beside struct {
	Clock    *eventmeter.Clock
	Endpoint *mcpclient.Endpoint
	// Inbox receives the callbacks of the first lane that has some; nil = none has.
	Inbox *driver.Inbox
	// Event is the event type of the first lane, Arguments are those of its first
	// subscription.
	Event     string
	Arguments json.RawMessage
	// Types are the event types that the target lists.
	Types []driver.EventType
	// Publishing is true if the run publishes events.
	Publishing bool
	// List asks the target for its event types again. It returns what the list shows of
	// the rows of conformance, also with an error.
	List func(context.Context) (conform.Account, error)
}

// Outcome is the outcome of a run. Accounts has one account, or one for each lane if
// lanes take turns, with the time series of the lanes.
type Outcome struct {
	Result   *results.Result
	Accounts []ledger.Account
	// Traced is the number of entries written to Options.Record. TraceErr is the
	// error that ended the trace early, if any.
	Traced   int64
	TraceErr error
	// Part is what a merge needs, if the run is a shard; else nil.
	Part *results.Part

	// Subscriptions are the counts of each subscription, by lane.
	Subscriptions [][]ledger.SubCounts

	// Judged is what each lane saw of the rows of conformance; nil where nobody judged.
	Judged []conform.Account

	// Backlog is set if Options requested it.
	Backlog *Backlog
}

// Progress is a snapshot of a run.
type Progress struct {
	// Phase is attach, warm-up, measure, drain or detach. Lane is set if lanes take
	// turns.
	Phase, Lane string
	// Elapsed is the time since the phase began, Limit its longest duration.
	Elapsed, Limit time.Duration
	Live           ledger.Live
	// Until says how exactly the latencies of phases.until are known. It is empty without
	// phases.until, and before the first look.
	Until string
	// Trouble says that the target does not answer; empty if it does.
	Trouble string
}

// Shard makes a run one of several that load the same target together. Each shard
// opens its part of every lane's subscriptions, publishes its part of the schedule,
// and measures these on its own clock. shard.Merge adds up the archives.
type Shard struct {
	// Index is from 0 to Count-1. There are at least 2.
	Index, Count int
	// Run is the base of the run numbers of all shards. It must be equal in all of
	// them, and differ from that of any other run.
	Run uint32
	// Barrier is called when all subscriptions of a pass are active. Passes are
	// numbered from 0; there are several if lanes take turns. Barrier returns the
	// wall-clock time at which publishing begins; a time that has passed is an error.
	Barrier func(ctx context.Context, pass int) (time.Time, error)
	// Target, if not nil, returns the embedded target that all shards share.
	// callbacks is the PEM of the certificates that the target has to trust.
	Target func(ctx context.Context, callbacks []byte) (Shared, error)
}

// Shared is an embedded target that another process started.
type Shared struct {
	Ready embedded.Ready
	// Siblings are the process ids of the run's other generators on this machine.
	// Their resource use belongs to the run.
	Siblings []int
	// Source is the address that connections to the target come from, so that shards
	// on one machine do not exhaust the ports of one address. The zero Addr means
	// any.
	Source netip.Addr
}

// The errors that callers branch on; the command turns each into an exit code.
var (
	// ErrProfile: the profile requests something that is impossible or not allowed.
	ErrProfile = errors.New("the profile cannot be run")
	// ErrTarget: the target cannot be reached, does not offer what the profile
	// requests, or went away.
	ErrTarget = errors.New("target")
)

// ErrStopped is returned for a run that was stopped by [Options.Stop].
var ErrStopped = errors.New("stopped on request")

// AttachError is the error of a run whose subscriptions were not all accepted by the
// target.
type AttachError struct{ Err error }

func (e AttachError) Error() string { return e.Err.Error() }

func (e AttachError) Unwrap() error { return e.Err }
