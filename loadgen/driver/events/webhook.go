package events

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/conform"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/sinks"
)

// secretBytes is the length of the lane's secrets, in bytes; the draft allows 24 to 64.
const secretBytes = 32

// openWebhooks opens the lane's listener and starts the agenda of its refreshes.
func (d *lane) openWebhooks() error {
	if err := d.OpenInbox(sinks.ReceiverOptions{Documents: d.documents(), Asked: d.fetched}); err != nil {
		return err
	}
	if d.Opts.Webhook.ShareURL {
		d.share()
	}
	d.agenda = newAgenda(d.Clock)
	if d.set.Anonymous {
		d.nobody = d.Endpoint.Anonymous()
	}
	return nil
}

// fetched reports that the target has read the receiver document, which proves all callbacks.
func (d *lane) fetched(at eventmeter.Instant, size, answered int) {
	d.judge.proven.Store(true)
	d.Fetched(at, size, answered)
}

// hook is the receiving end of one run.
type hook struct {
	driver.Hook
	d *lane
	r *run

	calling sync.Mutex // held while a subscribe or unsubscribe is under way

	mu     sync.Mutex // guards the rest
	judge  hookJudge
	secret string // the last one that was sent
	former string // the one before
	// suspects are for secret and former, and are made when a signature fails.
	suspects []*wire.Suspects
	keys     [2]*wire.Key       // of secret and former
	until    eventmeter.Instant // until when keys[1] is valid; 0 = not known yet
	race     race               // of the last change of secrets
	id       string             // of the subscription, from the last answer
	formerID string             // before the id last changed
	// pending is true from the start of a subscribe call until its answer, which may have
	// another id, has come.
	pending bool
	// early counts the events that came before any challenge. They are reported only
	// if a challenge comes: a target may use another proof, and send none.
	early      int
	challenged bool
	// last is when the last event was accepted; doubt is true if one was refused
	// since.
	last  eventmeter.Instant
	doubt bool
	// told is when the target last answered a subscribe. over and overAgain are when the
	// target first and last ended the subscription, 0 = it has not since.
	told, over, overAgain eventmeter.Instant
	left                  eventmeter.Instant // when the target answered unsubscribe with success; 0 = it has not
	own                   string             // see clientID
	granted               int                // subscribe calls that succeeded
	continued             bool               // an event came, or a gap was announced
	refused               int                // refreshes that failed in a row
	expires, soonest      eventmeter.Instant // latest and earliest end of the grant; 0 = none
	backoff               sinks.Backoff
}

// newHook makes a path and a secret for a run.
func (d *lane) newHook(r *run) *hook {
	k := &hook{d: d, r: r}
	if d.shared != nil {
		k.Sub, k.Path, k.URL = r.Sub, d.shared.path, d.shared.url
	} else {
		d.ReadyHook(&k.Hook, "/h/", r.Sub)
	}
	k.backoff = sinks.Backoff{Min: refreshBackoffMin, Max: refreshBackoffMax, Rand: r.rand}
	k.rotate(0)
	if d.shared != nil {
		d.shared.add(k)
	} else {
		d.Receiver.Add(k.Path, k)
	}
	return k
}

// attachWebhook subscribes.
func (d *lane) attachWebhook(ctx context.Context, r *run) error {
	close(r.done) // there is no goroutine
	k := r.hook
	stop := context.AfterFunc(ctx, r.Cancel)
	err := d.Retry(ctx, r.rand, func(cause eventmeter.Cause) error {
		k.calling.Lock()
		defer k.calling.Unlock()
		return d.subscribe(r, cause)
	})
	if !stop() && err == nil {
		err = driver.NotConfirmed(nil, ctx.Err())
	}
	if errors.Is(err, mcpclient.ErrUnreachable) {
		// The target may have subscribed all the same, and would deliver to a
		// closed callback until the grant is over.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), mcpclient.CancelTime)
		defer cancel()
		_ = d.unsubscribe(ctx, r)
	}
	if d.nobody != nil {
		return d.anonymous(r, err)
	}
	return err
}

// anonymous counts the answer to a subscription without a token. If the target refused
// it, as it must, the subscription ends without a failure.
func (d *lane) anonymous(r *run, err error) error {
	switch {
	case err == nil:
		d.tally.Count("anonymousAccepted", 1)
		d.saw(r, conform.Anonymous)
		d.broke(r, d.Clock.Now(), conform.SubscribeAuthRequired, []byte("accepted"))
	case errors.Is(err, mcpclient.ErrAuth):
		d.tally.Count("anonymousRefused", 1)
		d.saw(r, conform.Anonymous)
		if r.Leave() {
			d.Recorder.Changed(eventmeter.Transition{Sub: r.Sub, To: eventmeter.Detached, At: d.Clock.Now()})
		}
		d.Abandon(r)
		return nil
	}
	return err
}

// rotate makes a new secret. The one before stays valid for webhook.oldSecret after the
// answer that accepts the new one.
func (k *hook) rotate(now eventmeter.Instant) {
	var raw [secretBytes]byte
	rand.Read(raw[:])
	k.mu.Lock()
	defer k.mu.Unlock()
	k.endRace()
	k.race = race{sent: now}
	k.former, k.secret, k.suspects = k.secret, wire.FormatSecret(raw[:]), nil
	copy(k.judge.retired[1:], k.judge.retired[:])
	k.judge.retired[0] = k.keys[1]
	k.keys[1], k.until = k.keys[0], 0
	k.keys[0] = wire.NewKey(raw[:])
}

// valid returns the keys that are valid now; prev may be nil.
func (k *hook) valid(now eventmeter.Instant) (cur, prev *wire.Key) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.keys[1] != nil && k.until != 0 && now > k.until {
		k.keys[1], k.suspects = nil, nil
	}
	return k.keys[0], k.keys[1]
}

// subscribe sends events/subscribe, which is also the refresh, and schedules the next
// refresh.
func (d *lane) subscribe(r *run, cause eventmeter.Cause) error {
	session, err := d.session(r.Ctx(), r)
	if err != nil {
		return err
	}
	k, method := r.hook, d.flavour.subscribe
	_, body := d.build(method, d.subscription(r), session)
	ctx, cancel := context.WithTimeout(r.Ctx(), d.Opts.Timeout)
	defer cancel()
	k.asks(true)
	defer k.asks(false)
	a := d.Call(ctx, method, session.Header(method, ""), body)
	defer a.Release()
	if given := a.Err; given != nil && d.excused(r, cause, given) {
		a.Err = nil
		d.Called(cause, method, a)
		return given
	}
	d.Called(cause, method, a)
	if a.Err != nil {
		d.judgeNoGrant(r, a)
		if d.heed(r, a.Err) && cause != eventmeter.Retry {
			return d.subscribe(r, eventmeter.Retry)
		}
		if r.who.Lost(session, a.Err) {
			return mcpclient.SessionLost(method)
		}
		if a.Err.Gone() && k.toldAt() != 0 {
			k.suspended(k.toldAt(), a.Began(), true, "a refresh was answered "+a.Err.Failure())
		}
		a.Err.Blame(k.d.Listener.URL(""))
		return a.Err
	}
	var m struct {
		Result grant `json:"result"`
	}
	var odd *json.UnmarshalTypeError // a member of the wrong type counts as absent
	if err := json.Unmarshal(*a.Buf, &m); err != nil && !errors.As(err, &odd) {
		return &mcpclient.CallError{Method: method, Kind: mcpclient.KindProtocol, Cause: err}
	}
	if len(m.Result.ID) > mcpclient.MaxCursor {
		d.TooLargeFor(r.Sub, a.At, mcpclient.ErrID)
		return &mcpclient.CallError{Method: method, Kind: mcpclient.KindOversized, Cause: mcpclient.ErrID}
	}
	d.granted(r, a, m.Result)
	return nil
}

// subscription returns the params of events/subscribe.
func (d *lane) subscription(r *run) wire.Object {
	k, o := r.hook, d.params(r)
	k.mu.Lock()
	delivery := wire.BeginObject(nil)
	delivery.String("mode", "webhook")
	delivery.String("url", k.URL)
	delivery.String("secret", k.secret)
	k.mu.Unlock()
	o.Raw("delivery", delivery.End())
	if d.flavour.clientID || d.older {
		o.String("id", k.clientID())
	}
	if !d.flavour.plain {
		d.position(&o, r)
	}
	switch {
	case d.older, d.flavour.plain:
	case d.Opts.Webhook.NoExpiry():
		o.Raw("ttlMs", nil)
	case d.Opts.Webhook.Lifetime() > 0:
		o.Int("ttlMs", d.Opts.Webhook.Lifetime().Milliseconds())
	}
	return o
}

// excused reports whether an error is no failure of the target: this side gave up the
// refresh, or the subscription has no token.
func (d *lane) excused(r *run, cause eventmeter.Cause, err *mcpclient.CallError) bool {
	return cause != eventmeter.Subscribe && r.Ctx().Err() != nil || d.nobody != nil && errors.Is(err, mcpclient.ErrAuth)
}

// asks records whether a subscribe call is in progress.
func (k *hook) asks(yes bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pending = yes
}

// granted handles the answer to a subscribe call.
func (d *lane) granted(r *run, a *mcpclient.Answer, g grant) {
	k := r.hook
	before := k.toldAt()
	first, last := k.settle(d.Clock.Now(), serverTime(a.Date), d.Opts.Webhook.OldSecret, g.ID)
	r.Activate(a.At)
	g.Truncated = r.begunAnew() || g.Truncated
	if g.Truncated && !first {
		d.Notice(r.Sub, eventmeter.Truncated, a.At, "")
	}
	if !a.Msg.Versioned {
		d.Notice(r.Sub, eventmeter.Malformed, a.At, driver.WithoutVersion)
	}
	if g.ID == "" {
		d.Notice(r.Sub, eventmeter.Malformed, a.At, "an answer to subscribe without an id")
	}
	if g.RefreshBefore == nil && !bytes.Contains(*a.Buf, []byte(`"refreshBefore"`)) {
		// null means that the grant has no end. Without the member, the end is
		// not known.
		d.Notice(r.Sub, eventmeter.Malformed, a.At, "an answer to subscribe without refreshBefore")
	}
	d.readStatus(r, a, before, g.DeliveryStatus)
	d.countGrant(k, g, a, first, last)
	if first {
		d.begun(r, a.At, g.Truncated)
	}
	// The cursor is a watermark, like those of deliveries, and also moves without
	// events. The last one of both is the one to send.
	r.setCursor(a.Msg.Cursor)
	life, ok := g.life(a.Date)
	if !ok && g.RefreshBefore != nil {
		d.Notice(r.Sub, eventmeter.Malformed, a.At, "refreshBefore is not a time: "+*g.RefreshBefore)
	}
	if wait := k.expire(a, life, ok); ok {
		d.agenda.add(a.At.Add(wait), k)
	}
	// After the refresh is scheduled: an end from here on brings it forward itself.
	switch over, again := k.restored(a.Began()); {
	case again:
		d.agenda.add(a.At.Add(minRefresh), k)
	case over != 0:
		k.suspended(over, a.At, false, "terminated, and subscribed again")
	}
}

// expire records the lifetime of a grant, and returns how long to wait for its refresh.
func (k *hook) expire(a *mcpclient.Answer, life time.Duration, ends bool) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !ends {
		k.expires, k.soonest = 0, 0
		return 0
	}
	k.expires, k.soonest = a.At.Add(life), a.Began().Add(life)
	w := &k.d.Opts.Webhook
	return max(time.Duration(float64(life)*(w.RefreshAt-w.RefreshJitter*k.r.rand.Float64())), minRefresh)
}

// minRefresh is the shortest time until a refresh. It keeps grants that are over already
// from causing a loop.
const minRefresh = 100 * time.Millisecond

// Waits between attempts at a refresh that fails.
const (
	refreshBackoffMin = 250 * time.Millisecond
	refreshBackoffMax = 15 * time.Second
)

// settle records a subscribe call that was answered with an id, after which the former secret
// is valid for grace. theirs is the time of the server's clock. It reports whether the call was
// the first, and returns the subscription's id before it.
func (k *hook) settle(now eventmeter.Instant, theirs time.Time, grace time.Duration, id string) (first bool, last string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.keys[1] != nil && k.until == 0 {
		k.until = now.Add(grace)
		k.race.answered, k.race.theirs, k.race.anew = now, theirs.Unix(), k.mayBeOver(now)
	}
	k.granted++
	k.pending = false
	k.told = now
	k.refused = 0
	k.backoff.Reset()
	if last = k.id; last != id {
		k.id, k.formerID = id, last
	}
	return k.granted == 1, last
}

// refresh is called by the agenda when a run's refresh is due.
func (k *hook) refresh() {
	d, r := k.d, k.r
	k.calling.Lock()
	defer k.calling.Unlock()
	if r.IsOver() {
		return
	}
	k.mu.Lock()
	again := k.refused > 0
	due := d.Opts.Webhook.RotateEvery > 0 && k.granted%d.Opts.Webhook.RotateEvery == 0
	k.mu.Unlock()
	cause := eventmeter.Refresh
	switch {
	case again:
		cause = eventmeter.Retry
	case due:
		k.rotate(d.Clock.Now())
		d.tally.Count("rotations", 1)
	}
	err := d.subscribe(r, cause)
	if err == nil || r.IsOver() {
		return
	}
	var ce *mcpclient.CallError
	if errors.As(err, &ce) && ce.Final() {
		d.Notice(r.Sub, eventmeter.Terminated, d.Clock.Now(), err.Error())
		r.Fail(err)
		d.retire(r)
		return
	}
	d.Notice(r.Sub, eventmeter.TransientError, d.Clock.Now(), "refresh: "+err.Error())
	var wait time.Duration
	if ce != nil {
		wait = ce.RetryAfter
	}
	k.mu.Lock()
	k.refused++
	wait = k.backoff.Next(wait)
	k.mu.Unlock()
	d.agenda.add(d.Clock.Now().Add(wait), k)
}

// unsubscribe sends events/unsubscribe. It waits for a refresh in progress, because a
// target that processed the refresh later would subscribe again. When ctx ends, the
// refresh is given up.
func (d *lane) unsubscribe(ctx context.Context, r *run) error {
	stop := context.AfterFunc(ctx, r.Cancel)
	r.hook.calling.Lock()
	defer r.hook.calling.Unlock()
	stop()
	r.Cancel()
	ctx, cancel := context.WithTimeout(ctx, d.Opts.Timeout)
	defer cancel()
	session, err := d.session(ctx, r)
	if err != nil {
		return err
	}
	o := d.params(r)
	delivery := wire.BeginObject(nil)
	if d.Opts.Webhook.UnsubscribeMode {
		delivery.String("mode", "webhook")
	}
	delivery.String("url", r.hook.URL)
	o.Raw("delivery", delivery.End())
	if d.older {
		o.String("id", r.hook.clientID())
	}
	method := d.flavour.unsubscribe
	_, body := d.build(method, o, session)
	a := d.Call(ctx, method, session.Header(method, ""), body)
	defer a.Release()
	d.Called(eventmeter.Unsubscribe, method, a)
	d.judgeEnd(r, a)
	if a.Err != nil {
		r.who.Lost(session, a.Err)
		return a.Err
	}
	r.hook.mu.Lock()
	r.hook.left = a.At
	r.hook.mu.Unlock()
	return nil
}

// retire ends the routing of requests to the run and waits for deliveries that are being
// handled.
func (d *lane) retire(r *run) {
	k := r.hook
	if k == nil {
		return
	}
	d.agenda.remove(k)
	d.takeOff(k)
	k.Serving.Lock()
	//lint:ignore SA2001 only waits
	k.Serving.Unlock()
	k.mu.Lock()
	k.endRace()
	left := k.left
	k.mu.Unlock() // Leave waits for deliveries, which take it
	if left != 0 && d.shared == nil {
		d.Leave(&k.Hook, left, func(in *sinks.Inbound) { d.broke(r, in.At, conform.UnsubscribeByKey, in.Body) })
	}
}

// race is one change of secrets, as deliveries show it.
type race struct {
	sent     eventmeter.Instant // just before the new secret was sent, 0 = it was the first
	answered eventmeter.Instant // when the target had accepted it, 0 = not yet
	theirs   int64              // the same in Unix seconds of the server's clock
	lastOld  eventmeter.Instant // of the last delivery that only the old secret verifies
	lastDual eventmeter.Instant // of the last delivery that both secrets verify

	// anew is true if the grant may have been over before the answer: the target may have made
	// the subscription anew, with the new secret alone.
	anew bool

	byOld, byBoth, refused int // not yet in the lane's tally
}
