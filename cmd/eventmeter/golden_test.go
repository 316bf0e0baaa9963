package main

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/results"
)

var update = flag.Bool("update", false, "write the golden files again")

// golden returns the lines of a golden file. With -update it writes the file
// first.
func golden(t *testing.T, name string, lines []string) []string {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		must(t, os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o644))
	}
	text := readFile(t, file)
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

// keepsRows requires that a calibration printed the rows of the golden file:
// the same cases and lanes, and for each the same checks with the same expected
// values.
func keepsRows(t *testing.T, table string) {
	t.Helper()
	got := calibrationRows(table)
	want := golden(t, "calibrate.golden", got)
	for _, row := range want {
		if !slices.Contains(got, row) {
			t.Errorf("missing in the calibration: %s", row)
		}
	}
	for _, row := range got {
		if !slices.Contains(want, row) {
			t.Errorf("not in the golden file: %s; run with -update", row)
		}
	}
}

var (
	calibrationRow   = regexp.MustCompile(`^(\S.{25}) (.{9}) (?:ok  |FAIL) (.*)$`)
	calibrationCheck = regexp.MustCompile(`([a-zA-Z][^=≠]*?) (>= )?(-?\d+)(?: [=≠]|,) -?\d+(?:, |,?$)`)
)

// calibrationRows are the rows of a calibration's table: case, lane, and the
// checks with their expected values. A value that depends on timing is N.
func calibrationRows(table string) []string {
	var rows [][3]string
	for line := range strings.Lines(table) {
		line = strings.TrimRight(line, "\n")
		if m := calibrationRow.FindStringSubmatch(line); m != nil {
			rows = append(rows, [3]string{strings.TrimSpace(m[1]), strings.TrimSpace(m[2]), m[3]})
		} else if n := len(rows); n > 0 && strings.HasPrefix(line, strings.Repeat(" ", 41)) {
			rows[n-1][2] += " " + strings.TrimSpace(line)
		}
	}
	out := make([]string, len(rows))
	for i, r := range rows {
		var checks []string
		for _, m := range calibrationCheck.FindAllStringSubmatch(r[2], -1) {
			name, value := m[1], m[3]
			// The target counts requests, and clients decide how many pages they
			// read.
			if r[1] == "requests" || r[1] == "ids" || name == "privatePages" || name == "ttlMissing" || strings.HasSuffix(name, " ms") {
				value = "N"
			}
			// Whether a poll's truncated answer announces a loss depends on which
			// events share the page.
			if r[1] == "poll" && (name == "lostSilent" || name == "lostAnnounced") && strings.Contains(r[2], "lostSilent") &&
				strings.Contains(r[2], "lostAnnounced") {
				value = "N"
			}
			checks = append(checks, name+" "+m[2]+value)
		}
		out[i] = r[0] + " / " + r[1] + ": " + strings.Join(checks, ", ")
	}
	return out
}

// TestCalibrationRows reads a table with rows of one line and of several.
func TestCalibrationRows(t *testing.T) {
	t.Parallel()
	got := calibrationRows(`case                       lane      plan = measured
` + strings.Repeat("─", 100) + `
reorder                    webhook   ok   expected 120 = 120, delivered 120 = 120,
                                          outOfOrder >= 12, 14
late result                requests  ok   requestsBegun 8 = 8, request.min, ms >= 1399, 1402
wrong scope                notified  FAIL changesSeen + changesSuperseded 60 ≠ 59, privatePages 228 = 228

3 of 243 rows equal
`)
	want := []string{
		"reorder / webhook: expected 120, delivered 120, outOfOrder >= 12",
		"late result / requests: requestsBegun N, request.min, ms >= N",
		"wrong scope / notified: changesSeen + changesSuperseded 60, privatePages N",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// keepsKeys requires that the result of the profile mixed, which has lanes of all
// systems, has the keys of the golden file. A result may have more: some keys
// appear only when something happens.
func keepsKeys(t *testing.T, r *results.Result) {
	t.Helper()
	got := resultKeys(t, r)
	for _, key := range golden(t, "mixed.golden", got) {
		if !slices.Contains(got, key) {
			t.Errorf("the result of profile mixed lacks %s", key)
		}
	}
}

// resultKeys are the keys that a result has in any run of its profile, those of
// lanes with the lane's name. A set of quantiles is one key.
func resultKeys(t *testing.T, r *results.Result) []string {
	t.Helper()
	text, err := json.Marshal(r)
	must(t, err)
	var v map[string]any
	must(t, json.Unmarshal(text, &v))
	var keys []string
	for name, part := range v {
		if lanes, ok := part.([]any); ok && name == "lanes" {
			for i, l := range lanes {
				keys = appendKeys(keys, "lanes."+r.Lanes[i].Name, l)
			}
		} else if name != "profile" {
			keys = appendKeys(keys, name, part)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// depends are parts of a result whose keys depend on what happened in the run.
var depends = regexp.MustCompile(
	`\.(causes|belowResolution|reasons|examples|[a-zA-Z]+By)$|^(warnings|thresholds|phases|intervals|host|reason|partial|target|generator)$`,
)

func appendKeys(keys []string, path string, v any) []string {
	if depends.MatchString(path) {
		return keys
	}
	o, ok := v.(map[string]any)
	if _, quantiles := o["p999"]; !ok || quantiles {
		return append(keys, path)
	}
	for k, w := range o {
		keys = appendKeys(keys, path+"."+k, w)
	}
	return keys
}
