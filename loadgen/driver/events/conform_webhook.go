package events

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/conform"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/sinks"
)

// largestBody is what the draft lets a delivery be.
const largestBody = 256 << 10

// hookJudge is what rows about a callback need to know; guarded by the hook's mu.
type hookJudge struct {
	// echoed and misechoed: a challenge was answered as it should be, or wrongly.
	echoed, misechoed bool
	// refused is the event that was refused last, its webhook-timestamp and when.
	refused uint64
	stamped int64
	named   uint64 // hash of its webhook-id
	at      eventmeter.Instant
	// retired are the secrets before the former one, the newest first. What is signed
	// with one of them was on its way while secrets changed twice.
	retired [4]*wire.Key
	// unproven: an event came, and nothing had proved that the callback wants it.
	unproven bool
}

func (k *hook) broke(in *sinks.Inbound, row conform.ID) { k.d.broke(k.r, in.At, row, in.Body) }

// Followed implements [driver.Judge].
func (k *hook) Followed(at eventmeter.Instant) {
	k.d.broke(k.r, at, conform.SSRFNoRedirects, []byte("the redirect was followed"))
}

// Turned implements [driver.Judge].
func (k *hook) Turned(status int, at eventmeter.Instant) {
	switch {
	case status == http.StatusMethodNotAllowed:
		k.d.held(k.r, at, conform.Delivery, false, conform.DeliveryPostJSON, []byte("not POST"))
	case status == http.StatusRequestEntityTooLarge && k.d.Opts.Webhook.BodyLimit >= largestBody:
		k.d.held(k.r, at, conform.Delivery, false, conform.DeliveryBodySize, []byte("larger than webhook.bodyLimit"))
	}
}

// judgeSignature judges a delivery or an envelope that does not verify, and reports whether it
// counted an occasion: a lane that takes it all the same must not count it again. f is overwritten.
func (k *hook) judgeSignature(in *sinks.Inbound, err error, f *wire.Fields) (seen bool) {
	row, o := conform.DeliverySignatureFormula, conform.Delivery
	switch {
	case k.d.judge.tally == nil, k.isRetired(in):
		return false
	case wire.ScanFields(in.Body, f) && len(f.Type) > 0 && len(f.EventID) == 0:
		row, o = conform.EnvelopeSignedLikeDeliveries, conform.Envelope
	case errors.Is(err, wire.ErrUnsigned), errors.Is(err, wire.ErrStale):
		row = conform.DeliveryStandardWebhooksHeaders
	}
	k.d.saw(k.r, o)
	k.broke(in, row)
	return true
}

// isRetired reports whether a delivery is signed with a retired secret, or with one of the two
// that are known, which webhook.secrets refused.
func (k *hook) isRetired(in *sinks.Inbound) bool {
	k.mu.Lock()
	known := append(k.judge.retired[:], k.keys[:]...)
	k.mu.Unlock()
	return slices.ContainsFunc(known, func(key *wire.Key) bool {
		return key != nil && wire.Verify(in.Header, in.Body, time.Now(), key) == nil
	})
}

// judgeDelivery judges an event that the lane takes. seen is true if its signature was judged.
func (k *hook) judgeDelivery(in *sinks.Inbound, f *wire.Fields, got driver.Receipt, id uint64, seen bool) {
	if k.d.judge.tally == nil {
		return
	}
	if !seen {
		k.d.saw(k.r, conform.Delivery)
	}
	k.d.judgeEvent(k.r, in.At, f, in.Body)
	if k.unproven() {
		k.d.saw(k.r, conform.Challenged)
		k.broke(in, conform.VerificationRequiredBeforeDelivery)
	}
	if v := in.Header["Content-Type"]; len(v) != 1 || !strings.HasPrefix(v[0], "application/json") {
		k.broke(in, conform.DeliveryPostJSON)
	}
	unnamed := len(in.Header[wire.HeaderWebhookID]) == 0 || len(in.Header[wire.HeaderWebhookSignature]) == 0
	if unnamed && !seen { // the older fields verify, too
		k.broke(in, conform.DeliveryStandardWebhooksHeaders)
	}
	if len(in.Body) > largestBody {
		k.broke(in, conform.DeliveryBodySize)
	}
	if len(f.Type) > 0 {
		k.broke(in, conform.EnvelopeTypeDiscriminator)
	}
	switch got.Former {
	case http.StatusGone:
		k.broke(in, conform.Delivery410NonRetryable)
	case http.StatusRequestEntityTooLarge:
		k.broke(in, conform.Delivery413NonRetryable)
	}
	switch status := got.Status; {
	case status == http.StatusGone:
		k.d.saw(k.r, conform.Refused410)
	case status == http.StatusRequestEntityTooLarge:
		k.d.saw(k.r, conform.Refused413)
	case status/100 == 3:
		k.d.saw(k.r, conform.Redirected)
	}
	if got.Refused || got.Former != 0 {
		k.judgeRetry(in, got, id)
	}
}

// unproven reports, once, that an event came after a grant although nothing proved that the callback
// wants it. Where an origin belongs to several lanes, another one may have served the document.
func (k *hook) unproven() bool {
	d, of := k.d, &k.d.Opts.Listener
	if d.Opts.Webhook.Proven || of.Shared != nil || of.Prefix != "" || d.judge.proven.Load() {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	found := k.granted > 0 && !k.challenged && !k.judge.unproven
	k.judge.unproven = k.judge.unproven || found
	return found
}

// judgeRetry judges the webhook-id and the timestamp of a copy that followed a refused one.
// Timestamps are in whole seconds.
func (k *hook) judgeRetry(in *sinks.Inbound, got driver.Receipt, id uint64) {
	stamped, named := wire.Stamped(in.Header), eventmeter.HashID([]byte(in.First(wire.HeaderWebhookID)))
	k.mu.Lock()
	j := &k.judge
	renamed := got.Former != 0 && j.refused == id && j.named != named && named != 0
	again := got.Former != 0 && j.refused == id && in.At.Sub(j.at) >= 2*time.Second
	same := j.stamped == stamped
	if got.Refused {
		j.refused, j.stamped, j.named, j.at = id, stamped, named, in.At
	}
	k.mu.Unlock()
	if renamed {
		k.broke(in, conform.DeliveryStandardWebhooksHeaders)
	}
	if again {
		k.d.held(k.r, in.At, conform.DeliveryRetry, !same, conform.DeliveryRetryRegeneratesSignature, in.Body)
	}
}

// judgeRotation judges by which of two secrets a delivery is signed, after the new
// one was sent and taken. What is signed with neither is judged elsewhere. The caller holds k.mu.
func (k *hook) judgeRotation(in *sinks.Inbound, byNew, byOld bool) {
	sent, taken := k.race.sent, k.race.answered
	if taken == 0 || in.At < taken || !byNew && !byOld {
		return
	}
	// A delivery that was signed before the new secret was taken can be on its way for longer
	// than five seconds where the machine is busy. Its timestamp says when it was signed.
	const settled = 5
	if in.At.Sub(taken) > settled*time.Second && wire.Stamped(in.Header) >= k.race.theirs+settled {
		k.d.held(k.r, in.At, conform.Rotated, byNew, conform.SubscribeRefreshReplacesSecret, in.Body)
	}
	// One that is signed with the old secret alone may have been on its way. The target
	// may have taken the new one as soon as it was sent, so that a grace time of a second
	// may end a second after that, however late the answer was.
	if in.At.Sub(sent) <= time.Second && byNew {
		k.d.held(k.r, in.At, conform.RotatedJust, byOld, conform.DeliveryDualSignOnRotation, in.Body)
	}
}

// judgeEnvelope judges a control envelope that the lane takes. seen is true if its signature was
// judged.
func (k *hook) judgeEnvelope(in *sinks.Inbound, kind string, f *wire.Fields, seen bool) {
	d, r := k.d, k.r
	if d.judge.tally == nil {
		return
	}
	if !seen {
		d.saw(r, conform.Envelope)
	}
	if !strings.HasPrefix(in.First(wire.HeaderWebhookID), "msg_"+kind+"_") {
		k.broke(in, conform.EnvelopeWebhookIDFormat)
	}
	switch kind {
	case "verification":
		d.saw(r, conform.Challenged)
		k.mu.Lock()
		needless := d.shared == nil && k.granted > 0 && k.expires != 0 && !k.mayBeOver(in.At) && d.Opts.Webhook.RotateEvery == 0
		k.mu.Unlock()
		if needless {
			k.broke(in, conform.VerificationCachedPerPrincipalURL)
		}
	case "gap":
		d.held(r, in.At, conform.EnvelopeGap, !none(f.Cursor) && isCursor(f.Cursor), conform.EnvelopeGapRow, in.Body)
	case "terminated":
		d.held(r, in.At, conform.EnvelopeEnd, f.HasFault && f.Fault.Code != 0, conform.EnvelopeTerminated, in.Body)
		if f.HasFault {
			d.judgeRefusal(r, in.At, &f.Fault, true, in.Body)
		}
	default:
		k.broke(in, conform.EnvelopeTypeDiscriminator)
	}
}

// echo notes how a challenge was answered.
func (k *hook) echo(well bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.judge.echoed = k.judge.echoed || well
	k.judge.misechoed = k.judge.misechoed || !well
}

// wrongAlone tells whether challenges were answered, and all of them wrongly.
func (k *hook) wrongAlone() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.judge.misechoed && !k.judge.echoed
}

// judgeGrant judges the answer to subscribe or refresh. sameID says that a refresh
// was answered with the id that the subscription had.
func (d *lane) judgeGrant(r *run, a *mcpclient.Answer, g grant, first, sameID bool) {
	if d.judge.tally == nil {
		return
	}
	text := *a.Buf
	d.held(r, a.At, conform.Granted, g.ID != "" && (first || sameID), conform.SubscribeIDDerived, text)
	if !first {
		d.saw(r, conform.Refreshed)
	}
	d.judgeCursor(r, a.At, a.Msg.Cursor, a.Msg.Truncated, text)
	if !isCursor(a.Msg.Cursor) {
		d.broke(r, a.At, conform.SubscribeResponseCursor, text)
	}
	if !bytes.Contains(text, []byte(`"truncated"`)) {
		d.broke(r, a.At, conform.SubscribeResponseTruncated, text)
	}
	w := &d.Opts.Webhook
	life, ends := g.life(a.Date)
	if g.RefreshBefore == nil && !w.NoExpiry() && bytes.Contains(text, []byte(`"refreshBefore"`)) {
		d.broke(r, a.At, conform.TTLNullOnlyWhenRequested, text)
	}
	switch wish := w.Lifetime(); {
	case w.NoExpiry():
	case wish == 0:
		d.held(r, a.At, conform.GrantUnwished, g.RefreshBefore == nil || ends, conform.TTLOmittedMeansDefault, text)
	case wish >= 10*time.Minute:
		d.held(r, a.At, conform.GrantWished, life <= wish*11/10+time.Second, conform.TTLRefreshBeforeLteSuggestion, text)
	}
	if r.hook.wrongAlone() {
		d.saw(r, conform.Misechoed)
		d.broke(r, a.At, conform.VerificationChallengeEcho, text)
	}
}

// judgeNoGrant judges a refusal of subscribe.
func (d *lane) judgeNoGrant(r *run, a *mcpclient.Answer) {
	d.judgeCall(r, a)
	if d.judge.tally != nil && a.Err.HasCode && r.hook.wrongAlone() {
		d.saw(r, conform.Misechoed)
		d.held(
			r,
			a.At,
			conform.MisechoedRefused,
			a.Err.Meaning() == "CallbackEndpointError",
			conform.VerificationFailureError,
			answerText(a),
		)
	}
}

// mayBeOver reports whether the grant may be over at an instant: its end is known to a
// second, which is what the field Date of an answer tells, after the target was asked.
// The caller holds k.mu.
func (k *hook) mayBeOver(at eventmeter.Instant) bool {
	return k.soonest != 0 && at.Add(time.Second) > k.soonest
}

// envelopeWithin is how long the envelope that ends a subscription may be on its way
// when an unsubscribe is told that there is none.
const envelopeWithin = 3 * time.Second

// overWithin reports whether the subscription has ended, or does within a time.
func (k *hook) overWithin(ctx context.Context, wait time.Duration) bool {
	end := time.NewTimer(wait)
	defer end.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		k.mu.Lock()
		over := k.over != 0
		k.mu.Unlock()
		if over {
			return true
		}
		select {
		case <-tick.C:
		case <-end.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// judgeEnd judges the answer to unsubscribe. Where the type is gone or has changed, the
// subscription has ended with it, and the envelope that says so may be on its way.
func (d *lane) judgeEnd(r *run, a *mcpclient.Answer) {
	k := r.hook
	k.mu.Lock()
	stood := k.granted > 0 && k.over == 0 && !k.mayBeOver(a.At)
	k.mu.Unlock()
	switch {
	case !stood || d.judge.tally == nil:
	case a.Err == nil:
		d.saw(r, conform.Unsubscribed)
	case a.Err.Meaning() == "NotFound" && !bytes.Contains(a.Msg.Error.Data, []byte(`"event"`)):
		// One broken row need not be waited for again.
		if !d.judge.notFound.Load() && k.overWithin(d.Life, envelopeWithin) {
			return
		}
		d.judge.notFound.Store(true)
		d.saw(r, conform.Unsubscribed)
		d.broke(r, a.At, conform.UnsubscribeByKey, answerText(a))
	}
}
