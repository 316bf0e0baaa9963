package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// pageCommand is a command on docs/planning.md, with what the page says that it prints.
type pageCommand struct {
	text   string   // as on the page, with its line breaks
	args   []string // without the name of the program
	output string
}

var (
	pageBlock = regexp.MustCompile("(?ms)^```\n(.*?)^```$")
	pageWord  = regexp.MustCompile(`(?:'[^']*'|[^\s'])+`)
)

// pageCommands returns the commands of the blocks of a page: lines that begin with
// $ eventmeter, continued by a backslash, each with its output up to the next.
func pageCommands(page string) []pageCommand {
	var out []pageCommand
	for _, block := range pageBlock.FindAllStringSubmatch(page, -1) {
		more := false
		for line := range strings.Lines(block[1]) {
			start, isCommand := strings.CutPrefix(line, "$ eventmeter ")
			switch n := len(out) - 1; {
			case isCommand:
				out = append(out, pageCommand{text: start})
			case more:
				out[n].text += line
			case n >= 0:
				out[n].output += line
			}
			more = (isCommand || more) && strings.HasSuffix(line, "\\\n")
		}
	}
	for i := range out {
		for _, word := range pageWord.FindAllString(strings.ReplaceAll(out[i].text, "\\\n", " "), -1) {
			out[i].args = append(out[i].args, strings.ReplaceAll(word, "'", ""))
		}
	}
	return out
}

// TestPlanningPage runs the commands of docs/planning.md: the plans on the searches in
// testdata/plan, which must print what the page says (-update writes it there), and the
// searches until just before their first step.
func TestPlanningPage(t *testing.T) {
	const name = "../../docs/planning.md"
	text := readFile(t, name)
	page := string(text)
	searches, err := filepath.Abs("testdata/plan")
	must(t, err)
	file, err := filepath.Abs(name)
	must(t, err)
	kinds := map[string]int{}
	var made []string
	for _, c := range pageCommands(page) {
		kinds[c.args[0]]++
		switch c.args[0] {
		case "plan":
			t.Chdir(searches)
			got, stderr, code := planned(t, c.args[1:]...)
			if code != 0 {
				t.Errorf("%s: exit code %d, %s", c.text, code, stderr)
				continue
			}
			if *update {
				page = strings.Replace(page, c.text+c.output, c.text+got, 1)
			} else if got != c.output {
				t.Errorf("%s prints\n%s\nand the page says\n%s; run with -update", c.text, got, c.output)
			}
		case "capacity":
			t.Chdir(t.TempDir())
			// Metrics that nobody serves are what is looked at last before the first step.
			args := append(c.args, "--slo", "x < 1", "--target-metrics", "http://127.0.0.1:1/metrics")
			var out strings.Builder
			if err := runCommand(
				t.Context(),
				args,
				streams{in: strings.NewReader(""), out: &out, err: &out},
			); exitCode(err) != exitTarget ||
				!strings.Contains(err.Error(), "127.0.0.1:1") {
				t.Errorf("%s: exit code %d, %v", c.text, exitCode(err), err)
			}
			if i := slices.Index(c.args, "-o"); i > 0 {
				made = append(made, c.args[i+1])
			}
		default:
			t.Errorf("%s: nothing runs this command", c.text)
		}
	}
	if kinds["plan"] < 2 || kinds["capacity"] < 3 {
		t.Errorf("the page has only these commands: %v", kinds)
	}
	for _, dir := range made {
		if _, err := os.Stat(filepath.Join(searches, dir)); err != nil {
			t.Errorf("a search is written to %s: %v", dir, err)
		}
	}
	if *update {
		must(t, os.WriteFile(file, []byte(page), 0o644))
	}
}
