package requests

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	vegeta "github.com/tsenart/vegeta/v12/lib"
)

// lane is one lane of clients that make plain requests.
type lane struct {
	driver.Lane[*client]
	set   Settings
	tally driver.Tally

	attacker *vegeta.Attacker
	measure  time.Time     // when the measured part begins
	drained  atomic.Bool   // no request begins any more
	under    atomic.Int64  // requests in progress
	next     atomic.Uint64 // counts the turns of clients
}

// client is one attachment of a client.
type client struct {
	driver.Attachment
	who *mcpclient.Principal
}

// New returns the driver of a lane of system requests.
func New(opts driver.Options) (driver.Driver, error) { return driver.New("requests", opts, newLane) }

func newLane(opts driver.Options) (*lane, error) {
	set, err := driver.SettingsOr(&opts, Defaults)
	switch {
	case err != nil:
		return nil, err
	case set.bounds() != nil:
		return nil, fmt.Errorf("rate %w", set.bounds())
	case set.Method == "":
		return nil, errors.New("no method")
	}
	d := &lane{set: set}
	if err := d.Init(opts, d, func(t *wire.Traffic) (http.RoundTripper, func(), error) {
		return opts.Endpoint.PollTransport(opts.HTTP, t)
	}); err != nil {
		return nil, err
	}
	d.What, d.Noun, d.EndFirst = set.Method, "client", true
	d.attacker = vegeta.NewAttacker(vegeta.Client(&http.Client{Transport: d}), vegeta.Redirects(vegeta.NoFollow), vegeta.MaxBody(0))
	d.tally.DeclareTable(&FigureTable)
	return d, nil
}

// Make implements [driver.Protocol].
func (d *lane) Make(i int, _ *client) (*client, error) {
	c := &client{who: d.Principal(i)}
	d.Ready(&c.Attachment, i)
	return c, nil
}

// Open implements [driver.Protocol]. It makes a first request, to find out whether the
// target has the method.
func (d *lane) Open(ctx context.Context, c *client) error {
	if err := d.Retry(ctx, d.RandOf(int(c.Sub.Index)), func(cause eventmeter.Cause) error {
		_, err := d.request(ctx, c, cause)
		return err
	}); err != nil {
		return err
	}
	c.Activate(d.Clock.Now())
	return nil
}

// request makes one request as a client. lost is true if the server no longer knew the
// session; the next request opens a new one.
func (d *lane) request(ctx context.Context, c *client, cause eventmeter.Cause) (lost bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, d.Opts.Timeout)
	defer cancel()
	session, err := c.who.Session(ctx, d.Observe)
	if err != nil {
		return false, err
	}
	a := d.Ask(ctx, session, d.set.Method, "", wire.BeginObject(nil))
	defer a.Release()
	if a.Err != nil && errors.Is(ctx.Err(), context.Canceled) {
		return false, a.Err // this side gave it up: the server did not fail
	}
	d.Called(cause, d.set.Method, a)
	if a.Err != nil {
		return c.who.Lost(session, a.Err), a.Err
	}
	return false, nil
}

// Abandon implements [driver.Protocol].
func (d *lane) Abandon(*client) {}

// End implements [driver.Protocol].
func (d *lane) End(_ context.Context, c *client) error {
	c.Cancel()
	return nil
}

// Stop implements [driver.Protocol].
func (d *lane) Stop(context.Context) error { return nil }

// Figures implements [driver.Figurer].
func (d *lane) Figures() driver.Figures {
	f := d.tally.Figures()
	f.Values["latencyP95Ms"] = f.Timings["latency"].Distribution().Percentile(95)
	return f
}

// Begin implements [driver.Phased].
func (d *lane) Begin(measure, until eventmeter.Instant) {
	now := d.Clock.Now()
	if until <= now {
		return // an attack without a duration does not end
	}
	d.measure = time.Now().Add(measure.Sub(now))
	perHour := float64(d.set.Rate) * float64(len(d.Turns)) * time.Hour.Seconds()
	results := d.attacker.Attack(d.target, vegeta.Rate{Freq: int(perHour), Per: time.Hour}, until.Sub(now), "requests")
	d.Work.Go(crash.Guarded(func() {
		for r := range results {
			if r.Error == "" && !r.Timestamp.Before(d.measure) {
				d.tally.Took("latency", r.Latency)
			}
			d.under.Add(-1)
		}
	}))
}

// Drain implements [driver.Phased]. A worker of the attacker may have its turn already:
// it is pending, or finds the lane drained.
func (d *lane) Drain() {
	d.drained.Store(true)
	d.attacker.Stop()
}

// Pending implements [driver.Phased].
func (d *lane) Pending() int64 { return d.under.Load() }

// target is the attacker's Targeter. RoundTrip makes the actual request.
func (d *lane) target(t *vegeta.Target) error {
	d.under.Add(1) // until its result is counted; before it is asked whether the lane is drained
	if d.drained.Load() || d.Life.Err() != nil {
		d.count(!time.Now().Before(d.measure), "scheduled", "dropped")
		return vegeta.ErrNoTargets
	}
	*t = vegeta.Target{Method: http.MethodPost, URL: "http://lane/"}
	return nil
}

// errFailed is the error that the attacker gets for a request without a result.
var errFailed = errors.New("no result")

// RoundTrip makes one request as the next client, instead of the one that the attacker
// sends, over the connections of the lane or over a pipe.
func (d *lane) RoundTrip(sent *http.Request) (*http.Response, error) {
	measured := !time.Now().Before(d.measure)
	d.count(measured, "scheduled")
	c := d.turn()
	if c == nil || d.Life.Err() != nil {
		d.count(measured, "dropped")
		return nil, errFailed
	}
	lost, err := d.request(c.Ctx(), c, eventmeter.EmptyPoll)
	d.count(measured, "requests")
	switch {
	case err != nil && d.Life.Err() != nil: // the drain timeout is over, and there is no response
		d.count(measured, "failed", "failedUnanswered")
		return nil, errFailed
	case err != nil && c.Ctx().Err() != nil: // the client has left
		d.count(measured, "abandoned")
		return nil, errFailed
	}
	if err == nil {
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: sent}, nil
	}
	d.count(measured, "failed", kindOf(err))
	if lost {
		d.count(measured, "sessionsForgotten")
	}
	return nil, errFailed
}

// kindOf returns the name of the figure that counts an error.
func kindOf(err error) string {
	var e *mcpclient.CallError
	switch {
	case !errors.As(err, &e) || e.Kind != "":
		return "failedUnanswered"
	case e.Status > 299:
		return "failedStatus"
	}
	return "failedInside200"
}

func (d *lane) count(measured bool, names ...string) {
	if !measured {
		return
	}
	for _, name := range names {
		d.tally.Count(name, 1)
	}
}

// turn returns the next attached client; nil if there is none.
func (d *lane) turn() *client {
	from := d.next.Add(1)
	d.Mu.Lock()
	defer d.Mu.Unlock()
	for i := range d.Turns {
		if c := d.Turns[(from+uint64(i))%uint64(len(d.Turns))]; c != nil && c.IsActive() {
			return c
		}
	}
	return nil
}
