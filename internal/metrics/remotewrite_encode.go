package metrics

import (
	"math"
	"slices"
	"strconv"
	"time"

	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/encoding/protowire"
)

// The field numbers are those of prometheus.WriteRequest and of the messages in
// it, version 1.0 of the remote write specification.
const (
	fieldSeries = 1

	fieldLabels, fieldSamples, fieldHistograms = 1, 2, 4
	fieldName, fieldValue                      = 1, 2
	fieldSample, fieldTime                     = 1, 2

	histCount, histSum, histSchema, histZeroWidth, histZeroCount = 1, 3, 4, 5, 6
	histSpans, histDeltas, histTime                              = 11, 12, 15
	spanOffset, spanLength                                       = 1, 2
)

type label struct{ name, value string }

// encodeWrite makes a WriteRequest. A histogram becomes a native one under its
// own name, and classic series beside it.
func encodeWrite(families []*dto.MetricFamily, job string, at time.Time) []byte {
	e := encoder{at: at.UnixMilli()}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			e.labels = e.labels[:0]
			e.labels = append(e.labels, label{"job", job})
			for _, l := range m.GetLabel() {
				e.labels = append(e.labels, label{l.GetName(), l.GetValue()})
			}
			name := f.GetName()
			switch {
			case m.Counter != nil:
				e.sample(name, m.Counter.GetValue())
			case m.Gauge != nil:
				e.sample(name, m.Gauge.GetValue())
			case m.Histogram != nil:
				e.histogram(name, m.Histogram)
			}
		}
	}
	return e.out
}

type encoder struct {
	out    []byte
	labels []label
	at     int64 // milliseconds
}

// series appends one series with body behind its labels, which must be sorted.
func (e *encoder) series(name string, body []byte, more ...label) {
	all := append(append([]label{{"__name__", name}}, e.labels...), more...)
	slices.SortFunc(all, func(a, b label) int {
		if a.name < b.name {
			return -1
		}
		return 1
	})
	var s []byte
	for _, l := range all {
		var b []byte
		b = protowire.AppendTag(b, fieldName, protowire.BytesType)
		b = protowire.AppendString(b, l.name)
		b = protowire.AppendTag(b, fieldValue, protowire.BytesType)
		b = protowire.AppendString(b, l.value)
		s = appendMessage(s, fieldLabels, b)
	}
	e.out = appendMessage(e.out, fieldSeries, append(s, body...))
}

func (e *encoder) sample(name string, v float64, more ...label) {
	b := appendDouble(nil, fieldSample, v)
	b = protowire.AppendTag(b, fieldTime, protowire.VarintType)
	b = protowire.AppendVarint(b, uint64(e.at))
	e.series(name, appendMessage(nil, fieldSamples, b), more...)
}

func (e *encoder) histogram(name string, h *dto.Histogram) {
	b := appendVarint(nil, histCount, h.GetSampleCount())
	b = appendDouble(b, histSum, h.GetSampleSum())
	b = appendVarint(b, histSchema, protowire.EncodeZigZag(int64(h.GetSchema())))
	b = appendDouble(b, histZeroWidth, h.GetZeroThreshold())
	b = appendVarint(b, histZeroCount, h.GetZeroCount())
	for _, s := range h.GetPositiveSpan() {
		span := appendVarint(nil, spanOffset, protowire.EncodeZigZag(int64(s.GetOffset())))
		b = appendMessage(b, histSpans, appendVarint(span, spanLength, uint64(s.GetLength())))
	}
	var deltas []byte
	for _, d := range h.GetPositiveDelta() {
		deltas = protowire.AppendVarint(deltas, protowire.EncodeZigZag(d))
	}
	b = appendMessage(b, histDeltas, deltas)
	e.series(name, appendMessage(nil, fieldHistograms, appendVarint(b, histTime, uint64(e.at))))

	for _, c := range h.GetBucket() {
		e.sample(name+"_bucket", float64(c.GetCumulativeCount()), label{"le", strconv.FormatFloat(c.GetUpperBound(), 'g', -1, 64)})
	}
	e.sample(name+"_bucket", float64(h.GetSampleCount()), label{"le", "+Inf"})
	e.sample(name+"_count", float64(h.GetSampleCount()))
	e.sample(name+"_sum", h.GetSampleSum())
}

func appendMessage(b []byte, field protowire.Number, m []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), m)
}

func appendVarint(b []byte, field protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), v)
}

func appendDouble(b []byte, field protowire.Number, v float64) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(b, field, protowire.Fixed64Type), math.Float64bits(v))
}
