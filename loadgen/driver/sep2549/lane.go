package sep2549

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
)

// lane is one lane of clients that use a list.
type lane struct {
	mcpclient.Caller
	opts   driver.Options
	set    Settings
	ep     *mcpclient.Endpoint
	method string // that reads the list
	about  string // the notification of its changes
	want   string // the member that asks for it; "" = a resource
	named  string // the resource that is read; "" = it is a list

	hangUp  func()
	traffic wire.Traffic
	life    context.Context
	end     context.CancelFunc
	work    sync.WaitGroup
	tally   account
	shared  *cache    // nil: each client has its own
	keeper  sync.Once // starts who refreshes the shared one

	mu        sync.Mutex
	closed    bool
	clients   []*client // by index; nil = never attached, or over
	listeners map[int]*listener
	lead      int // the principal whose ear speaks for shared copies; -1 = not known
	pages     uint64
}

// client is one attachment of a client, from Attaching to Detached or
// Failed.
type client struct {
	sub      eventmeter.Sub
	who      *mcpclient.Principal
	cache    *cache
	rand     *rand.Rand
	listener *listener
	ctx      context.Context
	cancel   context.CancelFunc
	work     sync.WaitGroup

	mu     sync.Mutex
	over   bool
	active eventmeter.Instant
	known  map[uint64]uint32 // by run and source: the newest seen
	looked map[string]uint64 // by cursor: the number of the page last looked at
}

// New returns the driver of a lane of SEP-2549.
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
	form, known := forms[set.List]
	switch {
	case err != nil:
		return nil, err
	case opts.Clock == nil, opts.Recorder == nil, opts.Endpoint == nil:
		return nil, errors.New("driver sep-2549: Clock, Recorder and Endpoint must be set")
	case opts.Mode != eventmeter.Poll:
		return nil, fmt.Errorf("driver sep-2549: mode %q does not fit: clients fetch lists, so use poll", opts.Mode)
	case !known:
		return nil, fmt.Errorf("driver sep-2549: list %q is not known: use tools, prompts, resources, templates or resource", set.List)
	case set.Use < 0 || set.Jitter < 0 || set.Jitter > 1:
		return nil, fmt.Errorf("driver sep-2549: use %v or jitter %v is out of bounds", set.Use, set.Jitter)
	case set.Background && set.Jitter == 0:
		return nil, errors.New("driver sep-2549: background refresh needs jitter, or all clients refresh at once")
	}
	d := &lane{
		opts: opts, set: set, ep: opts.Endpoint, method: form.method, about: form.changed, want: form.want,
		clients: make([]*client, opts.Subscriptions), listeners: map[int]*listener{}, lead: -1,
	}
	t, hangUp, err := d.ep.NewTransport(opts.HTTP, &d.traffic, set.Notifications)
	if err != nil {
		return nil, fmt.Errorf("driver sep-2549: %w", err)
	}
	d.hangUp = hangUp
	d.Caller = driver.LaneCaller(&opts, t, &d.traffic)
	d.life, d.end = context.WithCancel(context.Background())
	if form.want == "" {
		d.named = set.URI
	}
	if set.Shared {
		d.shared = newCache(d.Clock, d.set, rand.New(rand.NewPCG(d.opts.Seed, 1<<63)))
	}
	return d, nil
}

// Attach opens the client's stream of notifications, if it has one, and fetches
// the list for the first time.
func (d *lane) Attach(ctx context.Context, i int) error {
	c, err := d.begin(i)
	if err != nil {
		return fmt.Errorf("attach %s: client %d: %w", d.method, i, err)
	}
	stop := context.AfterFunc(ctx, c.cancel)
	err = d.open(ctx, c)
	if !stop() && err == nil {
		err = driver.NotConfirmed(nil, ctx.Err())
	}
	if err == nil {
		c.work.Go(func() {
			defer crash.Guard()
			d.run(c)
		})
		if d.set.Background && d.shared == nil {
			c.work.Go(func() {
				defer crash.Guard()
				d.refreshAll(c.ctx, c.cache, c.who)
			})
		}
		return nil
	}
	c.mu.Lock()
	c.over = true
	d.Recorder.Changed(eventmeter.Transition{Sub: c.sub, To: eventmeter.Failed, At: d.Clock.Now(), Reason: errtext.Line(err.Error())})
	c.mu.Unlock()
	c.cancel()
	d.silence(c)
	return fmt.Errorf("attach %s at %s: %w", d.method, d.ep.Name(), err)
}

// begin makes a client and reports Attaching.
func (d *lane) begin(i int) (*client, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := driver.MayAttach(d.closed, d.clients, i); err != nil {
		return nil, err
	}
	c := &client{
		sub: eventmeter.Sub{Lane: d.opts.Lane, Index: uint32(i)}, who: d.ep.Principal(d.opts.NumberOf(i)), cache: d.shared,
		rand:  rand.New(rand.NewPCG(d.opts.Seed, uint64(d.opts.Lane)<<32|uint64(d.opts.NumberOf(i)))),
		known: map[uint64]uint32{}, looked: map[string]uint64{},
	}
	if c.cache == nil {
		c.cache = newCache(d.Clock, d.set, rand.New(rand.NewPCG(d.opts.Seed, uint64(d.opts.Lane)<<32|uint64(d.opts.NumberOf(i))|1<<62)))
	}
	c.ctx, c.cancel = context.WithCancel(d.life)
	d.clients[i] = c
	d.Recorder.Changed(eventmeter.Transition{Sub: c.sub, To: eventmeter.Attaching, At: d.Clock.Now()})
	return c, nil
}

func (c *client) IsOver() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.over
}

// open listens first and fetches then, so that no change falls between the two.
func (d *lane) open(ctx context.Context, c *client) error {
	if d.set.Notifications {
		if err := d.listen(ctx, c); err != nil {
			return err
		}
	}
	if d.shared != nil && d.set.Background {
		d.keeper.Do(func() {
			d.work.Go(func() {
				defer crash.Guard()
				d.refreshAll(d.life, d.shared, c.who)
			})
		})
	}
	backoff := d.backoff(c.rand)
	pages, err := driver.RetryThrottled(ctx, &backoff, func(again bool) ([]*keptPage, error) {
		cause := eventmeter.Subscribe
		if again {
			cause = eventmeter.Retry
		}
		return d.read(c, cause)
	})
	if err != nil {
		return err
	}
	now := d.Clock.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.active = now
	for _, p := range pages { // what is there already is where it begins
		c.looked[p.key] = p.number
		for _, s := range p.stamps {
			c.known[sourceKey(s.Run, s.Source)] = max(s.Seq, c.known[sourceKey(s.Run, s.Source)])
		}
	}
	d.Recorder.Changed(eventmeter.Transition{Sub: c.sub, To: eventmeter.Active, At: now})
	return nil
}

// Detach ends client i.
func (d *lane) Detach(_ context.Context, i int) error {
	c := driver.LastTurn(&d.mu, d.clients, i)
	if c == nil {
		return nil
	}
	c.mu.Lock()
	if c.over || c.active == 0 {
		c.mu.Unlock()
		return nil
	}
	c.over = true
	left := d.Clock.Now()
	d.Recorder.Changed(eventmeter.Transition{Sub: c.sub, To: eventmeter.Detaching, At: left})
	d.tally.ended(window{index: i, active: c.active, left: left, known: c.known})
	c.mu.Unlock()
	c.cancel()
	c.work.Wait()
	d.silence(c)
	d.Recorder.Changed(eventmeter.Transition{Sub: c.sub, To: eventmeter.Detached, At: d.Clock.Now()})
	return nil
}

// openWindows are the windows of the clients that are still there, up to now.
func (d *lane) openWindows(now eventmeter.Instant) (ws []window) {
	d.mu.Lock()
	clients := slices.Clone(d.clients)
	d.mu.Unlock()
	for i, c := range clients {
		if c == nil {
			continue
		}
		c.mu.Lock()
		if !c.over && c.active != 0 {
			known := make(map[uint64]uint32, len(c.known))
			for k, v := range c.known {
				known[k] = v
			}
			ws = append(ws, window{index: i, active: c.active, left: now, known: known})
		}
		c.mu.Unlock()
	}
	return ws
}

// Close ends everything.
func (d *lane) Close(ctx context.Context) error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	d.closed = true
	d.mu.Unlock()
	d.end() // all at once; Detach then waits for each
	for i := range d.clients {
		_ = d.Detach(ctx, i) // has no error to give
	}
	d.work.Wait()
	d.hangUp()
	return nil
}

// Traffic returns the lane's totals.
func (d *lane) Traffic() mcpclient.Traffic {
	return mcpclient.Traffic{Up: d.traffic.Up(), Down: d.traffic.Down(), Opened: d.traffic.Opened()}
}
