package mcpevents_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files again")

// counted says whether the value of a metric follows from the script and the faults
// alone, and not from time.
func counted(metric string) bool {
	for _, part := range []string{"_expected", "_delivered", "_lost", "_unexpected", "_recovered", "_duplicate", "_order", "_open"} {
		if strings.Contains(metric, part) {
			return true
		}
	}
	return false
}

// The metrics of this extension in k6's summary: names, types, units, values, and
// what a fixed list of faults makes of the counts.
func TestSummaryGolden(t *testing.T) {
	url, admin := serve(t, "--faults", "drop(every=7, offset=3); duplicate(every=5)")
	script, summary := scriptFile(t, `
export const options = { vus: 1, iterations: 1, thresholds: { mcp_events_lost: ['count==0'] } };
const sink = new WebhookSink();
export default async function () {
	const up = upstream('golden'), o = () => common('golden', 3);
	const subs = [
		await client().stream('chat.message', o()),
		await client().poll('chat.message', Object.assign({ minInterval: 0 }, o())),
		await client().subscribe('chat.message', Object.assign({ sink }, o())),
	];
	await up.fire({ count: 20, rate: 100 });
	for (const s of subs) await s.close();
}`)
	if code, out := k6(t, script, url, admin, "-e", "SUMMARY="+summary); code != 99 {
		t.Fatalf("exit code %d, want 99\n%s", code, out)
	}
	text := readFile(t, summary)
	var metrics map[string]struct {
		Type, Contains string
		Values         map[string]float64
	}
	must(t, json.Unmarshal(text, &metrics))
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(metrics)) {
		m := metrics[name]
		if !strings.HasPrefix(name, "mcp_") {
			continue
		}
		fmt.Fprintf(&out, "%s %s %s", name, m.Type, m.Contains)
		for _, key := range slices.Sorted(maps.Keys(m.Values)) {
			if counted(name) && m.Type != "trend" && key != "rate" {
				fmt.Fprintf(&out, " %s=%v", key, m.Values[key])
			} else {
				fmt.Fprintf(&out, " %s", key)
			}
		}
		out.WriteString("\n")
	}
	file := filepath.Join("testdata", "summary.golden")
	if *update {
		must(t, os.WriteFile(file, []byte(out.String()), 0o644))
	}
	want := readFile(t, file)
	if out.String() != string(want) {
		t.Errorf("got\n%s\nwant\n%s\nIf it is meant, run with -update.", out.String(), want)
	}
}
