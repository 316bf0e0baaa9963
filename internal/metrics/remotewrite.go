package metrics

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	prompb "buf.build/gen/go/prometheus/prometheus/protocolbuffers/go"
	"github.com/klauspost/compress/snappy"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"
)

// StartRemoteWrite begins to push by the remote write protocol, version 1.0,
// which every receiver supports.
func StartRemoteWrite(o PushOptions) *Pusher {
	r := o.receiver(nil)
	return startPushing("remote write to "+shown(o.URL), o.Every, func(ctx context.Context) error {
		r.allow(ctx)
		return remoteWrite(ctx, r.http, o)
	}, r.http.CloseIdleConnections)
}

func remoteWrite(ctx context.Context, client *http.Client, o PushOptions) error {
	families, err := o.From.Gather()
	if err != nil {
		return err
	}
	plain, err := proto.Marshal(writeRequest(families, o.Job, time.Now()))
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, o.URL, bytes.NewReader(snappy.Encode(nil, plain)))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	req.Header.Set("Content-Encoding", "snappy")
	req.Header.Set("X-Prometheus-Remote-Write-Version", "0.1.0")
	req.Header.Set("User-Agent", "eventmeter")
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(resp.Body, 300)) // for the error, and to reuse the connection
	if resp.StatusCode/100 != 2 {
		return errors.New(resp.Status + " " + string(bytes.TrimSpace(said)))
	}
	return nil
}

// writeRequest makes a request of all metrics. A histogram becomes a native one
// under its own name, and classic series beside it.
func writeRequest(families []*dto.MetricFamily, job string, at time.Time) *prompb.WriteRequest {
	w := requestBuilder{out: &prompb.WriteRequest{}, at: at.UnixMilli()}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			w.labels = []*prompb.Label{{Name: "job", Value: job}}
			for _, l := range m.GetLabel() {
				w.labels = append(w.labels, &prompb.Label{Name: l.GetName(), Value: l.GetValue()})
			}
			name := f.GetName()
			switch {
			case m.Counter != nil:
				w.sample(name, m.Counter.GetValue())
			case m.Gauge != nil:
				w.sample(name, m.Gauge.GetValue())
			case m.Histogram != nil:
				w.histogram(name, m.Histogram)
			}
		}
	}
	return w.out
}

// requestBuilder appends the series of one metric after another.
type requestBuilder struct {
	out    *prompb.WriteRequest
	labels []*prompb.Label // of the metric
	at     int64           // milliseconds
}

// series appends s with its labels, which receivers want sorted.
func (w *requestBuilder) series(name string, s *prompb.TimeSeries, more ...*prompb.Label) {
	s.Labels = slices.Concat([]*prompb.Label{{Name: "__name__", Value: name}}, w.labels, more)
	slices.SortFunc(s.Labels, func(a, b *prompb.Label) int { return strings.Compare(a.Name, b.Name) })
	w.out.Timeseries = append(w.out.Timeseries, s)
}

func (w *requestBuilder) sample(name string, v float64, more ...*prompb.Label) {
	w.series(name, &prompb.TimeSeries{Samples: []*prompb.Sample{{Value: v, Timestamp: w.at}}}, more...)
}

func (w *requestBuilder) histogram(name string, h *dto.Histogram) {
	native := &prompb.Histogram{
		Count:          &prompb.Histogram_CountInt{CountInt: h.GetSampleCount()},
		Sum:            h.GetSampleSum(),
		Schema:         h.GetSchema(),
		ZeroThreshold:  h.GetZeroThreshold(),
		ZeroCount:      &prompb.Histogram_ZeroCountInt{ZeroCountInt: h.GetZeroCount()},
		PositiveDeltas: h.GetPositiveDelta(),
		Timestamp:      w.at,
	}
	for _, s := range h.GetPositiveSpan() {
		native.PositiveSpans = append(native.PositiveSpans, &prompb.BucketSpan{Offset: s.GetOffset(), Length: s.GetLength()})
	}
	w.series(name, &prompb.TimeSeries{Histograms: []*prompb.Histogram{native}})

	bucket := func(bound string, count uint64) {
		w.sample(name+"_bucket", float64(count), &prompb.Label{Name: "le", Value: bound})
	}
	for _, b := range h.GetBucket() {
		bucket(strconv.FormatFloat(b.GetUpperBound(), 'g', -1, 64), b.GetCumulativeCount())
	}
	bucket("+Inf", h.GetSampleCount())
	w.sample(name+"_count", float64(h.GetSampleCount()))
	w.sample(name+"_sum", h.GetSampleSum())
}
