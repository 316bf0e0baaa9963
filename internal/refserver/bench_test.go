package refserver

import (
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

const benchData = `{"channel":"c7","text":"evtm-0000002a-0001-00000007-2f",` +
	`"pad":"................................................................................................................"}`

// countWriter is the client end of a stream without a network.
type countWriter struct {
	header http.Header
	frames *atomic.Int64
}

func (w *countWriter) Header() http.Header         { return w.header }
func (w *countWriter) WriteHeader(int)             {}
func (w *countWriter) Write(b []byte) (int, error) { return len(b), nil }
func (w *countWriter) Flush()                      { w.frames.Add(1) }

// BenchmarkFanOut publishes one event to 10,000 streams and waits until every
// stream has written it.
func BenchmarkFanOut(b *testing.B) {
	for _, streams := range []int{100, 10_000} {
		b.Run(fmt.Sprint(streams), func(b *testing.B) {
			s, err := New(Options{})
			if err != nil {
				b.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			var frames atomic.Int64
			var wg sync.WaitGroup
			for i := range streams {
				wg.Go(func() {
					r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/mcp", nil)
					s.stream(&call{
						w: &countWriter{http.Header{}, &frames}, r: r,
						id: fmt.Append(nil, i), params: []byte(`{"name":"tick","cursor":null}`),
					})
				})
			}
			waitFor(&frames, int64(streams))
			b.ReportAllocs()
			for b.Loop() {
				frames.Store(0)
				if _, err := s.Publish("tick", []byte(benchData)); err != nil {
					b.Fatal(err)
				}
				waitFor(&frames, int64(streams))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(streams), "ns/stream")
			cancel()
			wg.Wait()
		})
	}
}

func waitFor(n *atomic.Int64, want int64) {
	for n.Load() < want {
		time.Sleep(20 * time.Microsecond)
	}
}

// BenchmarkPublish publishes an event without subscribers, or without
// subscribers of its channel.
func BenchmarkPublish(b *testing.B) {
	s, err := New(Options{})
	if err != nil {
		b.Fatal(err)
	}
	t := s.broker.topics["chat.message"]
	for i := range 10_000 {
		r, _, _ := t.open(selection{keyed: true, key: fmt.Sprint("other-", i)}, start{}, 0, func() {})
		defer r.close()
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Publish("chat.message", []byte(benchData)); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSign builds and signs one webhook message.
func BenchmarkSign(b *testing.B) {
	key, err := standardwebhooks.NewWebhookRaw(make([]byte, 24))
	if err != nil {
		b.Fatal(err)
	}
	p := &poster{timeout: time.Minute, transport: roundTrip(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Body: http.NoBody}, nil
	})}
	m := &message{
		url:            mustURL("https://127.0.0.1/h"),
		subscriptionID: "sub_1",
		id:             "e-1",
		body:           []byte(benchData),
		keys:           []*standardwebhooks.Webhook{key},
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, _, failure := p.post(b.Context(), m); failure != "" {
			b.Fatal(failure)
		}
	}
}

// BenchmarkWebhook signs a message, sends it over TLS to a receiver in this
// process and settles it. The figure includes the receiver's work.
func BenchmarkWebhook(b *testing.B) {
	var got atomic.Int64
	receiver := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Header.Get("webhook-id")[0] == 'm' {
			w.Write([]byte(`{"challenge":` + string(body[len(`{"challenge":`):len(body)-len(`,"type":"verification"}`)]) + `}`))
			return
		}
		got.Add(1)
	}))
	defer receiver.Close()
	roots := x509.NewCertPool()
	roots.AddCert(receiver.Certificate())
	s := startServer(b, Options{AllowPrivateCallbacks: true, CallbackRoots: roots})
	const subscriptions = 100
	for i := range subscriptions {
		result(
			b,
			s,
			"t",
			"events/subscribe",
			fmt.Sprintf(`{"name":"tick","delivery":{"mode":"webhook","url":"%s/%d","secret":"%s"}}`, receiver.URL, i, testSecret),
		)
	}
	b.ReportAllocs()
	n := int64(0)
	for b.Loop() {
		n += subscriptions
		publish(b, s, "tick", benchData)
		if n-got.Load() > 2000 {
			waitFor(&got, n-1000)
		}
	}
	waitFor(&got, n)
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/delivery")
}
