package events_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/loadgen/systems/systemstest"
)

// TestAnEndWaitsForItsRefresh: a target may take up a refresh that nobody waits
// for any more, after the unsubscribe that overtook it, and deliver again.
func TestAnEndWaitsForItsRefresh(t *testing.T) {
	const subs = 20
	var mu sync.Mutex
	seen := map[string][]string{} // by callback
	refreshing, release := make(chan struct{}, subs), make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				Delivery struct{ URL string } `json:"delivery"`
			} `json:"params"`
		}
		_ = json.NewDecoder(r.Body).Decode(&m)
		url := m.Params.Delivery.URL
		note := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			seen[url] = append(seen[url], what)
		}
		mu.Lock()
		known := len(seen[url]) > 0
		mu.Unlock()
		result := `{}`
		switch {
		case m.Method == "events/unsubscribe":
			note("unsubscribed")
		case m.Method == "events/subscribe" && known:
			refreshing <- struct{}{}
			<-release // whether the lane waits or not
			note("refreshed")
			result = `{"id":"s","refreshBefore":null,"cursor":null,"truncated":false}`
		case m.Method == "events/subscribe":
			note("subscribed")
			result = fmt.Sprintf(
				`{"id":"s","refreshBefore":%q,"cursor":null,"truncated":false}`,
				time.Now().Add(time.Second).UTC().Format(time.RFC3339Nano),
			)
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
	}))
	t.Cleanup(srv.Close)
	d, rec := systemstest.Lane(t, mcpclient.EndpointOptions{URL: srv.URL, Era: mcpclient.Legacy}, driver.Options{
		Mode: eventmeter.Webhook, Subscriptions: subs, Webhook: driver.Webhook{RefreshAt: 0.1},
	})
	systemstest.Attach(t, d, subs)
	for range subs {
		<-refreshing
	}
	var ends sync.WaitGroup
	for i := range subs {
		ends.Go(func() {
			if err := d.Detach(t.Context(), i); err != nil {
				t.Error(err)
			}
		})
	}
	for i := range uint32(subs) {
		rec.Wait(t, "the end", func(m *systemstest.Memory) bool { return slices.Contains(m.States(i), eventmeter.Detaching) })
	}
	close(release)
	ends.Wait()
	mu.Lock()
	defer mu.Unlock()
	for _, got := range seen {
		if want := []string{"subscribed", "refreshed", "unsubscribed"}; !slices.Equal(got, want) {
			t.Errorf("the target saw %v, want %v", got, want)
		}
	}
}
