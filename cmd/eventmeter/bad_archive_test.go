package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/eventmeter/eventmeter/internal/exectest"
	"github.com/eventmeter/eventmeter/internal/report"
	"github.com/eventmeter/eventmeter/internal/run"
	"github.com/eventmeter/eventmeter/internal/shard"
	"github.com/eventmeter/eventmeter/results"
)

// smallProfile is a run of two seconds with two lanes.
const smallProfile = `name: small
lanes:
  - {name: push, mode: push, subscriptions: 2, event: tick}
  - {name: poll, mode: poll, subscriptions: 2, event: tick, poll: {minInterval: 50ms}}
upstream: {sources: 2, payload: {text: "{{.Probe}}"}}
schedule: {rate: 20/s}
phases: {ready: 10s, warmup: 0, measure: 1s, drain: 1s, late: 1s}
`

// smallArchive is the archive of such a run, split between two processes: the
// merged one, with shard-0 and shard-1 in it. All tests share it, and change copies.
func smallArchive(t *testing.T) string {
	t.Helper()
	archive, err := smallArchiveOnce()
	must(t, err)
	return archive
}

var smallArchiveOnce = sync.OnceValues(func() (string, error) {
	file, err := buildOnce()
	if err != nil {
		return "", err
	}
	profile := filepath.Join(programDir, "small.yaml")
	if err := os.WriteFile(profile, []byte(smallProfile), 0o644); err != nil {
		return "", err
	}
	out := filepath.Join(programDir, "small")
	cmd := exectest.Command(file, "run", "--quiet", "--profile", profile, "--processes", "2", "--out", out)
	if text, err := cmd.CombinedOutput(); err != nil && cmd.ProcessState.ExitCode() != exitBottleneck {
		return "", fmt.Errorf("run of an archive: %w\n%s", err, text)
	}
	return out, nil
})

// evil are JSON values that stand nowhere in an archive.
var evil = []string{
	`null`,
	`-1`,
	`0`,
	`1`,
	`9007199254740993`,
	`9223372036854775807`,
	`-9223372036854775808`,
	`1e308`,
	`-1e308`,
	`0.5`,
	`true`,
	`""`,
	`"x"`,
	`"../../evil"`,
	`"0001-01-01T00:00:00Z"`,
	`"9999-12-31T23:59:59Z"`,
	`[]`,
	`[null]`,
	`{}`,
	`{"a":1}`,
	`"\u001b]0;x\u0007"`,
	`"HISTFAAAAEV42pNpmSzMwMDAxAABzFCaEUoz2X+AMIKZAEARAtM="`,
}

// places are the paths of all values in a JSON document, at any depth.
func places(v any, at []any, visit func(at []any)) {
	visit(at)
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			places(v[key], append(slices.Clone(at), key), visit)
		}
	case []any:
		for i := range v {
			places(v[i], append(slices.Clone(at), i), visit)
		}
	}
}

// with is the document with another value at a place.
func with(v any, at []any, value any) any {
	if len(at) == 0 {
		return value
	}
	switch v := v.(type) {
	case map[string]any:
		out := maps.Clone(v)
		out[at[0].(string)] = with(v[at[0].(string)], at[1:], value)
		return out
	case []any:
		out := slices.Clone(v)
		out[at[0].(int)] = with(v[at[0].(int)], at[1:], value)
		return out
	}
	return v
}

// shape is a path without its indices: the items of a list share it.
func shape(at []any) string {
	keys := make([]string, len(at))
	for i, key := range at {
		keys[i], _ = key.(string)
	}
	return strings.Join(keys, "\x00")
}

func decoded(t *testing.T, name string) any {
	t.Helper()
	data := readFile(t, name)
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var v any
	must(t, dec.Decode(&v))
	return v
}

// copied is a copy of an archive.
func copied(t *testing.T, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "archive")
	must(t, os.CopyFS(to, os.DirFS(dir)))
	return to
}

// survives calls f, and reports a panic of it.
func survives(t *testing.T, what string, f func() error) (err error) {
	t.Helper()
	defer func() {
		if p := recover(); p != nil {
			t.Errorf("%s: panic: %v (%s)", what, p, origin())
		}
	}()
	return f()
}

// TestEveryValueOfAnArchiveChanged puts values that cannot be into each place of
// result.json and shard.json: what reads them must not panic, and its error is
// one line that names a file. Without the race detector it is thorough: it changes
// all items of a list, each several times.
func TestEveryValueOfAnArchiveChanged(t *testing.T) {
	t.Parallel()
	archive, changesEach, one := copied(t, smallArchive(t)), 3, 1
	if raceDetector { // makes it take seven times as long
		changesEach, one = 1, 10
	}
	shard := filepath.Join(archive, "shard-0")
	tried, refused := 0, 0
	for _, c := range []struct {
		file string
		read func() error
	}{
		{filepath.Join(shard, results.PartFile), func() error { return mergeAndPrint(archive) }},
		{filepath.Join(shard, results.File), func() error { return mergeAndPrint(archive) }},
		{filepath.Join(archive, results.File), func() error { return rebuildAndPrint(archive) }},
	} {
		good := readFile(t, c.file)
		doc := decoded(t, c.file)
		n := 0
		seen := map[string]bool{}
		places(doc, nil, func(at []any) {
			key := shape(at)
			again := seen[key]
			if seen[key] = true; one > 1 && (again || len(seen)%one > 0) {
				return
			}
			for range changesEach {
				value := evil[n%len(evil)]
				n++
				tried++
				text, err := json.Marshal(with(doc, at, json.RawMessage(value)))
				must(t, err)
				must(t, os.WriteFile(c.file, text, 0o644))
				what := fmt.Sprintf("%s %v = %s", filepath.Base(c.file), at, value)
				if err := survives(t, what, c.read); err != nil {
					refused++
					if text := errorText(err); strings.Contains(text, "\n") || !strings.Contains(text, archive) {
						t.Errorf("%s: %q does not name a file on one line", what, text)
					}
				}
			}
		})
		must(t, os.WriteFile(c.file, good, 0o644))
		if err := c.read(); err != nil {
			t.Fatalf("as it was: %v", err)
		}
	}
	t.Logf("%d changes, %d refused", tried, refused)
	if refused < tried/2 {
		t.Errorf("of %d changes %d were refused: the test does not reach what it changes", tried, refused)
	}
}

func mergeAndPrint(archive string) error {
	o, err := shard.Merge([]string{filepath.Join(archive, "shard-0"), filepath.Join(archive, "shard-1")})
	if err != nil {
		return err
	}
	if err := o.Result.Check(); err != nil {
		return fmt.Errorf("%s: merged: %w", archive, err)
	}
	return printAll(o.Result)
}

func rebuildAndPrint(archive string) error {
	r, err := results.Rebuild(archive)
	if err != nil {
		return err
	}
	p, err := loadPage(archive, r)
	if err != nil {
		return err
	}
	if err := report.HTML(io.Discard, []report.Page{p}); err != nil {
		return err
	}
	return printAll(r)
}

func printAll(r *results.Result) error {
	for _, write := range formsOf(r) {
		if err := write(io.Discard); err != nil {
			return err
		}
	}
	return errors.Join(
		report.Summary(io.Discard, r, report.SummaryOptions{}),
		report.Annotations(io.Discard, r, "github"))
}

// badArchive is an archive of two shards with something changed by hand.
type badArchive struct {
	name   string
	change func(t *testing.T, dir string)
	args   []string // what reads it, in the folder that holds "archive"
	want   string
}

// changed replaces the first old in a file of the archive.
func changed(file, old, new string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		name := filepath.Join(dir, file)
		text, err := os.ReadFile(name)
		if err != nil || !bytes.Contains(text, []byte(old)) {
			t.Fatalf("%s does not hold %q: %v", name, old, err)
		}
		must(t, os.WriteFile(name, bytes.Replace(text, []byte(old), []byte(new), 1), 0o644))
	}
}

// everywhere replaces all old in the files of the archive that match.
func everywhere(pattern, old, new string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		names, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, name := range names {
			text := readFile(t, name)
			must(t, os.WriteFile(name, bytes.ReplaceAll(text, []byte(old), []byte(new)), 0o644))
		}
	}
}

func all(changes ...func(*testing.T, string)) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		for _, c := range changes {
			c(t, dir)
		}
	}
}

// set puts a value at a place of a JSON file of the archive.
func set(file string, value string, at ...any) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		name := filepath.Join(dir, file)
		text, err := json.Marshal(with(decoded(t, name), at, json.RawMessage(value)))
		must(t, err)
		must(t, os.WriteFile(name, text, 0o644))
	}
}

// replaced puts a text in place of a file.
func replaced(file, text string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		must(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644))
	}
}

func mergeIt() []string { return []string{"merge", "archive", "--out", "merged"} }

func compareIt() []string { return []string{"compare", "archive", "archive"} }

func reportIt(format string) []string { return []string{"report", "archive", "--format", format} }

// evilName renames the lane push in all that names it.
func evilName(name string) func(*testing.T, string) {
	text, err := json.Marshal(name)
	if err != nil {
		panic(err)
	}
	return all(everywhere("shard-*/*.json", `"push"`, string(text)), everywhere("*.json", `"push"`, string(text)))
}

// badArchives are refused, with the file and the field.
// It is a function, because many child processes of these tests are the test
// binary itself, and would fill a table of the package as they start.
func badArchives() []badArchive {
	return []badArchive{
		{
			"a lane that leaves the folder, merged",
			evilName("../../evil"),
			mergeIt(),
			`shard-0/result.json: bad result file: lanes[0].name: "../../evil" is not a valid lane name`,
		},
		{
			"a lane that leaves the folder, in shards alone",
			everywhere("shard-*/shard.json", `"push"`, `"../../evil"`),
			mergeIt(),
			`shard.json: passes[0].account.Lanes[0].Name: "../../evil" is not a valid lane name`,
		},
		{
			"a lane that leaves the folder, reported",
			evilName("../../evil"),
			reportIt("text"),
			`lanes[0].name: "../../evil" is not a valid lane name`,
		},
		{
			"a lane that leaves the folder, as a page",
			evilName("../../evil"),
			reportIt("html"),
			`lanes[0].name: "../../evil" is not a valid lane name`,
		},
		{
			"a lane that leaves the folder, compared",
			evilName("../../evil"),
			[]string{"compare", "archive", "archive"},
			`lanes[0].name: "../../evil" is not a valid lane name`,
		},
		{"a lane at the root", evilName("/tmp/evil"), mergeIt(), `"/tmp/evil" is not a valid lane name`},
		{"a lane that is the folder", evilName(".."), mergeIt(), `".." is not a valid lane name`},
		{"a lane without a name", evilName(""), mergeIt(), `"" is not a valid lane name`},
		{"a lane with an escape sequence", evilName("a\u001b]0;x\u0007"), mergeIt(), `is not a valid lane name`},
		{"a lane of 100,000 characters", evilName(strings.Repeat("a", 100_000)), mergeIt(), `is not a valid lane name`},
		{"a lane twice", everywhere("shard-*/*.json", `"poll"`, `"push"`), mergeIt(), "appears twice"},
		{
			"a coverage of 1e308",
			all(set("shard-0/shard.json", "1e308", "coverage"), set("shard-1/shard.json", "1e308", "coverage")),
			mergeIt(),
			"shard-0/shard.json: coverage: 1e+308 is no figure",
		},
		{"a coverage of 2", set("shard-0/shard.json", "2", "coverage"), mergeIt(), "shard-0/shard.json: coverage: 2 is not from 0 to 1"},
		{
			"a coverage of 1e308, in the result",
			set("result.json", "1e308", "coverage"),
			reportIt("text"),
			"result.json: bad result file: coverage: 1e+308",
		},
		{"a coverage that differs", set("shard-0/shard.json", "0.75", "coverage"), mergeIt(), "are of different coverage"},
		{
			"no passes",
			all(set("shard-0/shard.json", "[]", "passes"), set("shard-1/shard.json", "[]", "passes")),
			mergeIt(),
			"passes: shard.json has none",
		},
		{"no passes in one of two", set("shard-1/shard.json", "null", "passes"), mergeIt(), "passes: shard.json has none"},
		{
			"a pass without lanes",
			set("shard-0/shard.json", "[]", "passes", 0, "account", "Lanes"),
			mergeIt(),
			"figures: it has figures of 2 lanes, and the account has 0",
		},
		{
			"a pass without figures",
			set("shard-0/shard.json", "[]", "passes", 0, "figures"),
			mergeIt(),
			"figures: it has figures of 0 lanes",
		},
		{
			"an interval of nothing",
			set("shard-0/shard.json", "0", "passes", 0, "account", "Interval"),
			mergeIt(),
			"account.Interval: 0 ns is no width",
		},
		{
			"an interval of a nanosecond",
			set("shard-0/shard.json", "1", "passes", 0, "account", "Interval"),
			mergeIt(),
			"account.Interval: 1 ns is no width",
		},
		{
			"an interval of years",
			set("shard-0/shard.json", "9223372036854775807", "passes", 0, "account", "Interval"),
			mergeIt(),
			"account.Interval",
		},
		{
			"a begin after all time",
			set("shard-0/shard.json", "9223372036854775807", "passes", 0, "began"),
			mergeIt(),
			"passes[0].began: 9223372036854775807 ns is no time",
		},
		{
			"a begin before the run",
			set("shard-0/shard.json", "-5", "passes", 0, "began"),
			mergeIt(),
			"passes[0].began: -5 ns is before the run",
		},
		{
			"a begin in the year 9999",
			set("shard-0/shard.json", `"9999-01-01T00:00:00Z"`, "passes", 0, "beganAt"),
			mergeIt(),
			"passes[0].beganAt: 9999",
		},
		{
			"a count below zero",
			set("shard-0/shard.json", "-7", "passes", 0, "account", "Lanes", 0, "Delivered"),
			mergeIt(),
			"Lanes[0].Delivered: -7 is no count",
		},
		{
			"a count that overflows",
			set("shard-0/shard.json", "9223372036854775807", "passes", 0, "account", "Lanes", 0, "Expected"),
			mergeIt(),
			"Lanes[0].Expected: 9223372036854775807 is no count",
		},
		{
			"a count that the result does not have",
			set("shard-0/shard.json", "3", "passes", 0, "account", "Lanes", 0, "OutOfOrder"),
			mergeIt(),
			"lane push: outOfOrder is 3 in shard.json",
		},
		{
			"histograms that are none",
			set("shard-0/shard.json", "null", "passes", 0, "account", "Lanes", 0, "Latency", "FromSent", "Histogram"),
			mergeIt(),
			"latency.fromSent.count is 0 in shard.json",
		},
		{
			"a series out of order",
			set("shard-0/shard.json", `[{"Number":5},{"Number":5}]`, "passes", 0, "account", "Lanes", 0, "Series"),
			mergeIt(),
			"Series[1].Number: 5 is out of order",
		},
		{
			"a series after all time",
			set("shard-0/shard.json", `[{"Number":9007199254740992}]`, "passes", 0, "account", "Lanes", 0, "Series"),
			mergeIt(),
			"Series[0].Number",
		},
		{
			"1e18 shards",
			all(set("shard-0/shard.json", "1000000000000000000", "count"), set("shard-1/shard.json", "1000000000000000000", "count")),
			mergeIt(),
			"index: there is no shard 0 of 1000000000000000000",
		},
		{"a shard beyond the last", set("shard-0/shard.json", "5", "index"), mergeIt(), "index: there is no shard 5 of 2"},
		{
			"a shard that is another",
			set("shard-0/shard.json", "1", "index"),
			mergeIt(),
			"shard.json is of shard 1 of 2, and result.json is of another",
		},
		{"a shard whose result is no shard's", set("shard-0/result.json", "null", "part"), mergeIt(), "and result.json is of another"},
		{
			"more behind the end of a shard",
			func(t *testing.T, dir string) { changed("shard-0/shard.json", "\n", "\n{}")(t, dir) },
			mergeIt(),
			"there is data after its end",
		},
		{
			"a profile that is none",
			all(set("shard-0/result.json", "[]", "profile"), set("shard-1/result.json", "[]", "profile")),
			mergeIt(),
			"the profile",
		},
		{
			"a profile without lanes",
			all(set("shard-0/result.json", "{}", "profile"), set("shard-1/result.json", "{}", "profile")),
			mergeIt(),
			"lanes: there is a lane push that the profile of",
		},
		{"a result below zero", set("result.json", "-1", "lanes", 0, "late"), reportIt("text"), "lanes[0].late: -1 is no count"},
		{
			"a result that overflows",
			all(
				set("result.json", "9223372036854775807", "lanes", 0, "delivered"),
				set("result.json", "9223372036854775807", "lanes", 0, "expected"),
			),
			reportIt("text"),
			"lanes[0].expected: 9223372036854775807 is no count",
		},
		{
			"a share of 1e308",
			set("result.json", "1e308", "generator", "droppedEvents"),
			reportIt("text"),
			"generator.droppedEvents: 1e+308 is no figure",
		},
		{
			"an end before the begin",
			set("result.json", `"2001-01-01T00:00:00Z"`, "finished"),
			reportIt("text"),
			"finished: 2001-01-01T00:00:00Z is before it started",
		},
		{
			"a log that disagrees",
			func(t *testing.T, dir string) { takeLine(t, filepath.Join(dir, "push.hlog"), "Tag=intended") },
			reportIt("text"),
			"push.hlog: lane push: the histograms tagged intended give",
		},
		{"a log of another lane", func(t *testing.T, dir string) {
			text := readFile(t, filepath.Join(dir, "poll.hlog"))
			replaced("push.hlog", string(text))(t, dir)
		}, reportIt("html"), "push.hlog: lane push: the histograms tagged intended give"},
		{"a log that is missing", func(t *testing.T, dir string) {
			must(t, os.Remove(filepath.Join(dir, "push.hlog")))
		}, reportIt("text"), "push.hlog"},
		{"a log that is empty", replaced("push.hlog", ""), reportIt("text"), "push.hlog: bad histogram log: it is empty"},
		{
			"a log of one line of 8 MB",
			replaced("push.hlog", strings.Repeat("x", 8<<20)),
			reportIt("text"),
			"push.hlog: bad histogram log: line 1 is longer",
		},
		{"a log of zeros", replaced("push.hlog", strings.Repeat("\x00", 1<<20)), reportIt("text"), "push.hlog: bad histogram log: line 1"},
		{"a log of too many digits", replaced("push.hlog", "Tag=sent,0,1,1,"+wideHistogram()+"\n"), reportIt("text"), "of 5 digits"},
		{
			"a timeline that disagrees",
			func(t *testing.T, dir string) { takeDelivered(t, filepath.Join(dir, "timeline.csv")) },
			reportIt("text"),
			"timeline.csv: lane push: ",
		},
		{
			"a timeline of another lane",
			everywhere("timeline.csv", "push,", "pish,"),
			reportIt("text"),
			`timeline.csv: it has a lane "pish"`,
		},
		{"a timeline that is empty", replaced("timeline.csv", ""), reportIt("text"), "timeline.csv: bad timeline"},
		{
			"a timeline with a count below zero",
			everywhere("timeline.csv", ",0\n", ",-1\n"),
			reportIt("html"),
			"timeline.csv: bad timeline: line 2",
		},
		{
			"a timeline with a quote that stays open",
			everywhere("timeline.csv", "push,", "\"push,"),
			reportIt("html"),
			"timeline.csv: bad timeline",
		},
		{
			"a log that disagrees, compared",
			func(t *testing.T, dir string) { takeLine(t, filepath.Join(dir, "push.hlog"), "Tag=intended") },
			compareIt(),
			"push.hlog: lane push: the histograms tagged intended give",
		},
		{
			"a log whose tail was cut, compared",
			func(t *testing.T, dir string) { takeLine(t, filepath.Join(dir, "poll.hlog"), "Tag=sent") },
			compareIt(),
			"poll.hlog: lane poll: the histograms tagged sent give",
		},
		{
			"a quantile that was changed, compared",
			set("result.json", "1", "lanes", 0, "latency", "fromSent", "mean"),
			compareIt(),
			"push.hlog: lane push: the histograms tagged sent give",
		},
		{
			"a timeline that disagrees, compared",
			func(t *testing.T, dir string) { takeDelivered(t, filepath.Join(dir, "timeline.csv")) },
			compareIt(),
			"timeline.csv: lane push: delivered adds up to",
		},
		{"a timeline that is empty, compared", replaced("timeline.csv", ""), compareIt(), "timeline.csv: bad timeline"},
		{"a log that disagrees, merged", func(t *testing.T, dir string) {
			takeLine(t, filepath.Join(dir, "shard-1", "push.hlog"), "Tag=intended")
		}, mergeIt(), "shard-1/push.hlog: lane push: the histograms tagged intended give"},
		{"a log that is empty, merged", replaced("shard-0/poll.hlog", ""), mergeIt(), "shard-0/poll.hlog: bad histogram log: it is empty"},
		{
			"a quantile that was changed, merged",
			set("shard-0/result.json", "1", "lanes", 0, "latency", "fromSent", "mean"),
			mergeIt(),
			"shard-0/push.hlog: lane push: the histograms tagged sent give",
		},
		{"a timeline that disagrees, merged", func(t *testing.T, dir string) {
			takeDelivered(t, filepath.Join(dir, "shard-0", "timeline.csv"))
		}, mergeIt(), "shard-0/timeline.csv: lane push: delivered adds up to"},
		{
			"a timeline of another lane, merged",
			everywhere("shard-1/timeline.csv", "push,", "pish,"),
			mergeIt(),
			`shard-1/timeline.csv: it has a lane "pish"`,
		},
		{"a result that is a folder", func(t *testing.T, dir string) {
			must(t, os.RemoveAll(filepath.Join(dir, "shard-0", "result.json")))
			must(t, os.Mkdir(filepath.Join(dir, "shard-0", "result.json"), 0o755))
		}, mergeIt(), "result.json is no regular file"},
		{"a result that is a device", func(t *testing.T, dir string) {
			must(t, os.Remove(filepath.Join(dir, "result.json")))
			must(t, os.Symlink("/dev/zero", filepath.Join(dir, "result.json")))
		}, reportIt("text"), "result.json is no regular file"},
	}
}

// takeLine takes the first line with a prefix out of a file.
func takeLine(t *testing.T, name, prefix string) {
	t.Helper()
	take(t, name, func(l string) bool { return strings.HasPrefix(l, prefix) })
}

// takeDelivered takes the first interval of the lane push in which something was
// delivered out of a timeline. On a busy machine that is not the first one.
func takeDelivered(t *testing.T, name string) {
	t.Helper()
	column := slices.Index(strings.Split(strings.SplitN(readText(t, name), "\n", 2)[0], ","), "delivered")
	take(t, name, func(l string) bool {
		fields := strings.Split(l, ",")
		return fields[0] == "push" && fields[column] != "0"
	})
}

// take takes the first line that is wanted out of a file.
func take(t *testing.T, name string, wanted func(line string) bool) {
	t.Helper()
	text := readFile(t, name)
	lines := strings.SplitAfter(string(text), "\n")
	i := slices.IndexFunc(lines, wanted)
	if i < 0 {
		t.Fatalf("%s has no such line", name)
	}
	must(t, os.WriteFile(name, []byte(strings.Join(slices.Delete(lines, i, i+1), "")), 0o644))
}

// wideHistogram is one of more digits than a run has.
func wideHistogram() string {
	h := hdrhistogram.NewPacked(1, 1<<60, 5)
	_ = h.RecordValue(1 << 50) // within its range
	text, err := h.Encode()
	if err != nil {
		panic(err)
	}
	return string(text)
}

// TestBadArchivesAreRefused reads archives that were changed. Each is refused
// with the file and the field, and nothing is written beside --out.
func TestBadArchivesAreRefused(t *testing.T) {
	t.Parallel()
	good := smallArchive(t)
	for _, b := range badArchives() {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			archive := copied(t, good)
			b.change(t, archive)
			in := badInput{args: b.args, want: b.want}
			in.at = filepath.Dir(archive)
			in.refused(t)
			// p.yaml is of the test itself.
			entries, err := os.ReadDir(in.at)
			must(t, err)
			for _, e := range entries {
				if e.Name() != "archive" && e.Name() != "p.yaml" {
					t.Errorf("%s was written", e.Name())
				}
			}
			if found, _ := filepath.Glob(filepath.Join(in.at, "..", "evil*")); found != nil {
				t.Errorf("%s was written", found)
			}
		})
	}
}

// TestReportsWithoutLanes: a run that ended before a lane was measured has none,
// and every format says so.
func TestReportsWithoutLanes(t *testing.T) {
	t.Parallel()
	archive := copied(t, smallArchive(t))
	set("result.json", "[]", "lanes")(t, archive)
	replaced("timeline.csv", strings.SplitAfter(readText(t, filepath.Join(archive, "timeline.csv")), "\n")[0])(t, archive)
	for _, format := range []string{"text", "html", "markdown", "junit", "json", "github"} {
		if stdout, stderr, code := execute(t, "report", archive, "--format", format); code != exitOK || stderr != "" {
			t.Errorf("%s: exit code %d, %s%.200s", format, code, stderr, stdout)
		}
	}
}

func readText(t *testing.T, name string) string {
	t.Helper()
	text := readFile(t, name)
	return string(text)
}

// TestAPanicIsNoBadProfile: a panic that gets through ends with exit code 1 and
// one line that says what to report.
func TestAPanicIsNoBadProfile(t *testing.T) {
	var out bytes.Buffer
	code := guarded(&out, func() error {
		var lanes []int
		return fmt.Errorf("lane %d", lanes[len(out.String())-1])
	})
	if text := out.String(); code != exitFailure || strings.Count(text, "\n") != 1 ||
		!strings.Contains(text, "index out of range [-1] (eventmeter.TestAPanicIsNoBadProfile.func1, bad_archive_test.go:") ||
		!strings.Contains(text, "please report this line") {
		t.Errorf("exit code %d: %s", code, text)
	}
	out.Reset()
	if code := guarded(
		&out,
		func() error { return usageError{errors.New(strings.Repeat("a\x1b", 100_000) + "; mend it")} },
	); code != exitUsage || out.Len() > maxErrorLine+100 || strings.Count(out.String(), "\n") != 1 ||
		strings.Contains(out.String(), "\x1b") ||
		!strings.HasSuffix(out.String(), " mend it\n") {
		t.Errorf("exit code %d, %d bytes: %.100q", code, out.Len(), out.String())
	}
}

// TestAPanicOfAGoroutine: it ends the program in the same way.
func TestAPanicOfAGoroutine(t *testing.T) {
	cmd := watched(t)
	cmd.Env = append(cmd.Env, asPanic+"=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	code := codeOf(t, cmd.Run())
	if text := stderr.String(); code != exitFailure || strings.Count(text, "\n") != 1 ||
		!strings.HasPrefix(text, "eventmeter: internal error: out of  (eventmeter.TestMain.func1, e2e_test.go:") {
		t.Errorf("exit code %d: %q", code, text)
	}
}

// TestKilledBetweenTwoFiles: a shard that was killed after its part and before its
// result is merged by its part, and one that left its part alone is missing.
func TestKilledBetweenTwoFiles(t *testing.T) {
	t.Parallel()
	good := smallArchive(t)
	whole := loaded(t, good)
	old := all(
		set("shard-1/result.json", "true", "checkpoint"),
		set("shard-1/result.json", "true", "partial"),
		set("shard-1/result.json", `"killed"`, "reason"),
		func(t *testing.T, dir string) {
			name := filepath.Join(dir, "shard-1", results.File)
			r := loaded(t, name)
			r.Lanes[0].Expected, r.Lanes[0].Delivered, r.Lanes[0].LostSilent = 1, 1, 0
			r.Lanes = r.Lanes[:1]
			must(t, results.WriteFile(name, r.Write))
		},
	)
	for name, tt := range map[string]struct {
		change func(*testing.T, string)
		want   string
		less   bool
	}{
		"an older checkpoint": {old, "shard 1 ended early: killed", false},
		"no result yet": {func(t *testing.T, dir string) {
			must(t, os.Remove(filepath.Join(dir, "shard-1", results.File)))
		}, "shard 1 of 2 is missing", true},
	} {
		archive := copied(t, good)
		tt.change(t, archive)
		out := filepath.Join(t.TempDir(), "merged")
		_, stderr, code := execute(t, "merge", archive, "--out", out)
		r, err := results.Load(out)
		if code != exitFailure || err != nil || !strings.Contains(stderr, tt.want) {
			t.Errorf("%s: exit code %d, %v: %s", name, code, err, stderr)
			continue
		}
		if less := r.Lanes[0].Delivered < whole.Lanes[0].Delivered; less != tt.less || r.Lanes[0].Delivered == 0 || len(r.Lanes) != 2 {
			t.Errorf("%s: %d delivered in %d lanes, and %d in all", name, r.Lanes[0].Delivered, len(r.Lanes), whole.Lanes[0].Delivered)
		}
	}
}

// TestPartIsWrittenFirst: whoever finds a result that is no checkpoint finds the
// part that goes with it.
func TestPartIsWrittenFirst(t *testing.T) {
	for name, write := range map[string]func(string, *run.Outcome) error{"archive": archive, "checkpoint": checkpoint} {
		dir := t.TempDir()
		must(t, os.MkdirAll(filepath.Join(dir, results.File, "in the way"), 0o700))
		if err := write(dir, &run.Outcome{Result: &results.Result{}, Part: &results.Part{Schema: results.PartSchema, Count: 2}}); err == nil {
			t.Errorf("%s: the result was written in place of a directory", name)
		}
		if _, err := os.Stat(filepath.Join(dir, results.PartFile)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
