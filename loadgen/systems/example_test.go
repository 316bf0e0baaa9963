package systems_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/loadgen/systems/systemstest"
)

// A lane of one poller, against a server that knows no handshake.
func ExampleNew() {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		json.NewDecoder(r.Body).Decode(&m)
		if m.Method != "events/list" && m.Method != "events/poll" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"events":[],"cursor":"c1"}}`, m.ID)
	}))
	defer srv.Close()
	ctx := context.Background()

	endpoint, err := mcpclient.NewEndpoint(mcpclient.EndpointOptions{URL: srv.URL})
	if err != nil {
		panic(err)
	}
	defer endpoint.Close(ctx)
	rec := systemstest.NewMemory()
	lane, err := systems.New(driver.Options{
		Clock: eventmeter.NewClock(), Recorder: rec, Endpoint: endpoint,
		Mode: eventmeter.Poll, Event: "ticket.moved", Subscriptions: 1,
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(lane.Attach(ctx, 0))
	fmt.Println(lane.Close(ctx))
	era, _, _ := endpoint.Negotiated()
	fmt.Println(era, len(rec.States(0)))
	// Output:
	// <nil>
	// <nil>
	// bare 4
}
