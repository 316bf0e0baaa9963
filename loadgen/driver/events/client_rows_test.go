package events_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/driver/events"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/loadgen/systems/systemstest"
)

// harness is a server that judges its client. It is net/http alone, and shares no code
// with the reference server or with the drivers.
type harness struct {
	*clientRow
	url string

	mu   sync.Mutex
	log  []asked
	news chan struct{} // closed and made anew with every entry of the log
}

// asked is a request, or told, which is a notification of the harness.
type asked struct {
	at     time.Time
	method string
	cursor string // raw; "" = absent
	key    string // of a subscription to a webhook
	// answered is when the answer began to be written, until when the grant lasts. Both
	// are set before the client has the answer.
	answered, until time.Time
}

const told = "list_changed"

// lacks tells whether a request has no cursor that is a position.
func (a *asked) lacks() bool { return a.cursor == "" || a.cursor == "null" }

// note adds an entry to the log, and returns how many of its method there are.
func (h *harness) note(a asked) (i, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.log = append(h.log, a)
	close(h.news)
	h.news = make(chan struct{})
	for j := range h.log {
		if h.log[j].method == a.method {
			n++
		}
	}
	return len(h.log) - 1, n
}

// answered completes an entry.
func (h *harness) answered(i int, until time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.log[i].answered, h.log[i].until = time.Now(), until
}

// of returns the entries of a method; "" = all.
func (h *harness) of(method string) (all []asked) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range h.log {
		if method == "" || a.method == method {
			all = append(all, a)
		}
	}
	return all
}

// await waits until a method was called n times; false if ctx ended.
func (h *harness) await(ctx context.Context, method string, n int) bool {
	for {
		h.mu.Lock()
		news := h.news
		h.mu.Unlock()
		if len(h.of(method)) >= n {
			return true
		}
		select {
		case <-news:
		case <-ctx.Done():
			return false
		}
	}
}

func (h *harness) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct {
			Name      string
			Arguments json.RawMessage
			Cursor    json.RawMessage
			Delivery  struct{ URL string }
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&m); err != nil || m.ID == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	_, _ = io.Copy(io.Discard, r.Body) // so that the end of the connection is noticed
	i, n := h.note(
		asked{
			at:     time.Now(),
			method: m.Method,
			cursor: string(m.Params.Cursor),
			key:    fmt.Sprint(m.Params.Name, m.Params.Delivery.URL, string(m.Params.Arguments)),
		},
	)
	answer := func(result string, until time.Time) {
		w.Header().Set("Content-Type", "application/json")
		h.answered(i, until)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete",%s}}`, m.ID, result)
	}
	switch m.Method {
	case "server/discover":
		capabilities := `"extensions":{"io.modelcontextprotocol/events":{"listChanged":true}}`
		if h.bare {
			capabilities = ""
		}
		answer(
			`"supportedVersions":["2026-07-28"],"capabilities":{`+capabilities+`},"serverInfo":{"name":"harness","version":"1"}`,
			time.Time{},
		)
	case "events/list":
		answer(
			`"events":[{"name":"chat.message","description":"d","delivery":["poll","push","webhook"],"inputSchema":{},"payloadSchema":{}}]`,
			time.Time{},
		)
	case "events/poll":
		answer(h.poll(n), time.Time{})
	case "events/subscribe":
		until := time.Now().Add(h.life)
		answer(fmt.Sprintf(`"id":"sub_1","refreshBefore":%q,%s`, until.UTC().Format(time.RFC3339Nano), h.grant(n)), until)
	case "events/unsubscribe":
		answer(`"_meta":{}`, time.Time{})
	case "events/stream":
		h.stream(w, r, m.ID, n)
	case "subscriptions/listen":
		h.listen(w, r)
	default:
		answer(`"_meta":{}`, time.Time{})
	}
}

// stream sends the messages of the n-th stream and breaks it off. Later ones than the
// first stay open.
func (h *harness) stream(w http.ResponseWriter, r *http.Request, id json.RawMessage, n int) {
	send(w, `"active","params":{"truncated":false,`+h.active+subscription(id))
	if n == 1 {
		for _, message := range h.messages {
			send(w, message+subscription(id))
		}
		return
	}
	<-r.Context().Done()
}

func subscription(id json.RawMessage) string {
	return `"_meta":{"io.modelcontextprotocol/subscriptionId":` + string(id) + `}}`
}

func send(w http.ResponseWriter, message string) {
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/events/%s}\n\n", message)
	w.(http.Flusher).Flush()
}

// listen sends list_changed when the client has listed the types once.
func (h *harness) listen(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.(http.Flusher).Flush()
	if h.await(r.Context(), "events/list", 1) {
		h.note(asked{at: time.Now(), method: told})
		send(w, `list_changed","params":{}`)
		<-r.Context().Done()
	}
}

// occurrence is an event with a probe id.
func occurrence(more string) string {
	return `{"eventId":"e1","name":"chat.message","timestamp":"2026-11-20T10:00:00Z","data":{"text":"` + eventmeter.Stamp{
		Run:    1,
		Source: 1,
		Seq:    1,
	}.String() + `"}` + more + `}`
}

// clientRow is a row in one mode: what the harness answers, what it waits for, and the
// judge. The judge says what breaks the row; "" = it holds.
type clientRow struct {
	row  string
	mode eventmeter.Mode

	bare     bool // the extension is not offered
	poll     func(n int) string
	active   string   // the members of the first message of every stream
	messages []string // what follows on the first stream
	grant    func(n int) string
	life     time.Duration // of a grant

	method string // what is waited for, and how often
	times  int
	judge  func(all, calls []asked) string

	options func(o *driver.Options) // of the driver
	// bad is a client that breaks the row, good one that holds a row that the driver does not.
	bad, good func(c *tiny)
	// slow has the harness ask for waits of an hour, so that a bad client is early
	// however long it takes.
	slow func(c *clientRow)
}

// tiny is a client of a few lines.
type tiny struct {
	t   *testing.T
	url string
}

// call sends a request and returns what came until the end of the answer, or until it
// has a text.
func (c *tiny) call(method, params, until string) string {
	ctx, cancel := context.WithCancel(c.t.Context())
	defer cancel()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s}}`, method, params)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	var got bytes.Buffer
	for in := bufio.NewScanner(resp.Body); in.Scan(); {
		got.Write(in.Bytes())
		if until != "" && bytes.Contains(in.Bytes(), []byte(until)) {
			break
		}
	}
	return got.String()
}

// calls sends a request of the events with each of the cursors in turn.
func (c *tiny) calls(method string, cursors ...string) {
	for i, cursor := range cursors {
		until := ""
		if method == "events/stream" && i > 0 {
			until = "active"
		}
		c.call(
			method,
			`"name":"chat.message","arguments":{},"delivery":{"mode":"webhook","url":"https://127.0.0.1:1/","secret":"s"},"cursor":`+cursor,
			until,
		)
	}
}

// gaps judges the waits between answers and the next polls.
func gaps(atLeast time.Duration) func(_, calls []asked) string {
	return func(_, calls []asked) string {
		for i := 1; i < len(calls); i++ {
			if wait := calls[i].at.Sub(calls[i-1].answered); wait < atLeast*9/10 {
				return fmt.Sprintf("poll %d came after %v, and was to wait for %v", i+1, wait, atLeast)
			}
		}
		return ""
	}
}

// cursorOf judges the cursor of one call; "" = no position.
func cursorOf(n int, want string) func(_, calls []asked) string {
	return func(_, calls []asked) string {
		switch {
		case len(calls) < n:
			return fmt.Sprintf("%d calls, and %d were due", len(calls), n)
		case want == "" && !calls[n-1].lacks(), want != "" && calls[n-1].cursor != want:
			return fmt.Sprintf("call %d has cursor %s, want %q", n, calls[n-1].cursor, want)
		}
		return ""
	}
}

// answers are the answers to a method one after the other, of which the last is repeated.
func answers(all ...string) func(n int) string {
	return func(n int) string { return all[min(n, len(all))-1] }
}

const (
	calm  = `"truncated":false,"hasMore":false,"nextPollMs":1`
	quick = 300 * time.Millisecond // the life of a grant that is refreshed several times
	hour  = `"nextPollMs":3600000`
)

// methodOf is what a lane of a mode goes on with.
var methodOf = map[eventmeter.Mode]string{
	eventmeter.Poll:    "events/poll",
	eventmeter.Push:    "events/stream",
	eventmeter.Webhook: "events/subscribe",
}

// inAllModes are the rows of a cursor that the target gives, or does not, in each mode.
// member is the cursor of its messages, want that of the request after it, and bad what
// a client sends that breaks the row.
func inAllModes(row, member, want string, truncated bool, bad string) (rows []clientRow) {
	for mode, method := range methodOf {
		c := clientRow{row: row, mode: mode, method: method, times: 2, life: quick, judge: cursorOf(2, want)}
		member := strings.TrimSuffix(member, ",")
		comma := ","
		if member == "" {
			comma = ""
		}
		first, then := `"events":[],`+calm+comma+member, `"events":[`+occurrence("")+`],`+calm+comma+member
		c.poll, c.grant = answers(first, then), answers(`"truncated":false`+comma+member)
		c.active, c.messages = member+comma, []string{`event","params":` + strings.TrimSuffix(occurrence(comma+member), "}") + ","}
		sent := []string{"null", bad}
		if truncated {
			lost := strings.Replace(calm, `"truncated":false`, `"truncated":true`, 1)
			c.poll = answers(`"events":[],`+calm+`,"cursor":"c1"`, `"events":[],`+lost+","+member)
			c.grant = answers(`"truncated":false,"cursor":"c1"`, `"truncated":true,`+member)
			c.active, c.messages = `"cursor":"c1",`, []string{`active","params":{"truncated":true,` + member + ","}
			if mode != eventmeter.Push {
				c.times, c.judge, sent = 3, cursorOf(3, want), []string{"null", `"c1"`, bad}
			}
		}
		c.bad = func(t *tiny) {
			if bad == "" {
				sent = sent[:1]
			}
			t.calls(method, sent...)
		}
		rows = append(rows, c)
	}
	return rows
}

func clientRows() []clientRow {
	poll, push, webhook := eventmeter.Poll, eventmeter.Push, eventmeter.Webhook
	rows := []clientRow{
		{
			row:    "client-no-events-without-extension",
			mode:   poll,
			bare:   true,
			poll:   answers(`"events":[],` + calm),
			method: "server/discover",
			times:  1,
			judge: func(all, _ []asked) string {
				for _, a := range all {
					if strings.HasPrefix(a.method, "events/") {
						return a.method + " was sent"
					}
				}
				return ""
			},
			bad:  func(c *tiny) { c.call("server/discover", "", ""); c.call("events/list", "", "") },
			good: func(c *tiny) { c.call("server/discover", "", "") },
		},
		{
			row: "client-relist-on-list-changed", mode: poll, poll: answers(`"events":[],` + calm), method: "events/list", times: 2,
			options: func(o *driver.Options) { o.Settings = events.Settings{Listen: true} },
			judge: func(all, _ []asked) string {
				after := false
				for _, a := range all {
					if after && a.method == "events/list" {
						return ""
					}
					after = after || a.method == told
				}
				return fmt.Sprintf("the change was told: %v, and the types were not listed after it", after)
			},
			bad: func(c *tiny) { c.call("events/list", "", ""); c.call("subscriptions/listen", "", told) },
		},
		{
			row:    "client-poll-drain-on-has-more",
			mode:   poll,
			method: "events/poll",
			times:  3,
			poll: answers(
				`"events":[],"cursor":"c1",`+calm,
				`"events":[`+occurrence("")+`],"cursor":"c2","truncated":false,"hasMore":true,`+hour,
				`"events":[],"cursor":"c3","truncated":false,"hasMore":false,`+hour,
			),
			judge: cursorOf(3, `"c2"`),
			bad:   func(c *tiny) { c.calls("events/poll", "null", `"c1"`) }, // and waits for an hour
		},
		{
			row:    "client-poll-respects-next-poll-ms",
			mode:   poll,
			method: "events/poll",
			times:  4,
			poll: answers(
				`"events":[],"cursor":"c1","truncated":false,"hasMore":false,"nextPollMs":200`,
			),
			judge: gaps(200 * time.Millisecond),
			slow: func(c *clientRow) {
				c.poll, c.judge = answers(`"events":[],"cursor":"c1","truncated":false,"hasMore":false,`+hour), gaps(time.Hour)
			},
			bad: func(c *tiny) { c.calls("events/poll", "null", `"c1"`) },
		},
		{
			row: "client-poll-floor", mode: poll, method: "events/poll", times: 2,
			poll: answers(`"events":[],"cursor":"c1","truncated":false,"hasMore":false,"nextPollMs":0`), judge: gaps(time.Second),
			options: func(o *driver.Options) { o.Poll = nil },
			slow:    func(c *clientRow) { c.judge = gaps(time.Hour) },
			bad:     func(c *tiny) { c.calls("events/poll", "null", `"c1"`) },
		},
		{
			row:    "client-stream-reconnect-with-cursor",
			mode:   push,
			method: "events/stream",
			times:  2,
			active: `"cursor":"c1",`,
			messages: []string{
				`event","params":` + strings.TrimSuffix(occurrence(`,"cursor":"c2"`), "}") + ",",
			},
			judge: cursorOf(2, `"c2"`),
			bad:   func(c *tiny) { c.calls("events/stream", "null", "null") },
		},
		{
			row:    "client-refresh-before-expiry",
			mode:   webhook,
			method: "events/subscribe",
			times:  2,
			life:   40 * time.Second,
			grant:  answers(`"cursor":"c1","truncated":false`),
			judge: func(_, calls []asked) string {
				switch {
				case len(calls) < 2:
					return "the subscription was not refreshed"
				case calls[1].key != calls[0].key:
					return fmt.Sprintf("the refresh has the key %s, and the subscription %s", calls[1].key, calls[0].key)
				case !calls[1].at.Before(calls[0].until):
					return fmt.Sprintf("the refresh came %v late", calls[1].at.Sub(calls[0].until))
				}
				return ""
			},
			slow: func(c *clientRow) { c.life = -time.Second }, // so that any refresh is late
			bad:  func(c *tiny) { c.calls("events/subscribe", "null", `"c1"`) },
		},
	}
	rows = append(rows, inAllModes("client-null-cursor-not-replayed", `"cursor":null`, "", false, `"null"`)...)
	rows = append(rows, inAllModes("client-cursor-absent-tolerated", "", "", false, "")...)
	return append(rows, inAllModes("client-truncated-persists-fresh-cursor", `"cursor":"c9"`, `"c9"`, true, `"c1"`)...)
}

// serveHarness starts the harness of a row.
func serveHarness(t *testing.T, c clientRow) *harness {
	t.Helper()
	h := &harness{clientRow: &c, news: make(chan struct{})}
	srv := httptest.NewServer(h)
	h.url = srv.URL + "/mcp"
	t.Cleanup(srv.Close)
	return h
}

// rowsForClients are the rows of the table in docs/conformance.md, and whether eventmeter's clients
// deviate from them on purpose.
func rowsForClients(t *testing.T) map[string]bool {
	t.Helper()
	page, err := os.ReadFile("../../../docs/conformance.md")
	must(t, err)
	_, table, _ := strings.Cut(string(page), "<!-- client rows -->\n")
	table, _, _ = strings.Cut(table, "<!-- end of client rows -->\n")
	deviates := map[string]bool{}
	for line := range strings.Lines(table) {
		name, rest, ok := strings.Cut(strings.TrimPrefix(line, "| `client-"), "` | ")
		if !ok {
			continue // the head
		}
		cells := strings.Split(strings.TrimSuffix(rest, " |\n"), " | ") // promise, lanes, broken by, held
		held := cells[len(cells)-1]
		if _, twice := deviates["client-"+name]; twice || len(cells) != 4 || strings.Contains(rest, "|  |") ||
			held != "yes" && !strings.HasPrefix(held, "*no:* ") {
			t.Errorf("%s stands twice, or lacks something: %s", name, line)
		}
		deviates["client-"+name] = held != "yes"
	}
	if len(deviates) != 10 {
		t.Errorf("%d rows, want 10", len(deviates))
	}
	return deviates
}

// TestClientRows judges the driver as the suite judges clients. Every judge also meets
// a client that breaks its row.
func TestClientRows(t *testing.T) {
	deviates, judged := rowsForClients(t), map[string]bool{}
	for _, c := range clientRows() {
		if _, known := deviates[c.row]; !known {
			t.Errorf("%s is not in the table", c.row)
		}
		judged[c.row] = true
		t.Run(fmt.Sprint(c.row, "/", c.mode, "/driver"), func(t *testing.T) {
			h := serveHarness(t, c)
			why := h.ofDriver(t)
			switch {
			case why != "" && !deviates[c.row]:
				t.Errorf("the driver breaks it: %s\n%+v", why, h.of(""))
			case why == "" && deviates[c.row]:
				t.Error("the driver holds it, and the table says that it deviates")
			}
		})
		for name, client := range map[string]func(*tiny){"bad": c.bad, "good": c.good} {
			if client == nil {
				continue
			}
			t.Run(fmt.Sprint(c.row, "/", c.mode, "/", name), func(t *testing.T) {
				c := c
				if c.slow != nil {
					c.slow(&c)
				}
				h := serveHarness(t, c)
				client(&tiny{t, h.url})
				if why := c.judge(h.of(""), h.of(c.method)); (why != "") != (name == "bad") {
					t.Errorf("a %s client, and the judge says %q\n%+v", name, why, h.of(""))
				}
			})
		}
	}
	for row := range deviates {
		if !judged[row] {
			t.Errorf("nobody judges %s", row)
		}
	}
}

// ofDriver judges the driver, once it has made the calls that the row waits for.
func (h *harness) ofDriver(t *testing.T) string {
	opts := driver.Options{
		Mode: h.mode, Poll: &driver.Poll{MinInterval: time.Millisecond}, Webhook: driver.Webhook{TTL: "1h", RefreshAt: 0.1},
		Push:      driver.Push{Backoff: driver.Backoff{Min: time.Millisecond, Max: 10 * time.Millisecond}},
		Arguments: func(int) json.RawMessage { return json.RawMessage(`{}`) },
	}
	if h.options != nil {
		h.options(&opts)
	}
	d, rec := systemstest.Lane(t, mcpclient.EndpointOptions{URL: h.url, Tokens: []string{"a"}}, opts)
	systemstest.Attach(t, d, 1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if !h.await(ctx, h.method, h.times) {
		return fmt.Sprintf("%s was called %d times, and %d were due", h.method, len(h.of(h.method)), h.times)
	}
	if h.row == "client-cursor-absent-tolerated" && h.mode != eventmeter.Webhook {
		rec.Wait(t, "the event without a cursor", func(m *systemstest.Memory) bool { return len(m.Seen(0, 1)) == 1 })
	}
	return h.judge(h.of(""), h.of(h.method))
}
