package events

import (
	"context"
	"crypto/rand"
	"fmt"
	"path"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/conform"
	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
)

// lastErrors maps the draft's values of lastError to the figures that count them.
var lastErrors = map[string]string{
	"connection_refused": "lastErrorConnectionRefused",
	"timeout":            "lastErrorTimeout",
	"tls_error":          "lastErrorTlsError",
	"http_4xx":           "lastErrorHttp4xx",
	"http_5xx":           "lastErrorHttp5xx",
	"challenge_failed":   "lastErrorChallengeFailed",
}

// readStatus counts what a target says about its deliveries. before is when the target
// answered the last subscribe call, from which on deliveries were active.
func (d *lane) readStatus(r *run, a *mcpclient.Answer, before eventmeter.Instant, s *deliveryStatus) {
	if s == nil {
		return
	}
	d.tally.Declare("statusSuspended", "statusThrottled", "statusFailing")
	d.tally.Count("statusRead", 1)
	detail := ""
	if s.LastError != nil && *s.LastError != "" {
		detail = ": " + *s.LastError
		name, known := lastErrors[*s.LastError]
		if !known {
			name = "lastErrorOther"
		}
		d.held(r, a.At, conform.StatusError, known, conform.DeliveryStatusLastErrorCategory, *a.Buf)
		d.tally.Count(name, 1)
	}
	if s.FailedSince != nil {
		d.tally.Count("statusFailing", 1)
	}
	if t := string(s.Throttled); t != "" && t != "null" && t != "false" {
		d.tally.Count("statusThrottled", 1)
		if s.RetryAfter > 0 && s.RetryAfter < driver.TimingMost.Seconds()*1000 {
			d.tally.Took("statusRetryAfter", time.Duration(s.RetryAfter*float64(time.Millisecond)))
		}
		d.Notice(r.Sub, eventmeter.TransientError, a.At, "deliveries are throttled"+detail)
	}
	if s.Active != nil && !*s.Active {
		d.tally.Count("statusSuspended", 1)
		// Until now: the refresh itself has ended the suspension.
		r.hook.suspended(before, a.Began(), true, "deliveryStatus"+detail)
	}
}

// countGrant compares what was granted with what was asked for. last is the subscription's id
// before this grant.
func (d *lane) countGrant(k *hook, g grant, a *mcpclient.Answer, first bool, last string) {
	k.mu.Lock()
	late := !first && k.expires != 0 && a.At.Add(-a.Took) > k.expires
	k.mu.Unlock()
	d.judgeGrant(k.r, a, g, first, last == g.ID)
	if d.shared != nil && !d.shared.name(k, g.ID) {
		d.Notice(k.r.Sub, eventmeter.Malformed, a.At, sameSubscription)
	}
	if !first && last != g.ID {
		d.tally.Count("idsChanged", 1) // the target had lost the subscription
	}
	w := &d.Opts.Webhook
	if g.RefreshBefore == nil && !w.NoExpiry() && !d.flavour.plain {
		d.tally.Count("grantsUnasked", 1)
	}
	if !d.wishes() {
		return
	}
	d.tally.Count("grants", 1)
	if late {
		d.tally.Count("refreshedLate", 1)
	}
	life, ends := g.life(a.Date)
	switch wish := w.Lifetime(); {
	case !ends:
		if g.RefreshBefore == nil {
			d.tally.Count("grantsWithoutEnd", 1)
		}
	case d.older: // the older revision has no wish to compare with
	case w.NoExpiry():
		d.tally.Count("grantsShorter", 1)
	case wish > 0 && life+a.Took < wish*9/10:
		d.tally.Count("grantsShorter", 1)
	case wish > 0 && life > wish*11/10+time.Second: // the server's clock may be a second off
		d.tally.Count("grantsLonger", 1)
	}
}

// clientID returns the id that some clients of Smithery choose: a random UUID that stays
// the same while the subscription is open.
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

// receiverDocument is the path of a document in which the callback's origin names the
// paths that receive webhooks, for targets that read it instead of sending a challenge.
const receiverDocument = "/.well-known/mcp-webhook-receiver.json"

func (d *lane) documents() map[string][]byte {
	if !d.flavour.intent {
		return nil
	}
	below := d.Opts.Listener.Prefix + "/h/"
	if d.Opts.Listener.Shared != nil { // the lanes of an origin share one document
		below = path.Dir(d.Opts.Listener.Prefix) + "/"
	}
	return map[string][]byte{receiverDocument: []byte(`{"receivers":["` + below + `"]}`)}
}

// suspended reports that, as the target says, it delivered nothing from since, or from some time later, to at.
func (k *hook) suspended(since, at eventmeter.Instant, later bool, why string) {
	n := eventmeter.Notice{Sub: k.r.Sub, Kind: eventmeter.Suspended, At: at, Since: since, Later: later, Detail: errtext.Line(why)}
	k.d.Recorder.Noticed(n)
}

// toldAt returns when the target last answered a subscribe call.
func (k *hook) toldAt() eventmeter.Instant {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.told
}

// ended records that the target ended the subscription.
func (k *hook) ended(at eventmeter.Instant) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.over == 0 {
		k.over = at
	}
	k.overAgain = max(k.overAgain, at)
}

// restored returns when the subscription had been ended, 0 if it had not, after a call to
// subscribe that began at an instant and succeeded. An end during the call may be that of
// the subscription before, or of the new one. Only another call can tell: again is true,
// and the subscription counts as ended until then.
func (k *hook) restored(began eventmeter.Instant) (over eventmeter.Instant, again bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	over = k.over
	if again = over != 0 && k.overAgain >= began; !again {
		k.over, k.overAgain = 0, 0
	}
	return over, again
}

// doubtful reports whether the target may have suspended deliveries: the last one was
// refused, or connections failed after it.
func (k *hook) doubtful() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.granted > 0 && (k.doubt || eventmeter.Instant(k.d.FailedAt.Load()) > k.last)
}

// ask sends a last refresh for a subscription whose deliveries may be suspended, because
// only the answer to a refresh says so. The subscription ends afterwards, so a failure is
// ignored.
func (d *lane) ask(ctx context.Context, r *run) {
	k := r.hook
	if d.older || d.flavour.plain || !r.IsActive() || !k.doubtful() {
		return
	}
	k.calling.Lock()
	defer k.calling.Unlock()
	stop := context.AfterFunc(ctx, r.Cancel)
	defer stop()
	_ = d.subscribe(r, eventmeter.Refresh)
}
