package systemstest

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/refserver"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/sinks"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// Serve starts a server that answers the modern handshake and passes other requests to f.
func Serve(
	t *testing.T,
	protocols *http.Protocols,
	f func(w http.ResponseWriter, r *http.Request, id json.RawMessage, method string),
) string {
	t.Helper()
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var m struct {
			ID     json.RawMessage
			Method string
		}
		json.Unmarshal(body, &m)
		if m.Method == "server/discover" {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(
				w,
				`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{}}}`,
				m.ID,
			)
			return
		}
		f(w, r, m.ID, m.Method)
	}))
	srv.Config.Protocols = protocols
	srv.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 100}
	srv.Start()
	t.Cleanup(srv.Close)
	return srv.URL + "/mcp"
}

// Open begins a stream and confirms it.
func Open(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/event-stream")
	io.WriteString(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/events/active\",\"params\":{\"cursor\":\"c1\"}}\n\n")
	w.(http.Flusher).Flush()
}

// Shoot publishes one event and adds it to the ledger.
func (w *World) Shoot(t *testing.T, clock *eventmeter.Clock, ledger *ledger.Ledger, channel string, seq uint32) {
	t.Helper()
	stamp := eventmeter.Stamp{Run: 1, Seq: seq}
	now := clock.Now()
	ledger.Fired(eventmeter.Emission{Stamp: stamp, Number: uint64(seq), Intended: now, Fired: now, Measured: true})
	w.Fire(t, channel, 0, seq)
	ledger.Resolved(stamp, eventmeter.Accepted, clock.Now())
}

// Figure returns one figure of a lane's system.
func Figure(d driver.Driver, name string) float64 {
	return d.(driver.Figurer).Figures().Values[name]
}

// Note injects one private note with a probe id.
func (w *World) Note(t *testing.T, principal string, source uint16, seq uint32) {
	t.Helper()
	w.Admin(
		t,
		"/inject",
		fmt.Sprintf(
			`{"name":"private.note","data":{"principal":%q,"text":"hello %s"}}`,
			principal,
			eventmeter.Stamp{Run: 1, Source: source, Seq: seq},
		),
	)
}

// Admin posts to the target's admin listener.
func (w *World) Admin(t *testing.T, path, body string) {
	t.Helper()
	resp, err := w.Client.Post(w.Srv.AdminURL()+path, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusAccepted && resp.StatusCode != http.StatusNoContent {
		t.Fatalf("%s: %s", path, resp.Status)
	}
}

// World is a reference server, with the certificate authority of its callbacks and an HTTP
// client for its admin listener.
type World struct {
	Srv       *refserver.Server
	Authority *sinks.Authority
	Client    *http.Client
}

func NewWorld(t *testing.T, o refserver.Options) *World {
	t.Helper()
	authority, err := sinks.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	o.CallbackRoots = x509.NewCertPool()
	o.CallbackRoots.AppendCertsFromPEM(authority.PEM())
	o.AllowPrivateCallbacks, o.TLS = true, true
	srv, err := refserver.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := srv.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	w := &World{Srv: srv, Authority: authority, Client: &http.Client{Transport: &http.Transport{}}}
	t.Cleanup(func() {
		w.Client.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), Patience)
		defer cancel()
		if err := srv.Close(ctx); err != nil {
			t.Errorf("closing the target: %v", err)
		}
	})
	return w
}

// Fire injects one event with a probe id and returns when the target has it.
func (w *World) Fire(t *testing.T, channel string, source uint16, seq uint32) {
	t.Helper()
	body := fmt.Sprintf(
		`{"name":"chat.message","data":{"channel":%q,"text":"hello %s"}}`,
		channel,
		eventmeter.Stamp{Run: 1, Source: source, Seq: seq},
	)
	resp, err := w.Client.Post(w.Srv.AdminURL()+"/inject", "application/json", bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusAccepted {
		t.Fatalf("inject: %s", resp.Status)
	}
}

func (w *World) Roots() *x509.CertPool {
	p := x509.NewCertPool()
	p.AppendCertsFromPEM(w.Srv.CertPEM())
	return p
}

// declare adds the capabilities that a lane needs to an endpoint's options, as a run does.
// For long polls it sets the revision that has them.
func declare(t *testing.T, e *mcpclient.EndpointOptions, o *driver.Options) {
	t.Helper()
	of, err := systems.Find(o.System)
	if err != nil {
		t.Fatal(err)
	}
	e.Extensions = of.Extensions
	if e.Revision == "" && o.Mode == eventmeter.Poll && o.Poll != nil && o.Poll.Timeout > 0 {
		e.Revision = mcpclient.LongPoll
	}
}

// Lane opens a driver that is closed with the test.
func Lane(t *testing.T, e mcpclient.EndpointOptions, o driver.Options) (driver.Driver, *Memory) {
	t.Helper()
	declare(t, &e, &o)
	ep, err := mcpclient.NewEndpoint(e)
	if err != nil {
		t.Fatal(err)
	}
	return LaneAt(t, ep, o)
}

// LaneAt is Lane at an endpoint, which is closed with the test, too.
func LaneAt(t *testing.T, ep *mcpclient.Endpoint, o driver.Options) (driver.Driver, *Memory) {
	t.Helper()
	rec := NewMemory()
	o.Recorder, o.Endpoint = rec, ep
	if o.Clock == nil {
		o.Clock = eventmeter.NewClock()
	}
	if o.Event == "" {
		o.Event = "chat.message"
	}
	if o.Subscriptions == 0 {
		o.Subscriptions = 1
	}
	d, err := systems.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), Patience)
		defer cancel()
		if err := d.Close(ctx); err != nil {
			t.Errorf("closing the lane: %v", err)
		}
		if err := ep.Close(ctx); err != nil {
			t.Errorf("closing the endpoint: %v", err)
		}
	})
	return d, rec
}

// Attach opens all subscriptions of a lane.
func Attach(t *testing.T, d driver.Driver, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	for i := range n {
		if err := d.Attach(ctx, i); err != nil {
			t.Fatal(err)
		}
	}
}

var Sources atomic.Uint32
