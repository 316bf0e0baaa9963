package promtest

import (
	"fmt"
	"math"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// The numbers of fields are those of prometheus.WriteRequest, version 1.0 of the
// remote write specification, and of the messages in it.

// writeRequest decodes one.
func writeRequest(b []byte) (Push, error) {
	p := Push{Values: map[string]float64{}, Histograms: map[string]Histogram{}}
	err := fields(b, func(n protowire.Number, _ uint64, body []byte) error {
		if n != 1 {
			return fmt.Errorf("a request has a field %d", n)
		}
		return p.timeSeries(body)
	})
	return p, err
}

func (p *Push) timeSeries(b []byte) error {
	labels, name, last := map[string]string{}, "", ""
	var values []float64
	var histograms []Histogram
	err := fields(b, func(n protowire.Number, _ uint64, body []byte) error {
		switch n {
		case 1:
			label, value, err := labelPair(body)
			if err != nil {
				return err
			}
			if label <= last {
				return fmt.Errorf("the label %s comes after %s", label, last)
			}
			last = label
			if label == "__name__" {
				name = value
			} else {
				labels[label] = value
			}
		case 2:
			var v float64
			if err := fields(body, func(n protowire.Number, value uint64, _ []byte) error {
				if n == 1 {
					v = math.Float64frombits(value)
				} else {
					p.At = time.UnixMilli(int64(value))
				}
				return nil
			}); err != nil {
				return err
			}
			values = append(values, v)
		case 4:
			h, err := nativeHistogram(body)
			if err != nil {
				return err
			}
			histograms = append(histograms, h)
		}
		return nil
	})
	if err != nil {
		return err
	}
	key := Series(name, labels)
	if len(values)+len(histograms) != 1 {
		return fmt.Errorf("%s has %d samples", key, len(values)+len(histograms))
	}
	if _, twice := p.Values[key]; twice {
		return fmt.Errorf("%s is there twice", key)
	}
	for _, v := range values {
		p.Values[key] = v
	}
	for _, h := range histograms {
		p.Histograms[key] = h
	}
	return nil
}

func labelPair(b []byte) (label, value string, err error) {
	pair := [3]string{}
	err = fields(b, func(n protowire.Number, _ uint64, text []byte) error {
		pair[n] = string(text)
		return nil
	})
	return pair[1], pair[2], err
}

func nativeHistogram(b []byte) (Histogram, error) {
	h := Histogram{Buckets: map[int]uint64{}}
	type span struct{ offset, length int64 }
	var spans []span
	var deltas []int64
	err := fields(b, func(n protowire.Number, value uint64, body []byte) error {
		switch n {
		case 1:
			h.Count = value
		case 3:
			h.Sum = math.Float64frombits(value)
		case 4:
			h.Schema = int(protowire.DecodeZigZag(value))
		case 11:
			var s span
			if err := fields(body, func(n protowire.Number, value uint64, _ []byte) error {
				if n == 1 {
					s.offset = protowire.DecodeZigZag(value)
				} else {
					s.length = int64(value)
				}
				return nil
			}); err != nil {
				return err
			}
			spans = append(spans, s)
		case 12:
			for len(body) > 0 {
				v, n := protowire.ConsumeVarint(body)
				if n < 0 {
					return protowire.ParseError(n)
				}
				deltas, body = append(deltas, protowire.DecodeZigZag(v)), body[n:]
			}
		}
		return nil
	})
	if err != nil {
		return h, err
	}
	var index, count int64
	for _, s := range spans {
		index += s.offset
		for range s.length {
			if len(deltas) == 0 {
				return h, fmt.Errorf("a histogram has fewer counts than its spans say")
			}
			count, deltas = count+deltas[0], deltas[1:]
			h.Buckets[int(index)] = uint64(count)
			index++
		}
	}
	if len(deltas) > 0 {
		return h, fmt.Errorf("a histogram has more counts than its spans say")
	}
	return h, nil
}
