package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/loadgen/upstream"
)

func TestRecordErrors(t *testing.T) {
	t.Parallel()
	taken := filepath.Join(t.TempDir(), "taken")
	must(t, os.WriteFile(taken, []byte("precious"), 0o600))
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no target": {[]string{"record", "--event", "e"}, exitUsage, "give the server with --target"},
		"no event":  {[]string{"record", "--target", "http://127.0.0.1:1/mcp"}, exitUsage, "one of its events with --event"},
		"bad mode": {[]string{"record", "-t", "http://127.0.0.1:1/mcp", "-e", "e", "--mode", "telepathy"}, exitUsage,
			`--mode "telepathy": want push, poll or webhook`},
		"bad arguments": {[]string{"record", "-t", "http://127.0.0.1:1/mcp", "-e", "e", "--arguments", "[1]"}, exitUsage,
			"--arguments [1]: want a JSON object"},
		"taken":        {[]string{"record", "-t", "http://127.0.0.1:1/mcp", "-e", "e", "--out", taken}, exitUsage, "exists already"},
		"not here":     {[]string{"record", "-t", "http://192.0.2.1/mcp", "-e", "e"}, exitUsage, "--allow-host 192.0.2.1"},
		"nobody there": {[]string{"record", "-t", "http://127.0.0.1:1/mcp", "-e", "e"}, exitTarget, "cannot be reached"},
		"two runs":     {[]string{"run", "--record", "x.jsonl", "--trials", "2"}, exitUsage, "--record takes one run"},
	} {
		if _, stderr, code := execute(t, c.args...); code != c.code || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: exit code %d, %s", name, code, stderr)
		}
	}
	if text, err := os.ReadFile(taken); err != nil || string(text) != "precious" {
		t.Errorf("%s, %v", text, err)
	}
}

// One run is recorded while another process records what arrives: both traces
// hold the same payloads.
func TestRecordAndRunRecord(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it runs for seconds")
	}
	ready, _ := serveTarget(t)
	dir := t.TempDir()
	arrived, fired := filepath.Join(dir, "arrived.jsonl"), filepath.Join(dir, "published.jsonl")
	recorder := command(t, "record", "-t", ready.URL, "-e", "chat.message", "--duration", "1m", "--out", arrived)
	progress, err := recorder.StderrPipe()
	must(t, err)
	must(t, recorder.Start())
	said := bufio.NewScanner(progress)
	waitForText(t, said, "measure") // what comes before is not recorded
	stdout, stderr, code := execute(t, smoke("--target", ready.URL, "--token", "t", "--upstream", "inject", "--upstream-url", ready.Admin,
		`--set=lanes=[{name: push, mode: push, subscriptions: 1, event: chat.message}]`, "--record", fired, "--quiet", loose)...)
	if code != 0 && code != exitBottleneck {
		t.Fatalf("exit code %d\n%s\n%s", code, stdout, stderr)
	}
	f := readTrace(t, fired)
	waitForText(t, said, fmt.Sprintf(" %d unexpected", len(f))) // they are of another run
	must(t, recorder.Process.Signal(os.Interrupt))
	waitForText(t, said, "events recorded in")
	if err := recorder.Wait(); err != nil {
		t.Error(err)
	}
	a := readTrace(t, arrived)
	if len(a) == 0 || len(a) != len(f) {
		t.Fatalf("%d arrived and %d were published", len(a), len(f))
	}
	for i := range a {
		// Two sources' emissions at one moment may have changed places, so each
		// payload is looked for.
		if a[i].Event != "chat.message" || f[i].Event != "chat.message" || !bytes.Contains(joined(f), a[i].Payload) {
			t.Errorf("entry %d: %s arrived, and was not published", i, a[i].Payload)
		}
	}
}

// waitForText reads lines until one holds the text.
func waitForText(t *testing.T, lines *bufio.Scanner, text string) {
	t.Helper()
	for lines.Scan() {
		if strings.Contains(lines.Text(), text) {
			return
		}
	}
	t.Fatalf("no line holds %q", text)
}

func readTrace(t *testing.T, name string) []upstream.TraceEntry {
	t.Helper()
	file, err := os.Open(name)
	must(t, err)
	defer file.Close()
	entries, err := upstream.ReadTrace(file)
	must(t, err)
	return entries
}

func joined(entries []upstream.TraceEntry) []byte {
	var all []byte
	for _, e := range entries {
		all = append(all, e.Payload...)
	}
	return all
}
