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
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/loadgen/systems/systemstest"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// callback is what a server learns of one.
type callback struct{ URL, Secret string }

// callbacks is a server that grants every subscription and delivers nothing.
func callbacks(t *testing.T) (url string, granted <-chan callback) {
	all := make(chan callback, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct{ Delivery callback }
		}
		_ = json.NewDecoder(r.Body).Decode(&m)
		if m.Method == "events/subscribe" {
			all <- m.Params.Delivery
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"id":"s","refreshBefore":null,"cursor":null,"truncated":false}}`, m.ID)
	}))
	t.Cleanup(srv.Close)
	return srv.URL, all
}

// post delivers a text to a lane's callback, signed if it has a name, and returns the status.
func (c callback) post(t *testing.T, d driver.Driver, name, text string) int {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(d.(driver.Receiver).CertPEM())
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	defer client.CloseIdleConnections()
	req, err := http.NewRequest(http.MethodPost, c.URL, strings.NewReader(text))
	must(t, err)
	req.Header.Set("Content-Type", "application/json")
	if name != "" {
		key, err := wire.ParseSecret(c.Secret)
		must(t, err)
		now := time.Now()
		req.Header.Set("webhook-id", name)
		req.Header.Set("webhook-timestamp", fmt.Sprint(now.Unix()))
		req.Header.Set("webhook-signature", key.Sign(name, now, []byte(text)))
	}
	resp, err := client.Do(req)
	must(t, err)
	_ = resp.Body.Close()
	return resp.StatusCode
}

// TestCopiesKeepTheirMessageID: each copy of a refused delivery has the webhook-id of the first.
func TestCopiesKeepTheirMessageID(t *testing.T) {
	const text = `{"eventId":"e","name":"x","timestamp":"2026-11-27T10:00:00Z","data":{}}`
	for _, c := range []struct {
		name   string
		ids    []string
		broken int64
	}{{"same", []string{"e", "e", "e"}, 0}, {"changes", []string{"e", "e-2", "e-3"}, 2}} {
		t.Run(c.name, func(t *testing.T) {
			url, granted := callbacks(t)
			d, _ := systemstest.Lane(t, mcpclient.EndpointOptions{URL: url, Era: mcpclient.Legacy}, driver.Options{
				Mode: eventmeter.Webhook, Webhook: driver.Webhook{Answer: []driver.Answer{{Status: 503, Times: 2}}},
			})
			systemstest.Attach(t, d, 1)
			to := <-granted
			for i, id := range c.ids {
				if got, want := to.post(t, d, id, text), []int{503, 503, 200}[i]; got != want {
					t.Errorf("copy %d was answered %d, want %d", i, got, want)
				}
			}
			if row := judged(d)["delivery-standard-webhooks-headers"]; row.Seen != 3 || row.Broken != c.broken {
				t.Errorf("%+v", row)
			}
		})
	}
}

// TestDeliveriesAfterUnsubscribe: what was published after the answer to unsubscribe is
// unexpected, breaks a row once, and is no cost. What was on its way is neither.
func TestDeliveriesAfterUnsubscribe(t *testing.T) {
	const run = 7
	url, granted := callbacks(t)
	clock := eventmeter.NewClock()
	l, err := ledger.New(ledger.Options{Run: run, Sources: 1, Lanes: []ledger.LaneSpec{{
		Name: "hooks", Mode: eventmeter.Webhook, Subscriptions: 1, Broadcast: func(int) bool { return true },
	}}})
	must(t, err)
	ep, err := mcpclient.NewEndpoint(mcpclient.EndpointOptions{URL: url, Era: mcpclient.Legacy})
	must(t, err)
	defer func() { _ = ep.Close(t.Context()) }()
	d, err := systems.New(driver.Options{
		Clock: clock, Recorder: eventmeter.Tee(eventmeter.Tee(), l), Endpoint: ep, Mode: eventmeter.Webhook, Event: "x", Subscriptions: 1,
	})
	must(t, err)
	defer func() { _ = d.Close(t.Context()) }()
	publish := func(seq uint32) eventmeter.Stamp {
		s := eventmeter.Stamp{Run: run, Seq: seq}
		now := clock.Now()
		l.Fired(eventmeter.Emission{Stamp: s, Intended: now, Fired: now, Measured: true})
		l.Resolved(s, eventmeter.Accepted, clock.Now())
		return s
	}
	must(t, d.Attach(t.Context(), 0))
	under := publish(1)
	must(t, d.Detach(t.Context(), 0))
	to := <-granted
	for _, s := range []eventmeter.Stamp{under, publish(2), publish(3)} {
		if got := to.post(t, d, "", fmt.Sprintf(`{"eventId":"e","data":{"probe":%q}}`, s)); got != http.StatusServiceUnavailable {
			t.Errorf("answered %d", got)
		}
	}
	lane := l.Account().Lanes[0]
	if lane.Unexpected.AfterEnd != 2 || lane.Unexpected.Total() != 2 {
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
