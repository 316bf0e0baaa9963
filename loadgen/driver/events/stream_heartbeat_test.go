package events

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/settings"
	"github.com/eventmeter/eventmeter/internal/streamclient"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/profiles"
)

// beatingClient answers every stream with the confirmation and then a heartbeat
// per interval.
type beatingClient struct {
	clock *eventmeter.Clock
	every time.Duration
	work  sync.WaitGroup

	mu     sync.Mutex
	opened int
}

func (p *beatingClient) Open(_ context.Context, r streamclient.Request, s streamclient.Sink) streamclient.Stream {
	p.mu.Lock()
	p.opened++
	p.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	p.work.Go(func() { s.Closed(p.play(ctx, r, s)) })
	return cancelled(cancel)
}

type cancelled context.CancelFunc

func (c cancelled) Close() { c() }

func (cancelled) Hold(time.Duration) {}

func (p *beatingClient) Close() error {
	p.work.Wait()
	return nil
}

func (p *beatingClient) play(ctx context.Context, r streamclient.Request, s streamclient.Sink) error {
	now := func() streamclient.Arrival { return streamclient.Arrival{At: int64(p.clock.Now())} }
	if err := s.Opened(streamclient.Head{Status: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}}, now()); err != nil {
		return err
	}
	for what := "active"; ; what = "heartbeat" {
		text := fmt.Sprintf(
			"data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/events/%s\","+
				"\"params\":{\"_meta\":{\"io.modelcontextprotocol/subscriptionId\":%s}}}\n\n",
			what,
			wire.RequestID(r.Body),
		)
		if err := s.Piece([]byte(text), now()); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return streamclient.ErrClosed
		case <-time.After(p.every):
		}
	}
}

// TestDefaultHeartbeat requires that a stream of a profile's default lane is
// alive as long as something comes within twice the draft's 30 s, and dead
// after that.
func TestDefaultHeartbeat(t *testing.T) {
	p, err := profiles.Parse(
		"t",
		[]byte(
			"name: t\nupstream: {kind: none}\ntarget: {url: http://127.0.0.1:1/mcp}\nlanes: [{name: a, mode: push, subscriptions: 1, event: e}]\n",
		),
		nil,
		profiles.Systems{
			{Name: "events", Modes: []string{"push"}, Settings: func(mode string) settings.Settings { return Defaults(mode) }},
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		every time.Duration
		dies  bool
	}{{30 * time.Second, false}, {31 * time.Second, false}, {59 * time.Second, false}, {62 * time.Second, true}} {
		synctest.Test(t, func(t *testing.T) {
			ep, err := mcpclient.NewEndpoint(mcpclient.EndpointOptions{URL: "https://127.0.0.1:1/mcp"})
			if err != nil {
				t.Fatal(err)
			}
			ep.Presume(mcpclient.Modern)
			clock := eventmeter.NewClock()
			log := &notices{Recorder: eventmeter.Tee()}
			d, err := newLane(driver.Options{
				Clock: clock, Recorder: log, Endpoint: ep, Mode: eventmeter.Push, Event: "e", Subscriptions: 1,
				Push: driver.Push{Heartbeat: p.Lanes[0].Push.Heartbeat},
			}.WithDefaults())
			if err != nil {
				t.Fatal(err)
			}
			beats := &beatingClient{clock: clock, every: c.every}
			if err := d.streams.Carry(beats).Close(); err != nil {
				t.Fatal(err)
			}
			if err := d.Attach(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Minute) // on the bubble's clock
			if err := d.Close(context.Background()); err != nil {
				t.Error(err)
			}
			if dead := log.count(eventmeter.DeadStream); (dead > 0) != c.dies || (beats.opened > 1) != c.dies {
				t.Errorf("a heartbeat every %v: %d streams were called dead, %d opened", c.every, dead, beats.opened)
			}
		})
	}
}

// notices counts what a lane noticed.
type notices struct {
	eventmeter.Recorder
	mu   sync.Mutex
	seen map[eventmeter.NoticeKind]int
}

func (n *notices) Noticed(v eventmeter.Notice) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.seen == nil {
		n.seen = map[eventmeter.NoticeKind]int{}
	}
	n.seen[v.Kind]++
}

func (n *notices) count(k eventmeter.NoticeKind) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.seen[k]
}
