package report

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/eventmeter/eventmeter/results"
)

// summaryLane is a lane with a p99 and its interval.
func summaryLane(name, mode string, p99 results.Nanos) results.Lane {
	return results.Lane{
		Name:          name,
		System:        "events",
		Mode:          mode,
		Subscriptions: 10,
		Expected:      6000,
		Delivered:     6000,
		Received:      6000,
		Ready:         results.Ready{Active: 10},
		Latency: results.Latency{
			FromIntended: results.Quantiles{
				Count: 6000,
				P50:   p99 / 2,
				P90:   p99 * 3 / 4,
				P95:   p99 * 7 / 8,
				P99:   p99,
				P999:  p99 * 2,
				Max:   p99 * 2,
			},
			Intervals: map[string]results.Interval{"fromIntended.p99": {Low: p99 * 9 / 10, High: p99 * 11 / 10}},
		},
		Overhead: results.Overhead{
			Measured:          results.OverheadWindow{Received: 6000},
			TotalPerDelivered: results.Share{Requests: 1, Bytes: 2048},
		},
	}
}

func summaryResult(lanes ...results.Lane) *results.Result {
	start := time.Unix(1000, 0)
	return &results.Result{
		Started: start, Finished: start.Add(12 * time.Second),
		Target:   results.Target{URL: "http://127.0.0.1:1/mcp", Embedded: true},
		Upstream: results.Upstream{Kind: "inject", Sources: 1, Scheduled: 600, Published: 600, Accepted: 600},
		Lanes:    lanes,
	}
}

func summarised(t *testing.T, r *results.Result, o SummaryOptions) string {
	t.Helper()
	var b strings.Builder
	must(t, Summary(&b, r, o))
	return b.String()
}

func judgedBy(r *results.Result, texts ...string) {
	for _, text := range texts {
		th, err := results.ParseThreshold(text)
		if err != nil {
			panic(err)
		}
		r.Thresholds = append(r.Thresholds, th.Check(r)...)
	}
}

func TestSummary(t *testing.T) {
	poll := summaryLane("poll", "poll", 1.1e9)
	poll.Delivered, poll.LostSilent = 5400, 600
	r := summaryResult(summaryLane("push", "push", 12.5e6), poll)
	judgedBy(r, "*.lostSilent == 0", "push.p99 < 10ms", "*.p95 < 5s")
	r.Warnings = []results.Warning{{Code: "x", Text: "y"}}
	const want = `the embedded target in 12.0s, 600 events published

FAIL       2 of 3 thresholds failed. The run is not clean: 1 figure should be 0
           and is not.
           *.lostSilent == 0  (poll: 600, 600 above)
           push.p99 < 10ms  (push: 12.5ms, 2.50ms (25 %) above)

lane expected delivered loss dup.    p50    p90 p99 (95 % interval) wire/event
push    6 000     6 000    0    0 6.25ms 9.38ms  12.5ms (11.2–13.8)      2 KiB
poll    6 000     5 400 !600    0  550ms  825ms 1.10s (990ms–1.21s)      2 KiB

not clean  silent loss: poll 600 of 6 000 (10 %)

report     out/report.html  (1 warning)
`
	if got := summarised(t, r, SummaryOptions{Page: "out/report.html"}); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	painted := summarised(t, r, SummaryOptions{Ink: Ink{On: true}})
	if !strings.Contains(painted, "\x1b[1m\x1b[31mFAIL\x1b[0m") || !strings.Contains(painted, "\x1b[94mpush") ||
		strings.Contains(painted, "report ") {
		t.Errorf("%q", painted)
	}
}

// TestSummarySaysWhatWasRefused: events that were not accepted are the first thing beside the lanes.
func TestSummarySaysWhatWasRefused(t *testing.T) {
	r := summaryResult(summaryLane("push", "push", 12.5e6))
	r.Upstream.Accepted, r.Upstream.Refused = 0, 600
	r.Warnings = []results.Warning{{
		Code: "publishing-failed",
		Text: "600 of 600 events were not accepted; the first: POST http://127.0.0.1:1/emit: 405 Method Not Allowed",
	}}
	const want = `
refused    600 of 600 events were not accepted; the first: POST
           http://127.0.0.1:1/emit: 405 Method Not Allowed
`
	if got := summarised(t, r, SummaryOptions{}); !strings.Contains(got, want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestSummaryHintsAtUnexpectedDeliveries: where a target ignores arguments, the setting stands beside the count.
func TestSummaryHintsAtUnexpectedDeliveries(t *testing.T) {
	l := summaryLane("push", "push", 12.5e6)
	l.Unexpected = 540
	r := summaryResult(l)
	r.Warnings = []results.Warning{{Code: "not-subscribed", Lane: "push", Text: "540 deliveries: set lanes.*.sources"}}
	const want = `
not clean  unexpected: push 540
hint       push: 540 deliveries: set lanes.*.sources
`
	if got := summarised(t, r, SummaryOptions{}); !strings.Contains(got, want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestSummaryIsShort: whatever a run has, its summary fits a screen.
func TestSummaryIsShort(t *testing.T) {
	for _, lanes := range []int{0, 1, 3, 9, 40} {
		for _, thresholds := range []int{0, 1, 20} {
			for _, unclean := range []bool{false, true} {
				for _, width := range []int{80, 100, 120} {
					var all []results.Lane
					for i := range lanes {
						l := summaryLane(fmt.Sprintf("a-lane-with-a-long-name-%d", i), "push", 500e6)
						if unclean {
							l.OutOfOrder, l.Late, l.Unexpected, l.Recovered, l.Duplicates.SameEvent = 1, 2, 3, 4, 5
							l.Detail.Malformed, l.Detail.DeadStreams, l.OrderConflicts = 6, 7, 8
						}
						all = append(all, l)
					}
					r := summaryResult(all...)
					for i := range thresholds {
						if lanes > 0 {
							judgedBy(r, fmt.Sprintf("*.p99 < %dms", i+1))
						}
					}
					r.Generator.Bottleneck, r.Partial, r.Reason = true, true, strings.Repeat("it ended early because of something ", 30)
					got := summarised(t, r, SummaryOptions{Width: width, Page: "a/report.html"})
					if n := strings.Count(got, "\n"); n > SummaryLines {
						t.Errorf("%d lanes, %d thresholds, width %d: %d lines\n%s", lanes, thresholds, width, n, got)
					}
					for line := range strings.SplitSeq(got, "\n") {
						if utf8.RuneCountInString(line) > width {
							t.Errorf("width %d: %d columns: %s", width, utf8.RuneCountInString(line), line)
						}
					}
					if lanes > 0 && lanes < 40 && !strings.Contains(got, "a-lane-") || !strings.Contains(got, "a/report.html") ||
						lanes == 40 && !strings.Contains(got, "more; --full shows all") {
						t.Errorf("%d lanes, %d thresholds:\n%s", lanes, thresholds, got)
					}
				}
			}
		}
	}
}
