package systems_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/refserver"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/driver/requests"
	"github.com/eventmeter/eventmeter/loadgen/driver/sep2549"
	"github.com/eventmeter/eventmeter/loadgen/driver/sep975"
	"github.com/eventmeter/eventmeter/loadgen/driver/updates"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/loadgen/systems/systemstest"
)

// asking is a proxy before a server. It begins each event stream with a ping, and another
// request in an array, and sends nothing else before both are answered.
type asking struct {
	mu      sync.Mutex
	asked   int
	waiting map[string]*question
	wrong   []string
	methods map[string]int // how many requests were answered, by the method whose response had them
}

type question struct {
	want, session, method string
	answered              chan struct{}
}

func (a *asking) note(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.wrong = append(a.wrong, fmt.Sprintf(format, args...))
}

// answer takes the responses of the client, and reports whether body is one.
func (a *asking) answer(r *http.Request, body []byte) bool {
	var m struct {
		ID            json.RawMessage
		Method        string
		Result, Error json.RawMessage
	}
	if json.Unmarshal(body, &m) != nil || m.Method != "" || m.Result == nil && m.Error == nil {
		return false
	}
	a.mu.Lock()
	q := a.waiting[string(m.ID)]
	delete(a.waiting, string(m.ID))
	if q != nil {
		a.methods[q.method]++
	}
	a.mu.Unlock()
	switch {
	case q == nil:
		a.note("a response to nothing: %s", body)
		return true
	case string(m.Result)+string(m.Error) != q.want:
		a.note("%s, want %s", body, q.want)
	case r.Header.Get("Mcp-Session-Id") != q.session || r.Header.Get("Mcp-Method") != "":
		session, method := r.Header.Get("Mcp-Session-Id"), r.Header.Get("Mcp-Method")
		a.note("of %s: the session is %q, want %q, and the method %q", q.method, session, q.session, method)
	}
	close(q.answered)
	return true
}

func (a *asking) ask(resp *http.Response) error {
	if resp.Header.Get("Content-Type") != "text/event-stream" {
		return nil
	}
	session := resp.Header.Get("Mcp-Session-Id")
	if session == "" {
		session = resp.Request.Header.Get("Mcp-Session-Id")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked++
	method := resp.Request.Header.Get("X-Asked")
	number, text := fmt.Sprint(a.asked), fmt.Sprintf("%q", fmt.Sprint("p", a.asked))
	ping := &question{"{}", session, method, make(chan struct{})}
	other := &question{`{"code":-32601,"message":"Method not found"}`, session, method, make(chan struct{})}
	a.waiting[text], a.waiting[number] = ping, other
	rest := resp.Body
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(
		bytes.NewReader(fmt.Appendf(nil, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":\"ping\"}\n\n"+
			"data: [{\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":\"roots/list\"}]\n\n", text, number)),
		&after{rest, func() {
			late := time.NewTimer(systemstest.Patience)
			defer late.Stop()
			for _, q := range []*question{ping, other} {
				select {
				case <-q.answered:
				case <-resp.Request.Context().Done():
				case <-late.C:
					a.note("a request was not answered")
				}
			}
		}},
	), rest}
	return nil
}

// after is a reader that waits before it begins.
type after struct {
	io.Reader
	wait func()
}

func (a *after) Read(b []byte) (int, error) {
	if a.wait != nil {
		a.wait()
		a.wait = nil
	}
	return a.Reader.Read(b)
}

func (a *asking) before(t *testing.T, at string) string {
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	a.waiting, a.methods = map[string]*question{}, map[string]int{}
	proxy := &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: u.Scheme, Host: u.Host}) },
		ModifyResponse: a.ask, FlushInterval: -1,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if a.answer(r, body) {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		var m struct{ Method string }
		_ = json.Unmarshal(body, &m)
		r.Body = io.NopCloser(bytes.NewReader(body))
		r.Header.Set("X-Asked", r.Method+" "+m.Method)
		defer func() {
			if gone := recover(); gone != nil && gone != http.ErrAbortHandler {
				panic(gone)
			}
		}()
		proxy.ServeHTTP(w, r)
	}))
	srv.Config.Protocols = new(http.Protocols)
	srv.Config.Protocols.SetHTTP1(true)
	srv.Config.Protocols.SetUnencryptedHTTP2(true)
	srv.Start()
	t.Cleanup(srv.Close)
	return srv.URL + u.Path
}

// TestRequestsOfServers: a server may ping its client, or ask it for something, on every
// event stream and within every response, and send several messages as an array.
func TestRequestsOfServers(t *testing.T) {
	w := systemstest.NewWorld(t, refserver.Options{
		NextPoll: 5 * time.Millisecond, SSEAnswers: true, TTLMin: time.Second, Lists: refserver.ListOptions{Entries: 5},
	})
	item := func(i int) json.RawMessage { return fmt.Appendf(nil, `{"n":%d}`, i) }
	for _, c := range []struct {
		name           string
		o              driver.Options
		modern, legacy string // whose responses have requests
	}{
		{"poll", driver.Options{Mode: eventmeter.Poll, Poll: &driver.Poll{}}, "POST events/poll", "POST events/poll"},
		{"push", driver.Options{Mode: eventmeter.Push}, "POST events/stream", "POST events/stream"},
		{"push h2c", driver.Options{Mode: eventmeter.Push, HTTP: "h2c"}, "POST events/stream", "POST events/stream"},
		{"webhook", driver.Options{Mode: eventmeter.Webhook, Listener: driver.ListenerOptions{Authority: w.Authority}},
			"POST events/subscribe", "POST events/subscribe"},
		{"updates",
			driver.Options{System: "updates", Mode: eventmeter.Push, Arguments: item, Settings: updates.Settings{Resource: "list://item/{n}"}},
			"POST subscriptions/listen", "GET "},
		{"sep-1803", driver.Options{System: "sep-1803", Mode: eventmeter.Push}, "POST subscriptions/listen", "GET "},
		{"sep-2549", driver.Options{System: "sep-2549", Mode: eventmeter.Poll, Settings: sep2549.Settings{Use: 200}},
			"POST tools/list", "POST tools/list"},
		{"sep-975", driver.Options{System: "sep-975", Mode: eventmeter.Push, Settings: sep975.Settings{Steps: 1, Step: time.Millisecond}},
			"POST tools/call", "POST tools/call"},
		{"requests", driver.Options{System: "requests", Mode: eventmeter.Poll, Settings: requests.Settings{Method: "tools/list", Rate: 20}},
			"POST tools/list", "POST tools/list"},
	} {
		for _, era := range []mcpclient.Era{mcpclient.Modern, mcpclient.Legacy} {
			t.Run(c.name+"/"+string(era), func(t *testing.T) {
				t.Parallel()
				a := &asking{}
				e := mcpclient.EndpointOptions{URL: a.before(t, w.Srv.URL()), Era: era, Tokens: []string{"a"}}
				if c.o.System == "sep-975" {
					e.Capabilities = []string{sep975.ResumableRequests}
				}
				d, rec := systemstest.Lane(t, e, c.o)
				systemstest.Attach(t, d, 1)
				want, handshake := c.modern, "POST server/discover"
				if era == mcpclient.Legacy {
					want, handshake = c.legacy, "POST initialize"
				}
				rec.Wait(t, "requests within "+want, func(*systemstest.Memory) bool {
					a.mu.Lock()
					defer a.mu.Unlock()
					return a.methods[want] > 1 || len(a.wrong) > 0
				})
				if _, ok := d.(driver.Phased); ok {
					systemstest.Drained(t, d)
				}
				if n := rec.CountNotices(eventmeter.Malformed); n > 0 {
					t.Errorf("%d malformed", n)
				}
				a.mu.Lock()
				defer a.mu.Unlock()
				if a.methods[handshake] < 2 {
					t.Errorf("answered: %v, not those of the handshake", a.methods)
				}
				for _, wrong := range a.wrong {
					t.Error(wrong)
				}
			})
		}
	}
}
