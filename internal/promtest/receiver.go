package promtest

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	prompb "buf.build/gen/go/prometheus/prometheus/protocolbuffers/go"
	"github.com/klauspost/compress/snappy"
	collector "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	"google.golang.org/protobuf/proto"
)

// Push is the content of one push: values and histograms by series, written as
// name{label="value",…} with sorted labels.
type Push struct {
	// At is the timestamp of the push.
	At         time.Time
	Values     map[string]float64
	Histograms map[string]Histogram
}

// Histogram is a native one. Buckets counts samples by the index of Prometheus:
// i holds what is in (2^((i-1)/2^Schema), 2^(i/2^Schema)].
type Histogram struct {
	Count   uint64
	Sum     float64
	Schema  int
	Buckets map[int]uint64
}

// Quantile is the upper bound of the bucket that holds the quantile.
func (h Histogram) Quantile(q float64) float64 {
	indices := make([]int, 0, len(h.Buckets))
	for i := range h.Buckets {
		indices = append(indices, i)
	}
	slices.Sort(indices)
	rest := q * float64(h.Count)
	for _, i := range indices {
		if rest -= float64(h.Buckets[i]); rest <= 0 {
			return math.Exp2(float64(i) / float64(int(1)<<h.Schema))
		}
	}
	return math.NaN()
}

// Receiver takes pushes, and keeps them decoded. Its methods may be called at
// any time.
type Receiver struct {
	URL string

	mu     sync.Mutex
	pushes []Push
	broken []error
}

// RemoteWrite starts a receiver of Prometheus' remote write.
func RemoteWrite(t testing.TB) *Receiver {
	return receive(t, "/api/v1/write", func(r *http.Request, body []byte) (Push, error) {
		if r.Header.Get("Content-Encoding") != "snappy" || r.Header.Get("Content-Type") != "application/x-protobuf" {
			return Push{}, fmt.Errorf("it is said to be %v", r.Header)
		}
		plain, err := snappy.Decode(nil, body)
		if err != nil {
			return Push{}, err
		}
		var w prompb.WriteRequest
		if err := proto.Unmarshal(plain, &w); err != nil {
			return Push{}, err
		}
		return written(&w)
	})
}

// OTLP starts a receiver of OpenTelemetry's protocol over HTTP.
func OTLP(t testing.TB) *Receiver {
	return receive(t, "/v1/metrics", func(r *http.Request, body []byte) (Push, error) {
		if r.Header.Get("Content-Type") != "application/x-protobuf" {
			return Push{}, fmt.Errorf("it is said to be %v", r.Header)
		}
		var m collector.ExportMetricsServiceRequest
		if err := proto.Unmarshal(body, &m); err != nil {
			return Push{}, err
		}
		return exported(&m)
	})
}

func receive(t testing.TB, path string, decode func(*http.Request, []byte) (Push, error)) *Receiver {
	rec := &Receiver{}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+path, func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var p Push
		if err == nil {
			p, err = decode(r, body)
		}
		rec.mu.Lock()
		defer rec.mu.Unlock()
		if err != nil {
			rec.broken = append(rec.broken, err)
			return
		}
		rec.pushes = append(rec.pushes, p)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	rec.URL = s.URL + path
	return rec
}

// Pushes returns the pushes received so far, in the order of their timestamps. It fails the test if
// one could not be decoded.
func (r *Receiver) Pushes(t testing.TB) []Push {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, err := range r.broken {
		t.Errorf("a push cannot be read: %v", err)
	}
	// A push that its sender abandoned may arrive after the next one.
	out := slices.Clone(r.pushes)
	slices.SortStableFunc(out, func(a, b Push) int { return a.At.Compare(b.At) })
	return out
}

// Last is the last push; it fails the test where there is none.
func (r *Receiver) Last(t testing.TB) Push {
	t.Helper()
	all := r.Pushes(t)
	if len(all) == 0 {
		t.Fatal("nothing was pushed")
	}
	return all[len(all)-1]
}

// Series writes a name with its labels, which are sorted.
func Series(name string, labels map[string]string) string {
	texts := make([]string, 0, len(labels))
	for k, v := range labels {
		texts = append(texts, fmt.Sprintf("%s=%q", k, v))
	}
	slices.Sort(texts)
	return name + "{" + strings.Join(texts, ",") + "}"
}

func written(w *prompb.WriteRequest) (Push, error) {
	p := Push{Values: map[string]float64{}, Histograms: map[string]Histogram{}}
	for _, s := range w.GetTimeseries() {
		if err := p.timeSeries(s); err != nil {
			return p, err
		}
	}
	return p, nil
}

func (p *Push) timeSeries(s *prompb.TimeSeries) error {
	labels, last := map[string]string{}, ""
	for _, l := range s.GetLabels() {
		if l.GetName() <= last {
			return fmt.Errorf("the label %s comes after %s", l.GetName(), last)
		}
		last = l.GetName()
		labels[last] = l.GetValue()
	}
	name := labels["__name__"]
	delete(labels, "__name__")
	key := Series(name, labels)
	if n := len(s.GetSamples()) + len(s.GetHistograms()); n != 1 {
		return fmt.Errorf("%s has %d samples", key, n)
	}
	if _, twice := p.Values[key]; twice {
		return fmt.Errorf("%s is there twice", key)
	}
	for _, v := range s.GetSamples() {
		p.Values[key], p.At = v.GetValue(), time.UnixMilli(v.GetTimestamp())
	}
	for _, h := range s.GetHistograms() {
		native, err := nativeHistogram(h)
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		p.Histograms[key] = native
	}
	return nil
}

func nativeHistogram(h *prompb.Histogram) (Histogram, error) {
	out := Histogram{Count: h.GetCountInt(), Sum: h.GetSum(), Schema: int(h.GetSchema()), Buckets: map[int]uint64{}}
	deltas := h.GetPositiveDeltas()
	var index int
	var count int64
	for _, s := range h.GetPositiveSpans() {
		index += int(s.GetOffset())
		for range s.GetLength() {
			if len(deltas) == 0 {
				return out, errors.New("it has fewer counts than its spans say")
			}
			count, deltas = count+deltas[0], deltas[1:]
			out.Buckets[index] = uint64(count)
			index++
		}
	}
	if len(deltas) > 0 {
		return out, errors.New("it has more counts than its spans say")
	}
	return out, nil
}

func exported(m *collector.ExportMetricsServiceRequest) (Push, error) {
	p := Push{Values: map[string]float64{}, Histograms: map[string]Histogram{}}
	for _, r := range m.GetResourceMetrics() {
		for _, s := range r.GetScopeMetrics() {
			for _, one := range s.GetMetrics() {
				if err := p.metric(one); err != nil {
					return p, err
				}
			}
		}
	}
	return p, nil
}

func (p *Push) metric(m *metrics.Metric) error {
	number := func(points []*metrics.NumberDataPoint) {
		for _, d := range points {
			p.Values[Series(m.GetName(), attributes(d.GetAttributes()))] = d.GetAsDouble()
			p.At = time.Unix(0, int64(d.GetTimeUnixNano()))
		}
	}
	switch d := m.GetData().(type) {
	case *metrics.Metric_Gauge:
		number(d.Gauge.GetDataPoints())
	case *metrics.Metric_Sum:
		if !d.Sum.GetIsMonotonic() ||
			d.Sum.GetAggregationTemporality() != metrics.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE {
			return fmt.Errorf("%s is no cumulative counter", m.GetName())
		}
		number(d.Sum.GetDataPoints())
	case *metrics.Metric_ExponentialHistogram:
		for _, x := range d.ExponentialHistogram.GetDataPoints() {
			h := Histogram{Count: x.GetCount(), Sum: x.GetSum(), Schema: int(x.GetScale()), Buckets: map[int]uint64{}}
			for i, n := range x.GetPositive().GetBucketCounts() {
				if n > 0 { // OTLP counts by the lower bound, Prometheus by the upper one
					h.Buckets[int(x.GetPositive().GetOffset())+i+1] = n
				}
			}
			p.Histograms[Series(m.GetName(), attributes(x.GetAttributes()))] = h
		}
	default:
		return fmt.Errorf("%s is a %T", m.GetName(), d)
	}
	return nil
}

func attributes(all []*common.KeyValue) map[string]string {
	out := map[string]string{}
	for _, a := range all {
		out[a.GetKey()] = a.GetValue().GetStringValue()
	}
	return out
}
