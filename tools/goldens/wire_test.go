package goldens

import (
	"bufio"
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/refserver"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/loadgen/systems/systemstest"
	"github.com/eventmeter/eventmeter/sinks"
)

// Each driver opens one subscription at the reference server, receives an event, and
// ends it. Pinned are the different requests that it sends, handshake included, each as
// it is on the wire. Hand-written files pin the exchange itself; see TestWireFiles.
func TestWireBytes(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		system string
		mode   eventmeter.Mode
		era    mcpclient.Era
	}{
		{"events", eventmeter.Push, mcpclient.Modern}, {"events", eventmeter.Poll, mcpclient.Modern},
		{"events", eventmeter.Webhook, mcpclient.Modern}, {"events", eventmeter.Push, mcpclient.Legacy},
		{"smithery", eventmeter.Webhook, mcpclient.Legacy},
		{"sep-1803", eventmeter.Push, mcpclient.Legacy}, {"sep-1803", eventmeter.Webhook, mcpclient.Legacy},
		{"sep-975", eventmeter.Push, mcpclient.Modern}, {"sep-2549", eventmeter.Poll, mcpclient.Modern},
		{"updates", eventmeter.Push, mcpclient.Modern}, {"requests", eventmeter.Poll, mcpclient.Modern},
	} {
		name := fmt.Sprintf("%s-%s-%s", x.system, x.mode, x.era)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			authority, err := sinks.NewAuthority()
			must(t, err)
			wire := openWire(t, authority)
			// The lane is closed at the end of this inner test, and what it sent is complete.
			t.Run("exchange", func(t *testing.T) {
				wire.exchange(t, driver.Options{
					System: x.system, Mode: x.mode, Listener: driver.ListenerOptions{Authority: authority},
					Poll: &driver.Poll{MinInterval: 20 * time.Millisecond},
				}, x.era)
			})
			golden(t, "wire/"+name+".txt", wire.requests(t))
		})
	}
}

// wire passes connections on to a reference server, and keeps what clients send.
type wire struct {
	server   *refserver.Server
	listener net.Listener
	work     sync.WaitGroup

	mu   sync.Mutex
	sent []*bytes.Buffer // by connection
}

func openWire(t *testing.T, authority *sinks.Authority) *wire {
	t.Helper()
	o := refserver.Options{
		CallbackRoots: x509.NewCertPool(), AllowPrivateCallbacks: true, NextPoll: 20 * time.Millisecond,
		Lists: refserver.ListOptions{Entries: 4, Page: 10, TTL: 20 * time.Millisecond},
	}
	o.CallbackRoots.AppendCertsFromPEM(authority.PEM())
	server, err := refserver.New(o)
	must(t, err)
	must(t, server.Start(t.Context()))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	w := &wire{server: server, listener: l}
	w.work.Go(w.accept)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), systemstest.Patience)
		defer cancel()
		l.Close()
		if err := server.Close(ctx); err != nil {
			t.Error(err)
		}
		w.work.Wait()
	})
	return w
}

func (w *wire) accept() {
	to, err := url.Parse(w.server.URL())
	if err != nil {
		return
	}
	for {
		client, err := w.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", to.Host)
		if err != nil {
			client.Close()
			continue
		}
		kept := &bytes.Buffer{}
		w.mu.Lock()
		w.sent = append(w.sent, kept)
		w.mu.Unlock()
		w.work.Go(func() {
			// What was sent is kept first: the answer may end the test at once.
			_, _ = io.Copy(io.MultiWriter(writer(func(p []byte) (int, error) {
				w.mu.Lock()
				defer w.mu.Unlock()
				return kept.Write(p)
			}), server), client)
			server.Close()
		})
		w.work.Go(func() {
			_, _ = io.Copy(client, server)
			client.Close()
		})
	}
}

type writer func(p []byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// exchange opens a subscription, publishes an event, and waits until it came. Lanes
// without subscriptions work until they have made some calls.
func (w *wire) exchange(t *testing.T, o driver.Options, era mcpclient.Era) {
	at, err := url.Parse(w.server.URL())
	must(t, err)
	at.Host = w.listener.Addr().String()
	clock := eventmeter.NewClock()
	o.Clock = clock
	event := `{"name":"chat.message","data":{"channel":"c","text":%q}}`
	switch o.System {
	case "sep-2549", "updates":
		event = `{"name":"list.changed","data":{"list":"tools","probe":%q}}`
	default:
		o.Arguments = func(int) json.RawMessage { return json.RawMessage(`{"channel":"c"}`) }
	}
	of, err := systems.Find(o.System)
	must(t, err)
	d, rec := systemstest.Lane(t, mcpclient.EndpointOptions{
		URL: at.String(), Era: era, Tokens: []string{"a"}, Capabilities: of.Capabilities,
	}, o)
	systemstest.Attach(t, d, 1)
	phased, works := d.(driver.Phased)
	if works {
		phased.Begin(clock.Now(), clock.Now().Add(time.Minute))
	}
	stamp := eventmeter.Stamp{Run: 1, Seq: 1}.String()
	resp, err := http.Post(w.server.AdminURL()+"/inject", "application/json", strings.NewReader(fmt.Sprintf(event, stamp)))
	must(t, err)
	resp.Body.Close()
	rec.Wait(t, "the event, or calls", func(m *systemstest.Memory) bool {
		return len(m.Deliveries) > 0 || works && len(m.Calls) >= 12
	})
	if works {
		systemstest.Drained(t, d)
	}
	ctx, cancel := context.WithTimeout(t.Context(), systemstest.Patience)
	defer cancel()
	if err := d.Detach(ctx, 0); err != nil {
		t.Error(err)
	}
}

// varying are the parts of requests that differ from run to run.
var varying = []struct {
	find *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`127\.0\.0\.\d+:\d+`), "<host>"},
	{regexp.MustCompile(`evtm-[0-9a-f-]{25}`), "<probe>"},
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`), "<own>"},
	{regexp.MustCompile(`whsec_[A-Za-z0-9+/=_-]+`), "<secret>"},
	{regexp.MustCompile(`/([hr])/[^"]+`), "/$1/<path>"},
	{regexp.MustCompile(`"subscription://[^"]*"`), `"subscription://<own>"`},
	{regexp.MustCompile(`"id":\d+`), `"id":<id>`},
	{regexp.MustCompile(`"resumeToken":"[^"]*"`), `"resumeToken":"<token>"`},
	{regexp.MustCompile(`"progressToken":\d+`), `"progressToken":<id>`},
	{regexp.MustCompile(`eventmeter-975-[0-9-]+`), "eventmeter-975-<note>"},
	{regexp.MustCompile(`"requestId":\d+`), `"requestId":<id>`},
	{regexp.MustCompile(`"cursor":"[^"]*"`), `"cursor":"<cursor>"`},
	{regexp.MustCompile(`Content-Length: \d+`), "Content-Length: <n>"},
	{regexp.MustCompile(`(?i)(Mcp-Session-Id): \S+`), "$1: <session>"},
}

// requests are the different requests, sorted.
func (w *wire) requests(t *testing.T) string {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []string
	for _, sent := range w.sent {
		in := bufio.NewReader(bytes.NewReader(sent.Bytes()))
		for {
			text, err := nextRequest(in)
			if err != nil {
				break
			}
			for _, v := range varying {
				text = v.find.ReplaceAllString(text, v.with)
			}
			all = append(all, strings.ReplaceAll(text, "\r\n", "\n"))
		}
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), "\n\n--\n\n") + "\n"
}

// nextRequest returns one request as it is on the wire.
func nextRequest(in *bufio.Reader) (string, error) {
	var raw bytes.Buffer
	r, err := http.ReadRequest(bufio.NewReaderSize(io.TeeReader(oneByOne{in}, &raw), 16))
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(r.Body)
	head, _, _ := bytes.Cut(raw.Bytes(), []byte("\r\n\r\n"))
	return string(head) + "\n\n" + string(body), err
}

// oneByOne gives a byte at a time, so that nobody reads beyond the end of a request.
type oneByOne struct{ *bufio.Reader }

func (r oneByOne) Read(p []byte) (int, error) { return r.Reader.Read(p[:1]) }

// must ends the test if a step of it has failed.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
