package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/eventmeter/eventmeter/internal/exectest"
	"github.com/eventmeter/eventmeter/results"
)

// writeNight writes the result.json of a run with two lanes, of which push delivered all but lost of
// a thousand events.
func writeNight(t *testing.T, dir string, number int, lost int64, edit func(*results.Result)) {
	t.Helper()
	push := results.Lane{Name: "push", Expected: 1000, Delivered: 1000 - lost, LostSilent: lost}
	push.Latency.FromIntended = results.Quantiles{Count: 1000 - lost, P50: 1_500_000, P99: results.Nanos(20_000_000 + number)}
	started := time.Unix(1_700_000_000+int64(number)*86400, 123456789).UTC()
	r := &results.Result{
		Schema: results.Schema, Version: "test", Run: fmt.Sprintf("%08x", number), Started: started, Finished: started.Add(time.Second),
		Profile: json.RawMessage(fmt.Sprintf(`{"name":"night","target":{"commit":"c%d"}}`, number)),
		Lanes:   []results.Lane{push, {Name: "poll", Expected: 1000, Delivered: 5, LostSilent: 995}},
	}
	if edit != nil {
		edit(r)
	}
	must(t, os.MkdirAll(dir, 0o755))
	f, err := os.Create(filepath.Join(dir, results.File))
	must(t, err)
	must(t, errors.Join(r.Write(f), f.Close()))
}

// TestChangePointsPage runs the command of docs/change-points.md that writes a series, and checks that the page's
// configuration reads the columns that the command writes.
func TestChangePointsPage(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"sh", "jq"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("the page's command needs %s: %v", name, err)
		}
	}
	page := readFile(t, "../../docs/change-points.md")
	var command, config string
	for _, block := range docsBlock.FindAllStringSubmatch(string(page), -1) {
		switch {
		case strings.HasPrefix(block[2], "jq "):
			command = block[2]
		case block[1] == "yaml":
			config = block[2]
		}
	}
	dir := t.TempDir()
	night := func(name string) string { return filepath.Join(dir, "nightly", name) }
	writeNight(t, night("b"), 1, 0, nil)
	writeNight(t, night("a"), 2, 5, nil) // the order is that of the starts
	writeNight(t, night("c"), 3, 0, func(r *results.Result) { r.Partial = true })
	writeNight(t, night("d"), 4, 0, func(r *results.Result) { r.Lanes[0].Latency = results.Latency{} })
	writeNight(t, night("e"), 5, 0, func(r *results.Result) { r.Lanes = r.Lanes[1:] })
	writeNight(t, night("f"), 6, 0, func(r *results.Result) { r.Profile = json.RawMessage(`{"name":"night"}`) })
	c := exectest.CommandContext(t.Context(), "sh", "-c", command)
	c.Dir = dir
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s%v\n%s", command, err, out)
	}
	written := readFile(t, filepath.Join(dir, "nightly.csv"))
	const want = `"time","commit","push_p50_ms","push_p99_ms","push_delivered_percent"
"2023-11-15T22:13:20Z","c1",1.5,20.000001,100
"2023-11-16T22:13:20Z","c2",1.5,20.000002,99.5
"2023-11-20T22:13:20Z","",1.5,20.000006,100
`
	if string(written) != want {
		t.Errorf("the page's command wrote\n%s\nwant\n%s", written, want)
	}

	type metric struct {
		Column    string
		Direction int
		Scale     float64
	}
	var otava struct {
		Tests map[string]struct {
			Type       string
			File       string
			TimeColumn string `yaml:"time_column"`
			Attributes []string
			Metrics    map[string]metric
		}
	}
	must(t, yaml.UnmarshalWithOptions([]byte(config), &otava, yaml.Strict()))
	head, _, _ := strings.Cut(strings.ReplaceAll(want, `"`, ""), "\n")
	columns := strings.Split(head, ",")
	for name, test := range otava.Tests {
		read := append([]string{test.TimeColumn}, test.Attributes...)
		for _, m := range test.Metrics {
			read = append(read, m.Column)
		}
		slices.Sort(read)
		if !slices.Equal(read, slices.Sorted(slices.Values(columns))) || test.File != "nightly.csv" || test.Type != "csv" {
			t.Errorf("%s reads %v of %s (%s), and the command writes %v", name, read, test.File, test.Type, columns)
		}
		if !strings.Contains(string(page), "otava analyze "+name) {
			t.Errorf("the page does not analyze %s", name)
		}
	}
	if len(otava.Tests) != 1 {
		t.Errorf("the configuration has %d tests", len(otava.Tests))
	}
}
