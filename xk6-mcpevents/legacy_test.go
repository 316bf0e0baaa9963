package mcpevents

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
)

// TestLegacyServerIsAskedOnce requires that all Clients of a process ask a
// server of the legacy era for the later one once, in all VUs together.
func TestLegacyServerIsAskedOnce(t *testing.T) {
	noLeaks(t)
	var asked, sessions atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		_ = json.NewDecoder(r.Body).Decode(&m)
		result := map[string]string{
			"initialize":  `{"protocolVersion":"2025-06-18","capabilities":{"events":{}},"serverInfo":{"name":"old","version":"1"}}`,
			"events/poll": `{"events":[],"cursor":"c","truncated":false,"hasMore":false,"nextPollMs":60000}`,
		}[m.Method]
		switch {
		case m.Method == "server/discover":
			asked.Add(1)
			http.Error(w, "no session", http.StatusBadRequest)
			return
		case result == "":
			w.WriteHeader(http.StatusAccepted)
			return
		case m.Method == "initialize":
			w.Header().Set("Mcp-Session-Id", fmt.Sprint("s", sessions.Add(1)))
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
	}))
	defer s.Close()
	root := New()
	for range 2 { // VUs
		vu := newStage(t, root)
		for range 2 { // iterations
			vu.must(fmt.Sprintf(`
				const polls = [1, 2, 3].map(() => new Client(%q, {token: 'any'}).poll('e', {settle: 0}));
				for (const sub of await Promise.all(polls)) await sub.close();
			`, s.URL))
		}
	}
	finished(t, root)
	if n := asked.Load(); n != 1 {
		t.Errorf("server/discover was asked %d times", n)
	}
	if n := sessions.Load(); n != 12 {
		t.Errorf("%d sessions, want one for each Client", n)
	}
}
