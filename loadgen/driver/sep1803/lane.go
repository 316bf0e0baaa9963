package sep1803

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/sinks"
)

// lane is one lane of SEP-1803: events as resources.
type lane struct {
	driver.Lane[*resourceRun]
	set   Settings
	tally driver.Tally
	per   int // subscriptions in a session

	streams *driver.Streams // push

	naming sync.Mutex // held while the event resources are listed
	offer  *resourceOffer

	sessions []*resourceSession // by number; nil = none open; guarded by Mu
}

// resourceRun is one attachment of a subscription.
type resourceRun struct {
	driver.Attachment
	who  *mcpclient.Principal
	uri  string
	hook *resourceHook // webhook

	session *resourceSession // push; guarded by the lane's lock
	parted  sync.Once        // for part
	late    bool             // its session's stream was confirmed, or its pipe there, before it joined
	held    bool             // over a pipe: it has a Hold on its resource
}

// New returns the driver of a lane of SEP-1803.
func New(opts driver.Options) (driver.Driver, error) { return driver.New("sep-1803", opts, newLane) }

func newLane(opts driver.Options) (*lane, error) {
	set, err := settingsOf(&opts)
	switch {
	case err != nil:
		return nil, err
	case opts.Event == "":
		return nil, errors.New("no event: set the lane's event to its name, or to an event:// template")
	}
	d := &lane{set: set, per: set.PerSession}
	if opts.Endpoint.IsProgram() { // a pipe is one session
		d.per = max(opts.Subscriptions, 1)
	}
	d.sessions = make([]*resourceSession, (opts.Subscriptions+d.per-1)/d.per)
	if err := d.Init(opts, d, func(t *wire.Traffic) (http.RoundTripper, func(), error) {
		return opts.Endpoint.NewTransport(opts.HTTP, t, false)
	}); err != nil {
		return nil, err
	}
	switch opts.Mode {
	case eventmeter.Push:
		if d.streams, err = d.OpenStreams(driver.StreamOptions{
			Silence: 2 * opts.Push.Heartbeat, Comments: true, CutEvery: set.CutEvery, CutFor: set.CutFor, CutAlone: true, Tally: &d.tally,
		}); err != nil {
			return nil, err
		}
		d.tally.Declare("sessions", "unrouted", "earlier", "updatesObserved", "updatesIdentified")
		if set.CutEvery > 0 {
			d.tally.Declare("cuts", "resumes", "resumesRefused", "redelivered")
			d.tally.DeclareTiming("outage")
		}
	default:
		if err = d.OpenInbox(sinks.ReceiverOptions{}); err != nil {
			return nil, err
		}
		d.tally.Declare("registrations", "registrationsUnanswered", "registrationsRaced", "beforeSecret", "beforeSecretRefused",
			"secretsRaw", "secretsStandard", "secretsNone")
		d.tally.DeclareTiming("secretWindow", "secretLate")
	}
	return d, nil
}

// Make implements [driver.Protocol].
func (d *lane) Make(i int, _ *resourceRun) (*resourceRun, error) {
	r := &resourceRun{who: d.Principal(i)}
	if d.Opts.Mode == eventmeter.Push {
		r.who = d.Endpoint.Principal(d.Opts.NumberOf(i) / d.per)
	}
	d.Ready(&r.Attachment, i)
	return r, nil
}

// Open implements [driver.Protocol].
func (d *lane) Open(ctx context.Context, r *resourceRun) (err error) {
	if r.uri, err = d.uriOf(ctx, int(r.Sub.Index)); err != nil {
		return err
	}
	if d.Opts.Mode == eventmeter.Push {
		return d.attachPush(ctx, r)
	}
	return d.attachWebhook(ctx, r)
}

// Abandon implements [driver.Protocol].
func (d *lane) Abandon(*resourceRun) {}

// Part is called before a run is left.
func (d *lane) Part(_ context.Context, r *resourceRun) {
	d.Mu.Lock()
	s := r.session
	d.Mu.Unlock()
	if s != nil {
		r.Via(&s.stream.Stream)
	}
}

// End implements [driver.Protocol].
func (d *lane) End(ctx context.Context, r *resourceRun) error {
	r.Cancel()
	if d.Opts.Mode == eventmeter.Push {
		return d.detachPush(ctx, r)
	}
	err := d.deregister(ctx, r)
	d.retire(r)
	if k := d.hookOf(r); k != nil && err == nil {
		d.Leave(&k.Hook, d.Clock.Now(), nil)
	}
	return err
}

// Stop implements [driver.Protocol].
func (d *lane) Stop(ctx context.Context) error {
	if d.streams != nil {
		return d.streams.Close()
	}
	if d.Inbox != nil {
		return d.CloseInbox(ctx)
	}
	return nil
}

// Figures implements [driver.Figurer].
func (d *lane) Figures() driver.Figures { return d.NeverRetried(d.tally.Figures(), d.Clock.Now()) }

// exchange makes one call in the session of a principal, which lanes share. If into is not
// nil, the result is decoded into it. If the server no longer knows the session, exchange
// forgets it and the error has the kind [mcpclient.KindSession].
func (d *lane) exchange(
	ctx context.Context,
	who *mcpclient.Principal,
	cause eventmeter.Cause,
	method string,
	o wire.Object,
	into any,
) (*mcpclient.Answer, error) {
	session, err := who.Session(ctx, d.Observe)
	if err != nil {
		return nil, err
	}
	if meta := withWish(session.Meta, method, d.set.Secret); meta != nil {
		o.Raw("_meta", meta)
	}
	ctx, cancel := context.WithTimeout(ctx, d.Opts.Timeout)
	defer cancel()
	a := d.Call(ctx, method, session.Header(method, ""), wire.Request(d.Endpoint.NextID(), method, o.End()))
	defer a.Release()
	d.Called(cause, method, a)
	if a.Err != nil {
		return a, who.Refusal(session, a.Err)
	}
	if into == nil {
		return a, nil
	}
	var m struct {
		Result json.RawMessage `json:"result"`
	}
	var odd *json.UnmarshalTypeError // a member of the wrong type counts as absent
	for _, member := range []string{"resources", "resourceTemplates"} {
		var size mcpclient.ListSize
		if err := size.Add(*a.Buf, member); err != nil {
			d.TooLarge(a.At, err)
			return a, err
		}
	}
	if err := json.Unmarshal(*a.Buf, &m); err != nil {
		return a, &mcpclient.CallError{Method: method, Kind: mcpclient.KindProtocol, Cause: err}
	}
	if err := json.Unmarshal(m.Result, into); err != nil && !errors.As(err, &odd) {
		return a, &mcpclient.CallError{Method: method, Kind: mcpclient.KindProtocol, Cause: err}
	}
	return a, nil
}
