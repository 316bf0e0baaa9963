package sep1803

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/sinks"
)

// lane is one lane of SEP-1803: events as resources.
type lane struct {
	mcpclient.Caller
	*driver.Inbox
	opts    driver.Options
	set     Settings
	ep      *mcpclient.Endpoint
	looker  eventmeter.Observer // nil when nobody looks at events
	hangUp  func()
	traffic wire.Traffic
	tally   driver.Tally
	per     int // subscriptions in a session

	life context.Context // of every stream
	end  context.CancelFunc
	work sync.WaitGroup

	watch *sinks.Watch   // push
	hooks *resourceHooks // webhook

	naming sync.Mutex // held while the target is asked what it offers
	offer  *resourceOffer

	mu       sync.Mutex
	closed   bool
	runs     []*resourceRun     // by index; nil = never attached
	sessions []*resourceSession // by number; nil = none open
}

// resourceRun is one attachment of a subscription.
type resourceRun struct {
	driver.Attachment
	who  *mcpclient.Principal
	uri  string
	hook *resourceHook // webhook

	session *resourceSession   // push; guarded by the lane's lock
	parted  sync.Once          // it has left its session
	began   eventmeter.Instant // when it was asked for
	late    bool               // its session's stream was there before it
}

// New returns the driver of a lane of SEP-1803.
func New(opts driver.Options) (driver.Driver, error) {
	d, err := newLane(opts)
	if err != nil {
		return nil, err
	}
	return d, nil
}

func newLane(opts driver.Options) (*lane, error) {
	opts = opts.WithDefaults()
	o, err := driver.SettingsOf[Settings](&opts)
	o = o.WithDefaults()
	switch {
	case err != nil:
		return nil, err
	case opts.Clock == nil, opts.Recorder == nil, opts.Endpoint == nil:
		return nil, errors.New("driver sep-1803: Clock, Recorder and Endpoint must be set")
	case opts.Event == "":
		return nil, errors.New("driver sep-1803: no event: set the lane's event to its name, or to an event:// template")
	case opts.Subscriptions < 0 || o.PerSession < 0:
		return nil, fmt.Errorf("driver sep-1803: %d subscriptions, %d in a session", opts.Subscriptions, o.PerSession)
	case o.Secret != "" && o.Secret != secretRaw && o.Secret != secretStandard && o.Secret != secretNone:
		return nil, fmt.Errorf("driver sep-1803: secret %q is not known: use raw, standard or none", o.Secret)
	}
	d := &lane{
		opts: opts, set: o, ep: opts.Endpoint, looker: eventmeter.ObserverOf(opts.Recorder), per: o.PerSession,
		runs: make([]*resourceRun, opts.Subscriptions),
	}
	d.sessions = make([]*resourceSession, (opts.Subscriptions+d.per-1)/d.per)
	t, hangUp, err := d.ep.NewTransport(opts.HTTP, &d.traffic, opts.Mode == eventmeter.Push)
	if err != nil {
		return nil, fmt.Errorf("driver sep-1803: %w", err)
	}
	d.hangUp = hangUp
	d.Caller = driver.LaneCaller(&opts, t, &d.traffic)
	d.life, d.end = context.WithCancel(context.Background())
	switch opts.Mode {
	case eventmeter.Push:
		d.watch = sinks.NewWatch(opts.Clock, min(max(opts.Push.Heartbeat/8, 10*time.Millisecond), time.Second))
		d.tally.Declare("sessions", "unrouted", "earlier", "updatesObserved", "updatesIdentified")
		if o.CutEvery > 0 {
			d.tally.Declare("cuts", "resumes", "resumesRefused", "redelivered")
			d.tally.DeclareTiming("outage")
		}
	case eventmeter.Webhook:
		if d.hooks, err = newResourceHooks(d); err != nil {
			d.end()
			return nil, fmt.Errorf("driver sep-1803: %w", err)
		}
		d.tally.Declare("registrations", "registrationsUnanswered", "registrationsRaced", "beforeSecret", "beforeSecretRefused",
			"secretsRaw", "secretsStandard", "secretsNone")
		d.tally.DeclareTiming("secretWindow", "secretLate")
	default:
		d.end()
		return nil, fmt.Errorf("driver sep-1803: mode %q: there is push, in band, and webhook, out of band", opts.Mode)
	}
	return d, nil
}

// Attach opens subscription i.
func (d *lane) Attach(ctx context.Context, i int) error {
	r, err := d.begin(i)
	if err != nil {
		return fmt.Errorf("attach %s: subscription %d: %w", d.opts.Event, i, err)
	}
	if r.uri, err = d.uriOf(ctx, i); err == nil {
		if d.opts.Mode == eventmeter.Push {
			err = d.attachPush(ctx, r)
		} else {
			err = d.attachWebhook(ctx, r)
		}
	}
	if err == nil {
		return nil
	}
	r.Fail(err)
	return fmt.Errorf("attach %s at %s: %w", d.opts.Event, d.ep.Name(), err)
}

// begin makes a run for subscription i and reports Attaching.
func (d *lane) begin(i int) (*resourceRun, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := driver.MayAttach(d.closed, d.runs, i); err != nil {
		return nil, err
	}
	r := &resourceRun{Attachment: driver.Attachment{Sub: eventmeter.Sub{Lane: d.opts.Lane, Index: uint32(i)}, Caller: &d.Caller}, who: d.ep.Principal(d.opts.NumberOf(i))}
	if d.opts.Mode == eventmeter.Push {
		r.who = d.ep.Principal(d.opts.NumberOf(i) / d.per)
	}
	r.Ctx, r.Cancel = context.WithCancel(d.life)
	d.runs[i], r.began = r, d.Clock.Now()
	d.Recorder.Changed(eventmeter.Transition{Sub: r.Sub, To: eventmeter.Attaching, At: r.began})
	return r, nil
}

// Detach ends subscription i.
func (d *lane) Detach(ctx context.Context, i int) error {
	r := driver.LastTurn(&d.mu, d.runs, i)
	if r == nil || !r.Leave() {
		return nil
	}
	r.Cancel()
	var err error
	if d.opts.Mode == eventmeter.Push {
		err = d.detachPush(ctx, r)
	} else {
		err = d.deregister(ctx, r)
		d.hooks.retire(r)
	}
	d.Recorder.Changed(eventmeter.Transition{Sub: r.Sub, To: eventmeter.Detached, At: d.Clock.Now()})
	if err != nil {
		return fmt.Errorf("detach %s at %s: %w", d.opts.Event, d.ep.Name(), err)
	}
	return nil
}

// Close ends everything. It detaches what is open, many at a time.
func (d *lane) Close(ctx context.Context) error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	d.closed = true
	d.mu.Unlock()
	failed, first := driver.DetachAll(d.runs, func(i int) error { return d.Detach(ctx, i) })
	d.end()
	d.work.Wait()
	if d.watch != nil {
		d.watch.Close()
	}
	if d.hooks != nil {
		if err := d.hooks.Listener.Close(ctx); err != nil && first == nil {
			first, failed = err, failed+1
		}
	}
	d.hangUp()
	if first != nil {
		return fmt.Errorf("close lane %d: %d errors, the first: %w", d.opts.Lane, failed, first)
	}
	return nil
}

// Traffic returns the lane's totals.
func (d *lane) Traffic() mcpclient.Traffic {
	return mcpclient.Traffic{Up: d.traffic.Up(), Down: d.traffic.Down(), Opened: d.traffic.Opened(), Accepted: d.Accepted()}
}

// Figures returns what the common ledger does not know of.
func (d *lane) Figures() driver.Figures { return d.tally.Figures() }

func (d *lane) notice(r *resourceRun, k eventmeter.NoticeKind, at eventmeter.Instant, detail string) {
	d.Recorder.Noticed(eventmeter.Notice{Sub: r.Sub, Kind: k, At: at, Detail: errtext.Line(detail)})
}

// delivered reports one copy and shows it to whoever looks.
func (d *lane) delivered(v eventmeter.Delivery, f *wire.Fields, message []byte) {
	d.Recorder.Delivered(v)
	if d.looker != nil {
		d.looker.Observed(eventmeter.Observation{Sub: v.Sub, At: v.At, EventID: v.EventID, Timestamp: f.Timestamp, Message: message})
	}
}

// called reports an exchange.
func (d *lane) called(cause eventmeter.Cause, method string, a *mcpclient.Answer) {
	d.Recorder.Called(eventmeter.Call{
		Lane: d.opts.Lane, Cause: cause, At: a.At, Requests: 1, Up: a.Up, Down: a.Down,
		Connections: d.traffic.TakeOpened(), Took: a.Took, Method: method, Failure: a.Err.Failure(),
	})
}

// observe reports handshakes as the lane's traffic.
func (d *lane) observe(c eventmeter.Call) {
	c.Lane, c.At = d.opts.Lane, d.Clock.Now()
	d.Recorder.Called(c)
}

// exchange makes one call of an agreement that a principal's lanes share.
// into, if not nil, is filled with the result. A session that the server no
// longer knows is forgotten, and the error says so.
func (d *lane) exchange(ctx context.Context, who *mcpclient.Principal, cause eventmeter.Cause, method string, o wire.Object, into any) (*mcpclient.Answer, error) {
	agreed, err := who.Session(ctx, d.observe)
	if err != nil {
		return nil, err
	}
	if agreed.Meta != nil {
		o.Raw("_meta", withWish(agreed.Meta, method, d.set.Secret))
	} else if method == methodRegister && d.set.Secret != "" {
		o.Raw("_meta", withWish([]byte("{}"), method, d.set.Secret))
	}
	ctx, cancel := context.WithTimeout(ctx, d.opts.Timeout)
	defer cancel()
	a := d.Call(ctx, method, agreed.Header(method, ""), wire.AppendRequest(nil, d.ep.NextID(), method, o.End()))
	defer a.Release()
	d.called(cause, method, a)
	if a.Err != nil {
		if agreed.ID != "" && a.Err.Forgotten() {
			who.Forget(agreed)
			return a, &mcpclient.CallError{Method: method, Status: a.Status, Kind: mcpclient.KindSession}
		}
		return a, a.Err
	}
	if into == nil {
		return a, nil
	}
	var m struct {
		Result json.RawMessage `json:"result"`
	}
	var odd *json.UnmarshalTypeError // a member of an unexpected type is read as absent
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

// jitter is a lane's own source of randomness for one of its parts.
func (d *lane) jitter(part int) *rand.Rand {
	return rand.New(rand.NewPCG(d.opts.Seed, uint64(d.opts.Lane)<<32|uint64(part)))
}
