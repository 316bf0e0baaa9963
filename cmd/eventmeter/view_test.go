package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/internal/report"
	"github.com/eventmeter/eventmeter/internal/run"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// counted are the counts of a lane with so many deliveries.
func counted(delivered int64) ledger.LaneCounts {
	return ledger.LaneCounts{SubCounts: ledger.SubCounts{Delivered: delivered}}
}

// measuring is a run in the middle of its measured part.
func measuring(delivered int64) run.Progress {
	return run.Progress{
		Phase: "measure", Elapsed: 4 * time.Second, Limit: 10 * time.Second,
		Live: ledger.Live{Measured: ledger.Scheduled{Fired: 80}, Lanes: []ledger.LiveLane{
			{
				Name:       "push",
				Open:       300,
				LaneCounts: counted(delivered),
				Recent:     ledger.Quantiles{Count: 10, P50: 12 * time.Millisecond, P99: 28 * time.Millisecond},
			},
			{
				Name:       "a-lane-with-a-long-name",
				Open:       300,
				Holes:      3,
				LaneCounts: ledger.LaneCounts{SubCounts: ledger.SubCounts{Duplicates: ledger.Duplicates{SameEvent: 2}}},
			},
		}},
	}
}

func TestFrames(t *testing.T) {
	f := frames{name: "compare", modes: map[string]string{"push": "push"}}
	start := time.Unix(1000, 0)
	f.next(run.Progress{Phase: "attach"}, 100, start)
	f.next(run.Progress{Phase: "warm-up"}, 100, start)
	f.next(measuring(100), 100, start)
	got := f.next(measuring(600), 100, start.Add(time.Second))
	want := []string{
		"compare  ✓ attach  ✓ warm-up  ▸ measure",
		"  ━━━━━━━━━━━━──────────────────     6 s left  80 events published",
		"  lane             open  delivered    per s      p50      p99  p99, █ = 28.0ms",
		"  push              300        600      500   12.0ms   28.0ms  █",
		"  a-lane-with…      300          0        0        –        –  ",
		"    3 missing, 2 duplicates",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, width := range []int{20, 40, 60, 80, 100, 200} {
		for _, colour := range []bool{false, true} {
			f.ink = report.Ink{On: colour}
			for _, l := range f.next(measuring(700), width, start.Add(2*time.Second)) {
				if strings.Contains(l, "28.") != strings.Contains(l, "28.0ms") ||
					strings.Contains(l, "12.") != strings.Contains(l, "12.0ms") {
					t.Errorf("width %d: half a number: %s", width, l)
				}
				if shown(l) >= width {
					t.Errorf("width %d: %d columns: %s", width, shown(l), l)
				}
				if !colour && strings.Contains(l, "\x1b") {
					t.Errorf("painted, though no colour was asked for: %q", l)
				}
				if strings.Contains(l, "\x1b") && strings.LastIndex(l, "\x1b[0m") != strings.LastIndex(l, "\x1b") {
					t.Errorf("a colour goes on beyond its line: %q", l)
				}
			}
		}
	}
}

// TestVerbose: a line for each phase that is over stays.
func TestVerbose(t *testing.T) {
	var out bytes.Buffer
	v := newView(&out, &profiles.Profile{Name: "a", Lanes: []profiles.Lane{{Name: "push", Mode: "push"}}}, viewOptions{verbose: true})
	v.update(run.Progress{Phase: "attach", Elapsed: 250 * time.Millisecond})
	v.update(measuring(600))
	v.update(run.Progress{Phase: "drain", Elapsed: time.Second})
	v.close()
	var kept []string
	for line := range strings.Lines(out.String()) {
		if _, rest, ok := strings.Cut(line, "  "); ok && strings.Count(strings.Fields(line)[0], ":") == 2 {
			kept = append(kept, strings.TrimRight(rest, "\n"))
		}
	}
	want := []string{
		"attach       250ms  0 open, 0 events published, 0 delivered",
		"measure      4.00s  600 open, 80 events published, 600 delivered",
	}
	if !slices.Equal(kept, want) {
		t.Errorf("%q, want %q in\n%s", kept, want, out.String())
	}
}

func TestSpark(t *testing.T) {
	for want, points := range map[string][]time.Duration{
		"":     nil,
		"▁":    {0},
		"█":    {-1, 5},
		"▁ █":  {0, -1, 5},
		"▂▅█":  {1, 4, 8},
		"█ ██": {7, -1, 7, 7},
	} {
		if got := spark(points, slices.Max(append(points[:len(points):len(points)], 0))); got != want {
			t.Errorf("%v: %q, want %q", points, got, want)
		}
	}
	// Half as slow as the slowest lane.
	if got := spark([]time.Duration{4, 8}, 16); got != "▃▅" {
		t.Errorf("on the scale of another lane: %q", got)
	}
	f := frames{}
	now := time.Unix(0, 0)
	for i := range 100 {
		f.trace(
			ledger.LiveLane{Name: "a", LaneCounts: counted(int64(i) * 5), Recent: ledger.Quantiles{Count: 1, P99: time.Duration(i)}},
			now.Add(time.Duration(i)*traceEvery),
		)
	}
	if tr := f.lanes["a"]; len(tr.points) != tracePoints || tr.points[tracePoints-1] != 99 || tr.rate != 10 {
		t.Errorf("%d points to %v, rate %v", len(tr.points), tr.points[len(tr.points)-1], tr.rate)
	}
}

func TestCutAndRows(t *testing.T) {
	painted := "\x1b[1mabc\x1b[0m def"
	for width, want := range map[int]string{7: painted, 5: "\x1b[1mabc\x1b[0m d\x1b[0m", 2: "\x1b[1mab\x1b[0m\x1b[0m"} {
		if got := cut(painted, width); got != want {
			t.Errorf("to %d: %q, want %q", width, got, want)
		}
	}
	if shown(painted) != 7 || shown("━─▁") != 3 {
		t.Error("counts escape codes, or bytes")
	}
	block := []string{"a", "b", "c", "d"}
	for height, want := range map[int]string{0: "a b c d", 5: "a b c d", 4: "a b   … 2 more lines", 2: "  … 4 more lines", 1: "a b c d"} {
		if got := strings.Join(fit(block, height), " "); got != want {
			t.Errorf("in %d lines: %q, want %q", height, got, want)
		}
	}
	// A block of lines of 90, 10 and 0 columns on a terminal that is 40 wide by now.
	if n := rows([]int{90, 10, 0}, 40); n != 5 {
		t.Errorf("%d rows", n)
	}
}
