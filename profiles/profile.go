// Package profiles reads, checks and lists profiles: the YAML files that say
// what a run does.
//
// # How values are written
//
// A duration is a number and a unit: 250ms, 10s, 1m30s; only 0 needs none. A
// rate is "20/s", "300/m", "3600/h", or a bare number of events per second.
// Texts marked as templates use the syntax of Go's text/template without
// control structures, with the functions add, sub, mul, div, mod, int and
// printf. The functions take and give whole numbers, and dividing by zero gives
// 0, so a template that works once works always. Inside arguments and payload a
// template gives text, as in channel: "room-{{mod .Index 10}}"; a string that
// is nothing but one action with the function int gives a number instead:
// level: "{{int (mod .Index 10)}}".
//
// A key that is left out has the default that its field's comment states. A key
// that does not exist, a key given twice, an anchor, a tag and a second
// document are errors.
package profiles

import (
	"fmt"
	"slices"
	"time"

	"github.com/google/shlex"
)

// Profile is one run, as its author wrote it. A Profile that came out of
// [Parse] or [Load] has its defaults filled in and is valid.
//
// Its JSON form leaves out headers and tokens, which are secrets; durations are
// whole nanoseconds and rates events per second.
type Profile struct {
	Name        string   `yaml:"name" json:"name"`
	Description string   `yaml:"description,omitempty" json:"description,omitempty"`
	Target      Target   `yaml:"target,omitempty" json:"target"`
	Lanes       []Lane   `yaml:"lanes" json:"lanes"`
	Upstream    Upstream `yaml:"upstream" json:"upstream"`
	Schedule    Schedule `yaml:"schedule" json:"schedule"`
	Phases      Phases   `yaml:"phases,omitempty" json:"phases"`
	Thresholds  []string `yaml:"thresholds,omitempty" json:"thresholds,omitempty"`
	Limits      Limits   `yaml:"limits,omitempty" json:"limits"`
	// Generator says how the generator measures.
	Generator Generator `yaml:"generator,omitempty" json:"generator"`
	// Cases make the profile a calibration: it is run once for each, with the
	// case's faults, and what is measured is compared with what they must do.
	Cases []Case `yaml:"cases,omitempty" json:"cases,omitempty"`
	// Capacity is the search that eventmeter capacity makes.
	Capacity Capacity `yaml:"capacity,omitempty" json:"capacity,omitzero"`
}

// Case is one run of a calibration.
type Case struct {
	Name string `yaml:"name" json:"name"`
	// Faults as for target.embedded.faults; empty = none.
	Faults string `yaml:"faults,omitempty" json:"faults,omitempty"`
	// Set overrides values of the profile, path=value.
	Set []string `yaml:"set,omitempty" json:"set,omitempty"`
	// Lanes names those that take part; empty = all.
	Lanes []string `yaml:"lanes,omitempty" json:"lanes,omitempty"`
}

// Generator says how the generator measures.
type Generator struct {
	// KernelTimestamps takes the time of a delivery from the kernel, which
	// leaves out what it waited until this program read it: auto (the default)
	// where all lanes of the profile can have it, so that lanes compare; on for
	// every lane that can, with a warning about those that cannot; off never. It is possible for streams of the system events (push) without
	// TLS, on Linux.
	KernelTimestamps string `yaml:"kernelTimestamps,omitempty" json:"kernelTimestamps" check:"auto|on|off"`
}

// Target says where the server is and how it is met.
type Target struct {
	// URL of the MCP endpoint. Empty means the embedded reference target.
	URL string `yaml:"url,omitempty" json:"url,omitempty"`
	// Command, instead of URL, is a program that speaks MCP over its standard
	// input and output: a list, or a text that is split as a shell would, without
	// one. It is stored in the result, so secrets belong into Env.
	Command Command `yaml:"command,omitempty" json:"command,omitempty"`
	// Env are variables that the program gets besides this process's own. They
	// never enter a result.
	Env map[string]string `yaml:"env,omitempty" json:"-"`
	// Dir is where the program runs; empty = where eventmeter does.
	Dir     string            `yaml:"dir,omitempty" json:"dir,omitempty"`
	Headers map[string]string `yaml:"headers,omitempty" json:"-"`
	// Tokens are bearer tokens, one per principal; subscription i uses token
	// i modulo their number. They are secrets and never enter a result.
	Tokens    []string `yaml:"tokens,omitempty" json:"-"`
	TokenFile string   `yaml:"tokenFile,omitempty" json:"-"`
	// Era is auto (the default), modern (2026-07-28, stateless) or legacy
	// (sessions).
	Era string `yaml:"era,omitempty" json:"era" check:"auto|modern|legacy"`
	// Revision is the spelling that is sent: newest (the default) or older.
	// Every spelling is read. The older one has no poll.timeout and no
	// webhook.ttl, which then are not sent.
	Revision string `yaml:"revision,omitempty" json:"revision" check:"newest|older"`
	// Allow names hosts that are not loopback and may be loaded; they must be
	// named again on the command line.
	Allow []string `yaml:"allow,omitempty" json:"allow,omitempty"`
	// CAFile is a PEM file of certificates to trust beside the system's, at https
	// URLs of the target and of the upstream.
	CAFile string `yaml:"caFile,omitempty" json:"caFile,omitempty"`
	// Embedded tunes the embedded reference target. It is an error with a URL or
	// a command.
	Embedded Embedded `yaml:"embedded,omitempty" json:"embedded,omitzero"`
}

// Embedded is how the embedded reference target behaves. Zero values leave its
// own defaults.
type Embedded struct {
	// Transport is http (the default), or stdio: then all lanes share the
	// target's standard output.
	Transport string `yaml:"transport,omitempty" json:"transport,omitempty" check:"|http|stdio"`
	// Heartbeat is the longest silence on a stream, NextPoll the pause asked
	// of pollers.
	Heartbeat time.Duration `yaml:"heartbeat,omitempty" json:"heartbeat,omitempty" check:"0|1ms.."`
	NextPoll  time.Duration `yaml:"nextPoll,omitempty" json:"nextPoll,omitempty" check:"0|1ms.."`
	// Buffer is how many events of a type are kept for replay, Queue how far a
	// subscriber may lag behind before events are skipped.
	Buffer int `yaml:"buffer,omitempty" json:"buffer,omitempty" check:"0..10000000"`
	Queue  int `yaml:"queue,omitempty" json:"queue,omitempty" check:"0..10000000"`
	// Capacity bounds the deliveries of events per second, in all modes
	// together; what comes faster waits, up to Queue. CapacityBurst is how many
	// may come at once after a pause; default is those of 50 ms.
	Capacity      Rate `yaml:"capacity,omitempty" json:"capacity,omitempty" check:"0..1e6"`
	CapacityBurst int  `yaml:"capacityBurst,omitempty" json:"capacityBurst,omitempty"`
	// TTLMin, TTLDefault and TTLMax bound the life of webhook subscriptions.
	TTLMin     time.Duration `yaml:"ttlMin,omitempty" json:"ttlMin,omitempty" check:"0|1ms.."`
	TTLDefault time.Duration `yaml:"ttlDefault,omitempty" json:"ttlDefault,omitempty"`
	TTLMax     time.Duration `yaml:"ttlMax,omitempty" json:"ttlMax,omitempty"`
	// Retries, RetryBase and AckTimeout are those of webhook deliveries;
	// Retries -1 means none.
	Retries    int           `yaml:"retries,omitempty" json:"retries,omitempty" check:"-1..1000"`
	RetryBase  time.Duration `yaml:"retryBase,omitempty" json:"retryBase,omitempty" check:"0|1ms.."`
	AckTimeout time.Duration `yaml:"ackTimeout,omitempty" json:"ackTimeout,omitempty" check:"0|1ms.."`
	// Faults are committed on purpose: a file, or text such as "drop(every=10)".
	Faults string `yaml:"faults,omitempty" json:"faults,omitempty"`
	// DualSign is how long a replaced secret still signs beside the new one;
	// SingleSign means not at all.
	DualSign   time.Duration `yaml:"dualSign,omitempty" json:"dualSign,omitempty"`
	SingleSign bool          `yaml:"singleSign,omitempty" json:"singleSign,omitempty"`
	// SuspendAfter is how many attempts a webhook subscription is judged by;
	// when nearly all of them fail, deliveries stop until the next refresh; -1
	// means never.
	SuspendAfter int `yaml:"suspendAfter,omitempty" json:"suspendAfter,omitempty" check:"-1.."`
	// Proof is how callbacks prove that they want to be: challenge or
	// well-known.
	Proof string `yaml:"proof,omitempty" json:"proof,omitempty" check:"|challenge|well-known"`
	// TypesEvery lets an event type come and go, each time that long.
	TypesEvery time.Duration `yaml:"typesEvery,omitempty" json:"typesEvery,omitempty"`
	// ResumeMaxWait bounds the maxWait of resume policies. ResumeOverlap is how
	// long a connection must have lived on after a message for that to count as
	// delivered, so that it is not sent again on a resume; with ResumeOnce what
	// was written counts as delivered, and may be lost in a cut.
	ResumeMaxWait time.Duration `yaml:"resumeMaxWait,omitempty" json:"resumeMaxWait,omitempty" check:"0|1ms.."`
	ResumeOverlap time.Duration `yaml:"resumeOverlap,omitempty" json:"resumeOverlap,omitempty"`
	ResumeOnce    bool          `yaml:"resumeOnce,omitempty" json:"resumeOnce,omitempty"`
	// Lists are the lists of SEP-2549.
	Lists EmbeddedLists `yaml:"lists,omitempty" json:"lists,omitzero"`
	// ProxiesMayBuffer leaves out the header X-Accel-Buffering: no of event
	// streams, so that a proxy does what its own settings say.
	ProxiesMayBuffer bool `yaml:"proxiesMayBuffer,omitempty" json:"proxiesMayBuffer,omitempty"`
	// SSEAnswers answers every call with an event stream of one message instead
	// of JSON, as servers made with the official Go SDK do.
	SSEAnswers bool `yaml:"sseAnswers,omitempty" json:"sseAnswers,omitempty"`
	// FeedEvery is the pause between two polls of upstream.kind feed.
	FeedEvery time.Duration `yaml:"feedEvery,omitempty" json:"feedEvery,omitempty" check:"0|1ms.."`
}

// EmbeddedLists is what the embedded target says in its lists. With a lane of
// system sep-2549, Entries is 50 by default and TTL 2s; otherwise there are none.
type EmbeddedLists struct {
	// Entries of each list, Page how many of them a page holds, default 50.
	Entries int `yaml:"entries,omitempty" json:"entries,omitempty" check:"0..100000"`
	Page    int `yaml:"page,omitempty" json:"page,omitempty" check:"0.."`
	// TTL is the time to live; 0, where entries are given, means that every
	// result is stale at once.
	TTL time.Duration `yaml:"ttl,omitempty" json:"ttl,omitempty" check:"0.."`
	// Private marks results as private. Older spells the time to live as the
	// earlier draft did. Strict lets cursors fail after a change of the list.
	Private bool `yaml:"private,omitempty" json:"private,omitempty"`
	Older   bool `yaml:"older,omitempty" json:"older,omitempty"`
	Strict  bool `yaml:"strict,omitempty" json:"strict,omitempty"`
}

// Command is a program and its arguments. In YAML it is a list, or one text
// that is split the way a shell splits words: quotes and backslashes mean what
// they mean there, but no shell is asked and nothing is expanded.
type Command []string

// IsEmbedded tells whether the run starts the reference target for itself.
func (t *Target) IsEmbedded() bool { return t.URL == "" && len(t.Command) == 0 }

// OverStdio tells whether the target is met over standard input and output.
func (t *Target) OverStdio() bool {
	return len(t.Command) > 0 || t.IsEmbedded() && t.Embedded.Transport == "stdio"
}

// SplitCommand splits a text into a command. The error says how to fix it.
func SplitCommand(text string) (Command, error) {
	words, err := shlex.Split(text)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s cannot be split into words: %w; close every quote, or write a list", quote(text), err)
	case len(words) == 0 || words[0] == "":
		return nil, fmt.Errorf("%s names no program; write the program and its arguments", quote(text))
	}
	return words, nil
}

// Schedule says when emissions are due. Emissions go round the sources in turn.
type Schedule struct {
	// Kind is constant (the default), poisson, burst, ramp, sine or trace.
	Kind string `yaml:"kind,omitempty" json:"kind"`
	// Rate of constant and poisson, the first rate of a ramp, the mean of a
	// sine.
	Rate Rate `yaml:"rate,omitempty" json:"rate,omitempty"`
	// Burst is the number of emissions of a burst, Every the time between bursts,
	// Spread the time over which a burst's emissions are spaced (0 = all at once).
	Burst  int           `yaml:"burst,omitempty" json:"burst,omitempty" check:"1..10000000"`
	Every  time.Duration `yaml:"every,omitempty" json:"every,omitempty" check:"1us.."`
	Spread time.Duration `yaml:"spread,omitempty" json:"spread,omitempty"`
	// To is the final rate of a ramp, reached after Period.
	To Rate `yaml:"to,omitempty" json:"to,omitempty"`
	// Amplitude and Period shape a sine around Rate. A ramp's Period is how long
	// it rises, by default all of warmup and measure.
	Amplitude Rate          `yaml:"amplitude,omitempty" json:"amplitude,omitempty"`
	Period    time.Duration `yaml:"period,omitempty" json:"period,omitempty"`
	// Seed of poisson: the same seed gives the same times.
	Seed uint64 `yaml:"seed,omitempty" json:"seed,omitempty"`
	// File of a trace, whose times are those of the emissions; default is that of
	// upstream.replay. Warp is how many times faster than recorded, default 1.
	File string  `yaml:"file,omitempty" json:"file,omitempty"`
	Warp float64 `yaml:"warp,omitempty" json:"warp,omitempty"`
}

// Phases bounds the parts of a run.
type Phases struct {
	// Order is together (the default: all lanes receive each emission) or turns
	// (each lane has the target to itself).
	Order string `yaml:"order,omitempty" json:"order" check:"together|turns"`
	// Ready is how long all subscriptions may take to become active,
	// default 15s.
	Ready time.Duration `yaml:"ready,omitempty" json:"ready" check:"1ms.."`
	// Warmup is published and tracked but enters no figure; default 2s, may be 0.
	Warmup time.Duration `yaml:"warmup,omitempty" json:"warmup" check:"0.."`
	// Measure is what the figures are of, default 10s.
	Measure time.Duration `yaml:"measure,omitempty" json:"measure" check:"1ms.."`
	// Drain is the time for what is in flight when publishing stops, default 5s.
	// Pollers that are still owed something then poll once more, however long
	// the server has them wait for that, for up to a minute longer.
	Drain time.Duration `yaml:"drain,omitempty" json:"drain" check:"0.."`
	// Late is the age, from intended, past which a delivery counts as late,
	// default 5s; 0 = never.
	Late time.Duration `yaml:"late,omitempty" json:"late" check:"0.."`
}

// Limits bounds a run. A profile over its limits is refused before it starts.
type Limits struct {
	// Rate of emissions at its highest, default 20000/s, at most 10000000/s.
	Rate Rate `yaml:"rate,omitempty" json:"rate"`
	// Subscriptions of all lanes together, default 200000, at most 10000000.
	Subscriptions int `yaml:"subscriptions,omitempty" json:"subscriptions" check:"1..10000000"`
	// Duration of the whole run at its longest, default 24h.
	Duration time.Duration `yaml:"duration,omitempty" json:"duration" check:"1s.."`
	// Memory that the target can make this process hold beyond the fixed cost of
	// its subscriptions: incomplete messages, answers, heads and webhook bodies
	// of all lanes together. Written as 256MiB, the default, or as a number of
	// bytes. A stream or answer that does not fit is closed and counted as
	// oversized. The processes of a run share it equally. It bounds the
	// connections of the target to the webhook listeners, too: one for each
	// 64KiB, and twice as many deliveries at once. They are not charged.
	Memory Bytes `yaml:"memory,omitempty" json:"memory"`
}

// Capacity is a search for the largest load that meets a SLO. With
// it, the profile can be given to eventmeter capacity; eventmeter run ignores it.
type Capacity struct {
	// Axis is what is raised: rate (events per second; schedule.kind constant or
	// poisson), subscriptions (of each lane), or burst (events in a burst;
	// schedule.kind burst).
	Axis string `yaml:"axis,omitempty" json:"axis"`
	// From is the lowest load, which is tried first, To the highest. Whole
	// numbers but for rate.
	From float64 `yaml:"from,omitempty" json:"from"`
	To   float64 `yaml:"to,omitempty" json:"to"`
	// SLO is what a load must meet.
	SLO SLO `yaml:"slo,omitempty" json:"slo"`
	// Step is how long each load is measured, after phases.warmup and before a
	// drain of at most phases.drain; default 5s.
	Step time.Duration `yaml:"step,omitempty" json:"step" check:"500ms..1h"`
	// Confirm is by how many trials the verdict on the two loads beside the maximum load
	// must be confirmed, default 2.
	Confirm int `yaml:"confirm,omitempty" json:"confirm" check:"1..10"`
	// Precision is how far apart these two may be, as a share; default 0.02.
	Precision float64 `yaml:"precision,omitempty" json:"precision" check:"0.001..0.5"`
	// Idle is how long each lane's subscriptions are held without events, for
	// the cost sheet; default 5s, 0 = no cost sheet.
	Idle time.Duration `yaml:"idle,omitempty" json:"idle" check:"0..1h"`
}

// SLO is a service level objective. Every lane must meet it.
type SLO struct {
	// P50, P90, P99 and P999 are bounds of scheduled → received; 0 = none.
	P50  time.Duration `yaml:"p50,omitempty" json:"p50,omitempty"`
	P90  time.Duration `yaml:"p90,omitempty" json:"p90,omitempty"`
	P99  time.Duration `yaml:"p99,omitempty" json:"p99,omitempty"`
	P999 time.Duration `yaml:"p999,omitempty" json:"p999,omitempty"`
	// Loss is the largest share of the deliveries that may be missing when the
	// drain is over, and of the events that may fail to be published; default 0.
	Loss float64 `yaml:"loss,omitempty" json:"loss" check:"0..1"`
	// Backlog is the largest growth of what is owed and not yet delivered, as a
	// share of what is offered; default 0.01.
	Backlog float64 `yaml:"backlog,omitempty" json:"backlog" check:"0..1"`
}

// Axes are the axes of a capacity search, with the unit of a load on each.
var Axes = map[string]string{"rate": "events/s", "subscriptions": "subscriptions per lane", "burst": "events per burst"}

// The most that keys may ask for. More than that is a slip of the keyboard, and
// would be allocated before anything is measured.
const (
	maxLanes         = 1000
	maxThresholds    = 1000
	maxSubscriptions = 10_000_000
	maxRate          = Rate(10_000_000)
	maxCount         = 1_000_000_000 // of anything
)

// Defaults are set before a profile is read, so that a 0 that is written means
// 0. Those that depend on other keys follow in complete.
func defaultProfile() Profile {
	return Profile{
		Target:   Target{Era: "auto", Revision: "newest"},
		Upstream: Upstream{Kind: "inject", Sources: 1, Timeout: 5 * time.Second, Workers: 64},
		Schedule: Schedule{Kind: "constant"},
		Phases: Phases{
			Order:   "together",
			Ready:   15 * time.Second,
			Warmup:  2 * time.Second,
			Measure: 10 * time.Second,
			Drain:   5 * time.Second,
			Late:    5 * time.Second,
		},
		Generator: Generator{KernelTimestamps: "auto"},
		Limits:    Limits{Rate: 20_000, Subscriptions: 200_000, Duration: 24 * time.Hour, Memory: 256 << 20},
	}
}

// defaultCapacity is what a capacity section begins with.
func defaultCapacity() Capacity {
	return Capacity{SLO: SLO{Backlog: 0.01}, Step: 5 * time.Second, Confirm: 2, Precision: 0.02, Idle: 5 * time.Second}
}

// complete fills what follows from other keys.
func (p *Profile) complete() {
	p.completeLists()
	if (p.Upstream.Kind == "inject" || p.Upstream.Kind == "feed" || p.Upstream.Kind == "replay" && p.Upstream.Replay.URL == "") && p.Upstream.Event == "" && len(p.Lanes) > 0 {
		var events []string
		for _, l := range p.Lanes {
			if !l.HearsNone() {
				events = append(events, l.Event)
			}
		}
		if slices.Sort(events); len(slices.Compact(events)) == 1 {
			p.Upstream.Event = events[0]
		}
	}
	if p.Upstream.Kind == "http" && p.Upstream.HTTP.Method == "" {
		p.Upstream.HTTP.Method = "POST"
	}
	if p.Upstream.Kind == "replay" && p.Schedule == (Schedule{Kind: "constant"}) {
		p.Schedule.Kind = "trace" // a schedule that was left out
	}
	if p.Schedule.Kind == "trace" && p.Schedule.File == "" {
		p.Schedule.File = p.Upstream.Replay.File
	}
	if p.Schedule.Kind == "ramp" && p.Schedule.Period == 0 {
		p.Schedule.Period = p.Phases.Warmup + p.Phases.Measure
	}
}

// completeLists gives the embedded target lists where a lane uses them.
func (p *Profile) completeLists() {
	lists := &p.Target.Embedded.Lists
	if !p.Target.IsEmbedded() || lists.Entries != 0 {
		return
	}
	for _, l := range p.Lanes {
		if l.System == SystemSEP2549 {
			lists.Entries = 50
			if lists.TTL == 0 {
				lists.TTL = 2 * time.Second
			}
			return
		}
	}
}

// settle takes out of lanes what was switched off by a 0 that was written, which
// is not written again.
func (p *Profile) settle() {
	for i := range p.Lanes {
		l := &p.Lanes[i]
		plain := defaultLaneOf(l.Mode, l.System)
		if l.Churn.Rate == 0 {
			l.Churn.Pause, l.Events.Resume = 0, false
		}
		if l.Events.CutEvery == 0 {
			l.Events.CutFor = 0
		}
		if l.SEP1803.CutEvery == 0 {
			l.SEP1803.CutFor = 0
		}
		if l.Webhook.RotateEvery == 0 {
			l.Webhook.OldSecret, l.Webhook.Secrets = plain.Webhook.OldSecret, plain.Webhook.Secrets
		}
	}
}
