package sep1803

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/sinks"
)

// earlyPatience is how long a delivery that came before its secret is held. Servers give
// up after 3 to 5 seconds.
const earlyPatience = 3 * time.Second

// resourceHook is the receiving end of one run. The server makes its secret, so deliveries
// may come before the secret is known and they can be verified.
type resourceHook struct {
	driver.Hook
	d *lane
	r *resourceRun
	// known is closed when the secret is known, or will never be.
	known chan struct{}

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
	k := &resourceHook{d: d, r: r, known: make(chan struct{})}
	d.ReadyHook(&k.Hook, "/r/", r.Sub)
	d.Mu.Lock()
	r.hook = k
	d.Mu.Unlock()
	d.Receiver.Add(k.Path, k)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.Ctx(), cancel)()
	err := d.Retry(ctx, nil, func(cause eventmeter.Cause) error { return k.register(ctx, cause) })
	if err != nil {
		k.settle("", "", nil, "")
		d.retire(r)
	}
	return err
}

// register sends the registration and takes over the secret.
func (k *resourceHook) register(ctx context.Context, cause eventmeter.Cause) error {
	d, r := k.d, k.r
	uris := wire.AppendString([]byte{'['}, r.uri)
	o := wire.BeginObject(nil)
	o.Raw("uris", append(uris, ']'))
	o.String("targetUri", k.URL)
	// Make a handshake before, if one is needed, so that it is not part of
	// secretWindow.
	if _, err := r.who.Session(ctx, d.Observe); err != nil {
		return err
	}
	sent := d.Clock.Now()
	var got registered
	a, err := d.exchange(ctx, r.who, cause, methodRegister, o, &got)
	if err != nil {
		if errors.Is(err, mcpclient.ErrUnreachable) && a != nil && a.Status == 0 {
			// The server may have registered the webhook all the same. Without the URI
			// in the answer it cannot be deregistered.
			d.tally.Count("registrationsUnanswered", 1)
		}
		if a != nil {
			a.Err.Blame(k.d.Listener.URL(""))
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

// readSecret returns the secret of deliveries and its type. A missing secret has the type
// none.
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

// settle makes the secret known, or, with an empty kind, records that it will never be. It
// returns when the first early delivery came, 0 if none did.
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

// deregister ends the registration at the server, if its URI is known.
func (d *lane) deregister(ctx context.Context, r *resourceRun) error {
	k := d.hookOf(r)
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

// retire removes the run's path from the listener and waits for deliveries that are being
// handled.
func (d *lane) retire(r *resourceRun) {
	if k := d.hookOf(r); k != nil {
		d.Retire(&k.Hook)
	}
}

func (d *lane) hookOf(r *resourceRun) *resourceHook {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	return r.hook
}

// Receive handles one request for the run's path.
func (k *resourceHook) Receive(in *sinks.Inbound) sinks.Reply {
	k.Serving.RLock()
	defer k.Serving.RUnlock()
	d := k.d
	if !k.wait(in.At) {
		d.Inbound(eventmeter.Events, "", in.At, in.Size, http.StatusServiceUnavailable)
		return sinks.Reply{Status: http.StatusServiceUnavailable}
	}
	f := driver.FieldsPool.Get().(*wire.Fields)
	defer driver.FieldsPool.Put(f)
	if reply, ok := d.Check(&k.Hook, in, k.verify(in), f); !ok {
		return reply
	}
	id := eventmeter.HashID([]byte(in.First(wire.HeaderWebhookID)))
	return d.Answer(in, d.Take(&k.Hook, in, id, f))
}

// wait waits until the secret is known. It returns false if the secret will never be known,
// if waiting takes too long, or if sep1803.early is refuse.
func (k *resourceHook) wait(at eventmeter.Instant) bool {
	d := k.d
	select {
	case <-k.known:
		return k.kind != ""
	default:
	}
	if !k.isEarly(at) {
		return k.kind != ""
	}
	d.tally.Count("beforeSecret", 1)
	if d.set.Early != earlyRefuse {
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

// isEarly records a delivery that came before its secret. It returns false if the secret
// has become known meanwhile: settle has already reported the first early delivery.
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

// verify checks a delivery's signature and returns what is wrong with it, "" if nothing
// is.
func (k *resourceHook) verify(in *sinks.Inbound) (deviation string) {
	if k.key == nil {
		return ""
	}
	if err := wire.Verify(in.Header, in.Body, time.Now(), k.key); err != nil {
		return driver.Rejection(err, in, []*wire.Suspects{wire.NewSuspects(k.secret, k.key)})
	}
	return ""
}
