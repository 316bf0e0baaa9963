package sep2549

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"sync"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
)

// lane is one lane of clients that use a list.
type lane struct {
	driver.Lane[*client]
	set   Settings
	list  driver.List // without Want: a resource
	named string      // the URI of the resource; "" = a list

	tally   account
	shared  *cache          // nil: each client has its own
	streams *driver.Streams // of notifications; nil = none
	keeper  sync.Once       // starts the goroutine that refreshes the shared cache

	// Guarded by Mu.
	listeners map[int]*listener // by subscription, or by -1 minus the principal's index
	lead      int               // the principal whose listener invalidates shared copies; -1 = none yet
	pages     uint64            // fetched so far
}

// client is one attachment of a client, from Attaching to Detached or Failed.
type client struct {
	driver.Attachment
	who      *mcpclient.Principal
	cache    *cache
	rand     *rand.Rand
	listener *listener
	work     sync.WaitGroup

	// Guarded by Mu.
	since  eventmeter.Instant // when it was confirmed; 0 = not yet
	known  map[uint64]uint32  // by run and source: the newest change seen
	looked map[string]uint64  // by cursor: the number of the page last seen
	order  wire.Order         // of the list last seen
}

// New returns the driver of a lane of SEP-2549.
func New(opts driver.Options) (driver.Driver, error) { return driver.New("sep-2549", opts, newLane) }

func newLane(opts driver.Options) (*lane, error) {
	set, err := settingsOf(&opts)
	switch {
	case err != nil:
		return nil, err
	case set.Use < 0:
		return nil, fmt.Errorf("use %v is out of bounds", set.Use)
	case set.Background && set.Jitter == 0:
		return nil, errors.New("background refresh needs jitter, or all clients refresh at once")
	}
	d := &lane{
		set: set, list: listOf(set.List), listeners: map[int]*listener{}, lead: -1,
	}
	if err := d.Init(opts, d, func(t *wire.Traffic) (http.RoundTripper, func(), error) {
		return opts.Endpoint.NewTransport(opts.HTTP, t, false)
	}); err != nil {
		return nil, err
	}
	if set.Notifications {
		if d.streams, err = d.OpenStreams(driver.StreamOptions{}); err != nil {
			return nil, err
		}
	}
	d.What, d.Noun, d.EndFirst = d.list.Read, "client", true
	if d.list.Want == "" {
		d.named = set.URI
	}
	if set.Shared {
		d.shared = newCache(d.Clock, d.set, rand.New(rand.NewPCG(d.Opts.Seed, 1<<63)))
	}
	return d, nil
}

// Make implements [driver.Protocol].
func (d *lane) Make(i int, _ *client) (*client, error) {
	c := &client{who: d.Principal(i), cache: d.shared, rand: d.RandOf(i), known: map[uint64]uint32{}, looked: map[string]uint64{}}
	if c.cache == nil {
		c.cache = newCache(d.Clock, d.set, d.Rand(uint64(d.Opts.NumberOf(i))|1<<62))
	}
	d.Ready(&c.Attachment, i)
	c.Left = func(at eventmeter.Instant) { // with the lock held: a client is either open or in the account
		if c.since != 0 {
			d.tally.ended(window{index: i, active: c.since, left: at, known: c.known})
		}
	}
	return c, nil
}

// Open implements [driver.Protocol]: it opens the client's stream of
// notifications, if it has one, and fetches the list for the first time.
func (d *lane) Open(ctx context.Context, c *client) error {
	stop := context.AfterFunc(ctx, c.Cancel)
	err := d.open(ctx, c)
	if !stop() && err == nil {
		err = driver.NotConfirmed(nil, ctx.Err())
	}
	if err != nil {
		return err
	}
	c.work.Go(func() {
		defer crash.Guard()
		d.run(c)
	})
	if d.set.Background && d.shared == nil {
		c.work.Go(func() {
			defer crash.Guard()
			d.refreshAll(c.Ctx(), c.cache, c.who)
		})
	}
	return nil
}

// Abandon implements [driver.Protocol].
func (d *lane) Abandon(c *client) { d.unlisten(c) }

// End implements [driver.Protocol].
func (d *lane) End(_ context.Context, c *client) error {
	c.Cancel()
	c.work.Wait()
	d.unlisten(c)
	return nil
}

// Stop implements [driver.Protocol].
func (d *lane) Stop(context.Context) error { return d.streams.Close() }

// open listens before it fetches, so that no change falls between the two.
func (d *lane) open(ctx context.Context, c *client) error {
	if d.set.Notifications {
		if err := d.listen(ctx, c); err != nil {
			return err
		}
	}
	if d.shared != nil && d.set.Background {
		d.keeper.Do(func() {
			d.Work.Go(func() {
				defer crash.Guard()
				d.refreshAll(d.Life, d.shared, c.who)
			})
		})
	}
	backoff := d.Backoff(c.rand)
	pages, err := driver.RetryThrottled(ctx, &backoff, func(cause eventmeter.Cause) ([]*keptPage, error) {
		return d.read(c, cause)
	})
	if err != nil {
		return err
	}
	now := d.Clock.Now()
	c.Mu.Lock()
	c.since = now
	for _, p := range pages { // earlier changes are not owed
		c.looked[p.key] = p.number
		for _, s := range p.stamps {
			c.known[sourceKey(s.Run, s.Source)] = max(s.Seq, c.known[sourceKey(s.Run, s.Source)])
		}
	}
	c.Mu.Unlock()
	c.Activate(now)
	return nil
}

// openWindows returns the windows of the attached clients, up to now.
func (d *lane) openWindows(now eventmeter.Instant) (ws []window) {
	for _, c := range d.Attached() {
		c.Mu.Lock()
		if !c.Over && c.since != 0 {
			ws = append(ws, window{index: int(c.Sub.Index), active: c.since, left: now, known: maps.Clone(c.known)})
		}
		c.Mu.Unlock()
	}
	return ws
}
