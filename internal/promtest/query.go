package promtest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
)

// Sample is one element of an answer.
type Sample struct {
	Labels map[string]string
	// At and Value of an instant query, or the last ones of a range; Count and
	// Sum instead of Value where it is a native histogram.
	At         time.Time
	Value      float64
	Histogram  bool
	Count, Sum float64
	// Points are all points of a range.
	Points int
}

// Query asks for the value of an expression at a time; the zero time is now.
func (s *Server) Query(t testing.TB, expr string, at time.Time) []Sample {
	t.Helper()
	all, err := s.TryQuery(expr, at)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TryQuery is Query for expressions that may be wrong.
func (s *Server) TryQuery(expr string, at time.Time) ([]Sample, error) {
	return s.ask(expr, func(of v1.API) (model.Value, error) {
		v, _, _, err := of.Query(context.Background(), expr, at)
		return v, err
	})
}

// TryRange asks for the values of an expression over a time.
func (s *Server) TryRange(expr string, from, to time.Time, step time.Duration) ([]Sample, error) {
	return s.ask(expr, func(of v1.API) (model.Value, error) {
		v, _, _, err := of.QueryRange(context.Background(), expr, v1.Range{Start: from, End: to, Step: step})
		return v, err
	})
}

// Value returns the current value of an expression. It fails the test unless there is exactly one.
func (s *Server) Value(t testing.TB, expr string) float64 {
	t.Helper()
	all := s.Query(t, expr, time.Time{})
	if len(all) != 1 || all[0].Histogram {
		t.Fatalf("%s has %d values, want 1: %v", expr, len(all), all)
	}
	return all[0].Value
}

// ask asks the server, which ends with the test, as do pending requests.
func (s *Server) ask(expr string, how func(v1.API) (model.Value, error)) ([]Sample, error) {
	client, err := api.NewClient(api.Config{Address: s.URL})
	if err != nil {
		return nil, err
	}
	value, err := how(v1.NewAPI(client))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", expr, err)
	}
	switch value := value.(type) {
	case *model.Scalar:
		return []Sample{{At: value.Timestamp.Time(), Value: float64(value.Value), Points: 1}}, nil
	case model.Vector:
		all := make([]Sample, len(value))
		for i, x := range value {
			all[i] = sampleOf(x.Metric, x.Timestamp, x.Value, x.Histogram)
		}
		return all, nil
	case model.Matrix:
		all := make([]Sample, len(value))
		for i, x := range value {
			var last model.SamplePair
			if n := len(x.Values); n > 0 {
				last = x.Values[n-1]
			}
			var bars *model.SampleHistogram
			if n := len(x.Histograms); n > 0 {
				last.Timestamp, bars = x.Histograms[n-1].Timestamp, x.Histograms[n-1].Histogram
			}
			all[i] = sampleOf(x.Metric, last.Timestamp, last.Value, bars)
			all[i].Points = len(x.Values) + len(x.Histograms)
		}
		return all, nil
	}
	return nil, fmt.Errorf("%s: the answer is a %s", expr, value.Type())
}

func sampleOf(metric model.Metric, at model.Time, value model.SampleValue, bars *model.SampleHistogram) Sample {
	out := Sample{Labels: map[string]string{}, At: at.Time(), Value: float64(value), Points: 1}
	for name, v := range metric {
		out.Labels[string(name)] = string(v)
	}
	if bars != nil {
		out.Histogram, out.Count, out.Sum = true, float64(bars.Count), float64(bars.Sum)
	}
	return out
}
