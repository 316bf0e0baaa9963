package report

import (
	"strings"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/results"
)

// TestWarmUpIsNoGap: uncounted intervals are left open, not drawn as zero. An interval that begins
// in the warm-up and ends in the measured phase is drawn.
func TestWarmUpIsNoGap(t *testing.T) {
	p := samplePage()
	p.Result.Upstream.Warmup = 30
	p.Result.Phases = []results.Phase{
		{
			Name: "attach",
			End:  1e9,
		},
		{Name: "warm-up", Lane: "poll", Start: 1e9, End: 9e9},
		{Name: "warm-up", Lane: "push", Start: 1e9, End: 3.5e9},
		{Name: "measure", Lane: "push", Start: 3.5e9, End: 6e9},
	}
	p.Timelines["push"] = results.Timeline{Interval: time.Second, Points: []results.Point{
		{
			At:         time.Second,
			WarmUp:     10,
			Duplicates: 1,
		},
		{At: 2 * time.Second, WarmUp: 10},
		{At: 3 * time.Second, WarmUp: 10, Published: 10},
		{At: 5 * time.Second, Published: 10, Delivered: 50},
	}}
	v := newView([]Page{p})
	l := v.Data.Runs[0].Lanes[0]
	var got []string
	for i, g := range l.Delivered {
		text := "open"
		if g != nil {
			text = ratio(*g)
		}
		got = append(got, text)
		if cell := v.Times[0].Rows[i][2]; (cell == "–") != (g == nil) {
			t.Errorf("the table has %q in row %d, and %s is drawn", cell, i, text)
		}
	}
	if want := "open, open, 0, 0, 50.0"; strings.Join(got, ", ") != want {
		t.Errorf("drawn: %s, want %s", strings.Join(got, ", "), want)
	}
	if fired := v.Data.Runs[0].Published.Published; fired[0] != 10 || fired[2] != 20 || l.Duplicates[0] != 1 {
		t.Errorf("published %v, duplicates %v", fired, l.Duplicates)
	}
	if page := page1(t, p); !strings.Contains(page, "Deliveries of the warm-up are not counted") {
		t.Error("the page does not say so")
	}
	p.Result.Upstream.Warmup = 0
	if page := page1(t, p); strings.Contains(page, "Deliveries of the warm-up") {
		t.Error("the page speaks of a warm-up that there was not")
	}
}

// TestPublishingFrom: a shard waits for the others before it publishes, and its time starts after
// that wait.
func TestPublishingFrom(t *testing.T) {
	ms := func(n int64) results.Nanos { return results.Nanos(n * 1e6) }
	r := &results.Result{Phases: []results.Phase{
		{Name: "attach", End: ms(100)}, {Name: "wait", Start: ms(100), End: ms(2100)}, {Name: "warm-up", Start: ms(2100), End: ms(3100)},
	}}
	if got := publishingFrom(r); got != 2100*time.Millisecond {
		t.Errorf("published from %v", got)
	}
}
