package main

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/internal/exectest"
)

// documented is a page whose commands are run, one after the other in a folder of their own, as a
// reader would.
type documented struct {
	page string
	// excused are beginnings of lines that are not run, with the reason.
	excused map[string]string
}

var documentedPages = []documented{
	{"README.md", map[string]string{
		"go test":  "runs this test",
		"go build": "is what the test does with the program; the k6 extension has tests of its own",
		"./k6":     "has tests of its own",
	}},
	{"docs/your-server.md", map[string]string{
		"eventmeter check": "takes minutes at its full size; TestCheck runs a small one",
		"eventmeter serve": "is started by the test",
	}},
	{"docs/compare-modes.md", nil},
	{"docs/pull-request.md", nil},
}

// shorter are the ends of documented commands that make them take seconds.
var shorter = map[string]string{
	"eventmeter run":      " --duration 1s --set phases.warmup=500ms --subscriptions 20",
	"eventmeter capacity": " --to 20 --set capacity.step=1s --set capacity.idle=1s --set capacity.confirm=1 --set phases.warmup=500ms",
}

// documentedCodes are the exit codes of commands that did what the page says: a busy machine is the
// bottleneck, a shortened run has too few events for a threshold or a limit that is above its loads.
var documentedCodes = []int{0, 1, 4, 5}

// TestDocumentedCommands runs each line of the pages' code blocks that a shell would run.
func TestDocumentedCommands(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the lines are for a POSIX shell")
	}
	bin := t.TempDir()
	must(t, os.Symlink(program(t), filepath.Join(bin, "eventmeter")))
	for _, d := range documentedPages {
		t.Run(d.page, func(t *testing.T) {
			t.Parallel()
			text := readFile(t, filepath.Join("../..", d.page))
			servers, dir, ran := documentedServers(t, string(text)), t.TempDir(), 0
			reached := map[string]bool{}
			if !strings.Contains(string(text), "--write mine.yaml") { // it is taken for granted
				runDocumented(t, dir, bin, "eventmeter profiles show compare > mine.yaml")
			}
			for _, line := range shellLines(string(text)) {
				if begin := d.excuse(line); begin != "" {
					reached[begin] = true
					continue
				}
				ran++
				runDocumented(t, dir, bin, servers.Replace(line))
			}
			for begin, reason := range d.excused {
				if !reached[begin] {
					t.Errorf("no line begins with %q, which %s", begin, reason)
				}
			}
			if ran < 2 { // the shortest page has two
				t.Errorf("only %d commands were found", ran)
			}
		})
	}
}

func (d documented) excuse(line string) string {
	for begin := range d.excused {
		if strings.HasPrefix(line, begin) {
			return begin
		}
	}
	return ""
}

// documentedServers starts the servers that the page takes for granted, and returns what puts
// their addresses in place of the page's.
func documentedServers(t *testing.T, text string) *strings.Replacer {
	t.Helper()
	var pairs []string
	for _, page := range [][]string{{"127.0.0.1:8080", "127.0.0.1:8081"}, {"127.0.0.1:9080", "127.0.0.1:9081"}} {
		if !strings.Contains(text, page[0]) {
			continue
		}
		ready, _ := serveTarget(t, "--allow-private-callbacks", "--callback-insecure")
		for i, address := range []string{ready.URL, ready.Admin} {
			u, err := url.Parse(address)
			must(t, err)
			pairs = append(pairs, page[i], u.Host)
		}
	}
	return strings.NewReplacer(pairs...)
}

var (
	docsBlock  = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```$")
	shellStart = regexp.MustCompile(`^(eventmeter|go|\./k6) `)
)

// shellLines returns the commands of a page: the lines of its blocks that begin with a program,
// with those that continue them, and without comments.
func shellLines(text string) []string {
	var out []string
	for _, block := range docsBlock.FindAllStringSubmatch(text, -1) {
		if block[1] != "" {
			continue // another language
		}
		for _, line := range strings.Split(strings.ReplaceAll(block[2], "\\\n", " "), "\n") {
			if line, _, _ = strings.Cut(line, "  #"); shellStart.MatchString(line) {
				out = append(out, strings.TrimSpace(line))
			}
		}
	}
	return out
}

// runDocumented runs one line in a shell.
func runDocumented(t *testing.T, dir, bin, line string) {
	t.Helper()
	line = strings.Replace(line, "go run ./cmd/eventmeter", "eventmeter", 1) // the same, built once
	for begin, end := range shorter {
		if strings.Contains(line, "--gate") {
			end += " --rate 2000/s --subscriptions 10" // as many events as the gate needs
		}
		if line == begin || strings.HasPrefix(line, begin+" ") {
			line += end
		}
	}
	line = strings.Replace(line, "--trials 5", "--trials 2", 1)
	repository, err := filepath.Abs("../../.git") // for the commit that a page asks git for
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	c := exectest.CommandContext(ctx, "sh", "-c", line)
	c.Dir = dir
	c.Env = append(
		os.Environ(),
		"PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"),
		"GIT_DIR="+repository,
		"GITHUB_STEP_SUMMARY="+filepath.Join(dir, "summary.md"),
	)
	if out, err := c.CombinedOutput(); err != nil && !slices.Contains(documentedCodes, codeOf(t, err)) {
		t.Errorf("%s\n%v\n%s", line, err, out)
	}
}
