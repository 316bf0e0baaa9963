package main

import (
	"bytes"
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/shlex"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eventmeter/eventmeter/internal/stats"
)

// commandsOf are a command and all below it that people see.
func commandsOf(c *cobra.Command) []*cobra.Command {
	out := []*cobra.Command{c}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			out = append(out, commandsOf(sub)...)
		}
	}
	return out
}

// helpOf is the help that a command prints.
func helpOf(t *testing.T, c *cobra.Command) string {
	t.Helper()
	var out, errs bytes.Buffer
	args := append(strings.Fields(c.CommandPath())[1:], "--help")
	if err := runCommand(t.Context(), args, streams{strings.NewReader(""), &out, &errs, nil, nil}); err != nil || errs.Len() > 0 {
		t.Fatalf("%q: %v, %s", args, err, errs.String())
	}
	return out.String()
}

func TestHelp(t *testing.T) {
	for _, c := range commandsOf(newRoot(streams{})) {
		text := helpOf(t, c)
		for line := range strings.SplitSeq(text, "\n") {
			if utf8.RuneCountInString(line) > 150 {
				t.Errorf("%s: %s", c.CommandPath(), line)
			}
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && !isMeta(f.Name) && !strings.Contains(text, "--"+f.Name+" ") {
				t.Errorf("%s --help does not show --%s", c.CommandPath(), f.Name)
			}
			if f.Usage == "" {
				t.Errorf("%s: --%s is not explained", c.CommandPath(), f.Name)
			}
		})
	}
}

// TestExamples runs each example of the help, with a context that has ended: what is wrong
// with its flags or its profile is found before that.
func TestExamples(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv(asCommand, "1") // of the targets that are started
	for name, text := range map[string]string{
		"mine.yaml": "name: mine\nlanes: [{name: push, mode: push, subscriptions: 1, event: chat.message}]\nupstream: " +
			"{payload: {text: '{{.Probe}}'}}\nschedule: {kind: constant, rate: 5/s}\ncapacity: {axis: rate, from: 1, to: 2}\n",
		"replay.yaml": "name: mine\nlanes: [{name: push, mode: push, subscriptions: 1, event: chat.message}]\nupstream: " +
			"{kind: replay, replay: {file: chat.jsonl, probe: text}}\n",
		"chat.jsonl": `{"t": 0, "payload": {"text": "a"}}` + "\n" + `{"t": 5, "payload": {"text": "b"}}` + "\n",
		"tokens.txt": "a\n",
	} {
		must(t, os.WriteFile(name, []byte(text), 0o600))
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	seen := 0
	for _, c := range commandsOf(newRoot(streams{})) {
		for _, example := range strings.Split(strings.ReplaceAll(c.Example, "\\\n", " "), "\n") {
			words, err := shlex.Split(example)
			if err != nil {
				t.Fatalf("%s: %v", example, err)
			}
			if at := slices.Index(words, ">"); at >= 0 {
				words = words[:at]
			}
			if len(words) == 0 || words[0] != "eventmeter" {
				continue
			}
			seen++
			switch words[1] {
			case "compare", "report", "merge", "plan": // they need archives
				root := newRoot(streams{})
				of, rest, err := root.Find(words[1:])
				if err != nil || of.ParseFlags(rest) != nil || of.ValidateArgs(of.Flags().Args()) != nil {
					t.Errorf("%s: %v", example, err)
				}
				if gates, err := of.Flags().GetStringArray("gate"); err == nil {
					if _, err := stats.ParseGates(gates); err != nil {
						t.Errorf("%s: %v", example, err)
					}
				}
				continue
			case "record": // to a new file
				words = append(words, "--out", "new.jsonl")
			case "serve":
				words = append(words, "--addr", "127.0.0.1:0", "--admin", "127.0.0.1:0")
			}
			var out, errs bytes.Buffer
			err = runCommand(ended, words[1:], streams{strings.NewReader(""), &out, &errs, nil, nil})
			if code := exitCode(err); code == exitUsage {
				t.Errorf("%s: %v", example, err)
			}
		}
	}
	if seen < 25 {
		t.Errorf("only %d examples", seen)
	}
}

func TestSuggestions(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"run --subscription 5", "did you mean --subscriptions?"},
		{"run --duraton 5s", "did you mean --duration?"},
		{"run --json", "write --format json"},
		{"capacity --markdown", "write --format markdown"},
		{"run --set subscriptions=5", "write --subscriptions 5, or --set 'lanes.*.subscriptions=5'"},
		{"run --set rate=5/s", "write --rate 5/s, or --set 'schedule.rate=5/s'"},
		{"run --set measure=5s", "write --duration 5s, or --set 'phases.measure=5s'"},
		{"run --set lanes.pus.subscriptions=5", "did you mean push?"},
		{"run nosuch.yaml", "neither a file nor built in"},
		{"run smok", "did you mean smoke?"},
		{"run soak --rate 5/s", "--rate 5/s: schedule.rate: has no effect with kind burst"},
		{"run today --event x", "--event x: lanes."},
		{"run smoke --subscriptions many", "--subscriptions many: lanes.push.subscriptions"},
		{"run smoke --duration 5", "did you mean 5s?"},
		{"run smoke --revision newest", "--revision newest: target.revision"},
		{"capacity --rate 5/s", "the search raises it"},
		{"run smoke --profile push", "name a profile in one of the two ways"},
		{"run smoke --gate push.p99:5% --against http://127.0.0.1:1", "want LANE.FIGURE <= +SHARE"},
		{"capacity --slo push.p99<5ms", "every lane must meet an SLO; write p99 < 5ms"},
		{"capacity --slo p98<5ms", "want p50, p90, p95, p99 or p999"},
	} {
		_, stderr, code := execute(t, strings.Fields(tt.args)...)
		if code != exitUsage || !strings.Contains(stderr, tt.want) {
			t.Errorf("%s: exit code %d, %s, want %q", tt.args, code, stderr, tt.want)
		}
	}
}

func TestSettingsFor(t *testing.T) {
	lanes := []string{"*", "push"}
	for typed, want := range map[string]string{
		"": "capacity. cases= description= generator. lanes. limits. name= phases. schedule. " +
			"target. thresholds= upstream.",
		"pha": "capacity. cases= description= generator. lanes. limits. name= phases. schedule. " +
			"target. thresholds= upstream.",
		"lanes.":                     "lanes.*. lanes.push.",
		"lanes.push.mode=":           "lanes.push.mode=push lanes.push.mode=poll lanes.push.mode=webhook",
		"lanes.*.push.backoff.":      "lanes.*.push.backoff.max= lanes.*.push.backoff.min=",
		"lanes.push.sep1803.nosuch.": "",
		"target.era=":                "target.era=auto target.era=modern target.era=legacy",
		"nosuch.":                    "",
	} {
		var got []string
		for _, line := range settingsFor(lanes, typed) {
			word, _, _ := strings.Cut(line, "\t")
			got = append(got, word)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %q, want %q", typed, got, want)
		}
	}
	stdout, _, code := execute(t, "__complete", "run", "mixed", "--set", "lanes.")
	if code != 0 || !strings.Contains(stdout, "lanes.") {
		t.Errorf("exit code %d\n%s", code, stdout)
	}
	if stdout, _, _ = execute(t, "__complete", "run", "sm"); !strings.Contains(stdout, "smoke\ta few subscriptions") {
		t.Errorf("%s", stdout)
	}
}
