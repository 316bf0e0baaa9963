package results

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// judgedSample is a run of five lanes: one that is complete, one that was owed nothing, one that
// received nothing, one that subscribes to no source, and one whose subscriptions never became
// active.
func judgedSample() *Result {
	return &Result{
		Profile:  json.RawMessage(`{"lanes": [{"name": "push", "sources": "all"}, {"name": "quiet", "sources": " none "}]}`),
		Upstream: Upstream{Kind: "inject", Scheduled: 10, Published: 10, Accepted: 10},
		Lanes: []Lane{
			{
				Name:          "push",
				Subscriptions: 2,
				Ready:         Ready{Active: 2},
				Expected:      20,
				Delivered:     20,
				Latency:       Latency{FromIntended: Quantiles{Count: 20, P99: 5e6}},
				Overhead:      Overhead{Measured: OverheadWindow{Received: 20, SubscriptionHours: 1}},
			},
			{Name: "idle", Subscriptions: 2, Ready: Ready{Active: 2}},
			{Name: "deaf", Subscriptions: 2, Ready: Ready{Active: 2}, Expected: 20, LostSilent: 20},
			{Name: "quiet", Subscriptions: 2, Ready: Ready{Active: 2}},
			{Name: "closed", Subscriptions: 2, Ready: Ready{Failed: 2}},
		},
	}
}

// TestThresholdJudgesNothing: a threshold without anything to judge neither holds nor fails.
func TestThresholdJudgesNothing(t *testing.T) {
	const held, failed = "held", "failed" // else: part of the reason
	for _, tt := range []struct {
		text string
		want []string
	}{
		{"*.lostSilent == 0", []string{held, "nothing was owed", "received nothing", "none of its 2 subscriptions became active"}},
		{"*.lostAnnounced == 0", []string{held, "nothing was owed", "received nothing", "none of its 2 subscriptions became active"}},
		{"*.duplicates.rate == 0", []string{held, "nothing was owed", "received nothing", "none of its 2 subscriptions"}},
		{"*.delivered >= 1", []string{held, "nothing was owed", "received nothing", "none of its 2 subscriptions"}},
		{"*.gaps.incidents == 0", []string{held, "nothing was owed", "received nothing", "none of its 2 subscriptions"}},
		{"*.latency.fromIntended.p99 < 1s", []string{held, "nothing was owed", "received nothing", "none of its 2 subscriptions"}},
		{"*.overhead.perDelivered.bytes < 1", []string{held, "nothing was received in the measured window",
			"received nothing", "nothing was received in the measured window"}},
		{"*.overhead.totalPerDelivered.bytes < 1",
			[]string{held, "nothing was received in the measured window", "received nothing",
				"nothing was received in the measured window"}},
		{"push.overhead.perSubscriptionHour.bytes < 1", []string{held}},
		{"idle.overhead.perSubscriptionHour.bytes < 1", []string{"no subscription was open in the measured window"}},
		// The absence of unexpected copies is judged where a subscription was open while events
		// were published.
		{"*.unexpected == 0", []string{held, held, "received nothing", held, "none of its 2 subscriptions"}},
		// Figures that say why nothing was owed are judged.
		{"*.expected > 0", []string{held, failed, held, failed, failed}},
		{"*.ready.failed == 0", []string{held, held, held, held, failed}},
		{"quiet.lostSilent == 0", []string{"nothing was owed"}},
		{"deaf.figures.rejectedInRace == 0", []string{"received nothing"}},
		{"deaf.detail.rejected == 0", []string{"received nothing"}},
		{"idle.latency.fromIntended.count == 0", []string{"nothing was owed"}},
		{"webhook.expected > 0", []string{"the lane did not run"}},
		{"run.target.process.cpu < 1s", []string{"nothing was measured"}},
		{"run.upstream.dropped == 0", []string{held}},
	} {
		th, err := ParseThreshold(tt.text)
		if err != nil {
			t.Fatal(err)
		}
		got := th.Check(judgedSample())
		if len(got) != len(tt.want) {
			t.Errorf("%s: %d verdicts, want %d: %+v", tt.text, len(got), len(tt.want), got)
			continue
		}
		for i, v := range got {
			is := v.NotEvaluated
			switch {
			case v.Passed && v.NotEvaluated != "":
				t.Errorf("%s on %q: held, and %s", tt.text, v.Lane, v.NotEvaluated)
			case v.Passed:
				is = held
			case v.NotEvaluated == "":
				is = failed
			}
			if !strings.Contains(is, tt.want[i]) {
				t.Errorf("%s on %q: %s, want %s", tt.text, v.Lane, is, tt.want[i])
			}
		}
	}
}

// TestThresholdOfNothingThatIsThere: copies received although nothing was owed are evidence, and so
// is a run in which nothing was published.
func TestThresholdOfNothingThatIsThere(t *testing.T) {
	r := judgedSample()
	r.Lanes[1].Unexpected = 3
	th, _ := ParseThreshold("idle.unexpected == 0")
	if v := th.Check(r)[0]; v.Passed || v.NotEvaluated != "" {
		t.Errorf("three copies were received that were not owed: %+v", v)
	}
	r.Upstream = Upstream{Kind: "inject"}
	for _, text := range []string{"run.upstream.dropped == 0", "run.upstream.figures.feedUnfetched == 0", "quiet.unexpected == 0"} {
		th, _ := ParseThreshold(text)
		if v := th.Check(r)[0]; v.Passed || v.NotEvaluated == "" {
			t.Errorf("%s: nothing was published, and %+v", text, v)
		}
	}
	only := &Result{Profile: json.RawMessage(`{"lanes": [{"name": "quiet", "sources": "none"}]}`), Lanes: []Lane{{Name: "quiet"}}}
	th, _ = ParseThreshold("*.lostSilent == 0")
	if v := th.Check(only); len(v) != 1 || v[0].Passed || v[0].NotEvaluated == "" || v[0].Lane != "" {
		t.Errorf("no lane subscribes to a source: %+v", v)
	}
}

func TestReceivedNothing(t *testing.T) {
	for name, tt := range map[string]struct {
		lane Lane
		want bool
	}{
		"all lost":             {Lane{Expected: 5, LostSilent: 5}, true},
		"nothing owed":         {Lane{}, false},
		"one came":             {Lane{Expected: 5, Delivered: 1, LostSilent: 4}, false},
		"of another source":    {Lane{Expected: 5, LostSilent: 5, Unexpected: 5}, false},
		"publishing failed":    {Lane{Expected: 5, LostSilent: 5, Recovered: 1}, false},
		"asked for again":      {Lane{Expected: 5, LostSilent: 5, Duplicates: Duplicates{Requested: 1}}, false},
		"second copies":        {Lane{Expected: 5, LostSilent: 5, Duplicates: Duplicates{SameEvent: 1}}, false},
		"copies of other ids":  {Lane{Expected: 5, LostSilent: 5, Duplicates: Duplicates{SameEmission: 1}}, false},
		"replayed":             {Lane{Expected: 5, LostSilent: 5, Detail: Detail{Replayed: 1}}, false},
		"posted in warm-up":    {Lane{Expected: 5, LostSilent: 5, Overhead: Overhead{Causes: map[string]Traffic{"events": {BytesUp: 3}}}}, false},
		"of another shard":     {Lane{Expected: 5, LostSilent: 5, Detail: Detail{Foreign: 1}}, false},
		"before it was active": {Lane{Expected: 5, LostSilent: 5, Detail: Detail{InFlight: 1}}, false},
		"of the warm-up": {Lane{Expected: 5, LostSilent: 5,
			Overhead: Overhead{Causes: map[string]Traffic{"events": {BytesDown: 300}}}}, false},
		// These bytes belong to unusable messages.
		"refused": {Lane{Expected: 5, LostSilent: 5, Detail: Detail{Notices: ledger.Notices{Rejected: 5}},
			Overhead: Overhead{Causes: map[string]Traffic{"events": {BytesDown: 300}}}}, true},
		"other lists": {Lane{Expected: 5, LostSilent: 5, Detail: Detail{Unprobed: 5},
			Overhead: Overhead{Causes: map[string]Traffic{"events": {BytesDown: 300}}}}, true},
	} {
		if got := tt.lane.ReceivedNothing(); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

// TestTally: a threshold with * counts once, whatever its verdict on each lane, and so does one
// that is written twice.
func TestTally(t *testing.T) {
	got := TallyOf([]Verdict{
		{
			Threshold: "*.lostSilent == 0",
			Lane:      "a",
			Passed:    true,
		},
		{Threshold: "*.lostSilent == 0", Lane: "b", Passed: true},
		{Threshold: "*.lostSilent == 0", Lane: "c", Passed: true},
		{
			Threshold: "*.late == 0",
			Lane:      "a",
			Passed:    true,
		},
		{Threshold: "*.late == 0", Lane: "b"},
		{Threshold: "*.late == 0", Lane: "c", NotEvaluated: "x"},
		{Threshold: "*.unexpected == 0", Lane: "a", Passed: true},
		{Threshold: "*.unexpected == 0", Lane: "b", NotEvaluated: "x"},
		{Threshold: "run.upstream.dropped == 0", Passed: true},
		{Threshold: "run.upstream.dropped == 0", Passed: true},
	})
	if want := (Tally{Held: 2, Failed: 1, NotEvaluated: 1}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := TallyOf(nil); got != (Tally{}) {
		t.Errorf("of none: %+v", got)
	}
}

// TestBusyMachine: where the machine was busy without a symptom, counts are judged and times are not.
func TestBusyMachine(t *testing.T) {
	r := &Result{
		Lanes:    []Lane{{Name: "push", Expected: 10, Delivered: 9, LostSilent: 1}},
		Warnings: []Warning{{Code: MachineBusy, Text: "other processes used 1.20 of 2 CPUs"}},
	}
	r.Lanes[0].Latency.FromIntended = Quantiles{Count: 9, P99: 5}
	for text, want := range map[string]string{
		"push.lostSilent == 0":               "failed",
		"push.delivered >= 9":                "held",
		"push.latency.fromIntended.p99 < 1h": "not evaluated",
	} {
		threshold, err := ParseThreshold(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range threshold.Check(r) {
			got := "held"
			if v.NotEvaluated != "" {
				got = "not evaluated"
			} else if v.Failed() {
				got = "failed"
			}
			if got != want {
				t.Errorf("%s: %s, want %s (%+v)", text, got, want, v)
			}
		}
	}
	if doubts := r.Doubts(); len(doubts) != 1 {
		t.Errorf("%q", doubts)
	}
}
