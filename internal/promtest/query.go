package promtest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"
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
	form := url.Values{"query": {expr}}
	if !at.IsZero() {
		form.Set("time", unix(at))
	}
	return s.ask("/api/v1/query", form)
}

// TryRange asks for the values of an expression over a time.
func (s *Server) TryRange(expr string, from, to time.Time, step time.Duration) ([]Sample, error) {
	return s.ask(
		"/api/v1/query_range",
		url.Values{"query": {expr}, "start": {unix(from)}, "end": {unix(to)}, "step": {strconv.FormatFloat(step.Seconds(), 'f', -1, 64)}},
	)
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

func unix(t time.Time) string {
	return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', 3, 64)
}

// answer is the form of the HTTP API.
type answer struct {
	Status string `json:"status"`
	Error  string `json:"error"`
	Data   struct {
		Type   string          `json:"resultType"`
		Result json.RawMessage `json:"result"`
	} `json:"data"`
}

type series struct {
	Metric     map[string]string `json:"metric"`
	Value      *point            `json:"value"`
	Values     []point           `json:"values"`
	Histogram  *bars             `json:"histogram"`
	Histograms []bars            `json:"histograms"`
}

func (s *Server) ask(path string, form url.Values) ([]Sample, error) {
	// The server ends with the test, and so do pending requests.
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, s.URL+path, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var a answer
	if err := json.NewDecoder(resp.Body).Decode(&a); err != nil {
		return nil, fmt.Errorf("%s: %w", form.Get("query"), err)
	}
	if a.Status != "success" {
		return nil, fmt.Errorf("%s: %s", form.Get("query"), a.Error)
	}
	if a.Data.Type == "scalar" {
		var p point
		if err := json.Unmarshal(a.Data.Result, &p); err != nil {
			return nil, err
		}
		return []Sample{{At: p.at, Value: p.value, Points: 1}}, nil
	}
	var all []series
	if err := json.Unmarshal(a.Data.Result, &all); err != nil {
		return nil, fmt.Errorf("%s: %w", form.Get("query"), err)
	}
	out := make([]Sample, len(all))
	for i := range all {
		out[i] = all[i].sample()
	}
	return out, nil
}

func (s *series) sample() Sample {
	out := Sample{Labels: s.Metric, Points: len(s.Values) + len(s.Histograms)}
	p, h := s.Value, s.Histogram
	if n := len(s.Values); n > 0 {
		p = &s.Values[n-1]
	}
	if n := len(s.Histograms); n > 0 {
		h = &s.Histograms[n-1]
	}
	if p != nil {
		out.At, out.Value = p.at, p.value
	}
	if h != nil {
		out.At, out.Histogram, out.Count, out.Sum = h.at, true, h.count, h.sum
	}
	out.Points = max(out.Points, 1)
	return out
}

// point is [unix seconds, "value"].
type point struct {
	at    time.Time
	value float64
}

// UnmarshalJSON implements [json.Unmarshaler].
func (p *point) UnmarshalJSON(b []byte) error {
	var at float64
	var text string
	if err := json.Unmarshal(b, &[]any{&at, &text}); err != nil {
		return err
	}
	p.at = time.UnixMilli(int64(at * 1000))
	var err error
	p.value, err = strconv.ParseFloat(text, 64)
	return err
}

// bars is [unix seconds, {count, sum, buckets}].
type bars struct {
	at         time.Time
	count, sum float64
}

// UnmarshalJSON implements [json.Unmarshaler].
func (h *bars) UnmarshalJSON(b []byte) error {
	var at float64
	var body struct {
		Count string `json:"count"`
		Sum   string `json:"sum"`
	}
	if err := json.Unmarshal(b, &[]any{&at, &body}); err != nil {
		return err
	}
	h.at = time.UnixMilli(int64(at * 1000))
	var err error
	if h.count, err = strconv.ParseFloat(body.Count, 64); err != nil {
		return err
	}
	h.sum, err = strconv.ParseFloat(body.Sum, 64)
	return err
}
