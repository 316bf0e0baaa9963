package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/internal/exectest"
)

// chromium finds a browser. Without one the test is skipped, except where the
// environment says that every tool must be there.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("EVENTMETER_REQUIRE_TOOLS") != "" {
		t.Fatal("no Chromium, and EVENTMETER_REQUIRE_TOOLS is set")
	}
	t.Skip("no Chromium on this machine: the drawing of the HTML report is not tested")
	return ""
}

// browse loads a file in a browser that can reach no network, and returns the
// document as it is when everything has run, and what the page complained of.
func browse(t *testing.T, file string, width int) (dom, complaints string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	log := filepath.Join(t.TempDir(), "net.json")
	cmd := exectest.CommandContext(ctx, chromium(t), "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
		"--host-resolver-rules=MAP * ~NOTFOUND", "--log-net-log="+log, "--user-data-dir="+t.TempDir(),
		"--enable-logging=stderr", "--virtual-time-budget=5000", fmt.Sprintf("--window-size=%d,900", width), "--dump-dom", "file://"+file)
	var out, err bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &err
	if e := cmd.Run(); e != nil {
		t.Fatalf("the browser: %v\n%.2000s", e, err.String())
	}
	for line := range strings.Lines(err.String()) {
		if strings.Contains(line, "CONSOLE") || strings.Contains(line, "Content Security Policy") {
			complaints += line
		}
	}
	net, e := os.ReadFile(log)
	if e != nil {
		t.Fatal(e)
	}
	for _, u := range requested.FindAllSubmatch(net, -1) {
		if host := string(u[1]); !strings.HasSuffix(host, ".google.com") && !strings.HasSuffix(host, ".googleapis.com") {
			complaints += "a request left the file: " + string(u[0]) + "\n"
		}
	}
	return out.String(), complaints
}

// requested finds what the browser asked a network for. It asks its maker's
// hosts for updates and the time, whatever it shows.
var requested = regexp.MustCompile(`"url":"(?:http|ws)s?://([^/:"]*)`)

// cutOff is how many pixels of a page are cut off at a width of 400, with everything
// unfolded. The copy that measures itself has no policy, because that forbids further
// scripts; it sets its own width, because the browser has a least one. It sets it in its
// head, so that the charts are drawn at that width from the start: a browser on a busy
// machine need not show a frame, and so not redraw them, before the page is measured.
func cutOff(t *testing.T, file string) string {
	t.Helper()
	text := readFile(t, file)
	page := policyTag.ReplaceAllString(string(text), "")
	page = strings.Replace(page, "<details", "<details open", -1)
	page = strings.Replace(page, "</head>", `<style>html { width: 400px }</style></head>`, 1)
	page = strings.Replace(page, "</body>", `<script>
addEventListener('load', () => setTimeout(() => {
  const parts = ['header', 'main'].map((part) => document.querySelector(part));
  document.documentElement.dataset.wide = Math.max(...parts.map((e) => e.scrollWidth - e.clientWidth));
}, 1000));
</script></body>`, 1)
	copied := filepath.Join(t.TempDir(), "narrow.html")
	must(t, os.WriteFile(copied, []byte(page), 0o600))
	dom, _ := browse(t, copied, 400)
	m := wideMark.FindStringSubmatch(dom)
	if m == nil {
		t.Fatalf("%s did not measure itself", file)
	}
	return m[1]
}

var (
	policyTag = regexp.MustCompile(`<meta http-equiv="Content-Security-Policy"[^>]*>`)
	wideMark  = regexp.MustCompile(`data-wide="([0-9]+)"`)
)

// TestThePageInABrowser runs something, and looks at what it wrote the way a
// person would: in a browser. The comparison of two runs, which shows them overlaid, is looked at, too.
func TestThePageInABrowser(t *testing.T) {
	t.Parallel()
	chromium(t)
	dir := filepath.Join(t.TempDir(), "out")
	// Every third event comes twice, so that there is something for every chart.
	stdout, stderr, code := execute(
		t,
		smoke("--out", dir, "--quiet", "--name", "PR #41", "--set", "target.embedded.faults=duplicate(every=3)")...)
	if code != 0 && code != exitBottleneck {
		t.Fatalf("exit code %d\n%s\n%s", code, stdout, stderr)
	}
	r := loaded(t, dir)
	both, stderr, code := execute(t, "report", dir, dir, dir, "--format", "html")
	if code != 0 || strings.Count(both, `<article class="tile `) != 3*len(r.Lanes) {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	compared, stderr, code := execute(t, "compare", dir, dir, "--format", "html")
	if code != 0 || !strings.Contains(compared, `<section id="comparison">`) {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	beside := filepath.Join(t.TempDir(), "compared.html")
	must(t, os.WriteFile(beside, []byte(compared), 0o600))
	for name, file := range map[string]string{"one": filepath.Join(dir, "report.html"), "compared": beside} {
		dom, complaints := browse(t, file, 1200)
		if complaints != "" {
			t.Errorf("%s: the browser says:\n%s", name, complaints)
		}
		if !strings.Contains(dom, `data-charts="5"`) || strings.Count(dom, "<canvas") != 5 {
			t.Errorf("%s: not all charts were drawn: %d canvases", name, strings.Count(dom, "<canvas"))
		}
		for _, l := range r.Lanes {
			for _, want := range []string{
				fmt.Sprintf(`<dd>%d</dd>`, l.Delivered), `<b>` + l.Latency.FromIntended.P99.String() + `</b> p99`,
			} {
				if !strings.Contains(dom, want) {
					t.Errorf("%s: lane %s: the page lacks %s", name, l.Name, want)
				}
			}
		}
	}
	for _, file := range []string{filepath.Join(dir, "report.html"), beside} {
		if wide := cutOff(t, file); wide != "0" {
			t.Errorf("%s: %s pixels are cut off at a width of 400", filepath.Base(file), wide)
		}
	}
	if r.Name != "PR #41" {
		t.Errorf("the run is named %q", r.Name)
	}
	// What the page shows can be run again.
	if _, stderr, code := execute(t, "profiles", "check", filepath.Join(dir, "profile.yaml")); code != 0 {
		t.Errorf("the archived profile: exit code %d\n%s", code, stderr)
	}
	if _, stderr, code := execute(t, "report", dir, dir); code != exitUsage || !strings.Contains(stderr, "--format html") {
		t.Errorf("two archives as text: exit code %d\n%s", code, stderr)
	}
}
