package metrics

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/sinks/ledger"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// busy is a ledger in the middle of a run: ten thousand subscriptions, and the
// latencies of a million deliveries.
func busy(b *testing.B) *ledger.Ledger {
	b.Helper()
	const subs = 10_000
	l, err := ledger.New(
		ledger.Options{
			Run:     7,
			Sources: 1,
			Lanes:   []ledger.LaneSpec{{Name: "a", System: "events", Mode: eventmeter.Push, Subscriptions: subs}},
		},
	)
	if err != nil {
		b.Fatal(err)
	}
	for i := range uint32(subs) {
		l.Changed(eventmeter.Transition{Sub: eventmeter.Sub{Index: i}, To: eventmeter.Attaching, At: 1})
		l.Changed(eventmeter.Transition{Sub: eventmeter.Sub{Index: i}, To: eventmeter.Active, At: 2})
	}
	for seq := uint32(1); seq <= 100; seq++ {
		deliver(l, seq, subs)
	}
	return l
}

// deliver fires one event, and has it come everywhere within a tenth of a second.
func deliver(l *ledger.Ledger, seq, subs uint32) {
	at := eventmeter.Instant(seq) * eventmeter.Instant(time.Second)
	s := eventmeter.Stamp{Run: 7, Seq: seq}
	l.Fired(eventmeter.Emission{Stamp: s, Intended: at, Fired: at + 1000, Measured: true})
	l.Resolved(s, eventmeter.Accepted, at+2000)
	for i := range subs {
		l.Delivered(
			eventmeter.Delivery{
				Sub:     eventmeter.Sub{Index: i},
				Stamp:   s,
				Probed:  true,
				EventID: uint64(seq),
				At:      at + eventmeter.Instant(i+1)*10_000,
				Bytes:   300,
			},
		)
	}
}

func watching(b *testing.B, l *ledger.Ledger) http.Handler {
	b.Helper()
	r := prometheus.NewPedanticRegistry()
	c, err := New(r, Options{Figures: systems.FigureTables})
	if err != nil {
		b.Fatal(err)
	}
	c.Begin(Run{ID: "7"}).Pass(func() Look { return Look{Detail: l.Detail()} })
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{})
}

type nowhere struct{ http.ResponseWriter }

func (nowhere) Write(b []byte) (int, error) { return len(b), nil }

func scrapeOnce(h http.Handler) {
	h.ServeHTTP(nowhere{httptest.NewRecorder()}, httptest.NewRequest(http.MethodGet, "/metrics", nil))
}

// BenchmarkScrape is one scrape of a run with ten thousand subscriptions.
func BenchmarkScrape(b *testing.B) {
	h := watching(b, busy(b))
	b.ReportAllocs()
	for b.Loop() {
		scrapeOnce(h)
	}
}

// BenchmarkDelivery is the path of the deliveries, alone and with scrapes that
// follow each other without a pause, which is far more than any server asks for.
// worst is the longest that one delivery took.
func BenchmarkDelivery(b *testing.B) {
	for _, scraped := range []bool{false, true} {
		name := "alone"
		if scraped {
			name = "scraped"
		}
		b.Run(name, func(b *testing.B) {
			l := busy(b)
			h := watching(b, l)
			stop := make(chan struct{})
			var wg sync.WaitGroup
			if scraped {
				wg.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
							scrapeOnce(h)
						}
					}
				})
			}
			var worst time.Duration
			seq, i := uint32(100), uint32(10_000)
			b.ReportAllocs()
			for b.Loop() {
				if i == 10_000 {
					seq, i = seq+1, 0
					deliver(l, seq, 0)
				}
				at := eventmeter.Instant(seq)*eventmeter.Instant(time.Second) + eventmeter.Instant(i+1)*10_000
				began := time.Now()
				l.Delivered(
					eventmeter.Delivery{
						Sub:     eventmeter.Sub{Index: i},
						Stamp:   eventmeter.Stamp{Run: 7, Seq: seq},
						Probed:  true,
						EventID: uint64(seq),
						At:      at,
						Bytes:   300,
					},
				)
				worst = max(worst, time.Since(began))
				i++
			}
			close(stop)
			wg.Wait()
			b.ReportMetric(float64(worst.Nanoseconds()), "worst-ns")
		})
	}
}
