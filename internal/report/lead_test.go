package report

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/results"
)

// racePage is a run of lanes with a p99 in each second.
func racePage(turns bool, p99s map[string][]time.Duration, names ...string) Page {
	p := Page{Result: &results.Result{Upstream: results.Upstream{Kind: "inject", Accepted: 1}}, Logs: map[string]*results.Log{}}
	if turns {
		p.Result.Phases = []results.Phase{{Name: "attach", Lane: names[0]}}
	}
	from := time.Duration(0)
	for _, name := range names {
		l := results.Lane{Name: name, Mode: "push", Subscriptions: 1, Ready: results.Ready{Active: 1}}
		log := &results.Log{}
		for i, v := range p99s[name] {
			if v == 0 {
				continue // nothing was received in this second
			}
			l.Latency.FromIntended.P99 = max(l.Latency.FromIntended.P99, results.Nanos(v))
			// Two intervals of the log make one compared interval.
			for half := range 2 {
				log.Intervals = append(log.Intervals, results.LogInterval{
					Tag:     results.TagIntended,
					Start:   from + time.Duration(i)*time.Second + time.Duration(half)*500*time.Millisecond,
					Length:  500 * time.Millisecond,
					Buckets: []results.Bucket{{Value: results.Nanos(v / time.Duration(2-half)), Count: 5}},
				})
			}
			l.Expected, l.Delivered = l.Expected+10, l.Delivered+10
		}
		l.Latency.FromIntended.Count = l.Delivered
		p.Result.Lanes = append(p.Result.Lanes, l)
		p.Logs[name] = log
		if turns {
			from += time.Duration(len(p99s[name])) * time.Second
		}
	}
	return p
}

// TestFastest: a lane is named fastest only if every interval of the run agrees.
func TestFastest(t *testing.T) {
	const ms = time.Millisecond
	all := func(v time.Duration) []time.Duration {
		out := make([]time.Duration, 10)
		for i := range out {
			out[i] = v
		}
		return out
	}
	but := func(vs []time.Duration, at int, v time.Duration) []time.Duration {
		vs[at] = v
		return vs
	}
	for name, tt := range map[string]struct {
		turns  bool
		a, b   []time.Duration
		want   string
		winner bool
	}{
		"every interval agrees": {a: all(10 * ms), b: all(330 * ms), winner: true,
			want: "a was fastest: 99 of 100 deliveries within 10.0ms; b took 33 times as long."},
		"a tie": {a: all(30400 * time.Microsecond), b: all(30900 * time.Microsecond),
			want: "Tie: this run does not separate a (p99 30.4ms) and b (p99 30.9ms)."},
		"less than matters": {a: all(30 * ms), b: all(35 * ms)},
		"one disagrees":     {a: all(10 * ms), b: but(all(20*ms), 4, 9*ms)},
		"one is equal":      {a: all(10 * ms), b: but(all(20*ms), 4, 10*ms)},
		"seven intervals": {a: all(10 * ms)[:7], b: all(330 * ms)[:7],
			want: "This run is too short to say which lane is fastest: a (p99 10.0ms) and b (p99 330ms). It takes 8 seconds " +
				"with deliveries."},
		"eight intervals":       {a: all(10 * ms)[:8], b: all(330 * ms)[:8], winner: true},
		"few are shared":        {a: all(10 * ms), b: but(but(but(all(330*ms), 0, 0), 1, 0), 2, 0)},
		"in turns":              {turns: true, a: all(10 * ms), b: all(330 * ms), winner: true},
		"in turns, overlapping": {turns: true, a: but(all(10*ms), 3, 40*ms), b: but(all(330*ms), 8, 39*ms)},
	} {
		t.Run(name, func(t *testing.T) {
			p := racePage(tt.turns, map[string][]time.Duration{"a": tt.a, "b": tt.b}, "b", "a")
			got := lead(&p)
			if tt.want != "" && got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if winner := strings.Contains(got, "a was fastest"); winner != tt.winner || strings.Contains(got, "was fastest") != tt.winner {
				t.Errorf("names a winner: %v, want %v: %q", winner, tt.winner, got)
			}
			if page := page1(t, p); strings.Contains(page, "was soonest") || strings.Contains(page, "was fastest") != tt.winner {
				t.Error("the page names another winner")
			}
			p.Logs = nil
			if got := lead(&p); strings.Contains(got, "was fastest") {
				t.Errorf("without intervals: %q", got)
			}
		})
	}
}

// TestLead checks the first sentence of the page for different lanes.
func TestLead(t *testing.T) {
	eight := func(v time.Duration) []time.Duration {
		return []time.Duration{v, v, v, v, v, v, v, v}
	}
	const ms = time.Millisecond
	p := racePage(
		false,
		map[string][]time.Duration{"push": eight(10 * ms), "poll": eight(990 * ms), "webhook": eight(11 * ms), "mute": nil},
		"poll",
		"push",
		"mute",
		"webhook",
	)
	if got, want := lead(
		&p,
	), "Tie: this run does not separate push (p99 10.0ms) and webhook (p99 11.0ms); poll took 99 times as long."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	p = racePage(false, map[string][]time.Duration{"low": eight(ms), "b": eight(25 * ms)}, "low", "b")
	p.Result.Lanes[0].Latency.BelowResolution = []string{"fromIntended.p99"}
	if got, want := lead(&p), "low was fastest: 99 of 100 deliveries within 1.00ms; b took 25.0ms."; got != want {
		t.Errorf("the fastest is below the baseline: got %q, want %q", got, want)
	}
	p.Result.Lanes[1].Latency.BelowResolution = []string{"fromIntended.p99"}
	if got := lead(&p); strings.Contains(got, "was fastest") {
		t.Errorf("both are below the minInterval: %q", got)
	}
	p = racePage(false, map[string][]time.Duration{"push": eight(ms), "poll": nil}, "push", "poll")
	if got := lead(&p); got != "" {
		t.Errorf("there is one lane to compare: %q", got)
	}
}

// TestSettingsExplain: every form names a setting that explains a difference.
func TestSettingsExplain(t *testing.T) {
	const ms = time.Millisecond
	poll := func(server, floor float64, interval results.Nanos) *results.Result {
		p := racePage(false, map[string][]time.Duration{"push": {30 * ms}, "poll": {990 * ms}}, "push", "poll")
		p.Result.Profile = json.RawMessage(`{"lanes": [{"name": "push"}, {"name": "poll", "poll": {"minInterval": 1500000000}}]}`)
		p.Result.Lanes[1].Figures = map[string]float64{"pollsPacedByServer": server, "pollsPacedByMinInterval": floor}
		p.Result.Lanes[1].Timings = map[string]results.Quantiles{"pollInterval": {Count: 100, P50: interval}, "nextPoll": {Count: 90, P50: 1e9}}
		return p.Result
	}
	cut := poll(0, 0, 0)
	cut.Profile = json.RawMessage(
		`{"lanes": [{"name": "push", "events": {"cutEvery": 3000000000}}, {"name": "poll", "webhook": {"answer": [{"status": ` +
			`503, "share": 0.05}, {"delay": 1000}]}}]}`,
	)
	cut.Lanes[1].Duplicates.Requested = 7
	together := poll(0, 0, 0)
	together.Profile = json.RawMessage(
		`{"lanes": [{"name": "push", "events": {"cutAt": 1000000000, "cutFor": 2000000000}}, {"name": "poll"}]}`,
	)
	alone := poll(90, 10, 1392e6)
	alone.Lanes = alone.Lanes[1:]
	for name, tt := range map[string]struct {
		r    *results.Result
		want []string
	}{
		"the server's pace": {poll(90, 10, 1392e6), []string{"poll waits for its polls: the server asked for 1s between polls (nextPollMs)"}},
		"its own pace":      {poll(10, 90, 1500e6), []string{"poll waits for its polls: poll.minInterval is 1.5s"}},
		"the only lane":     {alone, []string{"poll waits for its polls: the server asked for 1s between polls (nextPollMs)"}},
		"neither":           {poll(0, 0, 1000e6), nil},
		"half of p99":       {poll(90, 10, 500e6), []string{"poll waits for its polls: the server asked for 1s between polls (nextPollMs)"}},
		"less than half":    {poll(90, 10, 400e6), nil},
		"too short a pace":  {poll(90, 0, 100e6), nil}, // 990 ms are not explained by 100 ms
		"a cut of all":      {together, []string{"push cuts all of its streams at once for 2s (events.cutAt)"}},
		"cuts and refusals": {cut, []string{"push cuts its streams every 3s (events.cutEvery)",
			"poll refuses 5 % of its deliveries, which delays them (webhook.answer)"}},
	} {
		t.Run(name, func(t *testing.T) {
			text := unwrapped(t, tt.r)
			for _, line := range tt.want {
				if !strings.Contains(text, "setting    "+line+"\n") || !strings.Contains(lead(&Page{Result: tt.r}), line+".") ||
					!strings.Contains(write(t, func(w io.Writer) error { return Markdown(w, tt.r) }), Markup(line)) {
					t.Errorf("not in all forms: %q\n%s", line, text)
				}
			}
			if n := strings.Count(text, "\nsetting "); n != len(tt.want) {
				t.Errorf("%d explanations, want %d:\n%s", n, len(tt.want), text)
			}
		})
	}
}

func TestSettingText(t *testing.T) {
	for d, want := range map[time.Duration]string{1004 * time.Millisecond: "1s", 1500 * time.Millisecond: "1.5s",
		250 * time.Millisecond: "250ms", 0: "0s", 90 * time.Second: "1m30s", 999: "999ns", 123456 * time.Microsecond: "123ms"} {
		if got := settingText(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}
