package driver

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"time"

	"github.com/eventmeter/eventmeter"
)

// deliveryStatus is how a target's deliveries to a subscription fare, as the
// answer to a refresh tells.
type deliveryStatus struct {
	Active      *bool   `json:"active"`
	LastError   *string `json:"lastError"`
	FailedSince *string `json:"failedSince"`
	// Throttled is true, or an object; null and false mean that it is not.
	Throttled json.RawMessage `json:"throttled"`
	// RetryAfter is for how much longer, in milliseconds.
	RetryAfter float64 `json:"retryAfterMs"`
}

// lastErrors are the draft's words for why a delivery failed, and the figures
// that count them.
var lastErrors = map[string]string{
	"connection_refused": "lastErrorConnectionRefused",
	"timeout":            "lastErrorTimeout",
	"tls_error":          "lastErrorTlsError",
	"http_4xx":           "lastErrorHttp4xx",
	"http_5xx":           "lastErrorHttp5xx",
	"challenge_failed":   "lastErrorChallengeFailed",
}

// readStatus counts what a target says about its deliveries.
//
// before is when it last answered a refresh, and so set deliveries going.
func (d *events) readStatus(r *run, a *answer, before eventmeter.Instant, s *deliveryStatus) {
	if s == nil {
		return
	}
	d.tally.declare("statusSuspended", "statusThrottled", "statusFailing")
	d.tally.count("statusRead", 1)
	detail := ""
	if s.LastError != nil && *s.LastError != "" {
		detail = ": " + *s.LastError
		name, known := lastErrors[*s.LastError]
		if !known {
			name = "lastErrorOther"
		}
		d.tally.count(name, 1)
	}
	if s.FailedSince != nil {
		d.tally.count("statusFailing", 1)
	}
	if t := string(s.Throttled); t != "" && t != "null" && t != "false" {
		d.tally.count("statusThrottled", 1)
		if s.RetryAfter > 0 && s.RetryAfter < timingMost.Seconds()*1000 {
			d.tally.took("statusRetryAfter", time.Duration(s.RetryAfter*float64(time.Millisecond)))
		}
		d.notice(r, eventmeter.TransientError, a.at, "deliveries are throttled"+detail)
	}
	if s.Active != nil && !*s.Active {
		d.tally.count("statusSuspended", 1)
		// It was until now: the refresh itself has ended it.
		r.hook.suspended(before, a.began(), "deliveryStatus"+detail)
	}
}

// countGrant compares what was granted with what was asked for.
func (d *events) countGrant(k *hook, g grant, a *answer, first bool) {
	k.mu.Lock()
	last, late := k.id, !first && k.expires != 0 && a.at.Add(-a.took) > k.expires
	if last != g.ID {
		k.id, k.formerID = g.ID, last
	}
	k.mu.Unlock()
	if !first && last != g.ID {
		d.tally.count("idsChanged", 1) // the subscription was not there any more
	}
	w := &d.opts.Webhook
	if g.RefreshBefore == nil && !w.NoExpiry && !d.flavour.plain {
		d.tally.count("grantsUnasked", 1)
	}
	if !d.wishes() {
		return
	}
	d.tally.count("grants", 1)
	if late {
		d.tally.count("refreshedLate", 1)
	}
	life, ends := g.life(a.date)
	switch wish := w.TTL; {
	case !ends:
		if g.RefreshBefore == nil {
			d.tally.count("grantsWithoutEnd", 1)
		}
	case d.older: // the older revision has no wish to compare with
	case w.NoExpiry:
		d.tally.count("grantsShorter", 1)
	case wish > 0 && life+a.took < wish*9/10:
		d.tally.count("grantsShorter", 1)
	case wish > 0 && life > wish*11/10+time.Second: // its clock may be a second off
		d.tally.count("grantsLonger", 1)
	}
}

// clientID is the id that some clients of Smithery's make for themselves: a
// random UUID, the same for as long as the subscription is open.
func (k *hook) clientID() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.own == "" {
		var b [16]byte
		rand.Read(b[:])
		b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
		k.own = fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
	}
	return k.own
}

// receiverDocument is where a callback's origin says what it receives: for
// targets that ask there instead of sending a challenge.
const receiverDocument = "/.well-known/mcp-webhook-receiver.json"

func (d *events) documents() map[string][]byte {
	if !d.flavour.intent {
		return nil
	}
	below := d.opts.Webhook.Prefix + "/h/"
	if d.opts.Webhook.Shared != nil { // an origin has one document, which must be true of all its lanes
		below = path.Dir(d.opts.Webhook.Prefix) + "/"
	}
	return map[string][]byte{receiverDocument: []byte(`{"receivers":["` + below + `"]}`)}
}

// asked reports a document that was fetched.
func (h *hooks) asked(at eventmeter.Instant, size, answered int) {
	h.d.rec.Called(eventmeter.Call{
		Lane: h.d.opts.Lane, Cause: eventmeter.Verification, At: at, Requests: 1, Up: int64(answerSize + answered), Down: int64(size),
		Connections: h.listener.TakeAccepted(), Method: http.MethodGet,
	})
}
