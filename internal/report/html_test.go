package report

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/results"
)

// samplePage is a run whose curve and timeline can be computed by hand: 90
// deliveries of 1 ms, 9 of 10 ms and one of 100 ms.
func samplePage() Page {
	r := sampleResult()
	r.Profile = json.RawMessage(`{"name": "hand"}`)
	r.Lanes[0].Overhead.Causes = map[string]results.Traffic{
		"heartbeat": {
			BytesDown: 1999,
		},
		"reconnect": {Requests: 1999, BytesUp: 3998},
		"subscribe": {Requests: 5, BytesUp: 500},
		"events":    {BytesDown: 1e6},
	}
	o := &r.Lanes[0].Overhead
	o.Opened, o.Measured = int64(
		r.Lanes[0].Subscriptions,
	), results.OverheadWindow{
		Received:          r.Lanes[0].Delivered,
		SubscriptionHours: o.SubscriptionHours,
		Causes:            o.Causes,
	}
	r.Lanes[0].Examples = []results.Example{{Kind: "lost: " + hostile, Subscription: 3, Source: 1, FromSeq: 7, ToSeq: 9, At: 1.5e9}}
	ms := results.Nanos(time.Millisecond)
	return Page{
		Result: r,
		Logs: map[string]*results.Log{"push": {Intervals: []results.LogInterval{
			{
				Tag:     results.TagIntended,
				Start:   time.Second,
				Length:  time.Second,
				Buckets: []results.Bucket{{Value: ms, Count: 90}, {Value: 10 * ms, Count: 5}},
			},
			{
				Tag:     results.TagIntended,
				Start:   4 * time.Second,
				Length:  time.Second,
				Buckets: []results.Bucket{{Value: 10 * ms, Count: 4}, {Value: 100 * ms, Count: 1}},
			},
			{Tag: results.TagSent, Start: time.Second, Length: time.Second, Buckets: []results.Bucket{{Value: ms, Count: 100}}},
		}}},
		Timelines: map[string]results.Timeline{"push": {Interval: time.Second, Points: []results.Point{
			{At: time.Second, Published: 19, Delivered: 95}, {At: 4 * time.Second, Published: 1, Delivered: 5, Skipped: 2},
		}}},
	}
}

// page1 is the page of runs, without the labels of its cells that narrow screens show.
func page1(t *testing.T, runs ...Page) string {
	return unlabelled.ReplaceAllString(write(t, func(w io.Writer) error { return HTML(w, runs) }), "")
}

var unlabelled = regexp.MustCompile(` data-of="[^"]*"`)

func TestHTMLSaysWhatTheTextSays(t *testing.T) {
	p := samplePage()
	got := page1(t, p)
	one := laneOf{&p.Result.Upstream, &p.Result.Lanes[0]}
	for _, g := range rowsOf([]laneOf{one}) {
		for _, r := range g {
			class := "n" + r.class(one)
			if v := r.cell(
				one,
			); r.shown(one) && v != "" &&
				!strings.Contains(got, ">"+html.EscapeString(r.label)+"</th><td class=\""+class+"\">"+html.EscapeString(v)+"</td>") {
				t.Errorf("the page lacks %q %q", r.label, v)
			}
		}
	}
	for _, want := range []string{
		"The generator was the bottleneck", "1 of 3 thresholds held", "timers woke 80ms late",
		"99 of 100 deliveries arrived within 300ms of the scheduled instant, half within 2.00ms; 1 of 2 000 silent loss.",
		// p50, p75, p90, p95, p99, p99.9, p99.99, max
		`<td>scheduled → received</td><td class="n">1.00ms</td><td class="n">1.00ms</td><td class="n">1.00ms</td><td ` +
			`class="n">10.0ms</td><td class="n">10.0ms</td><td class="n">100ms</td><td class="n">100ms</td><td ` +
			`class="n">100ms</td>`,
		`<th scope="row">4s</th><td class="n">1</td><td class="n">5</td><td class="n">10.0ms</td><td class="n">100ms</td><td class="n">2</td>`,
		`<th scope="row">2s</th><td class="n">0</td><td class="n">0</td><td class="n">–</td>`, // nothing happened in this interval
		`<th scope="row" class="lanes">3</th><td class="n">1</td><td class="n">7 to ` +
			`9</td><td><code>evtm-00c0ffee-0001-00000007-`, "eventmeter run --profile profile.yaml</code>",
		"&#34;name&#34;: &#34;hand&#34;",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

// TestHTMLCharts checks the data that the script draws.
func TestHTMLCharts(t *testing.T) {
	got := page1(t, samplePage())
	m := regexp.MustCompile(`(?s)<script type="application/json" id="data">(.*?)</script>`).FindStringSubmatch(got)
	var d chartData
	if m == nil || json.Unmarshal([]byte(m[1]), &d) != nil {
		t.Fatal("the page has no data")
	}
	l := d.Runs[0].Lanes[0]
	if n := len(l.Intended); n != 42 || l.Intended[0] != [2]float64{1, 1} || l.Intended[n-1] != [2]float64{100, 100} {
		t.Errorf("curve of %d points from %v to %v", n, l.Intended[0], l.Intended[n-1])
	}
	for _, p := range l.Intended[:n(l)] {
		want := 1.0
		if p[0] > 10.0001 { // beyond the 90th percentile
			want = 10
		}
		if p[1] != want {
			t.Errorf("at %v: %v ms, want %v", p[0], p[1], want)
		}
	}
	if len(l.Time) != 4 || *l.Delivered[0] != 95 || *l.Delivered[1] != 0 || *l.P99[0] != 10 || l.P99[1] != nil || l.Overtaken[3] != 2 {
		t.Errorf("timeline %+v", l)
	}
	if strings.Contains(got, "in any interval.") {
		t.Error("events were overtaken, and the page says that none were")
	}
	calm := samplePage()
	calm.Timelines["push"].Points[1].Skipped = 0
	if got := page1(t, calm); !strings.Contains(got, "There were no overtaken") {
		t.Error("there were no incidents, and the page does not say so")
	}
}

// n is the number of points without the last decade's end, which is the
// maximum.
func n(l laneData) int { return len(l.Intended) - 2 }

func TestHTMLBars(t *testing.T) {
	p := samplePage()
	got := costs([]column{{Lane: "push"}}, []laneOf{{&p.Result.Upstream, &p.Result.Lanes[0]}})
	// There are no subscription-hours, and the target is not embedded.
	if len(got) != 6 {
		t.Fatalf("%d charts: %+v", len(got), got)
	}
	// The whole cost includes the events, first: 1,000,000 of 1,006,497 bytes, and 1,999 + 5
	// requests, over 1,999 deliveries.
	if b := got[0].Bars[0]; b.Text != "504 B" || b.Parts[0].W != 993.5 || got[0].Keys[0] != (barKey{0, "events"}) {
		t.Errorf("all bytes per delivery: %+v", got[0])
	}
	if b := got[2].Bars[0]; b.Text != "1.003" {
		t.Errorf("all requests per delivery: %+v", got[2])
	}
	// 1,999 heartbeat bytes and 3,998 of reconnects over 1,999 deliveries.
	b := got[1].Bars[0]
	if b.Text != "3 B" || len(b.Parts) != 2 || b.Parts[0].W != 333.3 || b.Parts[1].X != 333.3 || b.Parts[1].W != 666.7 {
		t.Errorf("bytes per delivery: %+v", b)
	}
	if b := got[4].Bars[0]; b.Text != "100 B" || len(b.Parts) != 1 || b.Parts[0].W != 1000 {
		t.Errorf("bytes to open: %+v", b)
	}
	if b.Parts[0].Key != 2 || b.Parts[1].Key != 4 || len(got[1].Keys) != 2 || got[1].Keys[0] != (barKey{2, "heartbeat"}) {
		t.Errorf("shades of the causes: %+v", got[1])
	}
	const shades = 9 // of a colour, in the page's style
	if len(once) > shades || len(running)+1 > shades {
		t.Errorf("%d and %d causes in %d shades", len(once), len(running)+1, shades)
	}
	for c := range eventmeter.Causes {
		if name := eventmeter.Cause(c).String(); !slices.Contains(once, name) && !slices.Contains(running, name) {
			t.Errorf("the cause %s is in no chart", name)
		}
	}
	// Where lanes take turns, the target's work is known by lane: 4 ms over 1,999 events.
	p.Result.Lanes[0].Process, p.Result.Lanes[0].Received = &results.Process{CPU: 3998e3}, 1999
	got = costs([]column{{Lane: "push"}}, []laneOf{{&p.Result.Upstream, &p.Result.Lanes[0]}})
	if b := got[len(got)-1].Bars[0]; len(got) != 7 || b.Text != results.Nanos(2000).String() {
		t.Errorf("the target's work: %+v", got[len(got)-1])
	}
}

// TestHTMLIsHarmless: text from a target stays text, and only scripts that the policy names may
// run.
func TestHTMLIsHarmless(t *testing.T) {
	p := samplePage()
	l := &p.Result.Lanes[0]
	l.System, l.Name = hostile, "push"
	l.Figures = map[string]float64{hostile: 1}
	p.Result.Phases = []results.Phase{{Name: "</script><script>alert(1)</script>"}}
	p.Profile = "</code><img src=x onerror=alert(1)>"
	p.Name = hostile
	got := page1(t, p, p)
	body := got[strings.Index(got, "<body>"):]
	for _, bad := range []string{"<x>", "<img", "<script>alert", "\x1b"} {
		if strings.Contains(body, bad) {
			t.Errorf("the page holds %q", bad)
		}
	}
	policy := regexp.MustCompile(`Content-Security-Policy" content="([^"]*)"`).FindStringSubmatch(got)
	if policy == nil {
		t.Fatal("no policy")
	}
	named := html.UnescapeString(policy[1])
	scripts := regexp.MustCompile(`(?s)<script>(.*?)</script>`).FindAllStringSubmatch(got, -1)
	styles := regexp.MustCompile(`(?s)<style>(.*?)</style>`).FindAllStringSubmatch(got, -1)
	if len(scripts) != 2 || len(styles) != 1 || !strings.HasPrefix(named, "default-src 'none'") || strings.Contains(named, "unsafe") {
		t.Errorf("%d scripts, %d styles, policy %s", len(scripts), len(styles), named)
	}
	for _, s := range append(scripts, styles...) {
		if !strings.Contains(named, digest(s[1])) {
			t.Errorf("the policy does not name a part of %d bytes", len(s[1]))
		}
	}
	for _, outside := range []string{`src="`, `href="http`, "@import", "url("} {
		if strings.Contains(got, outside) {
			t.Errorf("the page asks for something else: %s", outside)
		}
	}
	if strings.Contains(got, "style=") {
		t.Error("a style attribute, which the policy forbids")
	}
}

// TestHTMLHues: a mode has its colour in every report, lanes of a run differ while there are unused
// colours, and a name keeps its colour.
func TestHTMLHues(t *testing.T) {
	of := func(lanes ...string) Page {
		p := Page{Result: &results.Result{}}
		for _, l := range lanes {
			name, mode, _ := strings.Cut(l, ":")
			p.Result.Lanes = append(p.Result.Lanes, results.Lane{Name: name, Mode: mode})
		}
		return p
	}
	for _, tt := range []struct {
		runs []Page
		want map[string]int
	}{
		{[]Page{of("w:webhook")}, map[string]int{"w": 2}},
		{[]Page{of("a:push", "b:push", "c:poll")}, map[string]int{"a": 0, "b": 3, "c": 1}},
		{[]Page{of("push:push"), of("streams:push")}, map[string]int{"push": 0, "streams": 0}},
		{[]Page{of("push:push"), of("streams:push", "push:push")}, map[string]int{"push": 0, "streams": 3}},
	} {
		if got := huesOf(tt.runs); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("got %v, want %v", got, tt.want)
		}
	}
	many := huesOf([]Page{of("a:push", "b:push", "c:push", "d:push", "e:push", "f:push", "g:push", "h:push", "i:push", "j:push")})
	seen := map[int]int{}
	for _, h := range many {
		seen[h]++
	}
	if len(seen) != hues || seen[0] != 3 {
		t.Errorf("ten lanes in %d colours: %v", hues, many)
	}
	style, err := asset("report.css")
	must(t, err)
	if !strings.Contains(style, fmt.Sprintf("--hue%d:", hues-1)) || strings.Contains(style, fmt.Sprintf("--hue%d:", hues)) {
		t.Error("the style has another number of colours")
	}
}

func TestHTMLNeedsARun(t *testing.T) {
	if HTML(io.Discard, nil) == nil {
		t.Error("a report of nothing")
	}
}

func TestCoarse(t *testing.T) {
	tl := results.Timeline{Interval: time.Second}
	for i := range 100 {
		tl.Points = append(tl.Points, results.Point{At: time.Duration(i+3) * time.Second, Delivered: int64(i)})
	}
	got, width := coarse(tl, 10)
	var sum int64
	for i, p := range got {
		sum += p.Delivered
		if p.At%width != 0 || i > 0 && p.At != got[i-1].At+width {
			t.Errorf("point %d at %v", i, p.At)
		}
	}
	if width != 10*time.Second || len(got) != 11 || sum != 4950 {
		t.Errorf("%d points of %v with %d", len(got), width, sum)
	}
	if got, _ := coarse(results.Timeline{}, 10); got != nil {
		t.Errorf("of nothing: %v", got)
	}
}
