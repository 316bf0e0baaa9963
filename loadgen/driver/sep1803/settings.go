package sep1803

import (
	"cmp"
	"time"

	"github.com/eventmeter/eventmeter/internal/defaults"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/driver"
)

// Settings are what only lanes of SEP-1803 can be asked for.
type Settings struct {
	// PerSession is how many subscriptions share a session of the legacy era,
	// or a request to listen of the modern one; 0 = 1. Subscription i is in
	// session i/PerSession, and that session's number says which token it uses.
	PerSession int
	// NoRedelivery leaves out Last-Event-ID when a stream is opened again, so
	// that what happened meanwhile is lost. In the modern era there is none.
	NoRedelivery bool
	// CutEvery is how long a stream lives, half as long to half as long again,
	// until the lane cuts it as a lost network would; 0 = it does not. CutFor
	// is how long it stays away then, in place of a backoff.
	CutEvery, CutFor time.Duration
	// Secret is the type of webhook secret that is wished for: "raw",
	// "standard" or "none"; "" = no wish is sent. The server may do as it likes.
	Secret string
	// RefuseEarly answers 503 to deliveries that arrive before their secret is
	// known. Otherwise they wait for it.
	RefuseEarly bool
}

// WithDefaults returns the settings with every field filled in whose zero value
// stands for a default.
func (s Settings) WithDefaults() Settings {
	s.PerSession = cmp.Or(s.PerSession, defaults.SEP1803PerSession)
	return s
}

// The methods of SEP-1803, and of the base protocol where it builds on them.
const (
	methodEventResources      = "resources/list"
	methodEventTemplates      = "resources/templates/list"
	methodResourceSubscribe   = "resources/subscribe"
	methodResourceUnsubscribe = "resources/unsubscribe"
	methodRegister            = "resources/subscriptions/register"
	methodDeregister          = "resources/subscriptions/deregister"
	methodSessionStream       = "GET stream"
)

// Unit is how many neighbouring subscriptions share a session.
func Unit(o *driver.Options) int {
	set, _ := driver.SettingsOf[Settings](o)
	return max(set.PerSession, 1)
}

// secretWish is the _meta key under which the wish for a type of secret is sent
// with a registration. The draft has none: the server alone decides.
const secretWish = "io.github.eventmeter/webhookSecret"

// The types of secrets.
const (
	secretRaw      = "raw"
	secretStandard = "standard"
	secretNone     = "none"
)

// withWish adds the wish to a _meta object of a registration.
func withWish(meta []byte, method, wish string) []byte {
	if method != methodRegister || wish == "" {
		return meta
	}
	out := append(make([]byte, 0, len(meta)+64), meta[:len(meta)-1]...)
	if len(meta) > len("{}") {
		out = append(out, ',')
	}
	out = append(wire.AppendString(out, secretWish), ':')
	return append(wire.AppendString(out, wish), '}')
}
