package refserver

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// blocks matches the next blocks of a stream, with all their lines.
func (w *wire) blocks(t *testing.T, name, text string) bool {
	for want := range strings.SplitSeq(text, "\n---\n") {
		var got []string
		for {
			line, err := w.streams[name].ReadString('\n')
			if err != nil {
				t.Fatalf("reading a block: %v (got %q)", err, line)
			}
			if line == "\n" {
				break
			}
			got = append(got, strings.TrimSuffix(line, "\n"))
		}
		if !w.match(t, want, strings.Join(got, "\n")) {
			return false
		}
	}
	return true
}

func TestEventResources(t *testing.T) {
	rs := startServer(t, Options{}).resources
	for _, c := range []struct {
		uri, principal string
		topic          string // "" = no such block
		sel            selection
	}{
		{"event://chat.message", "", "chat.message", selection{}},
		{"event://chat.message/", "", "chat.message", selection{keyed: true}},
		{"event://chat.message/a%2Fb%20%C3%A4", "", "chat.message", selection{keyed: true, key: "a/b ä"}},
		{"event://chat.message/a/b", "", "", selection{}},
		{"event://chat.message/%zz", "", "", selection{}},
		{"event://tick", "", "tick", selection{}},
		{"event://tick/1", "", "", selection{}},
		{"event://nothing", "", "", selection{}},
		{"event:chat.message", "", "", selection{}},
		{"event://private.note", "", "", selection{}},
		{"event://private.note", "p", "private.note", selection{keyed: true, key: "p"}},
		{"event://private.note/q", "p", "", selection{}},
	} {
		got, sel, rpcErr := rs.eventResource(c.uri, c.principal)
		switch {
		case (rpcErr != nil) != (c.topic == ""):
			t.Errorf("%s: %v", c.uri, rpcErr)
		case rpcErr == nil && (got.kind.name != c.topic || sel != c.sel):
			t.Errorf("%s is %s %+v", c.uri, got.kind.name, sel)
		}
	}
	for _, key := range []string{"plain-._~", "a/b", "ä %\"\\\n", "?#&="} {
		uri := string(appendEventURI(nil, &event{key: key}, &rs.server.broker.topics["chat.message"].kind))
		if _, sel, rpcErr := rs.eventResource(uri, ""); rpcErr != nil || sel.key != key || strings.ContainsAny(uri, "\"\\\n ") {
			t.Errorf("%q is at %s, which is %+v %v", key, uri, sel, rpcErr)
		}
	}
}

func TestPlaces(t *testing.T) {
	s := startServer(t, Options{})
	rs := s.resources
	publish(t, s, "tick", `{}`)
	publish(t, s, "tick", `{}`)
	tick := s.broker.topics["tick"]
	text := string(rs.appendPositions(nil, positions{tick: 1}))
	if p, ok := rs.readPositions(text); !ok || p[tick] != 1 {
		t.Errorf("%s is %v %t", text, p, ok)
	}
	if p, ok := rs.readPositions(string(rs.appendPositions(nil, positions{tick: 99}))); !ok || p[tick] != 2 {
		t.Errorf("a place that is not reached yet is %v %t", p, ok)
	}
	if p, ok := rs.readPositions("cother" + text[strings.IndexByte(text, '-'):]); !ok || p != nil {
		t.Errorf("a place of another life is %v %t", p, ok)
	}
	for _, bad := range []string{"", "7", text + "-1", text[1:], strings.Replace(text, "-1", "-x", 1)} {
		if p, ok := rs.readPositions(bad); ok {
			t.Errorf("%q is %v", bad, p)
		}
	}
}

func TestAdvertise(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`{"b":1,"result":{"capabilities":{"z":{},"resources":{"listChanged":true},"a":1}}}`,
			`{"b":1,"result":{"capabilities":{"events":{"listChanged":true},"z":{},"resources":{"events":true,"listChanged":true,` +
				`"subscribe":true,"subscription":["notification","webhook"]},"a":1}}}`},
		{`{"result":{"capabilities":{}}}`, `{"result":{"capabilities":{}}}`},
		{`{"error":{}}`, `{"error":{}}`},
		{`data: x`, `data: x`},
	} {
		rec := httptest.NewRecorder()
		w, done := advertise(rec, []byte(`{"method":"initialize"}`), nil)
		w.WriteHeader(http.StatusOK)
		_, _ = w.Write([]byte(c.in))
		done()
		if got := rec.Body.String(); got != c.want {
			t.Errorf("%s became %s", c.in, got)
		}
	}
	rec := httptest.NewRecorder()
	w, done := advertise(rec, []byte(`{"method":"tools/list"}`), nil)
	done()
	if w != http.ResponseWriter(rec) {
		t.Error("an answer was kept back for nothing")
	}
}

// TestSubscriptionsAreListedInPages registers more subscriptions than a page
// holds.
func TestSubscriptionsAreListedInPages(t *testing.T) {
	s := startServer(t, Options{AllowPrivateCallbacks: true})
	const n = subscriptionPage + 5
	var first string
	for i := range n {
		got := result(t, s, "t0", methodRegister, fmt.Sprintf(`{"uris":["event://tick"],"targetUri":"https://127.0.0.1:1/%d"}`, i))
		if i == 0 {
			first = got["subscription"].(map[string]any)["uri"].(string)
		}
	}
	list := func(token, cursor string) (uris []string, next string) {
		_, text := rpcModern(t, s, token, "resources/list", `"cursor":"`+cursor+`",`)
		var answer struct {
			Result struct {
				Resources  []struct{ URI string }
				NextCursor string
			}
		}
		must(t, json.Unmarshal([]byte(text), &answer))
		for _, r := range answer.Result.Resources {
			if strings.HasPrefix(r.URI, subscriptionScheme) {
				uris = append(uris, r.URI)
			}
		}
		return uris, answer.Result.NextCursor
	}
	page, next := list("t0", "")
	if len(page) != subscriptionPage || page[0] != first || next == "" {
		t.Fatalf("%d on the first page, then %q", len(page), next)
	}
	rest, end := list("t0", next)
	if len(rest) != 5 || end != "" {
		t.Errorf("%d on the second page, then %q", len(rest), end)
	}
	if others, _ := list("t1", ""); len(others) != 0 {
		t.Errorf("another principal is shown %d", len(others))
	}
	if got := s.Stats().Subscriptions.Webhook; got != n {
		t.Errorf("%d in the statistics", got)
	}
	for _, uri := range append(page, rest...) {
		result(t, s, "t0", methodDeregister, `{"uri":"`+uri+`"}`)
	}
	if got := s.Stats().Subscriptions.Webhook; got != 0 || s.subscriptions.Load() != 0 {
		t.Errorf("%d left, %d reserved", got, s.subscriptions.Load())
	}
}

// rpcModern posts a modern request; members precede _meta.
func rpcModern(t testing.TB, s *Server, token, method, members string) (status int, answer string) {
	t.Helper()
	body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + members +
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"` + modernVersion +
		`","io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
	req := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(body))
	for k, v := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream", headerVersion: modernVersion,
		headerMethod: method, "Authorization": "Bearer " + token,
	} {
		req.Header.Set(k, v)
	}
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, req)
	return w.Code, w.Body.String()
}

// TestResourceLimit: subscriptions of all kinds share one limit, and ended ones
// free a place.
func TestResourceLimit(t *testing.T) {
	s := startServer(t, Options{MaxSubscriptions: 2, AllowPrivateCallbacks: true})
	rs := s.resources
	session := rs.session("s", "t0")
	for _, c := range []struct {
		uri  string
		full bool
	}{{"event://tick", false}, {"event://tick", false}, {"event://chat.message", false}, {"event://chat.message/c", true}} {
		if rpcErr := session.add(c.uri); (rpcErr != nil) != c.full || rpcErr != nil && rpcErr.Code != sketchCodes[resourceExhausted] {
			t.Errorf("%s: %v", c.uri, rpcErr)
		}
	}
	_, text := rpc(
		t,
		s,
		"t0",
		`{"jsonrpc":"2.0","id":1,"method":"resources/subscriptions/register","params":{"uris":["event://tick"],`+
			`"targetUri":"https://127.0.0.1:1/"}}`,
	)
	if !strings.Contains(text, "-32013") {
		t.Error(text)
	}
	session.remove("event://tick")
	session.remove("event://tick")
	if rpcErr := session.add("event://chat.message/c"); rpcErr != nil {
		t.Error(rpcErr)
	}
	rs.drop("s")
	if n := s.subscriptions.Load(); n != 0 || s.Stats().Subscriptions.Push != 0 {
		t.Errorf("%d still reserved, %+v", n, s.Stats().Subscriptions)
	}
	if rpcErr := session.add("event://tick"); rpcErr == nil {
		t.Error("a session that has ended takes subscriptions")
	}
	if session.attach(context.Background(), rs.newUpdates(httptest.NewRecorder(), "t0"), nil) {
		t.Error("and streams")
	}
}

// TestLostUpdatesAreNotAnnounced: a subscriber that lags by more than the
// queue, or resumes behind the buffer, gets no notice.
func TestLostUpdatesAreNotAnnounced(t *testing.T) {
	s := startServer(t, Options{QueueLen: 3, BufferEvents: 5})
	m := mixer{queueLen: 3, wake: func() {}}
	tick := s.broker.topics["tick"]
	m.add(tick, selection{}, nil)
	for range 10 {
		publish(t, s, "tick", `{}`)
	}
	got, topic := m.take(nil, 100)
	if topic != tick || len(got) != 3 || got[0].n != 8 {
		t.Errorf("%d of %v", len(got), topic)
	}
	if s.Stats().QueueOverflow == 0 {
		t.Error("what was skipped was not counted")
	}
	m.close()
	old := uint64(2) // events 3 to 5 have left the buffer
	m = mixer{queueLen: 3, wake: func() {}}
	defer m.close()
	if _, position := m.add(tick, selection{}, &old); position != 5 {
		t.Errorf("it begins after %d", position)
	}
	if got, _ := m.take(nil, 100); len(got) != 5 || got[0].n != 6 || m.pending() {
		t.Errorf("%d events, from %d", len(got), got[0].n)
	}
}

// TestMixerKeepsOrder: the events of a topic come in order and once, whatever
// the subscriptions.
func TestMixerKeepsOrder(t *testing.T) {
	s := startServer(t, Options{})
	m := mixer{queueLen: 100, wake: func() {}}
	defer m.close()
	chat, tick := s.broker.topics["chat.message"], s.broker.topics["tick"]
	a, _ := m.add(chat, selection{keyed: true, key: "a"}, nil)
	m.add(chat, selection{keyed: true, key: "b"}, nil)
	m.add(tick, selection{}, nil)
	for i := range 6 {
		publish(t, s, "chat.message", fmt.Sprintf(`{"channel":%q}`, string(rune('a'+i%3))))
		publish(t, s, "tick", `{}`)
	}
	m.add(chat, selection{}, nil) // from now on
	publish(t, s, "chat.message", `{"channel":"a"}`)
	var chats, ticks []uint64
	for {
		events, topic := m.take(nil, 2)
		if topic == nil {
			break
		}
		for _, e := range events {
			if topic == chat {
				chats = append(chats, e.n)
			} else {
				ticks = append(ticks, e.n)
			}
		}
	}
	if fmt.Sprint(chats, ticks) != "[1 2 4 5 7] [1 2 3 4 5 6]" {
		t.Errorf("%v %v", chats, ticks)
	}
	m.remove(a)
	publish(t, s, "chat.message", `{"channel":"a"}`)
	if got, _ := m.take(nil, 10); len(got) != 1 || got[0].n != 8 {
		t.Errorf("%v", got)
	}
}

// TestResourcesWithTheOfficialClient: a client without SEP-1803 subscribes to
// an event as to any resource, in both eras.
func TestResourcesWithTheOfficialClient(t *testing.T) {
	s := startServer(t, Options{})
	for _, version := range []string{"2025-06-18", "2025-11-25", modernVersion} {
		t.Run(version, func(t *testing.T) {
			updated := make(chan string, 10)
			client := mcp.NewClient(&mcp.Implementation{Name: "x", Version: "1"}, &mcp.ClientOptions{
				ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) { updated <- r.Params.URI },
			})
			transport := &http.Transport{}
			defer transport.CloseIdleConnections()
			session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{
				Endpoint: s.URL(), HTTPClient: &http.Client{Transport: transport},
			}, &mcp.ClientSessionOptions{ProtocolVersion: version})
			must(t, err)
			defer session.Close()
			if got := session.InitializeResult(); got.ProtocolVersion != version || !got.Capabilities.Resources.Subscribe {
				t.Errorf("%s, %+v", got.ProtocolVersion, got.Capabilities.Resources)
			}
			templates, err := session.ListResourceTemplates(t.Context(), nil)
			if err != nil || len(templates.ResourceTemplates) == 0 {
				t.Fatal(templates, err)
			}
			channel := "c " + version
			uri := "event://chat.message/c%20" + version
			must(t, session.Subscribe(t.Context(), &mcp.SubscribeParams{URI: uri}))
			got := ""
			// The SDK opens the stream of a session asynchronously.
			for tries := 0; got == "" && tries < 200; tries++ {
				publish(t, s, "chat.message", fmt.Sprintf(`{"channel":%q}`, channel))
				select {
				case got = <-updated:
				case <-time.After(50 * time.Millisecond):
				}
			}
			if got != uri {
				t.Errorf("notified of %q", got)
			}
			if err := session.Unsubscribe(t.Context(), &mcp.UnsubscribeParams{URI: uri}); err != nil {
				t.Error(err)
			}
		})
	}
}
