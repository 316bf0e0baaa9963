package requests_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/settings"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/driver/requests"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/loadgen/systems/systemstest"
)

func TestMain(m *testing.M) { systemstest.Main(m) }

// begin attaches a lane of two clients and begins its requests, which stop after a time.
func begin(t *testing.T, url string, method string) driver.Driver {
	t.Helper()
	clock := eventmeter.NewClock()
	d, _ := systemstest.Lane(t, mcpclient.EndpointOptions{URL: url}, driver.Options{
		System: "requests", Mode: eventmeter.Poll, Subscriptions: 2, Clock: clock,
		Settings: &requests.Settings{Method: method, Rate: settings.Rate(100)},
	})
	systemstest.Attach(t, d, 2)
	d.(driver.Phased).Begin(clock.Now(), clock.Now().Add(time.Minute))
	return d
}

// answers is a server of today, each of whose answers after the first two is chosen.
func answers(t *testing.T, answer func(n int64, w http.ResponseWriter, id json.RawMessage)) (url string, asked *atomic.Int64) {
	asked = new(atomic.Int64)
	return systemstest.Serve(t, nil, func(w http.ResponseWriter, _ *http.Request, id json.RawMessage, _ string) {
		n := asked.Add(1)
		w.Header().Set("Content-Type", "application/json")
		if n > 2 {
			answer(n, w, id)
			return
		}
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"tools":[]}}`, id)
	}), asked
}

func drained(t *testing.T, d driver.Driver) driver.Figures {
	t.Helper()
	d.(driver.Phased).Drain()
	systemstest.Drained(t, d)
	return d.(driver.Figurer).Figures()
}

func TestRequestsAreCountedByWhatCameOfThem(t *testing.T) {
	url, asked := answers(t, func(n int64, w http.ResponseWriter, id json.RawMessage) {
		switch n % 4 {
		case 0:
			http.Error(w, "busy", http.StatusServiceUnavailable)
		case 1:
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"no"}}`, id)
		case 2:
			fmt.Fprint(w, "?")
		default:
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"tools":[]}}`, id)
		}
	})
	d := begin(t, url, "tools/list")
	for asked.Load() < 42 {
		time.Sleep(time.Millisecond)
	}
	v := drained(t, d)
	got := v.Values
	if got["requests"] != float64(asked.Load()-2) || got["requests"] < 40 {
		t.Errorf("%v requests, and the server has seen %d after the first two", got["requests"], asked.Load()-2)
	}
	want := map[string]float64{}
	for n := int64(3); n <= asked.Load(); n++ {
		if name := [...]string{"failedStatus", "failedInside200", "failedUnanswered", ""}[n%4]; name != "" {
			want[name]++
			want["failed"]++
		}
	}
	for name, n := range want {
		if got[name] != n {
			t.Errorf("%s is %v, want %v", name, got[name], n)
		}
	}
	if n := v.Timings["latency"].Histogram.TotalCount(); float64(n) != got["requests"]-got["failed"] {
		t.Errorf("%d latencies of %v results", n, got["requests"]-got["failed"])
	}
}

func TestNoSuchMethod(t *testing.T) {
	url := systemstest.Serve(t, nil, func(w http.ResponseWriter, _ *http.Request, id json.RawMessage, _ string) {
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"Method not found"}}`, id)
	})
	d, _ := systemstest.Lane(t, mcpclient.EndpointOptions{URL: url}, driver.Options{
		System: "requests", Mode: eventmeter.Poll, Settings: &requests.Settings{Method: "prompts/list", Rate: 1},
	})
	if err := d.Attach(t.Context(), 0); err == nil || !strings.Contains(err.Error(), "-32601") {
		t.Errorf("attached at a server without the method: %v", err)
	}
}

// TestStandstill: requests that a target never answers are counted, and so are those that were
// due and could not be sent.
func TestStandstill(t *testing.T) {
	still := make(chan struct{})
	url, asked := answers(t, func(n int64, w http.ResponseWriter, id json.RawMessage) {
		if n > 10 {
			<-still
		}
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"tools":[]}}`, id)
	})
	t.Cleanup(func() { close(still) }) // before the server is closed
	d := begin(t, url, "tools/list")
	for asked.Load() < 42 {
		time.Sleep(time.Millisecond)
	}
	d.(driver.Phased).Drain()
	if err := d.Close(t.Context()); err != nil {
		t.Error(err)
	}
	v := d.(driver.Figurer).Figures().Values
	if sent := float64(asked.Load() - 2); v["requests"] < sent || v["scheduled"] != v["requests"]+v["dropped"] {
		t.Errorf("%v were sent: %v", sent, v)
	}
	if v["failed"] != v["failedUnanswered"] || v["failed"] < 30 || v["requests"] != v["failed"]+8 {
		t.Errorf("%v", v)
	}
}
