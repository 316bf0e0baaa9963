package sep975

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"slices"
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
	logs  int // per request
	watch *sinks.Watch
	count *account

	drained atomic.Bool
	under   atomic.Int64 // requests under way
	tasks   []atomic.Pointer[task]
}

// New returns the driver of a lane of SEP-975.
func New(opts driver.Options) (driver.Driver, error) {
	d, err := newLane(opts)
	if err != nil {
		return nil, err
	}
	return d, nil
}

func newLane(opts driver.Options) (*lane, error) {
	if err := driver.CheckOptions("driver sep-975", &opts); err != nil {
		return nil, err
	}
	opts = opts.WithDefaults()
	set, err := settingsOf(&opts)
	switch {
	case err != nil:
		return nil, err
	case opts.Mode != eventmeter.Push:
		return nil, fmt.Errorf("driver sep-975: mode %q: use push", opts.Mode)
	case set.Steps < 0, set.LogEvery < 0, set.HangUp < 0:
		return nil, errors.New("driver sep-975: steps, logEvery and hangUp must be 0 or more")
	case !slices.Contains([]string{CutNone, CutOne, CutShare, CutAll}, set.Disconnect):
		return nil, fmt.Errorf("driver sep-975: disconnect %q is not known: use none, one, share or all", set.Disconnect)
	case !opts.Endpoint.Advertises(ResumableRequests):
		return nil, errors.New("driver sep-975: the endpoint does not advertise the capability " + ResumableRequests)
	}
	d := &lane{set: set, count: newAccount(opts.Clock), tasks: make([]atomic.Pointer[task], opts.Subscriptions)}
	if set.LogEvery > 0 {
		d.logs = set.Steps / set.LogEvery
	}
	if err := d.Init(opts, d, func(t *wire.Traffic) (http.RoundTripper, func(), error) {
		return opts.Endpoint.NewTransport(opts.HTTP, t, true)
	}); err != nil {
		return nil, fmt.Errorf("driver sep-975: %w", err)
	}
	d.What, d.EndFirst = set.Tool, true
	d.watch = d.NewWatch()
	return d, nil
}

// Begin implements [Phased].
func (d *lane) Begin(measure, until eventmeter.Instant) {
	d.count.begin(measure, until)
	if d.set.Disconnect == CutShare || d.set.Disconnect == CutAll {
		d.Work.Go(func() {
			defer crash.Guard()
			d.cutAll(measure.Add(d.set.At), until)
		})
	}
}

// Drain implements [Phased].
func (d *lane) Drain() { d.drained.Store(true) }

// Pending implements [Phased].
func (d *lane) Pending() int64 { return d.under.Load() }

// Figures implements [Figurer].
func (d *lane) Figures() driver.Figures { return d.count.figures() }

// cutAll cuts connections together, from an instant on until another.
func (d *lane) cutAll(at, until eventmeter.Instant) {
	for round := 0; at < until; round++ {
		if !sinks.Sleep(d.Life, at.Sub(d.Clock.Now())) {
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

// draw gives a number from 0 to below 1 that is the same for the same seed.
func (d *lane) draw(i, n int, what string) float64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d/%d/%d/%d/%s", d.Opts.Seed, d.Opts.Lane, d.Opts.NumberOf(i), n, what)
	// FNV mixes its low bits best; the rest follows from another round.
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

// arguments are those of one call of the tool.
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
	number("maxWait", d.set.MaxWait.Seconds())
	number("hangUp", float64(d.set.HangUp))
	members["note"] = wire.AppendString(nil, note)
	return json.Marshal(members)
}

// run is one attachment of a subscription: the requests that it makes after
// one another, from Attaching to Detached or Failed.
type run struct {
	driver.Attachment
	who  *mcpclient.Principal
	args json.RawMessage
	rand *rand.Rand    // of the one goroutine that runs it
	done chan struct{} // closed when its goroutine is over
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

// Open implements [driver.Protocol]: it begins the first request and returns when
// that can be resumed.
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
func (d *lane) Abandon(*run) {}

// End implements [driver.Protocol]. A request that is under way is given up; the
// draft has no way to say so, and the target forgets it when its policy ends.
func (d *lane) End(_ context.Context, r *run) error {
	r.Cancel()
	<-r.done
	return nil
}

// Stop implements [driver.Protocol]. The account is complete afterwards.
func (d *lane) Stop(context.Context) error {
	d.watch.Close()
	return nil
}

// session returns that of the run's principal.
func (d *lane) session(ctx context.Context, r *run) (*mcpclient.Session, error) {
	return r.who.Session(ctx, d.Observe)
}

// serve makes one request after another until the run is over or the lane
// drains. It returns why the first could not be made; later it reports instead.
func (d *lane) serve(r *run, confirm func()) error {
	backoff := d.StreamBackoff(r.rand)
	opened := false
	for n := 0; r.Ctx.Err() == nil && !d.drained.Load(); n++ {
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
		case r.Ctx.Err() != nil:
			return err
		case !opened && !lost && !(known && ce.Throttled()):
			return err
		case known && ce.Final():
			d.Notice(r.Sub, eventmeter.Terminated, d.Clock.Now(), err.Error())
			r.Fail(err)
			return nil
		case opened:
			d.Notice(r.Sub, eventmeter.TransientError, d.Clock.Now(), err.Error())
		}
		wait := backoff.Next(0)
		if known {
			wait += ce.RetryAfter
		}
		if !sinks.Sleep(r.Ctx, wait) {
			return err
		}
	}
	return nil
}
