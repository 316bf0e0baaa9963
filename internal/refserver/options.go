package refserver

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/eventmeter/eventmeter/internal/refserver/faults"
)

// Options configures a [Server]. The zero value works: a plain listener on a
// free loopback port, any token accepted, callbacks to public addresses only.
//
// A zero number or duration means its default. [New] refuses negative ones.
type Options struct {
	// Addr is the plain MCP listener's address (HTTP/1.1 and h2c). Default
	// 127.0.0.1:0.
	Addr string
	// Stdio opens no MCP listener: [Server.ServeStdio] serves the one client.
	// It cannot be combined with TLS.
	Stdio bool
	// TLS opens a second MCP listener on TLSAddr (default 127.0.0.1:0) with
	// HTTP/1.1 and HTTP/2 over TLS and a self-signed certificate, see
	// [Server.CertPEM].
	TLS     bool
	TLSAddr string
	// AdminAddr is the admin listener's address. The listener has no
	// authentication, so it belongs on loopback. Default 127.0.0.1:0.
	AdminAddr string

	// Tokens lists the accepted bearer tokens; each is a principal. Empty: any
	// token is accepted and is a principal, and a request without one is
	// anonymous. Anonymous callers may list, poll and stream, but not subscribe
	// webhooks.
	Tokens []string

	// TokenLife, if not 0, has the server issue access tokens that are valid that
	// long (package issuer), and accept no others: a principal is a client id. It
	// cannot be combined with Tokens or Stdio.
	TokenLife time.Duration
	// TokenSecret is what clients prove themselves with when they ask for a
	// token. "" = any secret. It belongs to TokenLife.
	TokenSecret string
	// TokenEndsStreams ends a stream of events/stream or of a session when the
	// token that opened it is no longer valid. It belongs to TokenLife.
	TokenEndsStreams bool

	// AllowPrivateCallbacks allows webhooks to loopback, private and other
	// addresses that are not public.
	AllowPrivateCallbacks bool
	// CallbackRoots are the certificates that verify callbacks, CallbackCAFile
	// a PEM file of such. With both, the file is added to a copy. With neither,
	// the system's are used.
	CallbackRoots  *x509.CertPool `json:"-"`
	CallbackCAFile string
	// CallbackInsecure accepts any certificate of a callback.
	CallbackInsecure bool

	// Revision is the revision of MCP Events that is spoken: [RevisionSEP3415],
	// the default, [RevisionSketch], [RevisionLongPoll] or [RevisionOlder].
	Revision string
	// WebhookID is what the webhook-id of an event names: [WebhookIDEvent], the
	// default, or [WebhookIDMessage].
	WebhookID string
	// FreshIDs gives each new Smithery subscription an id of its own. By default
	// the id follows from what the subscription is for, as the draft has it, so
	// that a client cannot see that its subscription was lost and made anew.
	FreshIDs bool
	// TypesPage is the number of event types on one page of events/list. 0 =
	// all on one page.
	TypesPage int

	// Heartbeat is the longest silence on a stream. Default 15 s; the draft
	// wants at most 30 s.
	Heartbeat time.Duration
	// NextPoll is the pause that pollers are asked to make (nextPollMs), 1 ms
	// or more. Default 1 s.
	NextPoll time.Duration
	// LongPollMax bounds the timeoutMs that a poll may ask for, which only
	// [RevisionLongPoll] has. A longer poll gets an empty answer after
	// LongPollMax. Default 30 s.
	LongPollMax time.Duration
	// PollMaxEvents bounds the events of one poll answer. Default 500.
	PollMaxEvents int

	// BufferEvents and BufferAge bound the replay buffer of each event type.
	// Defaults 10,000 events and 10 minutes. BufferBytes bounds it by the size
	// of the encoded events; the newest event always stays. Default 64 MiB.
	BufferEvents int
	BufferAge    time.Duration
	BufferBytes  int
	// QueueLen bounds how many live events a stream or a webhook subscription
	// may lag behind. Events beyond it are skipped, oldest first, counted, and
	// announced as a gap. Events replayed from a cursor do not count. Default
	// 4096.
	QueueLen int

	// SendBuffer is the size in bytes that the kernel is asked for as the send
	// buffer of each MCP connection. A small one has the server notice soon that a
	// client does not read. 0 = the kernel's. It cannot be combined with Stdio.
	SendBuffer int

	// TTLMin, TTLDefault and TTLMax bound the time to live of webhook
	// subscriptions. Defaults 5 min, 30 min and 24 h.
	TTLMin, TTLDefault, TTLMax time.Duration
	// MaxSubscriptions bounds streams and webhook subscriptions together; one
	// more is refused as exhausted. Default 100,000. Sessions have the same bound,
	// but at least 1,000; one more is answered with 503.
	MaxSubscriptions int

	// RetryMax is how often a failed delivery is tried again. Default 4; -1 =
	// never.
	RetryMax int
	// RetryBase is the wait before the first retry. It doubles with each retry,
	// and the upper half of each wait is random. Default 1 s.
	RetryBase time.Duration
	// AckTimeout is how long a callback may take to answer. Default 5 s.
	AckTimeout time.Duration
	// Signature is what webhooks of MCP Events and Smithery are signed with:
	// [SignSecret], the default, or [SignBoth].
	Signature string
	// DualSignGrace is how long the former secret signs beside the new one
	// after a rotation. Default 1 min; -1 = not at all.
	DualSignGrace time.Duration
	// InFlight bounds the concurrent attempts of one webhook subscription.
	// Default 1, which keeps its events in order as long as none is retried.
	InFlight int
	// Window bounds the events of one webhook subscription that are neither
	// acknowledged nor given up. Default 256.
	Window int
	// Senders bounds the concurrent attempts of all webhook subscriptions.
	// Default 256.
	Senders int
	// SendersPerHost bounds the attempts of MCP Events and Smithery at one host
	// and port of callbacks. Further subscriptions wait without a sender. 0 = no
	// bound but Senders.
	SendersPerHost int

	// ProxiesMayBuffer leaves out the header X-Accel-Buffering: no, which asks
	// proxies not to collect the bytes of event streams.
	ProxiesMayBuffer bool
	// SSEAnswers sends the answer to every call as an event stream of one
	// message instead of JSON, as servers made with the official Go SDK do. It
	// cannot be combined with Stdio.
	SSEAnswers bool

	// Capacity bounds the deliveries of events per second, in all three modes
	// together, by a token bucket that holds CapacityBurst of them. Faster
	// deliveries wait, so that latency and backlog grow, up to QueueLen. 0 = no
	// bound. CapacityBurst defaults to the deliveries of 50 ms, at least 1.
	// Retries of webhooks count. Envelopes do not, nor do systems other than
	// MCP Events and Smithery triggers.
	Capacity      float64
	CapacityBurst int

	// Faults are applied on purpose, for calibration. nil applies none.
	Faults faults.Spec
	// SuspendAfter is the number of attempts that a webhook subscription is
	// judged by. From that number on, deliveries stop until the next refresh if
	// more than 95 % of the attempts of the last hour failed. Default 100; -1 =
	// never.
	SuspendAfter int
	// DropAfter is how long every delivery to a webhook subscription without an
	// expiry may fail before the subscription is dropped, with one attempt to
	// send a terminated envelope. 0 = never.
	DropAfter time.Duration
	// Proof is how a callback proves, before the first delivery, that it wants
	// the deliveries: [ProofChallenge], the default, [ProofWellKnown] or
	// [ProofAllowList].
	Proof string
	// CallbackHosts names the hosts, with or without a port, that callbacks may
	// be at. It belongs to [ProofAllowList].
	CallbackHosts []string
	// VerifyFailures bounds the failed verifications of callbacks at one host
	// per minute; further ones are refused as exhausted, without asking the
	// host. Default 120; -1 = no bound.
	VerifyFailures int
	// Presence adds the event type "presence.changed" to the catalogue, which
	// cannot be polled and has no replay: its cursors are null.
	Presence bool
	// TypesEvery adds the event type "seasonal" to the catalogue. It is offered
	// and withdrawn in turn, each time for TypesEvery. 0 = no such type.
	TypesEvery time.Duration

	// ResumeMaxWait bounds the maxWait of resume policies, and is the default
	// of calls that ask for none. Default 5 min.
	ResumeMaxWait time.Duration
	// ResumeOverlap is how long a connection must stay open after a message of
	// a resumable request was written, for the message to count as delivered.
	// Later messages are sent again on a resume. Default 1 s; -1 = every
	// written message counts as delivered, and may be lost in a cut.
	ResumeOverlap time.Duration

	// ResumeAny makes every request resumable by clients that declare SEP-975,
	// not only calls of the slow tool, and sends its response that long after it
	// came. Streams, handshakes and the systems' own methods are left out. 0 =
	// only the slow tool.
	ResumeAny time.Duration

	// State is a file that keeps webhook subscriptions of MCP Events, with their
	// secrets, and requests of SEP-975 from one process to the next. A client then
	// need not subscribe again, or prove its callback again; events from before a
	// restart are gone, which a gap envelope announces. Work that was in progress
	// is done again, and its messages are sent again. "" = all end with the
	// process.
	State string

	// Lists are the lists of SEP-2549, which have a time to live.
	Lists ListOptions

	// Feed is the address of a change feed that is polled every FeedEvery. Its
	// changes are published as events. "" = no feed. FeedEvery defaults to 500
	// ms.
	Feed      string
	FeedEvery time.Duration

	// AllowHosts names the hosts, with or without a port, that Feed may use
	// beside this machine. A name is resolved once, when the server starts, and
	// connections go only to the addresses found then.
	AllowHosts []string

	// Logger logs errors. nil discards them.
	Logger *slog.Logger `json:"-"`
}

// contradiction reports options that contradict each other or have an invalid
// value, apart from the ranges in withDefaults.
func (o *Options) contradiction() error {
	switch {
	case !(o.Capacity >= 0 && o.Capacity <= 1e6):
		return fmt.Errorf("target: Capacity is %v: want 0 to 1000000 deliveries per second", o.Capacity)
	case o.CapacityBurst != 0 && o.Capacity == 0:
		return fmt.Errorf("target: CapacityBurst is %d without Capacity: give both", o.CapacityBurst)
	case !slices.Contains([]string{"", ProofChallenge, ProofWellKnown, ProofAllowList}, o.Proof):
		return fmt.Errorf("target: Proof is %q: want %s, %s or %s", o.Proof, ProofChallenge, ProofWellKnown, ProofAllowList)
	case (o.Proof == ProofAllowList) != (len(o.CallbackHosts) > 0):
		return fmt.Errorf("target: CallbackHosts and Proof %s belong together: give both", ProofAllowList)
	case o.ResumeAny != 0 && (o.ResumeAny < time.Millisecond || o.ResumeAny > maxWorkStep):
		return fmt.Errorf("target: ResumeAny is %v: want 1ms to %v, or 0", o.ResumeAny, maxWorkStep)
	case !slices.Contains([]string{"", SignSecret, SignBoth}, o.Signature):
		return fmt.Errorf("target: Signature is %q: want %s or %s", o.Signature, SignSecret, SignBoth)
	case o.DropAfter < 0:
		return fmt.Errorf("target: DropAfter is %v: want 0 or more", o.DropAfter)
	case o.TypesEvery < 0:
		return fmt.Errorf("target: TypesEvery is %v: want 0 or more", o.TypesEvery)
	case o.TokenLife < 0:
		return fmt.Errorf("target: TokenLife is %v: want 0 or more", o.TokenLife)
	case o.TokenLife > 0 && (o.Stdio || len(o.Tokens) > 0):
		return errors.New("target: TokenLife is set beside Tokens or Stdio: want one of them")
	case o.TokenLife == 0 && (o.TokenSecret != "" || o.TokenEndsStreams):
		return errors.New("target: TokenSecret and TokenEndsStreams need TokenLife: give it too")
	case o.TokenLife == 0 && o.Faults.OfTokens():
		return errors.New("target: Faults has faults of tokens without TokenLife: give it too")
	case o.Stdio && o.SendBuffer > 0:
		return errors.New("target: Stdio and SendBuffer are both set: want one of them")
	case o.Stdio && o.SSEAnswers:
		return errors.New("target: Stdio and SSEAnswers are both set: want one of them")
	case o.Stdio && o.TLS:
		return errors.New("target: Stdio and TLS are both set: want one of them")
	}
	return nil
}

// withDefaults sets the zero fields and refuses values out of range.
func (o Options) withDefaults() (Options, error) {
	given := cmp.Or(o.contradiction(), o.checkSpelling())
	var bad error
	duration := func(name string, d *time.Duration, def, least time.Duration) {
		*d = cmp.Or(*d, def)
		if *d < least && bad == nil {
			bad = fmt.Errorf("target: %s is %v: want %v or more", name, *d, least)
		}
	}
	number := func(name string, n *int, def, least int) {
		*n = cmp.Or(*n, def)
		if *n < least && bad == nil {
			bad = fmt.Errorf("target: %s is %d: want %d or more", name, *n, least)
		}
	}
	o.Addr = cmp.Or(o.Addr, "127.0.0.1:0")
	o.TLSAddr = cmp.Or(o.TLSAddr, "127.0.0.1:0")
	o.AdminAddr = cmp.Or(o.AdminAddr, "127.0.0.1:0")
	duration("Heartbeat", &o.Heartbeat, 15*time.Second, time.Millisecond)
	duration("NextPoll", &o.NextPoll, time.Second, time.Millisecond)
	duration("LongPollMax", &o.LongPollMax, 30*time.Second, time.Millisecond)
	duration("BufferAge", &o.BufferAge, 10*time.Minute, time.Millisecond)
	duration("TTLMin", &o.TTLMin, 5*time.Minute, time.Millisecond)
	duration("TTLDefault", &o.TTLDefault, max(30*time.Minute, o.TTLMin), o.TTLMin)
	duration("TTLMax", &o.TTLMax, max(24*time.Hour, o.TTLDefault), o.TTLDefault)
	duration("RetryBase", &o.RetryBase, time.Second, time.Millisecond)
	duration("AckTimeout", &o.AckTimeout, 5*time.Second, time.Millisecond)
	duration("DualSignGrace", &o.DualSignGrace, time.Minute, -1)
	duration("ResumeMaxWait", &o.ResumeMaxWait, 5*time.Minute, time.Millisecond)
	duration("ResumeOverlap", &o.ResumeOverlap, time.Second, -1)
	duration("FeedEvery", &o.FeedEvery, 500*time.Millisecond, time.Millisecond)
	number("PollMaxEvents", &o.PollMaxEvents, 500, 1)
	number("BufferEvents", &o.BufferEvents, 10_000, 1)
	number("BufferBytes", &o.BufferBytes, 64<<20, 1<<20)
	number("QueueLen", &o.QueueLen, 4096, 1)
	number("MaxSubscriptions", &o.MaxSubscriptions, 100_000, 1)
	number("RetryMax", &o.RetryMax, 4, -1)
	number("InFlight", &o.InFlight, 1, 1)
	number("Window", &o.Window, 256, 1)
	number("Senders", &o.Senders, 256, 1)
	number("SuspendAfter", &o.SuspendAfter, 100, -1)
	number("VerifyFailures", &o.VerifyFailures, 120, -1)
	number("SendersPerHost", &o.SendersPerHost, 0, 0)
	number("TypesPage", &o.TypesPage, 0, 0)
	number("SendBuffer", &o.SendBuffer, 0, 0)
	number("CapacityBurst", &o.CapacityBurst, max(1, int(o.Capacity/20)), 1)
	o.Proof = cmp.Or(o.Proof, ProofChallenge)
	if bad == nil {
		bad = given
	}
	var err error
	if o.Lists, err = o.Lists.withDefaults(); err != nil && bad == nil {
		bad = err
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o, bad
}

// What signs a webhook. See [Options.Signature].
const (
	// SignSecret: the secret of the subscription (v1).
	SignSecret = "v1"
	// SignBoth: the server's own key as well (v1a), whose public part is at
	// /.well-known/mcp-webhook-jwks.json. With [Options.State] it stays the same
	// over restarts.
	SignBoth = "v1+v1a"
)

// How a callback proves that it wants deliveries. See [Options.Proof].
const (
	// ProofChallenge: the callback repeats a challenge that is posted to it.
	ProofChallenge = "challenge"
	// ProofWellKnown: the origin of the callback lists its path, or a prefix of
	// it, among the receivers of /.well-known/mcp-webhook-receiver.json.
	ProofWellKnown = "well-known"
	// ProofAllowList: the operator of the server has named the callback's host.
	ProofAllowList = "allow-list"
)
