package updates

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
)

// lane is one lane of clients that subscribe to updates.
type lane struct {
	driver.Lane[*client]
	set     Settings
	list    driver.List // of set.List; zero = a resource
	tally   driver.Tally
	streams *driver.Streams
	pipe    *stream // shared by all clients of a pipe; nil = there is none. Guarded by Mu.
}

// client is one attachment of a client, from Attaching to Detached or Failed.
type client struct {
	driver.Attachment
	d      *lane
	who    *mcpclient.Principal
	uri    string // of the resource; "" = a list
	stream *stream
	work   sync.WaitGroup // its reads; begun under Mu, none after the client is over

	// Guarded by the stream's lock.
	subscribed bool // resources/subscribe has succeeded
	in         int  // the number of the session in which it did

	// Guarded by Mu.
	since   eventmeter.Instant // when the client was confirmed; 0 = not yet
	known   map[uint64]uint32  // by run and source: the newest change that the client knows
	pending pendingRead
	reading bool
}

// pendingRead is a read that is due because of a notification, or because the stream was
// lost and changes meanwhile are unknown.
type pendingRead struct {
	due      bool
	notified bool
	at       eventmeter.Instant // of the first notification since the last read began
}

// New returns the driver of a lane of system updates.
func New(opts driver.Options) (driver.Driver, error) { return driver.New("updates", opts, newLane) }

func newLane(opts driver.Options) (*lane, error) {
	set, err := driver.SettingsOr(&opts, Defaults)
	set = set.WithDefaults()
	switch {
	case err != nil:
		return nil, err
	case set.Resource != "" && set.List != "":
		return nil, errors.New("resource and list are both given: a lane subscribes to one of them")
	}
	d := &lane{set: set, list: driver.Lists[set.List]}
	if err := d.Init(opts, d, func(t *wire.Traffic) (http.RoundTripper, func(), error) {
		return opts.Endpoint.NewTransport(opts.HTTP, t, false)
	}); err != nil {
		return nil, err
	}
	d.What, d.Noun = set.Resource+d.list.Read, "client"
	if d.streams, err = d.OpenStreams(driver.StreamOptions{Tally: &d.tally}); err != nil {
		return nil, err
	}
	d.tally.DeclareTable(&FigureTable, driver.FigureCoalesced) // which is rare
	return d, nil
}

// Make implements [driver.Protocol].
func (d *lane) Make(i int, _ *client) (*client, error) {
	c := &client{d: d, who: d.Principal(i), known: map[uint64]uint32{}}
	if d.set.Resource != "" {
		values, err := d.TemplateValues(i)
		if err != nil {
			return nil, err
		}
		if c.uri, err = driver.ExpandURI(d.set.Resource, values); err != nil {
			return nil, err
		}
	}
	d.Ready(&c.Attachment, i)
	return c, nil
}

// Open implements [driver.Protocol]. It subscribes before it reads, so that no change
// falls between the two.
func (d *lane) Open(ctx context.Context, c *client) error {
	stop := context.AfterFunc(ctx, c.Cancel)
	defer stop()
	session, err := c.who.Session(ctx, d.Observe)
	if err != nil {
		return err
	}
	if session.Era == mcpclient.Bare {
		return fmt.Errorf("updates: %w: the target refused every handshake, so it has no session to notify", mcpclient.ErrNotOffered)
	}
	c.stream = d.join(c, session.Era == mcpclient.Legacy)
	if err := c.stream.await(ctx); err != nil {
		return err
	}
	if session.Era == mcpclient.Legacy && c.uri != "" {
		if err := d.Retry(ctx, nil, func(cause eventmeter.Cause) error { return c.stream.subscribe(ctx, c, cause) }); err != nil {
			return err
		}
	}
	if err := c.begin(ctx); err != nil {
		return err
	}
	if !stop() {
		return driver.NotConfirmed(nil, ctx.Err())
	}
	return nil
}

// Abandon implements [driver.Protocol].
func (d *lane) Abandon(c *client) {
	ctx, cancel := context.WithTimeout(context.Background(), mcpclient.CancelTime)
	defer cancel()
	_ = d.End(ctx, c) // the error of Open matters more
}

// Part is called before a client is left.
func (d *lane) Part(_ context.Context, c *client) {
	if c.IsActive() {
		c.Via(&c.stream.Stream)
	}
}

// End implements [driver.Protocol].
func (d *lane) End(ctx context.Context, c *client) error {
	c.Cancel()
	c.work.Wait()
	if c.stream == nil {
		return nil
	}
	return c.stream.leave(ctx, c)
}

// Stop implements [driver.Protocol].
func (d *lane) Stop(context.Context) error { return d.streams.Close() }

// Figures implements [driver.Figurer].
func (d *lane) Figures() driver.Figures { return d.tally.Figures() }

// send makes a request of a client outside its stream, and also returns its session.
func (d *lane) send(ctx context.Context, c *client, method, name string, o wire.Object) (*mcpclient.Answer, *mcpclient.Session, error) {
	session, err := c.who.Session(ctx, d.Observe)
	if err != nil {
		return nil, nil, err
	}
	if session.Era != mcpclient.Modern && d.Pipe == nil {
		if session = c.stream.own.Current(c.who); session == nil { // lost, and being opened again
			return nil, nil, mcpclient.SessionLost(method)
		}
	}
	header := session.Header(method, "")
	if session.Era == mcpclient.Modern && name != "" { // few requests share a name
		header = session.NamedHeader(method, name)
	}
	_, body := d.Body(session, method, o)
	ctx, cancel := context.WithTimeout(ctx, d.Opts.Timeout)
	defer cancel()
	return d.Call(ctx, method, header, body), session, nil
}

// refused counts err if it is a refusal of the server, and adds to its text if it came
// inside an answer with HTTP status 200.
func (d *lane) refused(err error) error {
	var e *mcpclient.CallError
	if !errors.As(err, &e) || e.Kind != "" {
		return err
	}
	d.tally.Count("refused", 1)
	if e.HasCode && e.Status == http.StatusOK {
		d.tally.Count("refusedInside200", 1)
		return fmt.Errorf("refused inside HTTP 200: %w", err)
	}
	return err
}

func (d *lane) overhead(at eventmeter.Instant, size int, method string) {
	d.Recorder.Called(eventmeter.Call{Lane: d.Opts.Lane, Cause: eventmeter.Heartbeat, At: at, Down: int64(size), Method: method})
}
