package driver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/sinks"
)

// SEP1803Options are what only lanes of SEP-1803 can be asked for.
type SEP1803Options struct {
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

// sep1803 is one lane of SEP-1803: events as resources.
type sep1803 struct {
	caller
	*callbacks
	opts    Options
	ep      *Endpoint
	looker  eventmeter.Observer // nil when nobody looks at events
	hangUp  func()
	traffic wire.Traffic
	tally   tally
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
	attachment
	who  *principal
	uri  string
	hook *resourceHook // webhook

	session *resourceSession   // push; guarded by the lane's lock
	parted  sync.Once          // it has left its session
	began   eventmeter.Instant // when it was asked for
	late    bool               // its session's stream was there before it
}

func newSEP1803(opts Options) (*sep1803, error) {
	opts = opts.WithDefaults()
	o := opts.SEP1803
	switch {
	case opts.Clock == nil, opts.Recorder == nil, opts.Endpoint == nil:
		return nil, errors.New("driver sep-1803: Clock, Recorder and Endpoint must be set")
	case opts.Event == "":
		return nil, errors.New("driver sep-1803: no event: set the lane's event to its name, or to an event:// template")
	case opts.Subscriptions < 0 || o.PerSession < 0:
		return nil, fmt.Errorf("driver sep-1803: %d subscriptions, %d in a session", opts.Subscriptions, o.PerSession)
	case o.Secret != "" && o.Secret != secretRaw && o.Secret != secretStandard && o.Secret != secretNone:
		return nil, fmt.Errorf("driver sep-1803: secret %q is not known: use raw, standard or none", o.Secret)
	}
	d := &sep1803{
		opts: opts, ep: opts.Endpoint, looker: eventmeter.ObserverOf(opts.Recorder), per: o.PerSession,
		runs: make([]*resourceRun, opts.Subscriptions),
	}
	d.sessions = make([]*resourceSession, (opts.Subscriptions+d.per-1)/d.per)
	t, hangUp, err := d.ep.newTransport(opts.HTTP, &d.traffic, opts.Mode == eventmeter.Push)
	if err != nil {
		return nil, fmt.Errorf("driver sep-1803: %w", err)
	}
	d.hangUp = hangUp
	d.caller = d.ep.laneCaller(&opts, t, &d.traffic)
	d.life, d.end = context.WithCancel(context.Background())
	switch opts.Mode {
	case eventmeter.Push:
		d.watch = sinks.NewWatch(opts.Clock, min(max(opts.Push.Heartbeat/8, 10*time.Millisecond), time.Second))
		d.tally.declare("sessions", "unrouted", "earlier", "updatesObserved", "updatesIdentified")
		if o.CutEvery > 0 {
			d.tally.declare("cuts", "resumes", "resumesRefused", "redelivered")
			d.tally.declareTiming("outage")
		}
	case eventmeter.Webhook:
		if d.hooks, err = newResourceHooks(d); err != nil {
			d.end()
			return nil, fmt.Errorf("driver sep-1803: %w", err)
		}
		d.tally.declare("registrations", "registrationsUnanswered", "registrationsRaced", "beforeSecret", "beforeSecretRefused",
			"secretsRaw", "secretsStandard", "secretsNone")
		d.tally.declareTiming("secretWindow", "secretLate")
	default:
		d.end()
		return nil, fmt.Errorf("driver sep-1803: mode %q: there is push, in band, and webhook, out of band", opts.Mode)
	}
	return d, nil
}

// Attach opens subscription i.
func (d *sep1803) Attach(ctx context.Context, i int) error {
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
	r.fail(err)
	return fmt.Errorf("attach %s at %s: %w", d.opts.Event, d.ep.opts.URL, err)
}

// begin makes a run for subscription i and reports Attaching.
func (d *sep1803) begin(i int) (*resourceRun, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := mayAttach(d.closed, d.runs, i); err != nil {
		return nil, err
	}
	r := &resourceRun{attachment: attachment{sub: eventmeter.Sub{Lane: d.opts.Lane, Index: uint32(i)}, to: &d.caller}, who: d.ep.principal(d.opts.number(i))}
	if d.opts.Mode == eventmeter.Push {
		r.who = d.ep.principal(d.opts.number(i) / d.per)
	}
	r.ctx, r.cancel = context.WithCancel(d.life)
	d.runs[i], r.began = r, d.clock.Now()
	d.rec.Changed(eventmeter.Transition{Sub: r.sub, To: eventmeter.Attaching, At: r.began})
	return r, nil
}

// Detach ends subscription i.
func (d *sep1803) Detach(ctx context.Context, i int) error {
	r := lastTurn(&d.mu, d.runs, i)
	if r == nil || !r.leave() {
		return nil
	}
	r.cancel()
	var err error
	if d.opts.Mode == eventmeter.Push {
		err = d.detachPush(ctx, r)
	} else {
		err = d.deregister(ctx, r)
		d.hooks.retire(r)
	}
	d.rec.Changed(eventmeter.Transition{Sub: r.sub, To: eventmeter.Detached, At: d.clock.Now()})
	if err != nil {
		return fmt.Errorf("detach %s at %s: %w", d.opts.Event, d.ep.opts.URL, err)
	}
	return nil
}

// Close ends everything. It detaches what is open, many at a time.
func (d *sep1803) Close(ctx context.Context) error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	d.closed = true
	d.mu.Unlock()
	failed, first := detachAll(d.runs, func(i int) error { return d.Detach(ctx, i) })
	d.end()
	d.work.Wait()
	if d.watch != nil {
		d.watch.Close()
	}
	if d.hooks != nil {
		if err := d.hooks.listener.Close(ctx); err != nil && first == nil {
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
func (d *sep1803) Traffic() Traffic {
	return Traffic{Up: d.traffic.Up(), Down: d.traffic.Down(), Opened: d.traffic.Opened(), Accepted: d.accepted()}
}

// Figures returns what the common ledger does not know of.
func (d *sep1803) Figures() Figures { return d.tally.figures() }

func (d *sep1803) notice(r *resourceRun, k eventmeter.NoticeKind, at eventmeter.Instant, detail string) {
	d.rec.Noticed(eventmeter.Notice{Sub: r.sub, Kind: k, At: at, Detail: line(detail)})
}

// delivered reports one copy and shows it to whoever looks.
func (d *sep1803) delivered(v eventmeter.Delivery, f *wire.Fields, message []byte) {
	d.rec.Delivered(v)
	if d.looker != nil {
		d.looker.Observed(eventmeter.Observation{Sub: v.Sub, At: v.At, EventID: v.EventID, Timestamp: f.Timestamp, Message: message})
	}
}

// called reports an exchange.
func (d *sep1803) called(cause eventmeter.Cause, method string, a *answer) {
	d.rec.Called(eventmeter.Call{
		Lane: d.opts.Lane, Cause: cause, At: a.at, Requests: 1, Up: a.up, Down: a.down,
		Connections: d.traffic.TakeOpened(), Took: a.took, Method: method, Failure: a.err.failure(),
	})
}

// observe reports handshakes as the lane's traffic.
func (d *sep1803) observe(c eventmeter.Call) {
	c.Lane, c.At = d.opts.Lane, d.clock.Now()
	d.rec.Called(c)
}

// exchange makes one call of an agreement that a principal's lanes share.
// into, if not nil, is filled with the result. A session that the server no
// longer knows is forgotten, and the error says so.
func (d *sep1803) exchange(ctx context.Context, who *principal, cause eventmeter.Cause, method string, o wire.Object, into any) (*answer, error) {
	agreed, err := who.agree(ctx, d.observe)
	if err != nil {
		return nil, err
	}
	if agreed.meta != nil {
		o.Raw("_meta", withWish(agreed.meta, method, d.opts.SEP1803.Secret))
	} else if method == methodRegister && d.opts.SEP1803.Secret != "" {
		o.Raw("_meta", withWish([]byte("{}"), method, d.opts.SEP1803.Secret))
	}
	ctx, cancel := context.WithTimeout(ctx, d.opts.Timeout)
	defer cancel()
	a := d.call(ctx, method, agreed.headers[method], wire.AppendRequest(nil, d.ep.id(), method, o.End()))
	defer a.release()
	d.called(cause, method, a)
	if a.err != nil {
		if agreed.session != "" && a.err.forgotten() {
			who.forget(agreed)
			return a, &callError{method: method, status: a.status, kind: "session lost"}
		}
		return a, a.err
	}
	if into == nil {
		return a, nil
	}
	var m struct {
		Result json.RawMessage `json:"result"`
	}
	var odd *json.UnmarshalTypeError // a member of an unexpected type is read as absent
	for _, member := range []string{"resources", "resourceTemplates"} {
		var size listSize
		if err := size.page(*a.buf, member); err != nil {
			d.tooLarge(a.at, err)
			return a, err
		}
	}
	if err := json.Unmarshal(*a.buf, &m); err != nil {
		return a, &callError{method: method, kind: kindProtocol, cause: err}
	}
	if err := json.Unmarshal(m.Result, into); err != nil && !errors.As(err, &odd) {
		return a, &callError{method: method, kind: kindProtocol, cause: err}
	}
	return a, nil
}

// jitter is a lane's own source of randomness for one of its parts.
func (d *sep1803) jitter(part int) *rand.Rand {
	return rand.New(rand.NewPCG(d.opts.Seed, uint64(d.opts.Lane)<<32|uint64(part)))
}
