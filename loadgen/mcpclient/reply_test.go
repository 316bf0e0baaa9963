package mcpclient_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/loadgen/systems/systemstest"
)

// TestResponsesOfOtherForms: a response is found in an array of messages, and one whose id
// is a string is taken and noted.
func TestResponsesOfOtherForms(t *testing.T) {
	for _, c := range []struct {
		name, kind, text string
		noted            int
	}{
		{"plain", "application/json", `{"jsonrpc":"2.0","id":7,"result":{"cursor":"c"}}`, 0},
		{"string", "application/json", `{"jsonrpc":"2.0","id":"7","result":{"cursor":"c"}}`, 1},
		{"array", "application/json", ` [{"jsonrpc":"2.0","method":"x"},{"jsonrpc":"2.0","id":7,"result":{"cursor":"c"}}]`, 0},
		{"array in a stream", "text/event-stream",
			`data: [{"jsonrpc":"2.0","method":"x"},{"jsonrpc":"2.0","id":"7","result":{"cursor":"c"}}]` + "\n\n", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", c.kind)
				fmt.Fprint(w, c.text)
			}))
			defer srv.Close()
			ep, err := mcpclient.NewEndpoint(mcpclient.EndpointOptions{URL: srv.URL})
			must(t, err)
			defer func() { _ = ep.Close(t.Context()) }()
			rec := systemstest.NewMemory()
			caller := ep.Caller(eventmeter.NewClock(), nil)
			caller.Recorder = rec
			a := caller.Call(t.Context(), "events/poll", http.Header{}, wire.Request(7, "events/poll", []byte("{}")))
			defer a.Release()
			if a.Err != nil || string(a.Msg.Cursor) != `"c"` || rec.CountNotices(eventmeter.Malformed) != c.noted {
				t.Errorf("%v, cursor %s, %d noted", a.Err, a.Msg.Cursor, rec.CountNotices(eventmeter.Malformed))
			}
		})
	}
}

// TestReplyOfAReply: a server that answers every reply with another request gets one reply
// for each call, and the call its response.
func TestReplyOfAReply(t *testing.T) {
	var requests atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		if requests.Add(1) < 50 {
			fmt.Fprint(w, `data: {"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n\n")
		}
		if bytes.Contains(body, []byte("events/poll")) {
			fmt.Fprint(w, `data: {"jsonrpc":"2.0","id":7,"result":{"cursor":"c"}}`+"\n\n")
		}
	}))
	defer srv.Close()
	ep, err := mcpclient.NewEndpoint(mcpclient.EndpointOptions{URL: srv.URL})
	must(t, err)
	defer func() { _ = ep.Close(t.Context()) }()
	caller := ep.Caller(eventmeter.NewClock(), nil)
	a := caller.Call(t.Context(), "events/poll", http.Header{}, wire.Request(7, "events/poll", []byte("{}")))
	defer a.Release()
	if a.Err != nil || string(a.Msg.Cursor) != `"c"` || requests.Load() != 2 {
		t.Errorf("%v, cursor %s, %d requests, want the call and one reply", a.Err, a.Msg.Cursor, requests.Load())
	}
}
