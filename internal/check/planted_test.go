package check

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/conform"
	"github.com/eventmeter/eventmeter/internal/run"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
)

// TestPlantedInSteps takes steps at servers that hold a row, break it, or leave it open.
func TestPlantedInSteps(t *testing.T) {
	const notify = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/events/%s\",\"params\":{\"cursor\":\"c\"}}\n\n"
	streams := func(names ...string) func(http.ResponseWriter, *http.Request, json.RawMessage) {
		return func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
			w.Header().Set("Content-Type", "text/event-stream")
			for _, name := range names {
				fmt.Fprintf(w, notify, name)
			}
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	}
	polls := func(result string) func(http.ResponseWriter, *http.Request, json.RawMessage) {
		return func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
		}
	}
	for _, c := range []struct {
		name         string
		do           func(context.Context, *probe)
		row          conform.ID
		serve        func(http.ResponseWriter, *http.Request, json.RawMessage)
		silence      time.Duration
		seen, broken int64
	}{
		{"heartbeats", quietStream, conform.StreamHeartbeatRequired, streams("active", "heartbeat"), time.Minute, 1, 0},
		{"no heartbeats", quietStream, conform.StreamHeartbeatRequired, streams("active"), time.Second, 1, 1},
		{"events", quietStream, conform.StreamHeartbeatRequired, streams("active", "event"), time.Minute, 0, 0},
		{"no stream", quietStream, conform.StreamHeartbeatRequired, polls(`{}`), time.Minute, 0, 0},
		{"an unknown cursor is taken", staleCursor, conform.TruncatedReturnsFreshCursor,
			polls(`{"events":[],"cursor":"c","truncated":false,"hasMore":false}`), time.Minute, 1, 1},
		{"no replay", staleCursor, conform.TruncatedReturnsFreshCursor,
			polls(`{"events":[],"cursor":null,"truncated":false,"hasMore":false}`), time.Minute, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				var m struct {
					ID     json.RawMessage
					Method string
				}
				_ = json.Unmarshal(body, &m)
				if m.Method == "server/discover" {
					polls(`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{}}`)(w, r, m.ID)
					return
				}
				c.serve(w, r, m.ID)
			}))
			defer srv.Close()
			ep, err := mcpclient.NewEndpoint(mcpclient.EndpointOptions{URL: srv.URL})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = ep.Close(t.Context()) }()
			clock := eventmeter.NewClock()
			p := &probe{
				Beside: run.Beside{Clock: clock, Endpoint: ep, Event: "x", Arguments: json.RawMessage(`{}`)},
				caller: ep.Caller(clock, new(wire.Traffic)), opts: &Options{Silence: c.silence},
				step: &Step{Name: c.name, Rows: []conform.ID{c.row}}, found: newFindings(), judged: map[conform.ID]bool{},
			}
			c.do(t.Context(), p)
			got := p.found.account[conform.Rows[c.row].Name]
			if got.Seen != c.seen || got.Broken != c.broken || c.seen == 0 && p.found.why[conform.Rows[c.row].Name] == "" {
				t.Errorf("seen %d, broken %d: %q", got.Seen, got.Broken, p.found.why)
			}
		})
	}
}
