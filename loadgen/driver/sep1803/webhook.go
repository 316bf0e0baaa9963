package sep1803

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/budget"
	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/sinks"
)

// earlyPatience is how long a delivery is held that came before its secret:
// servers give up after 3 to 5 seconds.
const earlyPatience = 3 * time.Second

// resourceHooks is what the subscriptions of an out-of-band lane share.
type resourceHooks struct {
	*driver.Inbox
	d *lane
}

func newResourceHooks(d *lane) (*resourceHooks, error) {
	h := &resourceHooks{d: d}
	var err error
	if h.Inbox, err = driver.OpenInbox(&d.Opts, sinks.ReceiverOptions{Turned: h.turned}); err != nil {
		return nil, err
	}
	d.Inbox = h.Inbox
	return h, nil
}

// resourceHook is the receiving end of one run. Its secret is the server's to
// make, so deliveries may come that cannot be verified yet.
type resourceHook struct {
	h    *resourceHooks
	r    *resourceRun
	path string
	// known is closed when the secret is, or when it will never be.
	known chan struct{}

	serving sync.RWMutex // held for reading while a delivery is looked at

	mu     sync.Mutex // guards the rest; constant once known is closed
	kind   string     // "" = it will never be known
	secret string
	key    *wire.Key // nil with secretNone
	uri    string    // subscription://…
	early  eventmeter.Instant
}

// registered is the answer to a registration.
type registered struct {
	Subscription struct {
		URI    string `json:"uri"`
		Secret *struct {
			Type  string `json:"type"`
			Value string `json:"value"`
			Key   string `json:"key"`
		} `json:"webhookSecret"`
	} `json:"subscription"`
}

// attachWebhook makes a path and registers it.
func (d *lane) attachWebhook(ctx context.Context, r *resourceRun) error {
	k := &resourceHook{h: d.hooks, r: r, known: make(chan struct{}), path: d.hooks.Path("/r/", r.Sub)}
	d.Mu.Lock()
	r.hook = k
	d.Mu.Unlock()
	d.hooks.Receiver.Add(k.path, k)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.Ctx, cancel)()
	backoff := sinks.Backoff{Min: d.Opts.Push.BackoffMin, Max: d.Opts.Push.BackoffMax}
	_, err := driver.RetryThrottled(ctx, &backoff, func(again bool) (struct{}, error) {
		cause := eventmeter.Subscribe
		if again {
			cause = eventmeter.Retry
		}
		return struct{}{}, k.register(ctx, cause)
	})
	if err != nil {
		k.settle("", "", nil, "")
		d.hooks.retire(r)
	}
	return err
}

// register sends the registration and takes over the secret.
func (k *resourceHook) register(ctx context.Context, cause eventmeter.Cause) error {
	d, r := k.h.d, k.r
	uris := wire.AppendString([]byte{'['}, r.uri)
	o := wire.BeginObject(nil)
	o.Raw("uris", append(uris, ']'))
	o.String("targetUri", k.h.Listener.URL(k.path))
	// A lost session, or a handshake in front of the call, is not part of what
	// the server takes to answer.
	if _, err := r.who.Session(ctx, d.Observe); err != nil {
		return err
	}
	sent := d.Clock.Now()
	var got registered
	a, err := d.exchange(ctx, r.who, cause, methodRegister, o, &got)
	if err != nil {
		if errors.Is(err, mcpclient.ErrUnreachable) && a != nil && a.Status == 0 {
			// It may stand all the same, and nobody knows its name to end it.
			d.tally.Count("registrationsUnanswered", 1)
		}
		if a != nil {
			a.Err.Blame(k.h.Listener.URL(""))
		}
		return err
	}
	kind, secret, key, err := readSecret(got)
	if err != nil {
		return &mcpclient.CallError{Method: methodRegister, Kind: mcpclient.KindProtocol, Cause: err}
	}
	d.tally.Count("registrations", 1)
	d.tally.Count(map[string]string{secretRaw: "secretsRaw", secretStandard: "secretsStandard", secretNone: "secretsNone"}[kind], 1)
	now := d.Clock.Now()
	d.tally.Took("secretWindow", now.Sub(sent))
	early := k.settle(kind, secret, key, got.Subscription.URI)
	if early != 0 {
		d.tally.Count("registrationsRaced", 1)
		d.tally.Took("secretLate", now.Sub(early))
	}
	r.Activate(a.At)
	return nil
}

// readSecret reads what deliveries will be signed with. No secret is the same
// as one of type none.
func readSecret(got registered) (kind, secret string, key *wire.Key, err error) {
	if got.Subscription.URI == "" {
		return "", "", nil, errors.New("the answer names no subscription")
	}
	s := got.Subscription.Secret
	switch {
	case s == nil || s.Type == secretNone:
		return secretNone, "", nil, nil
	case s.Type == secretRaw && s.Value != "":
		return secretRaw, s.Value, wire.NewKey([]byte(s.Value)), nil
	case s.Type == secretStandard:
		key, err = wire.ParseSecret(s.Key)
		return secretStandard, s.Key, key, err
	}
	return "", "", nil, fmt.Errorf("a webhook secret of type %q cannot be used", errtext.Line(s.Type))
}

// settle makes the secret known, or says with an empty kind that it will never
// be. It returns when the first delivery had come, 0 if none had.
func (k *resourceHook) settle(kind, secret string, key *wire.Key, uri string) eventmeter.Instant {
	k.mu.Lock()
	defer k.mu.Unlock()
	select {
	case <-k.known:
	default:
		k.kind, k.secret, k.key, k.uri = kind, secret, key, uri
		close(k.known)
	}
	return k.early
}

// deregister ends the subscription on the other side.
func (d *lane) deregister(ctx context.Context, r *resourceRun) error {
	d.Mu.Lock()
	k := r.hook
	d.Mu.Unlock()
	if k == nil {
		return nil
	}
	k.mu.Lock()
	uri := k.uri
	k.mu.Unlock()
	if uri == "" {
		return nil
	}
	o := wire.BeginObject(nil)
	o.String("uri", uri)
	_, err := d.exchange(ctx, r.who, eventmeter.Unsubscribe, methodDeregister, o, nil)
	return err
}

// retire takes the run's path off the listener and waits for deliveries that
// are being looked at.
func (h *resourceHooks) retire(r *resourceRun) {
	h.d.Mu.Lock()
	k := r.hook
	h.d.Mu.Unlock()
	if k == nil {
		return
	}
	h.Receiver.Retire(k.path)
	k.serving.Lock()
	k.serving.Unlock() //nolint:staticcheck // only waits
}

// Receive looks at one request for the run's path.
func (k *resourceHook) Receive(in *sinks.Inbound) sinks.Reply {
	k.serving.RLock()
	defer k.serving.RUnlock()
	h, r, d := k.h, k.r, k.h.d
	if !k.wait(in.At) {
		h.inbound(eventmeter.Events, in.At, in.Size, http.StatusServiceUnavailable)
		return sinks.Reply{Status: http.StatusServiceUnavailable}
	}
	if deviation := k.verify(in); deviation != "" {
		if d.Opts.Webhook.Verify != driver.VerifyReport {
			return k.refuse(in, eventmeter.Rejected, deviation, http.StatusUnauthorized)
		}
		d.Notice(r.Sub, eventmeter.Malformed, in.At, driver.TakenAnyway+deviation)
	}
	f := driver.FieldsPool.Get().(*wire.Fields)
	defer driver.FieldsPool.Put(f)
	if !wire.ScanFields(in.Body, f) {
		return k.refuse(in, eventmeter.Malformed, "a delivery is not a JSON object", http.StatusBadRequest)
	}
	var id uint64
	if v := in.Header[wire.HeaderWebhookID]; len(v) > 0 {
		id = eventmeter.HashID([]byte(v[0]))
	}
	refused, repeat := h.Refuse.Decide(uint32(h.d.Opts.NumberOf(int(r.Sub.Index))), id)
	stamp, probed := eventmeter.FindStamp(in.Body)
	d.Delivered(eventmeter.Delivery{
		Sub: r.Sub, Stamp: stamp, Probed: probed, EventID: id, At: in.At, Bytes: in.Size, Refused: refused,
	}, f, in.Body)
	switch {
	case refused:
		h.inbound(eventmeter.Events, in.At, in.Size, http.StatusServiceUnavailable)
		return sinks.Reply{Status: http.StatusServiceUnavailable}
	case repeat:
		h.inbound(eventmeter.Retry, in.At, in.Size, http.StatusOK)
	default:
		h.inbound(eventmeter.Events, in.At, in.Size, http.StatusOK)
	}
	return sinks.Reply{Delay: d.Opts.Webhook.AckDelay}
}

// refuse answers a delivery with an error because of what it is.
func (k *resourceHook) refuse(in *sinks.Inbound, kind eventmeter.NoticeKind, why string, status int) sinks.Reply {
	k.h.d.Recorder.Noticed(driver.RefusedNotice(k.r.Sub, kind, in, why))
	k.h.inbound(eventmeter.Events, in.At, in.Size, status)
	return sinks.Reply{Status: status}
}

// wait returns when the secret is known, and false when it is not: it will
// never be, it takes too long, or early deliveries are not waited for.
func (k *resourceHook) wait(at eventmeter.Instant) bool {
	d := k.h.d
	select {
	case <-k.known:
		return k.kind != ""
	default:
	}
	if !k.isEarly(at) {
		return k.kind != ""
	}
	d.tally.Count("beforeSecret", 1)
	if !d.set.RefuseEarly {
		t := time.NewTimer(earlyPatience)
		defer t.Stop()
		select {
		case <-k.known:
			return k.kind != ""
		case <-t.C:
		}
	}
	d.tally.Count("beforeSecretRefused", 1)
	return false
}

// isEarly notes a delivery that came before its secret, unless that has become
// known this moment: then nobody would ask for the note any more.
func (k *resourceHook) isEarly(at eventmeter.Instant) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	select {
	case <-k.known:
		return false
	default:
	}
	if k.early == 0 {
		k.early = at
	}
	return true
}

// turned reports a request that reached no subscription.
func (h *resourceHooks) turned(to sinks.Hook, status int, at eventmeter.Instant, size int) {
	if k, ok := to.(*resourceHook); ok && status != http.StatusMethodNotAllowed {
		if status == http.StatusServiceUnavailable { // the budget was used up
			h.d.TooLargeFor(k.r.Sub, at, budget.ErrExceeded)
		} else {
			h.d.Notice(k.r.Sub, eventmeter.Malformed, at, fmt.Sprintf("a delivery was answered %d", status))
		}
	}
	h.inbound(eventmeter.Events, at, size, status)
}

// inbound reports a request that the target made.
func (h *resourceHooks) inbound(cause eventmeter.Cause, at eventmeter.Instant, size, status int) {
	c := h.Inbox.Inbound(cause, "", at, size, status)
	c.Lane = h.d.Opts.Lane
	h.d.Recorder.Called(c)
}

// verify checks a delivery's signature. The deviation, if there is one, is what
// is wrong with it.
func (k *resourceHook) verify(in *sinks.Inbound) (deviation string) {
	if k.key == nil {
		return ""
	}
	if err := wire.Verify(in.Header, in.Body, time.Now(), k.key); err != nil {
		return driver.Rejection(err, in, []*wire.Suspects{wire.NewSuspects(k.secret, k.key)})
	}
	return ""
}
