// Package profiles reads, checks and lists profiles: the YAML files that define runs.
//
// # How values are written
//
// A duration is a number and a unit: 250ms, 10s, 1m30s; 0 needs no unit. A rate is "20/s", "300/m",
// "3600/h", or a bare number of events per second. Texts marked as templates use the syntax of Go's
// text/template without control structures, with the functions add, sub, mul, div, mod, int and
// printf. The functions take and return whole numbers, and division by zero gives 0, so a template
// that works once always works. In arguments and payload, a template gives text, as in channel:
// "channel-{{mod .Index 10}}"; a string that consists of one action with the function int gives a
// number instead: priority: "{{int (mod .Index 10)}}".
//
// A missing key has the default stated in its field's comment. Unknown keys, duplicate keys,
// anchors, tags and a second document are errors.
package profiles

import (
	"fmt"
	"slices"
	"time"

	"github.com/eventmeter/eventmeter/internal/settings"
	"github.com/google/shlex"
)

// Profile is the definition of a run. A Profile returned by [Parse] or [Load] is valid and has its
// defaults filled in.
//
// The JSON form leaves out headers and tokens, which are secrets. In it, durations are whole
// nanoseconds and rates events per second.
type Profile struct {
	// name of the profile, which also names results and their directories: letters, digits and
	// hyphens
	Name string `json:"name"`
	// what the profile is for, in a sentence
	Description string `json:"description,omitempty"`
	// the server that is loaded, and how to connect to it; by default the embedded reference server
	Target Target `json:"target"`
	// groups of identical subscribers, at least one; results have figures for each
	Lanes []Lane `json:"lanes"`
	// how events are published
	Upstream Upstream `json:"upstream"`
	// when events are published; required unless upstream.kind is none or replay
	Schedule Schedule `json:"schedule"`
	// how long the parts of a run take
	Phases Phases `json:"phases"`
	// bounds that decide whether the run passes, WHERE.FIGURE OP VALUE, such as "push.p99 < 250ms" or
	// "*.lostSilent == 0". WHERE is a lane, * for every lane, or run. FIGURE is a path in result.json.
	Thresholds []string `json:"thresholds,omitempty"`
	// bounds that no run of the profile may exceed
	Limits Limits `json:"limits"`
	// how the generator measures
	Generator Generator `json:"generator"`
	// cases of a calibration: the profile runs once per case with the case's faults, and the
	// measured figures are compared with the expected effects of the faults
	Cases []Case `json:"cases,omitempty"`
	// the search of eventmeter capacity
	Capacity Capacity `json:"capacity,omitzero"`

	systems Systems // that its lanes can be of
}

// Case is one run of a calibration.
type Case struct {
	// name of the case, unique in the profile
	Name string `json:"name"`
	// faults as in target.embedded.faults; empty = none
	Faults string `json:"faults,omitempty"`
	// overrides of the profile, as path=value
	Set []string `json:"set,omitempty"`
	// names of the lanes that take part; empty = all
	Lanes []string `json:"lanes,omitempty"`
}

// Generator is how the generator measures.
type Generator struct {
	// source of receive times: auto (the default) uses the kernel's receive times if all lanes of
	// the profile support them, so that lanes stay comparable; on uses them for every lane that
	// supports them, with a warning about the others; off never uses them. Kernel times exclude the
	// wait until this program reads a delivery. They are supported for streams of the systems events and sep-1803
	// (push) without TLS, on Linux.
	KernelTimestamps string `json:"kernelTimestamps" check:"auto|on|off"`
}

// Target is the server and how to connect to it.
type Target struct {
	// URL of the MCP endpoint; empty = the embedded reference server
	URL string `json:"url,omitempty"`
	// a program that speaks MCP over standard input and output, instead of a URL: a list, or a text
	// that is split into words like a shell command, without a shell. It is stored in the result,
	// so put secrets into env.
	Command Command `json:"command,omitempty"`
	// further environment variables of the program; never stored in a result
	Env map[string]string `yaml:"env" json:"-"`
	// working directory of the program; empty = that of eventmeter
	Dir     string            `json:"dir,omitempty"`
	Headers map[string]string `yaml:"headers" json:"-"` // headers of every request; never stored in a result
	// bearer tokens, one per principal; subscription i uses token i modulo their number. Tokens are
	// never stored in a result.
	Tokens    []string `yaml:"tokens" json:"-"`
	TokenFile string   `yaml:"tokenFile" json:"-"` // file with one token per line, instead of tokens
	// access tokens that expire, from an issuer, instead of tokens
	OAuth settings.OAuth `json:"oauth,omitzero"`
	// auto (the default), modern (2026-07-28, stateless) or legacy (sessions)
	Era string `json:"era" check:"auto|modern|legacy"`
	// protocol version to speak, such as 2025-06-18; empty = the newest of the era. It decides the era.
	// If the target does not speak it, the run ends with an error that names the target's versions.
	Version string `json:"version,omitempty"`
	// commit or build of what is measured, to find it in the result, such as --set target.commit=$GITHUB_SHA;
	// not sent
	Commit string `json:"commit,omitempty"`
	// revision of MCP Events that lanes send: sep-3415 (the default), sketch, longpoll or older; they
	// read the messages of every revision. Only longpoll has poll.timeout. In older, webhook.ttl is not
	// sent. docs/events.md compares the revisions.
	Revision string `json:"revision" check:"sep-3415|sketch|longpoll|older"`
	// hosts other than loopback that may be loaded; they must be named again on the command line
	Allow []string `json:"allow,omitempty"`
	// PEM file of certificates to trust in addition to the system's, for https URLs of the target
	// and of the upstream
	CAFile string `json:"caFile,omitempty"`
	// settings of the embedded reference server; an error with a URL or a command
	Embedded Embedded `json:"embedded,omitzero"`
}

// Embedded is the behaviour of the embedded reference server. Zero values mean the server's own defaults.
type Embedded struct {
	// http (the default), or stdio, where all lanes share the target's standard output
	Transport string `json:"transport,omitempty" check:"|http|stdio"`
	// revision of MCP Events that the target speaks: sep-3415, sketch, longpoll (the sketch, and
	// polls that wait) or older; by default that of target.revision
	Revision string `json:"revision,omitempty" check:"|sep-3415|sketch|longpoll|older"`
	// what the webhook-id of an event names: event (the default; it equals the eventId) or message
	WebhookID string `json:"webhookId,omitempty" check:"|event|message"`
	// event types per page of events/list; 0 = all on one page
	TypesPage int `json:"typesPage,omitempty" check:"0.."`
	// largest number of streams and webhook subscriptions together, default 100,000; one more is
	// refused with ResourceExhausted
	MaxSubscriptions int `json:"maxSubscriptions,omitempty" check:"0.."`
	// Smithery: a subscription that replaces an expired one gets a new id
	FreshIDs bool `json:"freshIds,omitempty"`
	// longest time without data on a stream, default 15s
	Heartbeat time.Duration `json:"heartbeat,omitempty" check:"0|1ms.."`
	NextPoll  time.Duration `json:"nextPoll,omitempty" check:"0|1ms.."` // pause requested of pollers, default 1s
	// number of events of a type kept for replay, default 10,000
	BufferEvents int `json:"buffer,omitempty" check:"0..10000000"`
	QueueLen     int `json:"queue,omitempty" check:"0..10000000"` // how many events a subscriber may lag behind before events are skipped, default 4096
	// size in bytes of the send buffer that the target requests from the kernel for each
	// connection; with a small buffer, the target soon notices that a client does not read; 0 = the
	// kernel's default
	SendBuffer int `json:"sendBuffer,omitempty" check:"0|1024..16777216"`
	// bound of event deliveries per second, over all modes; further deliveries wait, up to queue
	Capacity      Rate `json:"capacity,omitempty" check:"0..1e6"`
	CapacityBurst int  `json:"capacityBurst,omitempty"` // deliveries allowed at once after a pause; default is those of 50 ms
	// shortest life of a webhook subscription, default 5m
	TTLMin     time.Duration `json:"ttlMin,omitempty" check:"0|1ms.."`
	TTLDefault time.Duration `json:"ttlDefault,omitempty"` // life of a webhook subscription that requests none, default 30m
	TTLMax     time.Duration `json:"ttlMax,omitempty"`     // longest life of a webhook subscription, default 24h
	// retries of a webhook delivery, default 4; -1 = none
	RetryMax   int           `json:"retries,omitempty" check:"-1..1000"`
	RetryBase  time.Duration `json:"retryBase,omitempty" check:"0|1ms.."`  // first wait before a retry, default 1s; it doubles with each retry
	AckTimeout time.Duration `json:"ackTimeout,omitempty" check:"0|1ms.."` // longest wait for the answer to a delivery, default 5s
	// largest number of deliveries in flight, over all webhook subscriptions, default 256; further ones
	// wait. If answers take 275 ms, 256 senders make 930 deliveries per second.
	Senders int `json:"senders,omitempty" check:"0|1..20000"`
	// largest number of these deliveries at one host and port of callbacks, for events and
	// smithery; further ones wait without a sender, so that a slow host does not use up all
	// senders; 0 (the default) = no bound but senders
	SendersPerHost int `json:"sendersPerHost,omitempty" check:"0|1..20000"`
	// injected faults: a file, or text such as "drop(every=10)"
	Faults string `json:"faults,omitempty"`
	// signatures of webhooks: v1 (the default) by the secret of the subscription; v1+v1a by a key of the
	// target as well
	Signature string `json:"signature,omitempty" check:"|v1|v1+v1a"`
	// how long a replaced secret still signs deliveries in addition to the new one, default 1m
	DualSignGrace time.Duration `json:"dualSign,omitempty"`
	SingleSign    bool          `json:"singleSign,omitempty"` // deliveries are signed with the new secret only
	// number of recent attempts by which a webhook subscription is judged, default 100: if more than
	// 95 % of them fail, deliveries stop until the next refresh; -1 = never
	SuspendAfter int `json:"suspendAfter,omitempty" check:"-1.."`
	// drops a webhook subscription without an expiry when all its deliveries have failed for this time,
	// and sends it one terminated envelope; 0 = never
	DropAfter time.Duration `json:"dropAfter,omitempty" check:"0|1ms.."`
	// how callback URLs prove that they accept deliveries: challenge (the default), well-known or
	// allow-list
	Proof string `json:"proof,omitempty" check:"|challenge|well-known|allow-list"`
	// with proof: allow-list, the hosts of allowed callbacks, with or without a port
	CallbackHosts []string `json:"callbackHosts,omitempty"`
	// failed proofs per callback host and minute, default 120; further subscriptions at this host are
	// refused with ResourceExhausted; -1 = no bound
	VerifyFailures int `json:"verifyFailures,omitempty" check:"-1.."`
	// adds the event type presence.changed, which cannot be polled and has no replay
	Presence bool `json:"presence,omitempty"`
	// interval at which the event type seasonal appears and disappears; 0 = there is no such type
	TypesEvery time.Duration `json:"typesEvery,omitempty"`
	// bound of the maxWait of resume policies, default 5m
	ResumeMaxWait time.Duration `json:"resumeMaxWait,omitempty" check:"0|1ms.."`
	ResumeOverlap time.Duration `json:"resumeOverlap,omitempty"` // how long a connection must stay open after a message for the message to count as delivered, default 1s; delivered messages are not sent again on a resume
	ResumeOnce    bool          `json:"resumeOnce,omitempty"`    // written messages count as delivered, and may be lost in a cut
	// SEP-975: makes every request resumable, not only calls of the tool work, and delays each response
	// by this time; 0 = only the tool
	ResumeAny time.Duration `json:"resumeAny,omitempty" check:"0|1ms..1h"`
	// the lists of SEP-2549
	Lists EmbeddedLists `json:"lists,omitzero"`
	// leaves out the header X-Accel-Buffering: no of event streams, so that a proxy follows its own
	// settings
	ProxiesMayBuffer bool `json:"proxiesMayBuffer,omitempty"`
	// answers every call with an event stream of one message instead of JSON, like servers built
	// with the official Go SDK
	SSEAnswers bool `json:"sseAnswers,omitempty"`
	// life of access tokens; if given, the embedded target issues and requires tokens, and
	// target.oauth says how principals get them
	TokenLife        time.Duration `json:"tokenLife,omitempty" check:"0|1ms.."`
	TokenEndsStreams bool          `json:"tokenEndsStreams,omitempty"` // ends push streams when the token that opened them expires
	// pause between polls of upstream.kind feed, default 500ms
	FeedEvery time.Duration `json:"feedEvery,omitempty" check:"0|1ms.."`
}

// EmbeddedLists defines the lists of the embedded target. With a lane of system sep-2549, entries
// is 50 and ttl 2s by default; otherwise there are no lists.
type EmbeddedLists struct {
	// entries of each list
	Entries int `json:"entries,omitempty" check:"0..100000"`
	Page    int `json:"page,omitempty" check:"0.."` // entries per page, default 50
	// time to live; 0 with entries given = every result is stale at once
	TTL time.Duration `json:"ttl,omitempty" check:"0.."`
	// marks results as private
	Private bool `json:"private,omitempty"`
	Older   bool `json:"older,omitempty"`   // spells the time to live as in the earlier draft
	Uneven  bool `json:"uneven,omitempty"`  // every second page has half the time to live
	NoHints bool `json:"noHints,omitempty"` // leaves out the time to live and the scope, which then mean 0 and private
	Strict  bool `json:"strict,omitempty"`  // cursors fail after a change of the list
}

// Command is a program and its arguments. In YAML it is a list, or a text that is split into words
// like a shell command: quotes and backslashes work, but no shell runs and nothing is expanded.
type Command []string

// IsEmbedded reports whether the run starts the reference server itself.
func (t *Target) IsEmbedded() bool { return t.URL == "" && len(t.Command) == 0 }

// OverStdio reports whether the target is connected over standard input and output.
func (t *Target) OverStdio() bool {
	return len(t.Command) > 0 || t.IsEmbedded() && t.Embedded.Transport == "stdio"
}

// SplitCommand splits a text into a command. The error says how to fix it.
func SplitCommand(text string) (Command, error) {
	words, err := shlex.Split(text)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s cannot be split into words: %w; close every quote, or write a list", settings.Quote(text), err)
	case len(words) == 0 || words[0] == "":
		return nil, fmt.Errorf("%s names no program; write the program and its arguments", settings.Quote(text))
	}
	return words, nil
}

// Schedule defines when events are due. Events alternate between the sources.
type Schedule struct {
	// constant (the default), poisson, burst, ramp, sine or trace
	Kind string `json:"kind"`
	// rate of constant and poisson, first rate of a ramp, mean rate of a sine
	Rate Rate `json:"rate,omitempty"`
	// number of events of a burst
	Burst  int           `json:"burst,omitempty" check:"1..10000000"`
	Every  time.Duration `json:"every,omitempty" check:"1us.."` // time between bursts
	Spread time.Duration `json:"spread,omitempty"`              // time over which the events of a burst are spread; 0 = all at once
	// final rate of a ramp, reached after period
	To Rate `json:"to,omitempty"`
	// amplitude of a sine around rate
	Amplitude Rate          `json:"amplitude,omitempty"`
	Period    time.Duration `json:"period,omitempty"` // period of a sine; how long a ramp rises, by default warmup and measure together
	// seed of poisson: the same seed gives the same times
	Seed uint64 `json:"seed,omitempty"`
	// file of the trace that gives the times; default is the file of upstream.replay
	File string  `json:"file,omitempty"`
	Warp float64 `json:"warp,omitempty"` // how many times faster than recorded, default 1
}

// Phases defines the phases of a run.
type Phases struct {
	// together (the default: all lanes run at the same time and receive the same events) or turns
	// (one lane after the other, each with the target to itself)
	Order string `json:"order" check:"together|turns"`
	// longest time until all subscriptions are active and pollers have polled twice, default 15s
	Ready time.Duration `json:"ready" check:"1ms.."`
	// events of this phase are published and received but enter no figure; default 2s, may be 0
	Warmup time.Duration `json:"warmup" check:"0.."`
	// duration of the measured phase, default 10s; with until, its least duration
	Measure time.Duration `json:"measure" check:"1ms.."`
	// ends the measured phase when latencies are known this exactly: LANE.PERCENTILE ±SHARE, such
	// as "push.p99 ±5%", a text with commas between conditions, or a list of them. All must hold.
	// The share is half of the width of the 95 % interval, divided by the latency;
	// docs/statistics.md explains it. Needs a schedule of kind constant, poisson, burst or sine.
	Until Conditions `json:"until,omitempty"`
	// longest duration of the measured phase with until, default 10 times measure
	MeasureAtMost time.Duration `json:"measureAtMost,omitempty" check:"1ms.."`
	// drain timeout: how long to wait for events in flight after publishing stops, default 5s.
	// Pollers with owed deliveries then poll once more, and may take up to a minute longer if the
	// server delays the answer. If the target gave up waiting for the answer to a webhook, the
	// whole drain timeout is waited, so that further copies are counted.
	Drain time.Duration `json:"drain" check:"0.."`
	// how long the target is left alone after all subscriptions have ended. What the target still
	// holds then decides whether a rise is a leak. Default 0: no cool-down.
	Cooldown time.Duration `json:"cooldown,omitempty" check:"0.."`
	// latency scheduled → received above which a delivery counts as late, default 5s; 0 = never
	Late time.Duration `json:"late" check:"0.."`
}

// Conditions are conditions on latencies. In YAML they are a list, or one text. Each text may hold
// several, with commas between them.
type Conditions []string

// Longest is the longest duration of the measured phase.
func (p *Phases) Longest() time.Duration { return max(p.Measure, p.MeasureAtMost) }

// Limits bounds a run. A profile that exceeds its limits is refused before the run starts.
type Limits struct {
	// highest rate of events, default 20000/s, at most 10000000/s
	Rate Rate `json:"rate"`
	// subscriptions of all lanes, default 200000, at most 10000000
	Subscriptions int `json:"subscriptions" check:"1..10000000"`
	// longest duration of the whole run, default 24h
	Duration time.Duration `json:"duration" check:"1s.."`
	// memory that the target can make this process hold, beyond the fixed cost of subscriptions:
	// incomplete messages, answers, headers and webhook bodies of all lanes. Written as 256MiB (the
	// default) or as a number of bytes. A stream or answer that does not fit is closed and counted
	// as oversized. The processes of a run share the amount equally. It also bounds the connections
	// of the target to webhook listeners (one per 64KiB) and concurrent deliveries (two per 64KiB),
	// which are not charged.
	Memory Bytes `json:"memory"`
}

// Capacity is a search for the largest load that meets an SLO. eventmeter capacity requires it;
// eventmeter run ignores it.
type Capacity struct {
	// what is raised: rate (events per second; schedule.kind constant or poisson), subscriptions
	// (of each lane), or burst (events per burst; schedule.kind burst)
	Axis string `json:"axis"`
	// lowest load, which is tried first; a whole number unless axis is rate
	From float64 `json:"from"`
	// highest load; without it the load is doubled until the SLO breaks, or the generator is the
	// bottleneck
	To float64 `json:"to"`
	// the SLO that a load must meet
	SLO SLO `json:"slo"`
	// how long each load is measured, after phases.warmup and before a drain of at most
	// phases.drain; default 5s
	Step time.Duration `json:"step" check:"500ms..1h"`
	// number of trials that must confirm the verdict on the maximum load and on the load above it,
	// default 2
	Confirm int `json:"confirm" check:"1..10"`
	// largest distance between these two loads, as a share; default 0.02
	Precision float64 `json:"precision" check:"0.001..0.5"`
	// how long each lane's subscriptions are held without events, for the cost sheet; default 5s, 0
	// = no cost sheet
	Idle time.Duration `json:"idle" check:"0..1h"`
}

// SLO is a service level objective. Every lane must meet it.
type SLO struct {
	// bound of the median latency scheduled → received; 0 = none
	P50  time.Duration `json:"p50,omitempty"`
	P90  time.Duration `json:"p90,omitempty"`  // bound of the 90th percentile
	P95  time.Duration `json:"p95,omitempty"`  // bound of the 95th percentile
	P99  time.Duration `json:"p99,omitempty"`  // bound of the 99th percentile
	P999 time.Duration `json:"p999,omitempty"` // bound of the 99.9th percentile
	// largest share of deliveries that may be missing after the drain, and of events that may fail
	// to be published; default 0
	Loss float64 `json:"loss" check:"0..1"`
	// largest growth of the backlog, as a share of the offered rate; default 0.01
	Backlog float64 `json:"backlog" check:"0..1"`
	// bounds of metrics of the target while the step publishes, such as
	// "process_resident_memory_bytes < 500MiB" or "rate(http_errors_total) < 1", read with
	// --target-metrics. Without --target-metrics, only process_resident_memory_bytes and
	// rate(process_cpu_seconds_total) of the target's process are available.
	Metrics []string `json:"metrics,omitempty"`
}

// Axes are the axes of a capacity search, with the unit of a load on each.
var Axes = map[string]string{"rate": "events/s", "subscriptions": "subscriptions per lane", "burst": "events per burst"}

// Upper bounds of keys. Larger values are typing errors, and would be allocated before anything is
// measured.
const (
	maxLanes         = 1000
	maxThresholds    = 1000
	maxSubscriptions = 10_000_000
	maxRate          = Rate(10_000_000)
)

// Defaults are set before a profile is read, so that a written 0 means 0. Defaults that depend on
// other keys are set by complete.
func defaultProfile(systems Systems) Profile {
	return Profile{
		systems:  systems,
		Target:   Target{Era: "auto", Revision: settings.Revision},
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

// defaultCapacity are the defaults of a capacity section.
func defaultCapacity() Capacity {
	return Capacity{SLO: SLO{Backlog: 0.01}, Step: 5 * time.Second, Confirm: 2, Precision: 0.02, Idle: 5 * time.Second}
}

// complete sets defaults that depend on other keys.
func (p *Profile) complete() {
	p.completeLists()
	p.Target.OAuth.Fill()
	if (p.Upstream.Kind == "inject" || p.Upstream.Kind == "feed" || p.Upstream.Kind == "replay" && p.Upstream.Replay.URL == "") &&
		p.Upstream.Event == "" &&
		len(p.Lanes) > 0 {
		var events []string
		for _, l := range p.Lanes {
			if !l.HasNoSources() {
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
		p.Schedule.Kind = "trace" // a missing schedule
	}
	if p.Schedule.Kind == "trace" && p.Schedule.File == "" {
		p.Schedule.File = p.Upstream.Replay.File
	}
	if p.Schedule.Kind == "ramp" && p.Schedule.Period == 0 {
		p.Schedule.Period = p.Phases.Warmup + p.Phases.Measure
	}
	if ph := &p.Phases; len(ph.Until) > 0 && ph.MeasureAtMost == 0 {
		ph.MeasureAtMost = 10 * min(ph.Measure, settings.Longest/10)
	}
}

// completeLists gives the embedded target lists where a lane uses them.
func (p *Profile) completeLists() {
	lists := &p.Target.Embedded.Lists
	if !p.Target.IsEmbedded() || lists.Entries != 0 {
		return
	}
	for _, l := range p.Lanes {
		if slices.Contains(p.listSystems(), l.System) {
			lists.Entries = 50
			if lists.TTL == 0 {
				lists.TTL = 2 * time.Second
			}
			return
		}
	}
}

// listSystems are the systems whose lanes use lists.
func (p *Profile) listSystems() (names []string) {
	for _, s := range p.systems {
		if s.UsesLists {
			names = append(names, s.Name)
		}
	}
	return names
}

// settle removes from lanes what a written 0 switched off, so that it is not written again.
func (p *Profile) settle() {
	for i := range p.Lanes {
		l := &p.Lanes[i]
		for _, d := range dependents(p.systems, l) {
			if !d.on {
				d.value.Set(d.standard)
			}
		}
	}
}
