package mcpevents_test

import (
	"encoding/xml"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/internal/exectest"
)

// suites is a JUnit report as CI systems read it.
type suites struct {
	XMLName  xml.Name `xml:"testsuites"`
	Tests    int      `xml:"tests,attr"`
	Failures int      `xml:"failures,attr"`
	Suites   []struct {
		Name     string `xml:"name,attr"`
		Tests    int    `xml:"tests,attr"`
		Failures int    `xml:"failures,attr"`
		Cases    []struct {
			Class   string `xml:"classname,attr"`
			Name    string `xml:"name,attr"`
			Failure *struct {
				Message string `xml:"message,attr"`
				Text    string `xml:",chardata"`
			} `xml:"failure"`
		} `xml:"testcase"`
	} `xml:"testsuite"`
}

// runK6 runs k6 with arguments of the test's own and returns its exit code and
// what it printed.
func runK6(t *testing.T, args ...string) (int, string) {
	t.Helper()
	c := exectest.Command(k6Bin, append([]string{"run", "-q", "--address", "", "--no-color"}, args...)...)
	out, err := c.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return c.ProcessState.ExitCode(), string(out)
}

// readJUnit reads a report and checks its sums.
func readJUnit(t *testing.T, path string) *suites {
	t.Helper()
	text := readFile(t, path)
	got := &suites{}
	if err := xml.Unmarshal(text, got); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	tests, failures := 0, 0
	for _, s := range got.Suites {
		tests += len(s.Cases)
		for _, c := range s.Cases {
			if c.Failure != nil {
				failures++
			}
		}
	}
	if len(got.Suites) != 1 || got.Tests != tests || got.Failures != failures || got.Suites[0].Tests != tests ||
		got.Suites[0].Failures != failures {
		t.Errorf("the sums of the report do not add up:\n%s", text)
	}
	return got
}

// TestJUnit: every threshold is a test case, and exactly the one that a fault
// crosses is a failed one.
func TestJUnit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, fault, failed, printed string
		code                         int
	}{
		{name: "sound", printed: "pass  mcp_events_lost count==0  (count 0, rate 0)"},
		{name: "faulty", fault: "drop(every=4)", code: 99, failed: "mcp_events_lost count==0",
			printed: "FAIL  mcp_events_lost count==0  (count "},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var args []string
			examples := "examples"
			if c.fault != "" {
				args, examples = []string{"--faults", c.fault}, hasty(t)
			}
			url, admin := serve(t, args...)
			path := filepath.Join(t.TempDir(), "junit.xml")
			code, out := runK6(t, "-e", "TARGET="+url, "-e", "ADMIN="+admin, "-e", "JUNIT="+path, filepath.Join(examples, "junit.js"))
			if code != c.code || !strings.Contains(out, c.printed) {
				t.Errorf("exit code %d, want %d and %q in\n%s", code, c.code, c.printed, out)
			}
			var names []string
			for _, k := range readJUnit(t, path).Suites[0].Cases {
				name := k.Class + " " + k.Name
				names = append(names, name)
				if (k.Failure != nil) != (name == c.failed) {
					t.Errorf("%s: failure %+v", name, k.Failure)
				}
				if k.Failure != nil &&
					(k.Failure.Message != "mcp_events_lost: count==0 was crossed" || !strings.HasPrefix(k.Failure.Text, "count ")) {
					t.Errorf("failure %+v", k.Failure)
				}
			}
			want := "checks rate==1|mcp_event_duplicates rate==0|mcp_event_latency{mode:push} p(99)<5000|mcp_events_expected " +
				"count>0|mcp_events_lost count==0"
			if got := strings.Join(names, "|"); got != want {
				t.Errorf("test cases %s\nwant %s", got, want)
			}
		})
	}
}

// TestJUnitEscapes: names that XML could take for its own, or cannot hold.
func TestJUnitEscapes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script, report := filepath.Join(dir, "script.js"), filepath.Join(dir, "junit.xml")
	lib, err := filepath.Abs("examples/lib/junit.js")
	must(t, err)
	text := `import { junit } from '` + filepath.ToSlash(lib) + `';
import { Counter } from 'k6/metrics';
const c = new Counter('said');
export const options = { thresholds: { 'said{say:"a<b & c"}': ['count>=0', 'count < 1'] } };
export default () => c.add(1, { say: 'a<b & c' });
export const handleSummary = (data) => ({ '` + filepath.ToSlash(report) + `': junit(data, 'a "suite" \u0001 <&>') });`
	must(t, os.WriteFile(script, []byte(text), 0o600))
	if code, out := runK6(t, script); code != 99 {
		t.Fatalf("exit code %d, want 99\n%s", code, out)
	}
	got := readJUnit(t, report)
	if got.Suites[0].Name != "a \"suite\" \uFFFD <&>" || got.Tests != 2 || got.Failures != 1 {
		t.Errorf("%+v", got)
	}
	for _, c := range got.Suites[0].Cases {
		if c.Class != `said{say:"a<b & c"}` || (c.Failure != nil) != (c.Name == "count < 1") {
			t.Errorf("%+v", c)
		}
	}
}
