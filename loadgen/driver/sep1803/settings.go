package sep1803

import (
	"cmp"
	"time"

	"github.com/eventmeter/eventmeter/internal/settings"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/driver"
)

// Settings are the settings of a lane of system sep-1803. Mode push is in band, on the stream of a
// session; mode webhook is out of band.
type Settings struct {
	// number of subscriptions that share a session (in the modern era, a listen request), default
	// 1. A session uses one token: session i uses token i modulo their number.
	PerSession int `json:"perSession,omitempty" check:"1.."`
	// sends the id of the last event when a stream is reopened, so that the server can continue
	// from there; default true. The modern era has no redelivery.
	Redelivery bool `json:"redelivery,omitempty"`
	// mean life of a stream (±50 %) after which the lane cuts it like a lost network; 0 = never
	CutEvery time.Duration `json:"cutEvery,omitempty" check:"0.."`
	CutFor   time.Duration `json:"cutFor,omitempty" check:"0.." needs:"cutEvery: no stream is cut"` // how long a cut stream stays closed
	// requested type of webhook secret: raw, standard or none; empty (the default) = no request, as
	// in the draft
	Secret string `json:"secret,omitempty" check:"|raw|standard|none"`
	// handling of a delivery that arrives before its secret: hold (it waits; the default) or refuse
	// (503)
	Early string `json:"early,omitempty" check:"hold|refuse"`
}

// Defaults are the settings of a lane of a mode that sets nothing.
func Defaults(mode string) *Settings {
	switch mode {
	case "push":
		return &Settings{PerSession: 1, Redelivery: true}
	case "webhook":
		return &Settings{Early: earlyHold}
	}
	return &Settings{}
}

// Key is the key of the settings in a lane.
func (s *Settings) Key() string { return "sep1803" }

// Check reports what is wrong with the settings and their lane: there is no poll, no
// cursor, no expiry and no secret chosen by the client.
func (s *Settings) Check(l settings.Lane) {
	if l.MaxAge != 0 {
		l.Bad("maxAge", "system sep-1803 has no replay", "remove it")
	}
	switch l.Mode {
	case "push":
		if l.OverStdio {
			l.Reject("sep1803", []string{"perSession"}, "has no effect over standard input and output, which is one session", "remove it")
		}
		l.Reject("sep1803", []string{"secret", "early"}, "has no effect on a lane of mode push", "remove it, or set mode: webhook")
	case "webhook":
		l.Reject(
			"sep1803",
			[]string{"perSession", "redelivery", "cutEvery", "cutFor"},
			"has no effect on a lane of mode webhook",
			"remove it, or set mode: push",
		)
		l.Reject("webhook", []string{"shareUrl"}, "has no effect on system sep-1803", "remove it")
		l.Reject(
			"webhook",
			[]string{"ttl", "refreshAt", "refreshJitter", "rotateEvery", "secrets", "oldSecret"},
			"system sep-1803 has neither refreshes nor secrets of the client's",
			"remove it",
		)
	}
}

// The values of Settings.Early.
const (
	earlyHold   = "hold"
	earlyRefuse = "refuse"
)

// settingsOf returns the settings of a lane, the defaults if it has none.
func settingsOf(o *driver.Options) (Settings, error) {
	set, err := driver.SettingsOr(o, Defaults)
	set.PerSession = cmp.Or(set.PerSession, 1)
	return set, err
}

// The methods of SEP-1803, and of the base protocol where it builds on them.
const (
	methodEventResources = "resources/list"
	methodEventTemplates = "resources/templates/list"
	methodRegister       = "resources/subscriptions/register"
	methodDeregister     = "resources/subscriptions/deregister"
)

// Unit returns how many consecutive subscriptions share a session.
func Unit(o *driver.Options) int {
	set, _ := settingsOf(o)
	return max(set.PerSession, 1)
}

// secretWish is the key in _meta of a registration that requests a type of secret. The
// draft has no such key: the server alone decides.
const secretWish = "io.github.eventmeter/webhookSecret"

// The types of secrets.
const (
	secretRaw      = "raw"
	secretStandard = "standard"
	secretNone     = "none"
)

// withWish returns the _meta object of a request, with the requested type of secret if the
// request is a registration.
func withWish(meta []byte, method, wish string) []byte {
	if method != methodRegister || wish == "" {
		return meta
	}
	if meta == nil {
		meta = []byte("{}")
	}
	out := append(make([]byte, 0, len(meta)+64), meta[:len(meta)-1]...)
	if len(meta) > len("{}") {
		out = append(out, ',')
	}
	out = append(wire.AppendString(out, secretWish), ':')
	return append(wire.AppendString(out, wish), '}')
}
