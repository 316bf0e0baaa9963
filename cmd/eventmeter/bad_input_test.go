package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// refusalMemory is the most memory that a command may use to refuse its input,
// in bytes.
const refusalMemory = 400 << 20

// badInput is a command line that has to be refused.
type badInput struct {
	name    string
	profile string            // written to p.yaml; "" = smallProfile
	files   map[string]string // besides
	set     []string          // overrides
	args    []string          // nil = run that profile
	code    int               // 0 = exitUsage
	want    string            // in the one line
	lines   int               // 0 = 1
	at      string            // the folder; "" = one of its own
}

// refused runs a command in a folder of its own, with a limit to its time and
// memory, and checks how it ends.
func (b badInput) refused(t *testing.T) {
	t.Helper()
	cmd := command(t)
	if b.at != "" {
		cmd.Dir = b.at
	}
	files := map[string]string{"p.yaml": b.profile}
	if b.profile == "" {
		files["p.yaml"] = smallProfile
	}
	for name, text := range b.files {
		files[name] = text
	}
	for name, text := range files {
		name = filepath.Join(cmd.Dir, name)
		must(t, os.MkdirAll(filepath.Dir(name), 0o755))
		must(t, os.WriteFile(name, []byte(text), 0o644))
	}
	args := b.args
	if args == nil {
		args = []string{"run", "--quiet", "--profile", "./p.yaml"}
	}
	for _, s := range b.set {
		args = append(args, "--set", s)
	}
	cmd.Args = append(cmd.Args, args...)
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	must(t, cmd.Start())
	watched := watchMemory(cmd)
	err := cmd.Wait()
	used, why := watched()
	if why != "" {
		t.Fatal(why)
	}
	code, want := codeOf(t, err), b.code
	if want == 0 {
		want = exitUsage
	}
	text := strings.TrimSuffix(stderr.String(), "\n")
	if code != want || !strings.Contains(text, b.want) || b.want == "" {
		t.Errorf("exit code %d, want %d with %q:\n%.600s", code, want, b.want, text)
	}
	lines := strings.Split(text, "\n")
	if len(lines) > max(1, b.lines) {
		t.Errorf("%d lines, want %d:\n%.600s", len(lines), max(1, b.lines), text)
	}
	for _, line := range lines {
		if len(line) > maxErrorLine+100 || strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			t.Errorf("a line of %d bytes, or with control characters: %.300q", len(line), line)
		}
	}
	if used > refusalMemory {
		t.Errorf("it used %d MiB", used>>20)
	}
}

// watchMemory kills a command that uses three times the memory that it may have,
// or 60 s, before the machine suffers. The function that it returns gives the most
// that was used, in bytes, and why the command was killed.
func watchMemory(cmd *exec.Cmd) func() (int64, string) {
	done, finished := make(chan struct{}), make(chan struct{})
	var peak int64
	var why string
	go func() {
		defer close(finished)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		end := time.NewTimer(time.Minute)
		defer end.Stop()
		for why == "" {
			peak = max(peak, peakMemory(cmd.Process.Pid))
			if peak > 3*refusalMemory {
				why = fmt.Sprintf("it was killed at %d MiB", peak>>20)
				_ = cmd.Process.Kill()
				return
			}
			select {
			case <-done:
				return
			case <-end.C:
				why = "it was killed after a minute"
				_ = cmd.Process.Kill()
			case <-tick.C:
			}
		}
	}()
	return func() (int64, string) {
		close(done)
		<-finished
		return peak, why
	}
}

// peakMemory returns the largest resident set of a process that runs, in bytes; 0
// where that is not known. What the system says of a process that has ended includes
// the memory of the one that started it.
func peakMemory(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, value, _ := strings.Cut(string(text), "\nVmHWM:")
	var n int64
	_, _ = fmt.Sscan(value, &n)
	return n << 10
}

// nested is a template of printfs within each other: 8 to the power of depth.
func nested(depth int) string {
	e := ".Probe"
	for range depth {
		e = `(printf "%[1]v%[1]v%[1]v%[1]v%[1]v%[1]v%[1]v%[1]v" ` + e + `)`
	}
	return "{{" + e + "}}"
}

// smallWith is smallProfile with old replaced.
func smallWith(old, new string) string {
	if !strings.Contains(smallProfile, old) {
		panic(old)
	}
	return strings.Replace(smallProfile, old, new, 1)
}

// lane and upstream put keys into smallProfile.
func inLane(keys string) string { return smallWith("event: tick}", "event: tick, "+keys+"}") }

func inPayload(value string) string {
	return smallWith(`{text: "{{.Probe}}"}`, `{text: "{{.Probe}}", x: `+value+`}`)
}

func keyLines(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "k%d: 1\n", i)
	}
	return b.String()
}

// badInputs are refused with exit code 2 and a line that says where.
// A function, as badArchives.
func badInputs() []badInput {
	return []badInput{
		// YAML.
		{name: "sequences on one line", profile: strings.Repeat("- ", 150_000), want: "p.yaml:1: nested too deeply on one line"},
		{
			name:    "sequences below a key",
			profile: "name: x\nlanes: " + strings.Repeat("- ", 150_000),
			want:    "p.yaml:2: nested too deeply on one line",
		},
		{name: "explicit keys on one line", profile: strings.Repeat("? ", 150_000), want: "p.yaml:1: nested too deeply on one line"},
		{name: "values on one line", profile: strings.Repeat(": ", 150_000), want: "p.yaml:1: nested too deeply on one line"},
		{name: "keys on one line", profile: strings.Repeat("a: ", 150_000), want: "p.yaml:1: nested too deeply on one line"},
		{name: "tags on one line", profile: strings.Repeat("!a ", 150_000), want: "p.yaml:1: nested too deeply on one line"},
		{name: "anchors on one line", profile: strings.Repeat("&a ", 150_000), want: "p.yaml:1: nested too deeply on one line"},
		{name: "aliases on one line", profile: strings.Repeat("*a ", 150_000), want: "p.yaml:1: nested too deeply on one line"},
		{name: "brackets", profile: strings.Repeat("[", 1<<20), want: "p.yaml:1: brackets are nested too deeply"},
		{name: "braces", profile: "name: " + strings.Repeat("{a: ", 100_000), want: "p.yaml:1: brackets are nested too deeply"},
		{name: "brackets over lines", profile: strings.Repeat("[\n", 100_000), want: "p.yaml:65: brackets are nested too deeply"},
		{name: "nested by indentation", profile: asIndented(1400), want: "nested too deeply; at most 64 levels are read"},
		{name: "1 MiB of keys", profile: keyLines(90_000), want: "p.yaml:6667: there is too much in it"},
		{name: "1 MiB of one key", profile: smallProfile + strings.Repeat("x: 1\n", 150_000), want: "there is too much in it"},
		{name: "1 MiB of keys and carriage returns", profile: strings.Repeat("a: 1\r", 150_000), want: "there is too much in it"},
		{
			name:    "1 MiB of keys in braces",
			profile: inLane("arguments: {" + strings.Repeat("k: 1, ", 150_000) + "}"),
			want:    "there is too much in it",
		},
		{name: "1 MiB of documents", profile: strings.Repeat("--- a\n", 150_000), want: "there is too much in it"},
		{
			name:    "1 MiB of items",
			profile: smallProfile + "thresholds: [" + strings.Repeat("1,", 300_000) + "]\n",
			want:    "there is too much in it",
		},
		{name: "5,000 keys that are not", profile: keyLines(5_000), want: "k0: no such key", lines: 21},
		{name: "anchors over lines", profile: strings.Repeat("&a\n", 9_000), want: "p.yaml:"},
		{name: "quoted texts side by side", profile: strings.Repeat("'a' ", 9_000), want: "p.yaml:"},
		{name: "merge keys", profile: strings.Repeat("<<: *a\n", 4_000), want: "p.yaml:1", lines: 21},
		{name: "only a byte order mark", profile: "\ufeff", want: "p.yaml:"},
		{name: "nothing but zeros", profile: strings.Repeat("\x00", 1<<20), want: "p.yaml:1"},
		{name: "bytes that are no text", profile: "name: \xff\xfe\xfd\n", want: "p.yaml:1: name", lines: 5},
		{name: "over 1 MiB", profile: strings.Repeat("# x\n", 300_000), want: "is too large for a profile"},
		{name: "a quote that stays open", profile: `name: "` + strings.Repeat("x\n", 100_000), want: "p.yaml:"},
		{name: "a key of 1 MB", profile: strings.Repeat("k", 1_000_000) + ": 1\n", want: "no such key", lines: 21},
		{
			name:    "a key with an escape sequence",
			profile: smallProfile + "\"a\\e]0;x\\a\\n::error::b\": 1\n",
			want:    `a\x1b]0;x\a\n::error::b: no such key`,
		},
		{
			name:    "a value of 1 MB",
			profile: smallWith("mode: push", "mode: "+strings.Repeat("m", 1_000_000)),
			want:    "lanes.push.mode: no such mode",
		},
		{
			name:    "a number of 100,000 digits",
			profile: smallWith("sources: 2", "sources: "+strings.Repeat("9", 100_000)),
			want:    "upstream.sources",
		},
		{
			name:    "a number of 100,000 digits and a point",
			profile: smallWith("sources: 2", "sources: 1."+strings.Repeat("9", 100_000)),
			want:    "upstream.sources",
		},
		{
			name:    "a hexadecimal number of 100,000 digits",
			profile: smallWith("sources: 2", "sources: 0x"+strings.Repeat("f", 100_000)),
			want:    "upstream.sources",
		},
		{name: "a list where a text is", profile: smallWith("name: small", "name: [a]"), want: "name: is a list"},
		{name: "lanes that are a number", profile: "name: a\nlanes: 1\n", want: "lanes: is a single value", lines: 9},
		{name: "a lane that is null", profile: smallWith("lanes:\n", "lanes:\n  - null\n"), want: "lanes.0: has no value", lines: 2},
		{name: "2,000 lanes", profile: manyLanes(2_000), want: "lanes: 2000 are too many; give at most 1000"},
		{
			name:    "2,000 thresholds",
			profile: smallProfile + "thresholds:\n" + strings.Repeat("  - push.lostSilent == 0\n", 2_000),
			want:    "thresholds: 2000 are too many",
		},
		{name: "300 cases", profile: smallProfile + "cases:\n" + manyCases(300), want: "cases: 300 are too many; give at most 200"},
		{
			name:    "cases that are wrong",
			profile: smallProfile + "cases:\n" + strings.Repeat("  - {name: a, set: [x=1, y=2]}\n", 100),
			want:    "x: no such key",
			lines:   21,
		},
		// Overrides.
		{name: "an item before the first", set: []string{"lanes.-1.mode=push"}, want: "lanes.-1: no such item"},
		{name: "an item before the first, alone", set: []string{"lanes.-9223372036854775808=1"}, want: "no such item"},
		{name: "an item after the last", set: []string{"lanes.2.mode=push"}, want: "lanes.2: no such item"},
		{name: "an item without a number", set: []string{"lanes..mode=push"}, want: "no such item"},
		{name: "a path of dots", set: []string{strings.Repeat(".", 60) + "=1"}, want: "override"},
		{
			name: "a path of 100,000 keys",
			set:  []string{"lanes.push.arguments" + strings.Repeat(".a", 50_000) + "=1"},
			want: "its path is too long; at most 64 keys are nested",
		},
		{
			name: "a path and a value nested together",
			set:  []string{"lanes.push.arguments" + strings.Repeat(".a", 40) + "=" + strings.Repeat("[", 40) + strings.Repeat("]", 40)},
			want: "nested too deeply",
		},
		{
			name: "a value nested by sequences",
			set:  []string{"lanes.push.arguments.a=" + strings.Repeat("- ", 60_000)},
			want: "nested too deeply on one line",
		},
		{name: "a value of 100,000 characters", set: []string{"lanes.push.mode=" + strings.Repeat("m", 100_000)}, want: "no such mode"},
		{name: "a path of 100,000 characters", set: []string{strings.Repeat("m", 100_000) + "=1"}, want: "no such key"},
		{name: "an override with a line break", set: []string{"na\nme=1\n2"}, want: `na\nme`},
		{name: "lanes replaced by a number", set: []string{"lanes=1", "lanes.0.mode=push"}, want: "lanes is a single value", lines: 9},
		{name: "lanes replaced by nothing", set: []string{"lanes=[]"}, want: "lanes: is missing", lines: 2},
		{name: "all lanes of one name", set: []string{"lanes.*.name=a"}, want: "is given twice"},
		{name: "a name that leaves the folder", set: []string{"lanes.push.name=../../evil"}, want: `"../../evil" is not a name`},
		{name: "a second document in a value", set: []string{"name=a\n---\nb"}, want: "second document"},
		{name: "an anchor in a value", set: []string{"name=&a x"}, want: "anchors and aliases are not read"},
		// Counts.
		{name: "workers in scientific notation", set: []string{"upstream.workers=4e18"}, want: "is not a whole number"},
		{
			name: "4e18 workers",
			set:  []string{"upstream.workers=4000000000000000000"},
			want: "upstream.workers: 4000000000000000000 is out of bounds",
		},
		{name: "1e11 workers", set: []string{"upstream.workers=100000000000"}, want: "upstream.workers: 100000000000 is out of bounds"},
		{
			name: "1e9 workers",
			set:  []string{"upstream.workers=1000000000"},
			want: "upstream.workers: 1000000000 is too many; give at most 65536",
		},
		{name: "negative workers", set: []string{"upstream.workers=-1"}, want: "-1 is too small"},
		{name: "1e9 sources", set: []string{"upstream.sources=1000000000"}, want: "give at most 65536"},
		{name: "1e9 subscriptions", set: []string{"lanes.push.subscriptions=1000000000"}, want: "exceeds the limit"},
		{
			name:  "1e9 subscriptions and a limit as high",
			set:   []string{"lanes.push.subscriptions=1000000000", "limits.subscriptions=1000000000"},
			want:  "limits.subscriptions: 1000000000 is too many",
			lines: 2,
		},
		{
			name:  "the largest number of subscriptions",
			set:   []string{"lanes.*.subscriptions=9223372036854775807", "limits.subscriptions=9223372036854775807"},
			want:  "is out of bounds",
			lines: 9,
		},
		{
			name: "1e9 attaching at once",
			set:  []string{"lanes.push.attach.concurrency=1000000000"},
			want: "lanes.push.attach.concurrency: 1000000000 is too many",
		},
		{
			name:  "a burst of 1e9",
			set:   []string{"schedule={kind: burst, burst: 1000000000, every: 1s}", "limits.rate=1e300"},
			want:  "is too many",
			lines: 3,
		},
		{name: "a rate of 1e300", set: []string{"schedule.rate=1e300/s", "limits.rate=1e300"}, want: "limits.rate: 1e+300/s is too much"},
		{name: "a rate that is no number", set: []string{"schedule.rate=NaN/s"}, want: "is not a rate"},
		{name: "an endless rate", set: []string{"schedule.rate=1e309"}, want: "schedule.rate"},
		{
			name: "a buffer of 1e9",
			set:  []string{"target.embedded.buffer=1000000000"},
			want: "target.embedded.buffer: 1000000000 is too many",
		},
		{name: "a queue of 1e9", set: []string{"target.embedded.queue=1000000000"}, want: "target.embedded.queue: 1000000000 is too many"},
		{name: "1e9 retries", set: []string{"target.embedded.retries=1000000000"}, want: "target.embedded.retries: 1000000000 is too many"},
		{name: "a page below zero", set: []string{"target.embedded.lists.page=-5"}, want: "target.embedded.lists.page"},
		{
			name:  "the longest duration",
			set:   []string{"phases.measure=2562047h47m16.854775807s"},
			want:  "phases.measure: 2562047h47m16.854775807s is too long",
			lines: 2,
		},
		{name: "a duration that overflows", set: []string{"phases.measure=9999999999h"}, want: "is not a duration"},
		{
			name: "more than one process too many",
			args: []string{"run", "--quiet", "--processes", "1000000000"},
			want: "--processes 1000000000: want 1024 at most",
		},
		{name: "processes below zero", args: []string{"run", "--quiet", "--processes", "-1"}, want: "--processes -1: want 1 or more"},
		{name: "processes beyond numbers", args: []string{"run", "--processes", "99999999999999999999"}, want: "--processes"},
		{
			name: "a shard of many",
			args: []string{"run", "--shard", "0/1000000000", "--start-at", "2999-01-01T00:00:00Z"},
			want: "want a COUNT of 1024 at most",
		},
		{
			name: "a shard that wraps",
			args: []string{"run", "--shard", "0/18446744073709551617", "--start-at", "2999-01-01T00:00:00Z"},
			want: "want INDEX/COUNT",
		},
		{name: "no trials", args: []string{"run", "--trials", "-3"}, want: "--trials -3: want 1 or more"},
		{
			name:  "a capacity from no number",
			args:  []string{"capacity", "--quiet", "--from", "NaN"},
			want:  "--from NaN: want a finite number",
			lines: 3,
		},
		{
			name:  "a capacity without end",
			args:  []string{"capacity", "--quiet", "--to", "Inf"},
			want:  "--to +Inf: want a finite number",
			lines: 3,
		},
		{name: "a capacity up to 1e300", args: []string{"capacity", "--quiet", "--to", "1e300"}, want: "capacity.to", lines: 3},
		{name: "a level that is no number", args: []string{"capacity", "--quiet", "--slo", "loss<=NaN"}, want: "--slo \"loss<=NaN\""},
		{name: "an alpha that is no number", args: []string{"compare", "a", "b", "--alpha", "NaN"}, want: "--alpha NaN"},
		{name: "an effect that is no number", args: []string{"compare", "a", "b", "--min-effect", "NaN"}, want: "--min-effect NaN"},
		// Templates.
		{name: "printf within printf", profile: inPayload("'" + nested(11) + "'"), want: "a printf gives more than 64 KiB"},
		{
			name:    "printf within printf, in a lane",
			profile: inLane("arguments: {a: '" + strings.ReplaceAll(nested(11), ".Probe", ".Index") + "'}"),
			want:    "a printf gives more than 64 KiB",
		},
		{
			name:    "printf within printf, in sources",
			profile: inLane("sources: '" + strings.ReplaceAll(nested(11), ".Probe", ".Index") + "'"),
			want:    "lanes.push.sources",
		},
		{
			name:    "a format of many verbs",
			profile: inPayload(`'{{printf "` + strings.Repeat("%[1]v", 5_000) + `" .Probe}}'`),
			want:    "a format has 5000 verbs",
		},
		{name: "a wide format", profile: inPayload(`'{{printf "%999999d" .Seq}}'`), want: "use a smaller width"},
		{name: "a format as wide as a number", profile: inPayload(`'{{printf "%*d" 999999 .Seq}}'`), want: "write the width as a number"},
		{name: "a format that is not in quotes", profile: inPayload(`'{{.Probe | printf}}'`), want: "printf needs a format in quotes"},
		{name: "a format that is worked out", profile: inPayload(`'{{printf (printf "%d" .Seq)}}'`), want: "must stand in quotes"},
		{
			name: "50 texts of 32 KiB",
			profile: inPayload(
				"[" + strings.TrimSuffix(
					strings.Repeat(
						`'{{printf "%[1]s%[1]s%[1]s%[1]s" (printf "%[1]s%[1]s%[1]s%[1]s" (printf "%[1]s%[1]s%[1]s%[1]s" (printf `+
							`"%[1]s%[1]s%[1]s%[1]s%[1]s%[1]s%[1]s%[1]s" .Probe)))}}', `,
						80,
					),
					", ",
				) + "]",
			),
			want: "more than 1024 KiB together",
		},
		{
			name:    "brackets in a template",
			profile: inPayload("'{{" + strings.Repeat("(", 50_000) + ".Seq" + strings.Repeat(")", 50_000) + "}}'"),
			want:    "bad template",
		},
		{name: "a call of call", profile: inPayload(`'{{call .Probe}}'`), want: "no function call here"},
		{name: "a loop", profile: inPayload(`'{{range .Probe}}x{{end}}'`), want: "remove if, range, with"},
		{
			name:    "a definition",
			profile: inPayload(`'{{define "x"}}{{template "x"}}{{end}}{{template "x"}}'`),
			want:    "remove if, range, with",
		},
		{name: "a template that stays open", profile: inPayload(`'{{ ` + strings.Repeat("x", 100_000) + `'`), want: "bad template"},
		{
			name:    "sources too long for their subscriptions",
			profile: inLane("subscriptions: 200000, sources: '" + strings.Repeat("0,", 20_000) + "{{mod .Index 2}}'"),
			want:    "given twice",
		},
		{
			name: "sources too long",
			profile: strings.Replace(
				inLane("sources: '"+strings.Repeat("0,", 20_000)+"{{mod .Index 2}}'"),
				"subscriptions: 2",
				"subscriptions: 150000",
				1,
			),
			want: "it is too long for 150000 subscriptions",
		},
		// Flags.
		{name: "a profile that is not there", args: []string{"run", "--profile", strings.Repeat("x", 100_000)}, want: "profile"},
		{name: "a profile with a line break in its name", args: []string{"run", "--profile", "./a\nb.yaml"}, want: `a\nb.yaml`},
		{name: "a profile that is a device", args: []string{"run", "--profile", "/dev/zero"}, want: "is too large for a profile"},
		{name: "an unknown flag of 100,000 characters", args: []string{"run", "--" + strings.Repeat("x", 100_000)}, want: "unknown flag"},
		{name: "an unknown command with an escape sequence", args: []string{"\x1b]0;x\x07run"}, want: "unknown command"},
		{
			name:  "a target of 100,000 characters",
			args:  []string{"run", "--target", "http://" + strings.Repeat("x", 100_000) + ":1:2"},
			want:  "is not an address",
			lines: 3,
		},
		{name: "a command that stays open", args: []string{"run", "--command", `a "b`}, want: "cannot be split into words", lines: 3},
		{name: "a fault of 100,000 characters", args: []string{"serve", "--faults", strings.Repeat("x", 100_000)}, want: "unknown fault"},
		{
			name: "100,000 faults",
			args: []string{"serve", "--addr", "127.0.0.1:0", "--faults", strings.Repeat("a;", 50_000)},
			want: "unknown fault",
		},
		{
			name:  "an address with a port too high",
			args:  []string{"serve", "--addr", "127.0.0.1:99999999"},
			want:  "address 99999999",
			lines: 1,
		},
		{name: "a gate without a figure", args: []string{"compare", "a", "b", "--gate", strings.Repeat(":", 100_000)}, want: "gate"},
		{
			name: "arguments nested deeply",
			args: []string{"record", "--target", "http://127.0.0.1:1/mcp", "--event", "a", "--arguments", strings.Repeat(`{"a":`, 20_000)},
			want: "--arguments",
		},
		// Archives.
		{name: "a name that metrics cannot have", args: []string{"run", "--name", "<b>"}, want: `--name: "<b>": a name has letters`},
		{
			name: "a name without end",
			args: []string{"capacity", "--name", strings.Repeat("x", 65)},
			want: "--name: 65 characters: a name has 1 to 64",
		},
		{name: "a report of nothing", args: []string{"report", "nothing"}, code: exitUsage, want: "nothing"},
		{
			name:  "a result that is empty",
			files: map[string]string{"a/result.json": ""},
			args:  []string{"report", "a"},
			want:  "a/result.json",
		},
		{
			name:  "a result of zeros",
			files: map[string]string{"a/result.json": strings.Repeat("\x00", 1<<20)},
			args:  []string{"report", "a"},
			want:  "a/result.json",
		},
		{
			name:  "a result nested deeply",
			files: map[string]string{"a/result.json": strings.Repeat(`{"a":`, 1<<18)},
			args:  []string{"report", "a"},
			want:  "a/result.json",
		},
		{
			name:  "a result with a field of 1 MB",
			files: map[string]string{"a/result.json": `{"schema":"eventmeter.result/1","` + strings.Repeat("x", 1<<20) + `":1}`},
			args:  []string{"report", "a"},
			want:  "unknown field",
		},
		{
			name:  "a result of another schema of 1 MB",
			files: map[string]string{"a/result.json": `{"schema":"` + strings.Repeat("x", 1<<20) + `"}`},
			args:  []string{"report", "a"},
			want:  "its schema is",
		},
		{
			name:  "a shard that is empty",
			files: map[string]string{"a/shard.json": "", "a/result.json": "{}"},
			args:  []string{"merge", "a"},
			want:  "a/result.json",
		},
		{name: "a merge of nothing", args: []string{"merge", "."}, want: "has no shard.json"},
		{
			name:  "a capacity that is empty",
			files: map[string]string{"a/capacity.json": "{}"},
			args:  []string{"report", "a"},
			want:  "its schema is",
		},
		{
			name:  "a capacity whose step leaves its folder",
			files: map[string]string{"a/capacity.json": `{"schema":"eventmeter.capacity/1","steps":[{"number":1,"dir":"../../etc"}]}`},
			args:  []string{"report", "a"},
			want:  "leads out of the directory",
		},
	}
}

func asIndented(levels int) string {
	var b strings.Builder
	for i := range levels {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

func manyLanes(n int) string {
	var b strings.Builder
	b.WriteString("name: many\nlanes:\n")
	for i := range n {
		fmt.Fprintf(&b, "  - {name: l%d}\n", i)
	}
	return b.String()
}

func manyCases(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "  - {name: c%d}\n", i)
	}
	return b.String()
}

func TestBadInputIsRefused(t *testing.T) {
	t.Parallel()
	for _, b := range badInputs() {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			b.refused(t)
		})
	}
}
