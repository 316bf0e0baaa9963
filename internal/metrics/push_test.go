package metrics

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventmeter/eventmeter/internal/dialguard"
	"github.com/eventmeter/eventmeter/internal/promtest"
)

// TestPushes has both ways out bring what a gatherer has, and the same.
func TestPushes(t *testing.T) {
	for name, way := range map[string]struct {
		receiver func(testing.TB) *promtest.Receiver
		start    func(PushOptions) (*Pusher, error)
		labels   string // of every series, beside its own
	}{
		"remote write": {promtest.RemoteWrite, func(o PushOptions) (*Pusher, error) { return StartRemoteWrite(o), nil }, `job="test",`},
		"otlp":         {promtest.OTLP, StartOTLP, ""},
	} {
		t.Run(name, func(t *testing.T) {
			registry, _, p := follow(t, history(t))
			p.Settle(nil)
			to := way.receiver(t)
			// Any address of this machine has to be allowed, unless it is loopback.
			here := dialguard.New(func(context.Context, string) ([]netip.Addr, error) { return []netip.Addr{netip.IPv4Unspecified()}, nil })
			url := strings.Replace(to.URL, "127.0.0.1", "receiver.test", 1)
			w, err := way.start(PushOptions{URL: url, Every: time.Hour, From: registry, Job: "test", Guard: here})
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			if n := len(to.Pushes(t)); n != 1 {
				t.Errorf("%d pushes, want that of the end", n)
			}
			last := to.Last(t)
			want := gathered(t, registry)
			for series, v := range want {
				series = strings.Replace(series, "{", "{"+way.labels, 1)
				if math.IsNaN(v) { // a histogram
					continue
				}
				if got, ok := last.Values[sorted(series)]; !ok || got != v {
					t.Errorf("%s is %v (there: %v), want %v", series, got, ok, v)
				}
			}
			h := last.Histograms[sorted("eventmeter_latency_from_sent_seconds"+strings.Replace(ofLane, "{", "{"+way.labels, 1)+"}")]
			if h.Count != 2 || h.Schema != nativeSchema || math.Abs(h.Sum-0.022) > 0.0001 {
				t.Errorf("the histogram is %+v, want 3 ms and 19 ms", h)
			}
			for _, q := range []struct{ q, want float64 }{{0.5, 0.003}, {0.99, 0.019}} {
				if got := h.Quantile(q.q); got < q.want || got > q.want*1.045 {
					t.Errorf("quantile %v is %v, want %v and no more than a bucket above", q.q, got, q.want)
				}
			}
			if name == "remote write" { // its receivers may know no native histograms
				for le, want := range map[string]float64{"0.0025": 0, "0.005": 1, "0.025": 2, "+Inf": 2} {
					series := sorted(
						"eventmeter_latency_from_sent_seconds_bucket" + strings.Replace(
							ofLane,
							"{",
							"{"+way.labels,
							1,
						) + `,le="` + le + `"}`,
					)
					if got, ok := last.Values[series]; !ok || got != want {
						t.Errorf("%s is %v (there: %v), want %v", series, got, ok, want)
					}
				}
			}
		})
	}
}

func TestPushesThatFail(t *testing.T) {
	registry, _, _ := follow(t, history(t))
	refuse := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no room left", http.StatusInsufficientStorage)
	}))
	defer refuse.Close()
	w := StartRemoteWrite(PushOptions{URL: refuse.URL, Every: time.Hour, From: registry, Job: "test"})
	want := "remote write to " + refuse.URL + ": 507 Insufficient Storage no room left; the end of the run is missing there"
	if err := w.Close(); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	o, err := StartOTLP(PushOptions{URL: refuse.URL + "/v1/metrics", Every: time.Hour, From: registry, Job: "test"})
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Close(); err == nil || !strings.HasPrefix(err.Error(), "OTLP to "+refuse.URL) || !strings.Contains(err.Error(), "507") {
		t.Errorf("OTLP: %v", err)
	}
}

// TestPasswordsAreNotShown, which a URL may have.
func TestPasswordsAreNotShown(t *testing.T) {
	registry, _, _ := follow(t, history(t))
	nobody := PushOptions{URL: "http://someone:secret@127.0.0.1:1/push", Every: time.Hour, From: registry, Job: "test"}
	o, err := StartOTLP(nobody)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []*Pusher{o, StartRemoteWrite(nobody)} {
		if err := p.Close(); err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "someone") {
			t.Error(err)
		}
	}
}

// TestServiceOfOTLP: the job is the name of the service.
func TestServiceOfOTLP(t *testing.T) {
	registry, _, _ := follow(t, history(t))
	var sent []byte
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { sent, _ = io.ReadAll(r.Body) }))
	defer s.Close()
	o, err := StartOTLP(PushOptions{URL: s.URL + "/v1/metrics", Every: time.Hour, From: registry, Job: "test"})
	if err == nil {
		err = o.Close()
	}
	if err != nil || !strings.Contains(string(sent), "\n\x0cservice.name\x12\x06\n\x04test") { // as the fields of an attribute
		t.Errorf("%v, %.200q", err, sent)
	}
}

// TestCertificatesOfOTLP: those that the environment names must be there.
func TestCertificatesOfOTLP(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		env  map[string]string
		want string
	}{
		{map[string]string{"CERTIFICATE": "/no/such"}, "open /no/such: no such file or directory"},
		{map[string]string{"METRICS_CERTIFICATE": "/no/metrics", "CERTIFICATE": empty}, "open /no/metrics: no such file or directory"},
		{map[string]string{"CERTIFICATE": empty}, empty + " holds no certificate in PEM"},
		{map[string]string{"CLIENT_CERTIFICATE": "/no/cert", "CLIENT_KEY": empty}, "open /no/cert: no such file or directory"},
		{map[string]string{"CLIENT_CERTIFICATE": empty, "CLIENT_KEY": "/no/key"}, "open /no/key: no such file or directory"},
		{map[string]string{"CLIENT_KEY": "/no/key"}, ""},
		{map[string]string{"CLIENT_CERTIFICATE": "/no/cert"}, ""},
	} {
		for _, name := range []string{"CERTIFICATE", "METRICS_CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY"} {
			t.Setenv("OTEL_EXPORTER_OTLP_"+name, tt.env[name])
		}
		config, err := otlpTLS()
		if tt.want == "" {
			if err != nil || config.Certificates != nil {
				t.Errorf("%v: %v, %v", tt.env, config, err)
			}
			continue
		}
		_, err = StartOTLP(PushOptions{URL: "http://me:secret@there"})
		if err == nil || err.Error() != "OTLP to http://me:xxxxx@there: "+tt.want {
			t.Errorf("%v: %v, want %s", tt.env, err, tt.want)
		}
	}
}

func TestPushersKeepCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		p := startPushing("there", time.Second, func(context.Context) error {
			if n++; n <= 2 {
				return errors.New("no")
			}
			return nil
		}, func() {})
		time.Sleep(3500 * time.Millisecond)
		err := p.Close()
		if n != 4 || err == nil || err.Error() != "there: 2 pushes failed; the last one, with all totals, did not" {
			t.Errorf("%d pushes, %v", n, err)
		}
	})
}

// TestCloseDoesNotWaitForAPush that hangs: it is broken off, and the last one
// has its own time.
func TestCloseDoesNotWaitForAPush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startPushing("there", time.Second, func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}, func() {})
		time.Sleep(1500 * time.Millisecond)
		began := time.Now()
		if err := p.Close(); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != pushTimeout {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

func TestOTLPEndpoint(t *testing.T) {
	for text, want := range map[string]string{
		"http://127.0.0.1:4318":        "http://127.0.0.1:4318/v1/metrics",
		"https://there/":               "https://there/v1/metrics",
		"http://there/otlp/v1/metrics": "http://there/otlp/v1/metrics",
		"127.0.0.1:4318":               "",
		"grpc://127.0.0.1:4317":        "",
		"http://":                      "",
	} {
		got, err := OTLPEndpoint(text)
		if got != want || (err == nil) == (want == "") {
			t.Errorf("%s is %q, %v; want %q", text, got, err, want)
		}
	}
}
