package events_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// TestDeliveriesAfterUnsubscribe: what was published after the answer to unsubscribe is
// unexpected, breaks a row once, and is no cost. What was on its way is neither.
func TestDeliveriesAfterUnsubscribe(t *testing.T) {
	const run = 7
	callback := make(chan string, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct{ Delivery struct{ URL string } }
		}
		_ = json.NewDecoder(r.Body).Decode(&m)
		if m.Method == "events/subscribe" {
			callback <- m.Params.Delivery.URL
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"id":"s","refreshBefore":null,"cursor":null,"truncated":false}}`, m.ID)
	}))
	defer srv.Close()
	clock := eventmeter.NewClock()
	l, err := ledger.New(ledger.Options{Run: run, Sources: 1, Lanes: []ledger.LaneSpec{{
		Name: "hooks", Mode: eventmeter.Webhook, Subscriptions: 1, Broadcast: func(int) bool { return true },
	}}})
	if err != nil {
		t.Fatal(err)
	}
	ep, err := mcpclient.NewEndpoint(mcpclient.EndpointOptions{URL: srv.URL, Era: mcpclient.Legacy})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ep.Close(t.Context()) }()
	d, err := systems.New(driver.Options{
		Clock: clock, Recorder: eventmeter.Tee(eventmeter.Tee(), l), Endpoint: ep, Mode: eventmeter.Webhook, Event: "x", Subscriptions: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close(t.Context()) }()
	publish := func(seq uint32) eventmeter.Stamp {
		s := eventmeter.Stamp{Run: run, Seq: seq}
		now := clock.Now()
		l.Fired(eventmeter.Emission{Stamp: s, Intended: now, Fired: now, Measured: true})
		l.Resolved(s, eventmeter.Accepted, clock.Now())
		return s
	}
	if err := d.Attach(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	under := publish(1)
	if err := d.Detach(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(d.(driver.Receiver).CertPEM())
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	defer client.CloseIdleConnections()
	to := <-callback
	for _, s := range []eventmeter.Stamp{under, publish(2), publish(3)} {
		resp, err := client.Post(to, "application/json", strings.NewReader(fmt.Sprintf(`{"eventId":"e","data":{"probe":%q}}`, s)))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("answered %s", resp.Status)
		}
	}
	lane := l.Account().Lanes[0]
	if lane.Unexpected.NotSubscribed != 2 || lane.Unexpected.Total() != 2 {
		t.Errorf("%+v", lane.Unexpected)
	}
	if n := lane.Traffic[eventmeter.Events].Requests; n != 1 {
		t.Errorf("%d requests count as events, want that which was on its way", n)
	}
	row := judged(d)["unsubscribe-by-key"]
	if row.Broken != 1 || row.Seen < 1 {
		t.Errorf("%+v", row)
	}
}
