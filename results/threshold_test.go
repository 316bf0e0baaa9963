package results

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func sample() *Result {
	return &Result{
		Lanes: []Lane{
			{
				Name:       "push",
				Expected:   100,
				Delivered:  99,
				LostSilent: 1,
				Latency:    Latency{FromIntended: Quantiles{Count: 99, P99: 250e6}},
				Duplicates: Duplicates{Rate: 0.02},
			},
			{
				Name:          "poll",
				Expected:      5,
				LostAnnounced: 5,
				Unexpected:    1,
				Overhead:      Overhead{Causes: map[string]Traffic{"emptyPoll": {Requests: 7}}},
			},
		},
		Upstream:  Upstream{Dropped: 3},
		Generator: Generator{Bottleneck: true},
	}
}

func TestThresholdCheck(t *testing.T) {
	for _, tt := range []struct {
		text   string
		passed []bool
		shown  string
	}{
		{"push.latency.fromIntended.p99 < 250ms", []bool{false}, "250ms"},
		{"push.latency.fromIntended.p99 <= 250ms", []bool{true}, "250ms"},
		{"push.latency.fromIntended.p99 < 0.3s", []bool{true}, "250ms"},
		{"push.p99 < 0.3s", []bool{true}, "250ms"},
		{"push.p99<=250ms", []bool{true}, "250ms"},
		{"poll.latency.fromIntended.p99 < 1h", []bool{false}, "nothing was delivered"},
		{"poll.latency.fromIntended.count == 0", []bool{false}, "nothing was delivered"},
		{"*.lostSilent == 0", []bool{false, true}, "1"},
		{"*.delivered != 5", []bool{true, true}, "99"},
		{"push.duplicates.rate < 1%", []bool{false}, "0.02"},
		{"push.duplicates.rate >= 2%", []bool{true}, "0.02"},
		{"poll.overhead.causes.emptyPoll.requests > 6", []bool{true}, "7"},
		{"poll.overhead.causes.heartbeat.requests == 0", []bool{true}, "0"},
		{"run.upstream.dropped <= 2", []bool{false}, "3"},
		{"run.generator.bottleneck == false", []bool{false}, "true"},
		{"run.target.process.cpu < 1s", []bool{false}, "nothing was measured"},
		{"webhook.expected > 0", []bool{false}, "the lane did not run"},
	} {
		th, err := ParseThreshold(tt.text)
		if err != nil {
			t.Errorf("%s: %v", tt.text, err)
			continue
		}
		got := th.Check(sample())
		if len(got) != len(tt.passed) {
			t.Errorf("%s: %d verdicts, want %d", tt.text, len(got), len(tt.passed))
			continue
		}
		for i, v := range got {
			if v.Passed != tt.passed[i] {
				t.Errorf("%s on %q: passed %v, want %v (%s)", tt.text, v.Lane, v.Passed, tt.passed[i], v.Text)
			}
		}
		if got[0].Text != tt.shown {
			t.Errorf("%s: shown %q, want %q", tt.text, got[0].Text, tt.shown)
		}
	}
}

func TestThresholdErrors(t *testing.T) {
	for text, want := range map[string]string{
		"p99 < 250ms":                           "write *.p99 < 250ms for every lane",
		"push.lost == 0":                        "there are ",
		"push.latency.p99<1s":                   "did you mean latency.fromIntended.p99?",
		"push.sent.p99 < 1s":                    "there are ",
		"push.fromSent.p99 < 1s":                "did you mean latency.fromSent.p99?",
		"push.sameEvent == 0":                   "did you mean duplicates.sameEvent?",
		"push.lostSilnt == 0":                   "did you mean lostSilent?",
		"push.p98 < 1s":                         "there are ",
		"nonsense":                              "want LANE.FIGURE OP VALUE",
		"push.lostsilent == 0":                  "did you mean lostSilent?",
		"push.latency.fromIntended < 3ms":       `"latency.fromIntended" is a group; name one of count, min, p50,`,
		"push.latency.fromIntended.p99 < 250":   `: "250" is not a duration: write e.g.`,
		"push.lostSilent < 3%":                  `: "3%": this figure is a count, not a ratio: write a number`,
		"push.name == 3":                        `: "name" is not a number`,
		"push.lostSilent.x == 3":                `: "lostSilent" has no parts`,
		"run.generator.bottleneck == 0":         `: "0" is neither true nor false`,
		"target.leak.memory == maybe":           `: "maybe" is no verdict: write none or leak`,
		"target.leak.memory < none":             ": compare a verdict with == or !=",
		"push.delivered == NaN":                 `: "NaN" is not a number`,
		"push.latency.fromIntended.p99 => 25ms": "want LANE.FIGURE OP VALUE",
	} {
		_, err := ParseThreshold(text)
		if !errors.Is(err, ErrThreshold) || !strings.HasPrefix(err.Error(), fmt.Sprintf("bad threshold %q: ", text)) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", text, err, want)
		}
	}
	if _, err := ParseThresholds([]string{"a", "b"}); err == nil || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("two bad thresholds: %v", err)
	}
	th, _ := ParseThreshold("pusch.expected > 0")
	if err := th.CheckLanes([]string{"push"}); err == nil || !strings.Contains(err.Error(), "the lanes are push") {
		t.Errorf("unknown lane: %v", err)
	}
}

func TestMissed(t *testing.T) {
	for _, c := range []struct {
		text string
		got  float64
		want string
	}{
		{"push.p99 < 250ms", 300e6, "50.0ms (20 %) above"},
		{"push.p99 > 250ms", 200e6, "50.0ms (20 %) below"},
		{"push.delivered > 8", 8, "exactly the bound"},
		{"push.late == 0", 3, "3 above"},
		{"push.late != 3", 3, "not as required"},
		{"run.upstream.dropped <= 4", 5, "1 (25 %) above"},
		{"run.generator.bottleneck == false", 1, "not as required"},
		{"target.leak.memory == none", 1, "not as required"},
	} {
		th, err := ParseThreshold(c.text)
		if err != nil {
			t.Fatal(err)
		}
		if got := th.Missed(c.got); got != c.want {
			t.Errorf("%s: %s, want %s", c.text, got, c.want)
		}
	}
	if all := []Warning{{Code: "a"}, {Code: "b"}}; !Warned(all, "b") || Warned(all, "c") || Warned(nil, "a") {
		t.Error("warned of something else")
	}
}

func TestCheckNames(t *testing.T) {
	k := Known{Lanes: map[string][]string{"push": {"cuts", "resumed"}, "poll": {"cuts", "pollsPacedByServer"}}, Upstream: []string{"retries"}}
	for text, want := range map[string]string{
		"push.figures.cuts == 0":                   "",
		"push.timings.resumed.p99 < 1s":            "",
		"push.figures.cut == 0":                    "did you mean cuts?",
		"push.figures.pollsPacedByServer == 0":     `there is no figure "figures.pollsPacedByServer"; there are cuts, resumed`,
		"*.figures.pollsPacedByServer == 0":        "",
		"*.figures.x == 0":                         "there are cuts, pollsPacedByServer, resumed",
		"run.upstream.figures.retries == 0":        "",
		"run.upstream.figures.retrie == 0":         "did you mean retries?",
		"run.generator.bottleneck == false":        "",
		"push.failures.nosuch == 0":                `there is no figure "failures.nosuch"`,
		"push.overhead.causes.events.requests > 0": "",
		"push.overhead.causes.event.requests > 0":  "did you mean events?",
		"push.lostSilent == 0":                     "",
	} {
		th, err := ParseThreshold(text)
		if err != nil {
			t.Fatal(err)
		}
		err = th.CheckNames(k)
		if (err == nil) != (want == "") || err != nil && (!errors.Is(err, ErrThreshold) || !strings.HasSuffix(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestNanosText(t *testing.T) {
	for n, want := range map[Nanos]string{0: "0", 7: "7.00ns", 999: "999ns", 1000: "1.00µs", 532100: "532µs",
		9994: "9.99µs", 9995: "10.0µs",
		99949: "99.9µs", 99950: "100µs", 999499: "999µs", 999500: "1.00ms", 12345678: "12.3ms", 99949999: "99.9ms",
		999499999: "999ms", 999500000: "1.00s", 1250000000: "1.25s", 59949999999: "59.9s",
		6e10 - 1: "60.0s", 60e9: "1m0s", 61e9: "1m1s", -5e6: "-5.00ms"} {
		if got := n.String(); got != want {
			t.Errorf("%d is %q, want %q", int64(n), got, want)
		}
	}
}
