package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/internal/stats"
	"github.com/eventmeter/eventmeter/results"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// writeNight writes the archive of a run that lost some of a thousand events, with no
// latencies.
func writeNight(t *testing.T, dir string, number int, lost int64) {
	t.Helper()
	lane := ledger.LaneAccount{Name: "poll", System: "events", Mode: "poll", Subscriptions: 1}
	lane.Expected, lane.Delivered, lane.Received, lane.LostSilent = 1000, 1000-lost, 1000-lost, lost
	lane.Series = []ledger.LaneInterval{{Delivered: 1000 - lost}}
	started := time.Unix(1_700_000_000+int64(number)*86400, 0).UTC()
	r := &results.Result{
		Schema:   results.Schema,
		Version:  "test",
		Run:      fmt.Sprintf("%08x", number),
		Started:  started,
		Finished: started.Add(time.Second),
		Profile: json.RawMessage(
			fmt.Sprintf(`{"name":"night","target":{"commit":"c%d"}}`, number),
		),
		Lanes: []results.Lane{results.NewLane(&lane)},
	}
	if err := results.Save(dir, r, []ledger.Account{{Interval: time.Second, Lanes: []ledger.LaneAccount{lane}}}); err != nil {
		t.Fatal(err)
	}
}

func TestHistory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var args []string
	for i := range 24 {
		night := filepath.Join(dir, "nightly", fmt.Sprintf("%02d", 23-i)) // the order is that of their starts
		lost := int64(0)
		if i >= 12 {
			lost = int64(10 + i%2)
		}
		writeNight(t, night, i, lost)
		args = append(args, night)
	}
	text, stderr, code := execute(t, "compare", filepath.Join(dir, "nightly"))
	if code != 0 || !strings.Contains(text, "Run 13 of 24: ") || !strings.Contains(text, "commit c12") ||
		!strings.Contains(text, "poll lostSilent/expected: 0 % to 1.05 %") {
		t.Errorf("exit code %d\n%s%s", code, text, stderr)
	}
	out, stderr, code := execute(t, append([]string{"compare", "--format", "json"}, args...)...)
	var h stats.History
	if err := json.Unmarshal(
		[]byte(out),
		&h,
	); err != nil || code != 0 || len(h.Runs) != 24 || len(h.Changed()) != 1 ||
		h.Changed()[0] != 12 {
		t.Errorf("exit code %d, %v, %s", code, err, stderr)
	}
	for _, format := range []string{"markdown", "html"} {
		if out, stderr, code := execute(
			t,
			"compare",
			filepath.Join(dir, "nightly"),
			"--format",
			format,
		); code != 0 ||
			!strings.Contains(out, "Run 13 of 24") {
			t.Errorf("%s: exit code %d\n%s%s", format, code, out, stderr)
		}
	}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{args[:1], "a history needs 8 complete runs and has 1"},
		{args[:3], "a history needs 8 complete runs and has 3"},
		{append([]string{"--gate", "*.lostSilent <= +5%"}, args...), "--gate compares two sides"},
		{append([]string{"--format", "x"}, args...), "want text, markdown, json or html"},
		{append([]string{"--format", "x"}, args[:2]...), "want text, markdown, json or html"},
		{append([]string{args[0]}, args...), "are the same run"},
	} {
		if _, stderr, code := execute(
			t,
			append([]string{"compare"}, tt.args...)...); code != exitUsage || !strings.Contains(stderr, tt.want) ||
			strings.Count(strings.TrimSpace(stderr), "\n") > 0 {
			t.Errorf("%v: exit code %d\n%s", tt.args, code, stderr)
		}
	}
}
