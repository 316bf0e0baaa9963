// Package faults defines the faults of the reference server, and which events
// they hit. Everything here is a pure function of the specification and of an
// event's probe id, so a test can compute the faults in advance and require the
// measurement to equal them.
package faults

import (
	"math"
	"slices"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/refserver/breach"
)

// Kind is a kind of fault.
type Kind string

// Faults of single events. The first one in the specification that hits an
// event applies to it.
const (
	Drop       Kind = "drop"       // never delivered, without notice
	Announce   Kind = "announce"   // never delivered; a gap is announced in its place, or by webhook Over later
	Duplicate  Kind = "duplicate"  // delivered twice under the same event id
	Reid       Kind = "reid"       // delivered again under another event id
	Reorder    Kind = "reorder"    // delivered after the By next events of its source
	Swap       Kind = "swap"       // push: delivered after the next event, on every other stream
	Delay      Kind = "delay"      // delivered later; order is kept
	Misdeliver Kind = "misdeliver" // also delivered to subscribers of another filter value
	Malformed  Kind = "malformed"  // broken JSON: for good on push and poll, on the first attempt of a webhook
	UTF8       Kind = "utf8"       // its data holds bytes that are not UTF-8
	Drip       Kind = "drip"       // push: writing its frame takes Over
	Oversize   Kind = "oversize"   // webhook: a body above any limit
	Cut        Kind = "cut"        // push: the stream is cut at the event, see Replay
	Signature  Kind = "signature"  // webhook: the first Attempts are signed as Sign says
	Repeat     Kind = "repeat"     // webhook: posted again although it was accepted
	Trouble    Kind = "trouble"    // push: a recoverable error comes before it on its stream
	Stale      Kind = "stale"      // SEP-2549: a change is notified, but the lists do not change
)

// Faults of the whole server.
const (
	Stall      Kind = "stall"      // nothing is accepted, answered or delivered from At on, for For
	Throttle   Kind = "throttle"   // at most PerSecond events are delivered
	Heartbeats Kind = "heartbeats" // no heartbeats are sent
	Refuse     Kind = "refuse"     // every Every-th subscribe call fails with Code
	TTL        Kind = "ttl"        // webhook: the server grants Grant
	Expire     Kind = "expire"     // webhook: a subscription ends After, whatever was granted
	Forget     Kind = "forget"     // at At, the server forgets all subscriptions and events
	Revoke     Kind = "revoke"     // at At, every principal loses its access
	Withdraw   Kind = "withdraw"   // at At, every event type is removed
	Change     Kind = "change"     // at At, the schema of every event type changes in place
	Gone       Kind = "gone"       // webhook: an answer of 410 ends the subscription
	Early      Kind = "early"      // webhook: a delivery before the challenge
	Anonymous  Kind = "anonymous"  // webhook: a subscription without a token is accepted
	NoRetry    Kind = "noretry"    // webhook: no delivery is tried again
	Break      Kind = "break"      // the row Row of conformance is broken, see package breach

	Hoard Kind = "hoard" // from the first event on, the server keeps MiB more of memory each minute

	Lapse       Kind = "lapse"       // SEP-975: a policy ends After, whatever it promised
	Leak        Kind = "leak"        // SEP-975: a policy does not end
	NoResume    Kind = "noresume"    // SEP-975: every Every-th resume fails with Code
	NoIDs       Kind = "noids"       // SEP-975: every Every-th answer has no event ids, where it should
	Twofold     Kind = "twofold"     // SEP-975: two connections may serve one request at once
	LateResult  Kind = "lateresult"  // SEP-975: a result is sent Over after its work is done
	ListTTL     Kind = "listttl"     // SEP-2549: results say Ms, whatever the options say
	TokenRefuse Kind = "tokenrefuse" // every Every-th renewal of a client's token is refused
	TokenDown   Kind = "tokendown"   // every Every-th request for a client's token is answered 503
	TokenSlow   Kind = "tokenslow"   // every answer to a request for a token takes Over

	Scope    Kind = "scope"    // SEP-2549: results say the other scope
	MixScope Kind = "mixscope" // SEP-2549: the first page of a list says the other scope
)

// Fault is one fault, with the parameters that its kind takes. A key of its text is the
// field's name in JSON, unless the comment says otherwise. String writes them in this order.
type Fault struct {
	Kind Kind `json:"kind"`
	// Mode limits the fault to one delivery mode; "" means all modes of its
	// kind.
	Mode eventmeter.Mode `json:"mode,omitempty"`
	// Row is a row of conformance. It is broken only while more than Above streams and
	// webhook subscriptions are open.
	Row string `json:"row,omitempty"`

	// Every hits sequence numbers n with n mod Every = Offset. Rate hits a
	// share of them, chosen by Seed. Event faults set one of the two.
	Every     uint32  `json:"every,omitempty" bounds:"1"`
	Offset    uint32  `json:"offset,omitempty" bounds:"0"`
	Rate      float64 `json:"rate,omitempty"`
	PerSecond float64 `json:"perSecond,omitempty"` // the rate of a throttle
	Seed      uint64  `json:"seed,omitempty"`
	// From and To bound the sequence numbers; To 0 = no end.
	From uint32 `json:"from,omitempty" bounds:"0"`
	To   uint32 `json:"to,omitempty" bounds:"1"`

	Pareto time.Duration `json:"pareto,omitempty"`
	Alpha  float64       `json:"alpha,omitempty"`
	Most   time.Duration `json:"most,omitempty"`  // max: the upper bound of a Pareto delay, or of a uniform one
	Least  time.Duration `json:"least,omitempty"` // uniform: the lower bound
	Fixed  time.Duration `json:"fixed,omitempty"`

	By       int           `json:"by,omitempty" bounds:"1..1000"`
	Attempts int           `json:"attempts,omitempty" bounds:"1..100"`
	Code     int           `json:"code,omitempty" bounds:"-40000..-1"`
	Above    int           `json:"above,omitempty" bounds:"1..1000000"`
	MiB      int           `json:"mib,omitempty" bounds:"1..1024"` // memory, in units of 2^20 bytes
	At       time.Duration `json:"at,omitempty"`                   // since the first event
	For      time.Duration `json:"for,omitempty"`
	Over     time.Duration `json:"over,omitempty"`
	Grant    time.Duration `json:"grant,omitempty"`
	After    time.Duration `json:"after,omitempty"`
	// Ms is a time to live in milliseconds. It may be 0 or negative.
	Ms     int    `json:"ms,omitempty" bounds:"-2147483647..2147483647"`
	Sign   string `json:"sign,omitempty"` // wrong, stale, missing
	Replay bool   `json:"replay,omitempty"`
}

// Spec is a list of faults. nil has none.
type Spec []Fault

// kindSpec says what a kind takes.
type kindSpec struct {
	event        bool              // hits single events
	needs, takes string            // the keys that it must have, and further ones that it may have
	modes        []eventmeter.Mode // nil = all
}

var (
	onPush    = []eventmeter.Mode{eventmeter.Push}
	onPoll    = []eventmeter.Mode{eventmeter.Poll}
	onWebhook = []eventmeter.Mode{eventmeter.Webhook}
)

var kindSpecs = map[Kind]kindSpec{
	Drop: {event: true}, Duplicate: {event: true}, Reid: {event: true},
	Announce:   {event: true, takes: "over"},
	Reorder:    {event: true, needs: "by"},
	Delay:      {event: true, takes: "fixed uniform pareto alpha max"},
	Misdeliver: {event: true}, Malformed: {event: true}, UTF8: {event: true},
	Swap:       {event: true, modes: onPush},
	Drip:       {event: true, needs: "over", modes: onPush},
	Oversize:   {event: true, modes: onWebhook},
	Cut:        {event: true, needs: "replay", modes: onPush},
	Signature:  {event: true, needs: "sign", takes: "attempts", modes: onWebhook},
	Repeat:     {event: true, modes: onWebhook},
	Trouble:    {event: true, modes: onPush},
	Stall:      {needs: "at for"},
	Throttle:   {needs: "rate"},
	Heartbeats: {modes: onPush},
	Refuse:     {needs: "code every"},
	TTL:        {needs: "grant", modes: onWebhook},
	Expire:     {needs: "after", modes: onWebhook},
	Forget:     {needs: "at"},
	Revoke:     {needs: "at"},
	Withdraw:   {needs: "at"},
	Change:     {needs: "at"},
	Gone:       {modes: onWebhook},
	Early:      {modes: onWebhook},
	Anonymous:  {modes: onWebhook},
	NoRetry:    {modes: onWebhook},
	Break:      {needs: "row", takes: "every above at"},
	Hoard:      {needs: "mib"},

	Stale:      {event: true, modes: onPoll},
	Lapse:      {needs: "after", modes: onPush},
	Leak:       {modes: onPush},
	NoResume:   {needs: "code every", modes: onPush},
	NoIDs:      {needs: "every", modes: onPush},
	Twofold:    {modes: onPush},
	LateResult: {needs: "over", modes: onPush},
	ListTTL:    {needs: "ms", modes: onPoll},
	Scope:      {modes: onPoll},
	MixScope:   {modes: onPoll},

	TokenRefuse: {needs: "every"},
	TokenDown:   {needs: "every"},
	TokenSlow:   {needs: "over"},
}

// in reports whether the fault applies to a mode at all.
func (f Fault) in(mode eventmeter.Mode) bool {
	if f.Mode != "" && f.Mode != mode {
		return false
	}
	modes := kindSpecs[f.Kind].modes
	if f.Kind == Break {
		modes = breach.Table[f.Row].Modes
	}
	return modes == nil || slices.Contains(modes, mode)
}

// hits reports whether f hits an event in a mode, unless an earlier fault of
// the specification does.
func (f Fault) hits(mode eventmeter.Mode, s eventmeter.Stamp) bool {
	if !kindSpecs[f.Kind].event || !f.in(mode) || s.Seq < f.From || f.To > 0 && s.Seq > f.To {
		return false
	}
	if f.Every > 0 {
		return s.Seq%f.Every == f.Offset
	}
	return unit(f.Seed, s) < f.Rate
}

// Event returns the fault that hits an event in a mode.
func (s Spec) Event(mode eventmeter.Mode, stamp eventmeter.Stamp) (Fault, bool) {
	for _, f := range s {
		if f.hits(mode, stamp) {
			return f, true
		}
	}
	return Fault{}, false
}

// Server returns the first fault of a kind that concerns the whole server, in a
// mode.
func (s Spec) Server(kind Kind, mode eventmeter.Mode) (Fault, bool) {
	for _, f := range s {
		if f.Kind == kind && f.in(mode) {
			return f, true
		}
	}
	return Fault{}, false
}

// Breaches returns the rows that are to be broken.
func (s Spec) Breaches() (plans []breach.Plan) {
	for _, f := range s {
		if f.Kind == Break {
			plans = append(plans, breach.Plan{Row: f.Row, Mode: f.Mode, Every: f.Every, Above: f.Above, At: f.At})
		}
	}
	return plans
}

// Passing reports whether a Refuse fault answers ResourceExhausted, in the
// older or the newer of its two codes: the client tries again.
func (f Fault) Passing() bool {
	return f.Kind == Refuse && (f.Code == -32013 || f.Code == -32025)
}

// DelayOf returns the delay that a Delay fault gives to an event.
func (f Fault) DelayOf(s eventmeter.Stamp) time.Duration {
	switch {
	case f.Pareto > 0:
		u := 1 - unit(f.Seed+1, s) // (0, 1]
		// Compare before converting: extreme values exceed every duration.
		return time.Duration(min(float64(f.Pareto)*math.Pow(u, -1/f.Alpha), float64(f.Most)))
	case f.Most > 0:
		return f.Least + time.Duration(unit(f.Seed+1, s)*float64(f.Most-f.Least))
	}
	return f.Fixed
}

// unit maps a seed and an event to [0, 1), uniformly and without state. The run
// id does not matter: an event has the same number in every run.
func unit(seed uint64, s eventmeter.Stamp) float64 {
	x := seed*0x9e3779b97f4a7c15 + uint64(s.Source)<<32 + uint64(s.Seq) + 0x632be59bd9b4e019
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	x ^= x >> 31
	return float64(x>>11) / (1 << 53)
}
