package boards

import (
	"net/http/httptest"
	"strings"
	"testing"

	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// serveK6 shows what two processes of a test with k6 would have pushed. The names
// and the labels are those of a real run with the extension and k6's remote
// write, recorded in testdata/k6.names; the values are made up. k6 itself is not
// run here: its extension has a module of its own, whose tests ask the queries
// of the dashboard of what real processes pushed.
func serveK6(t *testing.T) *httptest.Server {
	t.Helper()
	registry := client.NewPedanticRegistry()
	of := []string{"instance_id", "system", "mode", "event", "lane", "scenario"}
	for _, name := range k6Names(t) {
		for instance, mode := range map[string]string{"1": "push", "2": "poll"} {
			labels := client.Labels{}
			for i, v := range []string{instance, "events", mode, "chat.message", mode, "s"} {
				labels[of[i]] = v
			}
			switch {
			case strings.HasSuffix(name, "_seconds"):
				h := client.NewHistogram(
					client.HistogramOpts{Name: name, Help: "k6", ConstLabels: labels, NativeHistogramBucketFactor: 1.1},
				)
				registry.MustRegister(growing{h, func() { h.Observe(0.02); h.Observe(0.3) }})
			case strings.HasSuffix(name, "_total"):
				c := client.NewCounter(client.CounterOpts{Name: name, Help: "k6", ConstLabels: labels})
				registry.MustRegister(growing{c, func() { c.Add(10) }})
			default:
				g := client.NewGauge(client.GaugeOpts{Name: name, Help: "k6", ConstLabels: labels})
				g.Set(2)
				registry.MustRegister(g)
			}
		}
	}
	s := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	t.Cleanup(s.Close)
	return s
}

// growing grows with each scrape.
type growing struct {
	client.Collector
	grow func()
}

func (g growing) Collect(to chan<- client.Metric) {
	g.grow()
	g.Collector.Collect(to)
}
