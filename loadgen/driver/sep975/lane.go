package sep975

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/sinks"
)

// lane is one lane of SEP-975.
type lane struct {
	driver.Lane[*run]
	set   Settings
	logs  int // log messages per request
	watch *sinks.Watch
	count *account

	drained atomic.Bool
	under   atomic.Int64           // requests in progress
	tasks   []atomic.Pointer[task] // by subscription; nil = none
}

// New returns the driver of a lane of SEP-975.
func New(opts driver.Options) (driver.Driver, error) { return driver.New("sep-975", opts, newLane) }

func newLane(opts driver.Options) (*lane, error) {
	set, err := settingsOf(&opts)
	switch {
	case err != nil:
		return nil, err
	case !set.byID() && !opts.Endpoint.Advertises(ResumableRequests):
		return nil, errors.New("the endpoint does not advertise the capability " + ResumableRequests)
	}
	d := &lane{set: set, count: newAccount(opts.Clock), tasks: make([]atomic.Pointer[task], opts.Subscriptions)}
	if set.LogEvery > 0 {
		d.logs = set.Steps / set.LogEvery
	}
	if err := d.Init(opts, d, func(t *wire.Traffic) (http.RoundTripper, func(), error) {
		return opts.Endpoint.NewTransport(opts.HTTP, t, true)
	}); err != nil {
		return nil, err
	}
	d.What, d.EndFirst = set.Tool, true
	d.watch = d.NewWatch()
	return d, nil
}

// Begin implements [driver.Phased].
func (d *lane) Begin(measure, until eventmeter.Instant) {
	d.count.begin(measure, until)
	if d.set.Disconnect == CutShare || d.set.Disconnect == CutAll {
		d.Work.Go(func() {
			defer crash.Guard()
			d.cutAll(measure.Add(d.set.At), until)
		})
	}
}

// Drain implements [driver.Phased].
func (d *lane) Drain() { d.drained.Store(true) }

// Pending implements [driver.Phased].
func (d *lane) Pending() int64 { return d.under.Load() }

// Figures implements [driver.Figurer].
func (d *lane) Figures() driver.Figures { return d.count.figures() }

// cutAll cuts connections together, first at at and then every sep975.every, before until.
func (d *lane) cutAll(at, until eventmeter.Instant) {
	for round := 0; at < until; round++ {
		if !sinks.Sleep(d.Life, at.Sub(d.Clock.Now())) || d.drained.Load() {
			return
		}
		for i := range d.tasks {
			if t := d.tasks[i].Load(); t != nil && (d.set.Disconnect == CutAll || d.draw(i, round, "cut") < d.set.Share) {
				t.cut()
			}
		}
		if d.set.Every <= 0 {
			return
		}
		at = at.Add(d.set.Every)
	}
}

// draw returns a number in [0, 1) that depends only on the seed, the lane, the subscription
// and the arguments.
func (d *lane) draw(i, n int, what string) float64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d/%d/%d/%d/%s", d.Opts.Seed, d.Opts.Lane, d.Opts.NumberOf(i), n, what)
	// FNV mixes mainly its low bits; this round mixes the others.
	v := h.Sum64()
	v ^= v >> 33
	v *= 0xff51afd7ed558ccd
	v ^= v >> 33
	return float64(v>>11) / (1 << 53)
}

// header returns the header fields of a method's requests.
func (d *lane) header(a *mcpclient.Session, method string) http.Header {
	if method == mcpclient.MethodCall {
		return a.Header(method, d.set.Tool)
	}
	return a.Header(method, "")
}

// arguments returns the arguments of one call of the tool.
func (d *lane) arguments(r *run, note string) ([]byte, error) {
	members := map[string]json.RawMessage{}
	if err := json.Unmarshal(r.args, &members); err != nil {
		return nil, fmt.Errorf("%w: arguments: %w", mcpclient.ErrInvalid, err)
	}
	number := func(name string, v float64) {
		if v != 0 {
			members[name] = strconv.AppendFloat(nil, v, 'f', -1, 64)
		}
	}
	number("steps", float64(d.set.Steps))
	number("stepMs", float64(d.set.Step)/float64(time.Millisecond))
	number("logEvery", float64(d.set.LogEvery))
	if !d.set.byID() {
		number("maxWait", d.set.MaxWait.Seconds())
	}
	number("hangUp", float64(d.set.HangUp))
	members["note"] = wire.AppendString(nil, note)
	return json.Marshal(members)
}

// run is one attachment of a subscription, which makes one request after another.
type run struct {
	driver.Attachment
	who  *mcpclient.Principal
	own  driver.OwnSession // with lastEventId: the client's own session
	args json.RawMessage
	rand *rand.Rand    // used by the run's goroutine
	done chan struct{} // closed when the run's goroutine is over
}

// Make implements [driver.Protocol].
func (d *lane) Make(i int, _ *run) (*run, error) {
	args, err := d.Arguments(i)
	if err != nil {
		return nil, err
	}
	r := &run{who: d.Principal(i), args: args, rand: d.RandOf(i), done: make(chan struct{})}
	d.Ready(&r.Attachment, i)
	return r, nil
}

// Open implements [driver.Protocol]. It begins the first request and returns when the
// request can be resumed.
func (d *lane) Open(ctx context.Context, r *run) (err error) {
	confirmed := make(chan struct{})
	var failure error
	d.Work.Go(func() {
		defer crash.Guard()
		defer close(r.done)
		failure = d.serve(r, sync.OnceFunc(func() { close(confirmed) }))
	})
	select {
	case <-confirmed:
		return nil
	case <-r.done:
		select {
		case <-confirmed:
			return nil
		default:
		}
		if err = failure; err == nil {
			err = driver.NotConfirmed(nil, context.Canceled)
		}
	case <-ctx.Done():
		r.Cancel()
		<-r.done
		err = driver.NotConfirmed(nil, ctx.Err())
		var ce *mcpclient.CallError
		if errors.As(failure, &ce) && ce.Throttled() {
			err = driver.NotConfirmed(ce, ctx.Err())
		}
	}
	return err
}

// Abandon implements [driver.Protocol].
func (d *lane) Abandon(r *run) {
	r.Cancel()
	<-r.done
	_ = d.EndOwn(d.Life, &r.own, r.who) // the error of Open matters more
}

// End implements [driver.Protocol]. It gives up the request in progress. The draft has no
// message for that; the target drops the request when its policy expires. The client's own
// session is ended, too.
func (d *lane) End(ctx context.Context, r *run) error {
	r.Cancel()
	<-r.done
	return d.EndOwn(ctx, &r.own, r.who)
}

// Stop implements [driver.Protocol]. The account is complete afterwards.
func (d *lane) Stop(context.Context) error {
	d.watch.Close()
	return nil
}

// session returns the session of the run's principal; with lastEventId, the client's own,
// which is opened if there is none.
func (d *lane) session(ctx context.Context, r *run) (*mcpclient.Session, error) {
	if !d.set.byID() {
		return r.who.Session(ctx, d.Observe)
	}
	if own := r.own.Current(r.who); own != nil {
		return own, nil
	}
	cause := eventmeter.Subscribe
	if r.IsActive() {
		cause = eventmeter.Reconnect
	}
	return d.OpenOwn(ctx, &r.own, r.who, d.Endpoint.SessionVersion(), cause)
}

// lost reports whether a refusal says that the server no longer knows the session. If so,
// the next request opens another session.
func (d *lane) lost(r *run, s *mcpclient.Session, e *mcpclient.CallError) bool {
	if !d.set.byID() {
		return r.who.Lost(s, e)
	}
	if !e.Forgotten() {
		return false
	}
	r.own.Lose(s, func() {})
	return true
}

// serve makes one request after another until the run is over or the lane drains. It calls
// confirm when the first request can be resumed. It returns the error if none can; later
// errors are reported instead.
func (d *lane) serve(r *run, confirm func()) error {
	backoff := d.Backoff(r.rand)
	opened := false
	for n := 0; r.Ctx().Err() == nil && !d.drained.Load(); n++ {
		t := d.newTask(r, n)
		t.confirmed = func(at eventmeter.Instant) {
			if !opened {
				opened = true
				r.Activate(at)
				confirm()
			}
		}
		err := t.run()
		if err == nil {
			backoff.Reset()
			continue
		}
		var ce *mcpclient.CallError
		known := errors.As(err, &ce)
		lost := known && ce.Kind == mcpclient.KindSession
		switch {
		case r.Ctx().Err() != nil:
			return err
		case !opened && !lost && !(known && ce.Throttled()):
			return err
		case known && ce.Final():
			d.Notice(r.Sub, eventmeter.Terminated, d.Clock.Now(), err.Error())
			r.Fail(err)
			return nil
		case opened && errors.Is(err, errUnfit): // the next request would be like this one
			r.Fail(err)
			return nil
		case opened:
			d.Notice(r.Sub, eventmeter.TransientError, d.Clock.Now(), err.Error())
		}
		wait := backoff.Next(0)
		if known {
			wait += ce.RetryAfter
		}
		if !sinks.Sleep(r.Ctx(), wait) {
			return err
		}
	}
	return nil
}
