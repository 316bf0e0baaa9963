package refserver

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eventmeter/eventmeter/internal/refserver/faults"
)

// Options configures a [Server]. The zero value works: a plain listener on a
// free loopback port, any token accepted, callbacks to public addresses only.
//
// A zero value means the default in the field's tag. [New] refuses numbers and durations that
// are less than the least one there.
type Options struct {
	// Addr is the plain MCP listener's address (HTTP/1.1 and h2c).
	Addr string `default:"127.0.0.1:0"`
	// Stdio opens no MCP listener: [Server.ServeStdio] serves the one client.
	// It cannot be combined with TLS.
	Stdio bool
	// TLS opens a second MCP listener on TLSAddr with
	// HTTP/1.1 and HTTP/2 over TLS and a self-signed certificate, see
	// [Server.CertPEM].
	TLS     bool
	TLSAddr string `default:"127.0.0.1:0"`
	// AdminAddr is the admin listener's address. The listener has no
	// authentication, so it belongs on loopback.
	AdminAddr string `default:"127.0.0.1:0"`

	// Tokens lists the accepted bearer tokens; each is a principal. Empty: any
	// token is accepted and is a principal, and a request without one is
	// anonymous. Anonymous callers may list, poll and stream, but not subscribe
	// webhooks.
	Tokens []string

	// TokenLife, if not 0, has the server issue access tokens that are valid that
	// long (package issuer), and accept no others: a principal is a client id. It
	// cannot be combined with Tokens or Stdio.
	TokenLife time.Duration `least:"0"`
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
	// [RevisionSketch], [RevisionLongPoll] or [RevisionOlder].
	Revision string `default:"sep-3415"`
	// WebhookID is what the webhook-id of an event names: [WebhookIDEvent] or
	// [WebhookIDMessage].
	WebhookID string `default:"event" words:"event message"`
	// FreshIDs gives each new Smithery subscription an id of its own. By default
	// the id follows from what the subscription is for, as the draft has it, so
	// that a client cannot see that its subscription was lost and made anew.
	FreshIDs bool
	// TypesPage is the number of event types on one page of events/list. 0 =
	// all on one page.
	TypesPage int `least:"0"`

	// Heartbeat is the longest silence on a stream; the draft wants at most 30 s.
	Heartbeat time.Duration `default:"15s" least:"1ms"`
	// NextPoll is the pause that pollers are asked to make (nextPollMs).
	NextPoll time.Duration `default:"1s" least:"1ms"`
	// LongPollMax bounds the timeoutMs that a poll may ask for, which only
	// [RevisionLongPoll] has. A longer poll gets an empty answer after
	// LongPollMax.
	LongPollMax time.Duration `default:"30s" least:"1ms"`
	// PollMaxEvents bounds the events of one poll answer.
	PollMaxEvents int `default:"500" least:"1"`

	// BufferEvents and BufferAge bound the replay buffer of each event type.
	// BufferBytes bounds it by the size of the encoded events; the newest event
	// always stays.
	BufferEvents int           `default:"10000" least:"1"`
	BufferAge    time.Duration `default:"10m" least:"1ms"`
	BufferBytes  int           `default:"67108864" least:"1048576"`
	// QueueLen bounds how many live events a stream or a webhook subscription
	// may lag behind. Events beyond it are skipped, oldest first, counted, and
	// announced as a gap. Events replayed from a cursor do not count.
	QueueLen int `default:"4096" least:"1"`

	// SendBuffer is the size in bytes that the kernel is asked for as the send
	// buffer of each MCP connection. A small one has the server notice soon that a
	// client does not read. 0 = the kernel's. It cannot be combined with Stdio.
	SendBuffer int `least:"0"`

	// TTLMin, TTLDefault and TTLMax bound the time to live of webhook
	// subscriptions. Defaults of the latter two: 30 min and 24 h, but not less than the one
	// before.
	TTLMin     time.Duration `default:"5m" least:"1ms"`
	TTLDefault time.Duration
	TTLMax     time.Duration
	// MaxSubscriptions bounds streams and webhook subscriptions together; one
	// more is refused as exhausted. Sessions have the same bound,
	// but at least 1,000; one more is answered with 503.
	MaxSubscriptions int `default:"100000" least:"1"`

	// RetryMax is how often a failed delivery is tried again; -1 = never.
	RetryMax int `default:"4" least:"-1"`
	// RetryBase is the wait before the first retry. It doubles with each retry,
	// and the upper half of each wait is random.
	RetryBase time.Duration `default:"1s" least:"1ms"`
	// AckTimeout is how long a callback may take to answer.
	AckTimeout time.Duration `default:"5s" least:"1ms"`
	// Signature is what webhooks of MCP Events and Smithery are signed with:
	// [SignSecret] or [SignBoth].
	Signature string `default:"v1" words:"v1 v1+v1a"`
	// DualSignGrace is how long the former secret signs beside the new one
	// after a rotation; -1 = not at all.
	DualSignGrace time.Duration `default:"1m" least:"-1ns"`
	// InFlight bounds the concurrent attempts of one webhook subscription.
	// 1 keeps its events in order as long as none is retried.
	InFlight int `default:"1" least:"1"`
	// Window bounds the events of one webhook subscription that are neither
	// acknowledged nor given up.
	Window int `default:"256" least:"1"`
	// Senders bounds the concurrent attempts of all webhook subscriptions.
	Senders int `default:"256" least:"1"`
	// SendersPerHost bounds the attempts of MCP Events and Smithery at one host
	// and port of callbacks. Further subscriptions wait without a sender. 0 = no
	// bound but Senders.
	SendersPerHost int `least:"0"`

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
	CapacityBurst int `least:"1"`

	// Faults are applied on purpose, for calibration. nil applies none.
	Faults faults.Spec
	// SuspendAfter is the number of attempts that a webhook subscription is
	// judged by. From that number on, deliveries stop until the next refresh if
	// more than 95 % of the attempts of the last hour failed; -1 = never.
	SuspendAfter int `default:"100" least:"-1"`
	// DropAfter is how long every delivery to a webhook subscription without an
	// expiry may fail before the subscription is dropped, with one attempt to
	// send a terminated envelope. 0 = never.
	DropAfter time.Duration `least:"0"`
	// Proof is how a callback proves, before the first delivery, that it wants
	// the deliveries: [ProofChallenge], [ProofWellKnown] or [ProofAllowList].
	Proof string `default:"challenge" words:"challenge well-known allow-list"`
	// CallbackHosts names the hosts, with or without a port, that callbacks may
	// be at. It belongs to [ProofAllowList].
	CallbackHosts []string
	// VerifyFailures bounds the failed verifications of callbacks at one host
	// per minute; further ones are refused as exhausted, without asking the
	// host; -1 = no bound.
	VerifyFailures int `default:"120" least:"-1"`
	// Presence adds the event type "presence.changed" to the catalogue, which
	// cannot be polled and has no replay: its cursors are null.
	Presence bool
	// TypesEvery adds the event type "seasonal" to the catalogue. It is offered
	// and withdrawn in turn, each time for TypesEvery. 0 = no such type.
	TypesEvery time.Duration `least:"0"`

	// ResumeMaxWait bounds the maxWait of resume policies, and is the default
	// of calls that ask for none.
	ResumeMaxWait time.Duration `default:"5m" least:"1ms"`
	// ResumeOverlap is how long a connection must stay open after a message of
	// a resumable request was written, for the message to count as delivered.
	// Later messages are sent again on a resume. -1 = every
	// written message counts as delivered, and may be lost in a cut.
	ResumeOverlap time.Duration `default:"1s" least:"-1ns"`

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
	FeedEvery time.Duration `default:"500ms" least:"1ms"`

	// AllowHosts names the hosts, with or without a port, that Feed may use
	// beside this machine. A name is resolved once, when the server starts, and
	// connections go only to the addresses found then.
	AllowHosts []string

	// Logger logs errors. nil discards them.
	Logger *slog.Logger `json:"-"`
}

// contradiction reports options that contradict each other or have an invalid
// value, apart from the bounds in their tags.
func (o *Options) contradiction() error {
	switch {
	case !(o.Capacity >= 0 && o.Capacity <= 1e6):
		return fmt.Errorf("target: Capacity is %v: want 0 to 1000000 deliveries per second", o.Capacity)
	case o.CapacityBurst != 0 && o.Capacity == 0:
		return fmt.Errorf("target: CapacityBurst is %d without Capacity: give both", o.CapacityBurst)
	case (o.Proof == ProofAllowList) != (len(o.CallbackHosts) > 0):
		return fmt.Errorf("target: CallbackHosts and Proof %s belong together: give both", ProofAllowList)
	case o.ResumeAny != 0 && (o.ResumeAny < time.Millisecond || o.ResumeAny > maxWorkStep):
		return fmt.Errorf("target: ResumeAny is %v: want 1ms to %v, or 0", o.ResumeAny, maxWorkStep)
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
	case o.Lists.Entries < 0 || o.Lists.Entries > 100_000:
		return fmt.Errorf("target: Lists.Entries is %d: want 0 to 100000", o.Lists.Entries)
	case o.Revision != "" && rulesByRevision[o.Revision] == nil:
		known := strings.Join(slices.Sorted(maps.Keys(rulesByRevision)), ", ")
		return fmt.Errorf("target: Revision is %q: want one of %s", o.Revision, known)
	}
	return nil
}

// withDefaults sets the zero fields and refuses values out of range. TTLs and a burst that are
// not given follow from those that are.
func (o Options) withDefaults() (Options, error) {
	given := o.contradiction()
	o.CapacityBurst = cmp.Or(o.CapacityBurst, max(1, int(o.Capacity/20)))
	err := fill("", reflect.ValueOf(&o).Elem())
	o.TTLDefault = cmp.Or(o.TTLDefault, max(30*time.Minute, o.TTLMin))
	o.TTLMax = cmp.Or(o.TTLMax, max(24*time.Hour, o.TTLDefault))
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case err != nil:
	case o.TTLDefault < o.TTLMin:
		err = fmt.Errorf("target: TTLDefault is %v: want %v or more", o.TTLDefault, o.TTLMin)
	case o.TTLMax < o.TTLDefault:
		err = fmt.Errorf("target: TTLMax is %v: want %v or more", o.TTLMax, o.TTLDefault)
	default:
		err = given
	}
	return o, err
}

// fill sets the zero fields of a struct that have a default, and returns an error about the
// first that is below its least value or none of its words. within names the struct.
func fill(within string, v reflect.Value) (err error) {
	for i := range v.NumField() {
		f, field := v.Field(i), v.Type().Field(i)
		name, least, words := within+field.Name, field.Tag.Get("least"), strings.Fields(field.Tag.Get("words"))
		if text := field.Tag.Get("default"); text != "" && f.IsZero() {
			if f.Kind() == reflect.String {
				f.SetString(text)
			} else {
				f.SetInt(number(text))
			}
		}
		var bad error
		switch {
		case f.Kind() == reflect.Struct:
			bad = fill(name+".", f)
		case least != "" && f.Int() < number(least):
			bad = fmt.Errorf("target: %s is %v: want %s or more", name, f, least)
		case len(words) > 0 && !slices.Contains(words, f.String()):
			last := len(words) - 1
			bad = fmt.Errorf("target: %s is %q: want %s or %s", name, f, strings.Join(words[:last], ", "), words[last])
		}
		err = cmp.Or(err, bad)
	}
	return err
}

// number is a number or a duration of a tag.
func number(text string) int64 {
	if d, err := time.ParseDuration(text); err == nil {
		return int64(d)
	}
	n, _ := strconv.ParseInt(text, 10, 64) // constant
	return n
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
