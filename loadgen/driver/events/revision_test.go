package events_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/refserver"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/loadgen/systems/systemstest"
)

// speaker is a server of the modern era, as far as discover asks.
type speaker struct {
	capabilities string
	list         string
	// end and unknown answer what names nothing that exists: an error's code, 0 = success.
	end, unknown int
	poll         string // what a poll of an event type that exists is answered with
	holds        bool
}

func (s *speaker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params struct {
			Name      string `json:"name"`
			TimeoutMs int    `json:"timeoutMs"`
		} `json:"params"`
	}
	_ = json.NewDecoder(r.Body).Decode(&m)
	result, code := "{}", 0
	switch m.Method {
	case "server/discover":
		result = `{"resultType":"complete","supportedVersions":["2026-07-28"],"serverInfo":{"name":"s","version":"1"},` +
			`"capabilities":` + s.capabilities + `}`
	case "events/list":
		result = s.list
	case "events/unsubscribe":
		code = s.end
	case "events/poll":
		result = s.poll
		if m.Params.Name != "a" {
			code = s.unknown
		} else if s.holds && m.Params.TimeoutMs > 0 {
			select {
			case <-time.After(time.Duration(m.Params.TimeoutMs) * time.Millisecond):
			case <-r.Context().Done():
			}
		}
	default:
		code = -32601
	}
	w.Header().Set("Content-Type", "application/json")
	if code != 0 {
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"m"}}`, m.ID, code)
		return
	}
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

// TestExamine names revisions and deviations of servers that are known.
func TestExamine(t *testing.T) {
	const (
		whole    = `{"resultType":"complete","events":[{"name":"a","delivery":["poll","webhook"],"inputSchema":{},"payloadSchema":{}}]}`
		webhooks = `{"events":[{"name":"a","delivery":["webhook"],"inputSchema":{},"payloadSchema":{}}]}`
		both     = `{"events":{},"extensions":{"io.modelcontextprotocol/events":{}}}`
		answer   = `{"resultType":"complete","events":[],"cursor":"c1","truncated":false,"hasMore":false,"nextPollMs":1}`
		chatGPT  = "the capability is not under events, the only place where ChatGPT and @ai-sdk/mcp look"
	)
	for name, c := range map[string]struct {
		speaker
		revision   string
		deviations []string
	}{
		"model":  {speaker{both, whole, -32023, -32023, answer, false}, "sep-3415", nil},
		"sketch": {speaker{`{"events":{}}`, webhooks, -32011, -32011, answer, false}, "sketch", nil},
		"branch": {speaker{`{"events":{}}`, whole, -32011, -32011, answer, true}, "longpoll", nil},
		"older": {speaker{`{"events":{}}`, `{"events":[{"name":"a","deliveryModes":["webhook"],"inputSchema":{},` +
			`"payloadSchema":{}}]}`, -32016, 0, answer, false},
			"older", nil},
		"mixed": {speaker{`{"extensions":{"io.modelcontextprotocol/events":{}}}`, webhooks, 0, 0, answer, false}, "sep-3415", []string{
			"events/unsubscribe of a subscription that does not exist succeeds, where NotFound is due; ChatGPT expects success",
			chatGPT, "results have no resultType",
		}},
		"codes": {speaker{both, whole, -32011, -32011, answer, false}, "sep-3415",
			[]string{"error codes are those of the sketch, from -32011 on; ChatGPT expects these"}},
		"loose": {speaker{`{"experimental":{"events":{}}}`,
			`{"events":[{"name":"a","delivery":["carrier pigeon"]},` +
				`{"name":"b"}]}`, -32601, -32601, answer, false}, "sketch", []string{
			"event type a has the delivery mode carrier pigeon",
			"event type a has no inputSchema", "event type a has no payloadSchema",
			"event type b names no delivery mode",
			"event type b has no inputSchema", "event type b has no payloadSchema", chatGPT,
		}},
		"careless": {speaker{both, whole, -32023, 0, answer, false}, "sep-3415", []string{
			"events/poll of an event type that does not exist succeeds, where NotFound is due",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := httptest.NewServer(&c.speaker)
			t.Cleanup(srv.Close)
			o := examined(t, srv.URL)
			if o.Revision != c.revision || !slices.Equal(o.Deviations, c.deviations) {
				t.Errorf("revision %q, deviations %q; want %q, %q", o.Revision, o.Deviations, c.revision, c.deviations)
			}
		})
	}
}

// TestExamineReferenceServer: nothing is left behind, and nothing is odd.
func TestExamineReferenceServer(t *testing.T) {
	w := systemstest.NewWorld(t, refserver.Options{})
	if o := examined(t, w.Srv.URL()); o.Revision == "" || len(o.Deviations) != 0 {
		t.Errorf("revision %q, deviations %q", o.Revision, o.Deviations)
	}
}

func examined(t *testing.T, url string) driver.Offer {
	t.Helper()
	d, _ := systemstest.Lane(t, mcpclient.EndpointOptions{URL: url, Tokens: []string{"a"}}, driver.Options{Mode: eventmeter.Poll})
	o, err := d.(driver.Discoverer).Discover(t.Context())
	if err == nil {
		err = d.(driver.Examiner).Examine(t.Context(), &o)
	}
	must(t, err)
	return o
}
