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

import "time"

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

// Lane is one group of equal subscriptions: the unit in which results are
// reported.
type Lane struct {
	// Name is unique in the profile: lower-case letters, digits and hyphens,
	// with a letter first.
	Name string `yaml:"name" json:"name"`
	// System is events (the default): the MCP Events draft.
	System string `yaml:"system,omitempty" json:"system"`
	Mode   string `yaml:"mode" json:"mode"` // poll, push, webhook
	// Subscriptions is how many there are, at least 1.
	Subscriptions int `yaml:"subscriptions" json:"subscriptions" check:"1.."`
	// Event is the event name to subscribe to.
	Event string `yaml:"event" json:"event"`
	// Arguments of the subscription. Every string in it, at any depth, is a
	// template over .Index, the subscription's number in the lane from 0.
	Arguments map[string]any `yaml:"arguments,omitempty" json:"arguments,omitempty"`
	// Sources is a template over .Index that gives the numbers of the upstream
	// sources that this subscription hears, separated by commas, or "all" (the
	// default), or "none". It must agree with what the target does with Arguments: it is
	// what the ledger expects.
	Sources string `yaml:"sources,omitempty" json:"sources"`
	// HTTP is 1.1 (the default), 2 (over TLS) or h2c.
	HTTP    string      `yaml:"http,omitempty" json:"http" check:"1.1|2|h2c"`
	Poll    PollLane    `yaml:"poll,omitempty" json:"poll,omitzero"`
	Push    PushLane    `yaml:"push,omitempty" json:"push,omitzero"`
	Webhook WebhookLane `yaml:"webhook,omitempty" json:"webhook,omitzero"`
	// Events is for lanes of system events, Smithery for those of system
	// smithery.
	Events   EventsLane   `yaml:"events,omitempty" json:"events,omitzero"`
	Smithery SmitheryLane `yaml:"smithery,omitempty" json:"smithery,omitzero"`
	// SEP1803 is for lanes of system sep-1803.
	SEP1803 SEP1803Lane `yaml:"sep1803,omitempty" json:"sep1803,omitzero"`
	SEP975  SEP975Lane  `yaml:"sep975,omitempty" json:"sep975,omitzero"`
	SEP2549 SEP2549Lane `yaml:"sep2549,omitempty" json:"sep2549,omitzero"`
	Churn   Churn       `yaml:"churn,omitempty" json:"churn,omitzero"`
	Attach  Attach      `yaml:"attach,omitempty" json:"attach"`
	// MaxAge asks for a replay of events that old on (re)attach; 0 = not asked.
	MaxAge time.Duration `yaml:"maxAge,omitempty" json:"maxAge,omitempty" check:"0.."`
}

// PollLane paces a poller.
type PollLane struct {
	// MinInterval is the least time between an answer without hasMore and the next
	// poll; default 1s, as the draft advises. Where the server asks for a longer
	// wait (nextPollMs), that counts.
	MinInterval time.Duration `yaml:"minInterval,omitempty" json:"minInterval,omitempty" check:"0.."`
	// Timeout is the long-poll time asked for (timeoutMs); 0 = answer at once.
	Timeout time.Duration `yaml:"timeout,omitempty" json:"timeout,omitempty" check:"0.."`
	// MaxEvents per poll; 0 = the server's own.
	MaxEvents int `yaml:"maxEvents,omitempty" json:"maxEvents,omitempty" check:"0.."`
}

// PushLane watches a stream.
type PushLane struct {
	// Heartbeat is the interval that the server promises, default 30s, as the
	// draft wants at least; a stream that is silent for more than twice as long is
	// dead.
	Heartbeat time.Duration `yaml:"heartbeat,omitempty" json:"heartbeat,omitempty" check:"1ms.."`
	// Backoff is the first and the longest wait before a reconnect, default
	// 500ms to 30s, as for a failed poll.
	Backoff Backoff `yaml:"backoff,omitempty" json:"backoff,omitempty"`
}

// Backoff grows from Min to Max, doubling, with full jitter.
type Backoff struct {
	Min time.Duration `yaml:"min,omitempty" json:"min,omitempty" check:"1ms.."`
	Max time.Duration `yaml:"max,omitempty" json:"max,omitempty"`
}

// WebhookLane subscribes callbacks.
type WebhookLane struct {
	// TTL is the wish: a duration from 1s to 720h, "default" (ask for none; the
	// default) or "none" (no expiry).
	TTL string `yaml:"ttl,omitempty" json:"ttl,omitempty"`
	// RefreshAt is the share of the grant after which a refresh is sent, 0.1 to
	// 0.95, default 0.75.
	RefreshAt float64 `yaml:"refreshAt,omitempty" json:"refreshAt,omitempty" check:"0.1..0.95"`
	// RotateEvery is how many refreshes pass between two new secrets; 0 = never.
	RotateEvery int `yaml:"rotateEvery,omitempty" json:"rotateEvery,omitempty" check:"0.."`
	// Secrets says which secret the sink accepts while it changes: both (the
	// default; the old one for OldSecret, default 5m, after the answer), early
	// (the new one alone, from when it is sent) or late (the old one alone until
	// the answer has come).
	Secrets   string        `yaml:"secrets,omitempty" json:"secrets,omitempty" check:"both|early|late"`
	OldSecret time.Duration `yaml:"oldSecret,omitempty" json:"oldSecret,omitempty" check:"1ms.."`
	// Refuse is the share of first copies that the sink answers with 503.
	Refuse float64 `yaml:"refuse,omitempty" json:"refuse,omitempty" check:"0..1"`
	// AckDelay is how long the sink waits before it answers 2xx.
	AckDelay time.Duration `yaml:"ackDelay,omitempty" json:"ackDelay,omitempty" check:"0..1h"`
	// Verify says what becomes of a delivery whose signature does not verify:
	// strict (the default) refuses it, report takes it and notes what is wrong.
	Verify string `yaml:"verify,omitempty" json:"verify,omitempty" check:"strict|report"`
	// Callback is the address under which the target reaches the sink, where
	// it differs from the listener's own, e.g. https://load-1.example:8443. On
	// a loopback address it may be http: then the listener speaks plain HTTP.
	// Port 0 stands for the listener's own, as in http://127.0.0.1:0.
	Callback string `yaml:"callback,omitempty" json:"callback,omitempty"`
	// Listen is the listener's address; empty = a free port of 127.0.0.1.
	Listen string `yaml:"listen,omitempty" json:"listen,omitempty"`
	// CertFile and KeyFile are the listener's certificate and key in PEM, for a
	// target that has to trust it already. Without them the listener has a
	// certificate that only the embedded target trusts.
	CertFile string `yaml:"certFile,omitempty" json:"certFile,omitempty"`
	KeyFile  string `yaml:"keyFile,omitempty" json:"keyFile,omitempty"`
}

// Churn ends and reopens subscriptions while the run measures.
type Churn struct {
	// Rate is subscriptions per second, e.g. "2/s". Empty or 0 = none.
	Rate Rate `yaml:"rate,omitempty" json:"rate,omitempty"`
	// Pause is how long a subscription stays away; 0 = it comes back at once.
	Pause time.Duration `yaml:"pause,omitempty" json:"pause,omitempty" check:"0.."`
}

// Attach opens a lane's subscriptions.
type Attach struct {
	Rate Rate `yaml:"rate,omitempty" json:"rate,omitempty"` // per second; 0 = as fast as Concurrency allows
	// Concurrency is how many may be on their way at once, default 64, at most
	// 65536.
	Concurrency int `yaml:"concurrency,omitempty" json:"concurrency" check:"1..65536"`
	// OnFailure is stop (the default) or continue.
	OnFailure string `yaml:"onFailure,omitempty" json:"onFailure" check:"stop|continue"`
}

// Upstream is where emissions come from.
type Upstream struct {
	// Kind is inject (the default), which tells the reference target to emit;
	// http, which sends a request of your own; github, slack or stripe, which
	// send those products' webhooks; feed, which the target polls; tool, which
	// calls an MCP tool; exec, which writes to a program; replay, which fires a
	// trace; or none, which fires nothing: then only what comes anyway is seen.
	Kind string `yaml:"kind,omitempty" json:"kind"`
	// Sources is how many independent sequences of events there are, 1 to
	// 65536, default 1. Order is followed within each.
	Sources int `yaml:"sources,omitempty" json:"sources" check:"1..65536"`
	// Event is the event name that is fired (inject, feed, and replay where an
	// entry names none); default is the lanes' own, if they all subscribe to
	// the same.
	Event string `yaml:"event,omitempty" json:"event,omitempty"`
	// Admin is the address of the admin listener (inject, replay) of a reference target
	// that this run did not start: needed with target.url, and only with that or
	// target.command, where it is needed unless the program says it on standard
	// error, as eventmeter serve --stdio does.
	Admin string `yaml:"admin,omitempty" json:"admin,omitempty"`
	// Payload is the event's data (inject, feed), the request's body as JSON
	// (http, where it has no other), the arguments of the call (tool), or the
	// object on each line (exec): strings are templates over
	// .Source, .Seq and .Probe; at least one must hold {{.Probe}}.
	Payload map[string]any `yaml:"payload,omitempty" json:"payload,omitempty"`
	HTTP    UpstreamHTTP   `yaml:"http,omitempty" json:"http,omitzero"`
	GitHub  UpstreamGitHub `yaml:"github,omitempty" json:"github,omitzero"`
	Slack   UpstreamSlack  `yaml:"slack,omitempty" json:"slack,omitzero"`
	Stripe  UpstreamStripe `yaml:"stripe,omitempty" json:"stripe,omitzero"`
	Feed    UpstreamFeed   `yaml:"feed,omitempty" json:"feed,omitzero"`
	Tool    UpstreamTool   `yaml:"tool,omitempty" json:"tool,omitzero"`
	Exec    UpstreamExec   `yaml:"exec,omitempty" json:"exec,omitzero"`
	Replay  UpstreamReplay `yaml:"replay,omitempty" json:"replay,omitzero"`
	// Timeout bounds one emission, default 5s.
	Timeout time.Duration `yaml:"timeout,omitempty" json:"timeout" check:"1ms.."`
	// Workers bounds the emissions under way, default 64, at most 65536. An emission that
	// is due while all are busy is dropped.
	Workers int `yaml:"workers,omitempty" json:"workers" check:"1..65536"`
}

// UpstreamHTTP is a request template over .Source, .Seq and .Probe: URL, the
// values of Headers, and Body. At least one of them must hold {{.Probe}}.
type UpstreamHTTP struct {
	// Method is POST unless given.
	Method string `yaml:"method,omitempty" json:"method,omitempty"`
	URL    string `yaml:"url,omitempty" json:"url,omitempty"`
	// Headers are sent as they are. Without a Content-Type, a JSON body is sent as
	// application/json.
	Headers map[string]string `yaml:"headers,omitempty" json:"-"`
	Body    string            `yaml:"body,omitempty" json:"body,omitempty"`
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

// Rate is events per second. It is written "20/s", "300/m", "3600/h" or as a
// bare number of events per second.
type Rate float64

// Phases bounds the parts of a run.
type Phases struct {
	// Order is together (the default: all lanes hear each emission) or turns
	// (each lane has the target to itself).
	Order string `yaml:"order,omitempty" json:"order" check:"together|turns"`
	// Ready is how long all subscriptions may take to become active,
	// default 15s.
	Ready time.Duration `yaml:"ready,omitempty" json:"ready" check:"1ms.."`
	// Warmup is fired and followed but enters no figure; default 2s, may be 0.
	Warmup time.Duration `yaml:"warmup,omitempty" json:"warmup" check:"0.."`
	// Measure is what the figures are of, default 10s.
	Measure time.Duration `yaml:"measure,omitempty" json:"measure" check:"1ms.."`
	// Drain is the grace for what is in flight when firing stops, default 5s.
	// Pollers that are still owed something then poll once more, however long
	// the server has them wait for that, for up to a minute longer.
	Drain time.Duration `yaml:"drain,omitempty" json:"drain" check:"0.."`
	// Late is the age, from intended, past which a delivery counts as late,
	// default 5s; 0 = never.
	Late time.Duration `yaml:"late,omitempty" json:"late" check:"0.."`
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
	// bytes. A stream or answer that finds no room is closed and counted as
	// oversized. The processes of a run share it equally. It bounds the
	// connections of the target to the webhook listeners, too: one for each
	// 64KiB, and twice as many deliveries at once. They are not charged.
	Memory Bytes `yaml:"memory,omitempty" json:"memory"`
}
