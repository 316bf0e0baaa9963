package results

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/sinks"
)

// judgedSample is a run of five lanes: one that is whole, one that was owed
// nothing, one that heard nothing, one that is meant to hear nothing, and one
// that came up for no subscription.
func judgedSample() *Result {
	return &Result{
		Profile:  json.RawMessage(`{"lanes": [{"name": "push", "sources": "all"}, {"name": "quiet", "sources": " none "}]}`),
		Upstream: Upstream{Kind: "inject", Scheduled: 10, Fired: 10, Accepted: 10},
		Lanes: []Lane{
			{Name: "push", Subscriptions: 2, Ready: Ready{Active: 2}, Expected: 20, Delivered: 20, Latency: Latency{FromIntended: Quantiles{Count: 20, P99: 5e6}}, Overhead: Overhead{Measured: OverheadWindow{Received: 20, SubscriptionHours: 1}}},
			{Name: "idle", Subscriptions: 2, Ready: Ready{Active: 2}},
			{Name: "deaf", Subscriptions: 2, Ready: Ready{Active: 2}, Expected: 20, LostSilent: 20},
			{Name: "quiet", Subscriptions: 2, Ready: Ready{Active: 2}},
			{Name: "closed", Subscriptions: 2, Ready: Ready{Failed: 2}},
		},
	}
}

// TestThresholdJudgesNothing: a threshold on a figure of nothing neither holds
// nor fails.
func TestThresholdJudgesNothing(t *testing.T) {
	const held, failed = "held", "failed" // else: part of the reason
	for _, tt := range []struct {
		text string
		want []string
	}{
		{"*.lostSilent == 0", []string{held, "nothing was owed", "heard nothing at all", "none of its 2 subscriptions became active"}},
		{"*.lostAnnounced == 0", []string{held, "nothing was owed", "heard nothing at all", "none of its 2 subscriptions became active"}},
		{"*.duplicates.rate == 0", []string{held, "nothing was owed", "heard nothing at all", "none of its 2 subscriptions"}},
		{"*.delivered >= 1", []string{held, "nothing was owed", "heard nothing at all", "none of its 2 subscriptions"}},
		{"*.gaps.incidents == 0", []string{held, "nothing was owed", "heard nothing at all", "none of its 2 subscriptions"}},
		{"*.latency.fromIntended.p99 < 1s", []string{held, "nothing was owed", "heard nothing at all", "none of its 2 subscriptions"}},
		{"*.overhead.perDelivered.bytes < 1", []string{held, "nothing was received in the measured window", "heard nothing at all", "nothing was received in the measured window"}},
		{"*.overhead.totalPerDelivered.bytes < 1", []string{held, "nothing was received in the measured window", "heard nothing at all", "nothing was received in the measured window"}},
		{"push.overhead.perSubscriptionHour.bytes < 1", []string{held}},
		{"idle.overhead.perSubscriptionHour.bytes < 1", []string{"no subscription was open in the measured window"}},
		// That nothing came which should not have come is judged where a
		// subscription was open while events were fired.
		{"*.unexpected == 0", []string{held, held, "heard nothing at all", held, "none of its 2 subscriptions"}},
		// What says why nothing was owed is judged.
		{"*.expected > 0", []string{held, failed, held, failed, failed}},
		{"*.ready.failed == 0", []string{held, held, held, held, failed}},
		{"quiet.lostSilent == 0", []string{"nothing was owed"}},
		{"deaf.figures.rejectedInRace == 0", []string{"heard nothing at all"}},
		{"deaf.detail.rejected == 0", []string{"heard nothing at all"}},
		{"idle.latency.fromIntended.count == 0", []string{"nothing was owed"}},
		{"webhook.expected > 0", []string{"the lane was not run"}},
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

// TestThresholdOfNothingThatIsThere: what came although nothing was owed is
// evidence, and so is a run in which nothing was fired.
func TestThresholdOfNothingThatIsThere(t *testing.T) {
	r := judgedSample()
	r.Lanes[1].Unexpected = 3
	th, _ := ParseThreshold("idle.unexpected == 0")
	if v := th.Check(r)[0]; v.Passed || v.NotEvaluated != "" {
		t.Errorf("three copies came that were owed to nobody: %+v", v)
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
		t.Errorf("no lane is meant to hear anything: %+v", v)
	}
}

func TestHeardNothing(t *testing.T) {
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
		"of another shard":     {Lane{Expected: 5, LostSilent: 5, Detail: Detail{Foreign: 1}}, false},
		"before it was active": {Lane{Expected: 5, LostSilent: 5, Detail: Detail{InFlight: 1}}, false},
		"of the warm-up":       {Lane{Expected: 5, LostSilent: 5, Overhead: Overhead{Causes: map[string]Traffic{"events": {BytesDown: 300}}}}, false},
		// These bytes are of what could not be used.
		"refused":     {Lane{Expected: 5, LostSilent: 5, Detail: Detail{Notices: sinks.Notices{Rejected: 5}}, Overhead: Overhead{Causes: map[string]Traffic{"events": {BytesDown: 300}}}}, true},
		"other lists": {Lane{Expected: 5, LostSilent: 5, Detail: Detail{Unprobed: 5}, Overhead: Overhead{Causes: map[string]Traffic{"events": {BytesDown: 300}}}}, true},
	} {
		if got := tt.lane.HeardNothing(); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

// TestTally: a threshold with * is one threshold, whatever became of it on each
// lane, and so is one that is written twice.
func TestTally(t *testing.T) {
	got := TallyOf([]Verdict{
		{Threshold: "*.lostSilent == 0", Lane: "a", Passed: true}, {Threshold: "*.lostSilent == 0", Lane: "b", Passed: true}, {Threshold: "*.lostSilent == 0", Lane: "c", Passed: true},
		{Threshold: "*.late == 0", Lane: "a", Passed: true}, {Threshold: "*.late == 0", Lane: "b"}, {Threshold: "*.late == 0", Lane: "c", NotEvaluated: "x"},
		{Threshold: "*.unexpected == 0", Lane: "a", Passed: true}, {Threshold: "*.unexpected == 0", Lane: "b", NotEvaluated: "x"},
		{Threshold: "run.upstream.dropped == 0", Passed: true}, {Threshold: "run.upstream.dropped == 0", Passed: true},
	})
	if want := (Tally{Held: 2, Failed: 1, NotEvaluated: 1}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := TallyOf(nil); got != (Tally{}) {
		t.Errorf("of none: %+v", got)
	}
}
