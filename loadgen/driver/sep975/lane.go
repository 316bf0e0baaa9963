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
	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/sinks"
)

// lane is one lane of SEP-975.
type lane struct {
	mcpclient.Caller
	opts    driver.Options
	set     Settings
	logs    int // per request
	ep      *mcpclient.Endpoint
	hangUp  func() // closes the transport's connections
	traffic wire.Traffic
	watch   *sinks.Watch
	count   *account

	life context.Context
	end  context.CancelFunc
	work sync.WaitGroup

	drained atomic.Bool
	under   atomic.Int64 // requests under way
	tasks   []atomic.Pointer[task]

	mu     sync.Mutex
	closed bool
	runs   []*run // by index; nil = never attached
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
	opts = opts.WithDefaults()
	set, err := driver.SettingsOf[Settings](&opts)
	set = set.WithDefaults()
	switch {
	case err != nil:
		return nil, err
	case opts.Mode != eventmeter.Push:
		return nil, fmt.Errorf("driver sep-975: mode %q: use push", opts.Mode)
	case set.Steps < 0, set.LogEvery < 0, set.HangUp < 0:
		return nil, errors.New("driver sep-975: steps, logEvery and hangUp must be 0 or more")
	case !slices.Contains([]string{CutNone, CutOne, CutShare, CutAll}, set.Disconnect):
		return nil, fmt.Errorf("driver sep-975: disconnect %q is not known: use none, one, share or all", set.Disconnect)
	case opts.Endpoint != nil && !opts.Endpoint.Advertises(ResumableRequests):
		return nil, errors.New("driver sep-975: the endpoint does not advertise the capability " + ResumableRequests)
	case opts.Clock == nil, opts.Recorder == nil, opts.Endpoint == nil:
		return nil, errors.New("driver sep-975: Clock, Recorder and Endpoint must be set")
	case opts.Subscriptions < 0:
		return nil, fmt.Errorf("driver sep-975: %d subscriptions", opts.Subscriptions)
	}
	d := &lane{
		opts: opts, set: set, ep: opts.Endpoint, count: newAccount(opts.Clock),
		tasks: make([]atomic.Pointer[task], opts.Subscriptions), runs: make([]*run, opts.Subscriptions),
	}
	if set.LogEvery > 0 {
		d.logs = set.Steps / set.LogEvery
	}
	t, hangUp, err := d.ep.NewTransport(opts.HTTP, &d.traffic, true)
	if err != nil {
		return nil, fmt.Errorf("driver sep-975: %w", err)
	}
	d.hangUp = hangUp
	d.Caller = driver.LaneCaller(&opts, t, &d.traffic)
	d.life, d.end = context.WithCancel(context.Background())
	d.watch = sinks.NewWatch(opts.Clock, min(max(opts.Push.Heartbeat/8, 10*time.Millisecond), time.Second))
	return d, nil
}

// Begin implements [Phased].
func (d *lane) Begin(measure, until eventmeter.Instant) {
	d.count.begin(measure, until)
	if d.set.Disconnect == CutShare || d.set.Disconnect == CutAll {
		d.work.Go(func() {
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
		if !sinks.Sleep(d.life, at.Sub(d.Clock.Now())) {
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
	fmt.Fprintf(h, "%d/%d/%d/%d/%s", d.opts.Seed, d.opts.Lane, d.opts.NumberOf(i), n, what)
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

// Attach begins subscription i's first request and returns when it can be
// resumed.
func (d *lane) Attach(ctx context.Context, i int) error {
	r, err := d.begin(i)
	if err != nil {
		return fmt.Errorf("attach %s: subscription %d: %w", d.set.Tool, i, err)
	}
	confirmed := make(chan struct{})
	var failure error
	d.work.Go(func() {
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
	r.Fail(err)
	return fmt.Errorf("attach %s at %s: %w", d.set.Tool, d.ep.Name(), err)
}

// begin makes a run for subscription i and reports Attaching.
func (d *lane) begin(i int) (*run, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := driver.MayAttach(d.closed, d.runs, i); err != nil {
		return nil, err
	}
	args := json.RawMessage("{}")
	if d.opts.Arguments != nil {
		if a := d.opts.Arguments(i); len(a) > 0 {
			args = a
		}
	}
	var f wire.Fields
	if !wire.ScanFields(args, &f) {
		return nil, fmt.Errorf("%w: arguments %s are not a JSON object", mcpclient.ErrInvalid, errtext.Line(string(args)))
	}
	r := &run{
		Attachment: driver.Attachment{Sub: eventmeter.Sub{Lane: d.opts.Lane, Index: uint32(i)}, Caller: &d.Caller},
		who:        d.ep.Principal(d.opts.NumberOf(i)),
		args:       args,
		rand:       rand.New(rand.NewPCG(d.opts.Seed, uint64(d.opts.Lane)<<32|uint64(d.opts.NumberOf(i)))),
		done:       make(chan struct{}),
	}
	r.Ctx, r.Cancel = context.WithCancel(d.life)
	d.runs[i] = r
	d.Recorder.Changed(eventmeter.Transition{Sub: r.Sub, To: eventmeter.Attaching, At: d.Clock.Now()})
	return r, nil
}

// Detach ends subscription i. A request that is under way is given up; the
// draft has no way to say so, and the target forgets it when its policy ends.
func (d *lane) Detach(_ context.Context, i int) error {
	r := driver.LastTurn(&d.mu, d.runs, i)
	if r == nil || !r.Leave() {
		return nil
	}
	r.Cancel()
	<-r.done
	d.Recorder.Changed(eventmeter.Transition{Sub: r.Sub, To: eventmeter.Detached, At: d.Clock.Now()})
	return nil
}

// Close ends everything. The account is complete afterwards.
func (d *lane) Close(ctx context.Context) error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	d.closed = true
	d.mu.Unlock()
	d.end() // every run's context hangs on it, so the loop below does not wait for one after the other
	for i := range d.runs {
		if err := d.Detach(ctx, i); err != nil {
			return err
		}
	}
	d.work.Wait()
	d.watch.Close()
	d.hangUp()
	return nil
}

// Traffic returns the lane's totals.
func (d *lane) Traffic() mcpclient.Traffic {
	return mcpclient.Traffic{Up: d.traffic.Up(), Down: d.traffic.Down(), Opened: d.traffic.Opened()}
}

func (d *lane) notice(r *run, k eventmeter.NoticeKind, at eventmeter.Instant, detail string) {
	d.Recorder.Noticed(eventmeter.Notice{Sub: r.Sub, Kind: k, At: at, Detail: errtext.Line(detail)})
}

// called reports an exchange.
func (d *lane) called(c eventmeter.Call) {
	c.Lane = d.opts.Lane
	if c.Requests > 0 {
		c.Connections = d.traffic.TakeOpened()
	}
	if c.At == 0 {
		c.At = d.Clock.Now()
	}
	d.Recorder.Called(c)
}

// agreement returns what the run's principal agreed on.
func (d *lane) agreement(ctx context.Context, r *run) (*mcpclient.Session, error) {
	return r.who.Session(ctx, func(c eventmeter.Call) {
		c.Lane, c.At = d.opts.Lane, d.Clock.Now()
		d.Recorder.Called(c)
	})
}

// lost tells whether an answer means that the server no longer knows the
// session, and then forgets it.
func (d *lane) lost(r *run, a *mcpclient.Session, e *mcpclient.CallError) bool {
	if a.ID == "" || !e.Forgotten() {
		return false
	}
	r.who.Forget(a)
	return true
}

// serve makes one request after another until the run is over or the lane
// drains. It returns why the first could not be made; later it reports instead.
func (d *lane) serve(r *run, confirm func()) error {
	backoff := sinks.Backoff{Min: d.opts.Push.BackoffMin, Max: d.opts.Push.BackoffMax, Rand: r.rand}
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
			d.notice(r, eventmeter.Terminated, d.Clock.Now(), err.Error())
			r.Fail(err)
			return nil
		case opened:
			d.notice(r, eventmeter.TransientError, d.Clock.Now(), err.Error())
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
