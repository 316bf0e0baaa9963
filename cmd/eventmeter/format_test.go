package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	goio "io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFormatFlag(t *testing.T) {
	can := []string{formatText, formatJSON, formatMarkdown, formatJUnit}
	for _, tt := range []struct {
		given []string
		out   string // on standard output
		files string
		want  string // of the error
	}{
		{nil, "text", "", ""},
		{[]string{"json"}, "json", "", ""},
		{[]string{"json", "junit=a.xml", "markdown=b"}, "json", "junit a.xml, markdown b", ""},
		{[]string{"junit=a.xml"}, "text", "junit a.xml", ""},
		{[]string{"markdown="}, "text", "", ""}, // of a variable that is not set
		{[]string{"text", "json"}, "", "", "standard output takes one; write the other to a file with --format json=FILE"},
		{[]string{"html"}, "", "", "want text, json, markdown or junit"},
		{[]string{"JSON"}, "", "", "want text, json, markdown or junit"},
		{[]string{"=x"}, "", "", "want text"},
	} {
		f := formatFlags{can: can, given: tt.given}
		err := f.check()
		if tt.want != "" {
			if exitCode(err) != exitUsage || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%q: %v, want %q", tt.given, err, tt.want)
			}
			continue
		}
		var files []string
		for _, x := range f.files {
			files = append(files, x.format+" "+x.name)
		}
		if err != nil || f.printed != tt.out || strings.Join(files, ", ") != tt.files {
			t.Errorf("%q: %v, %s, %q", tt.given, err, f.printed, files)
		}
	}
}

// TestFormatFiles: Markdown is appended, others are replaced, and each is written even
// if another cannot be.
func TestFormatFiles(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"md", "json"} {
		must(t, os.WriteFile(in(name), []byte("before\n"), 0o600))
	}
	f := formatFlags{
		can:   []string{formatText, formatJSON, formatMarkdown},
		given: []string{"text=" + in("missing/x"), "json=" + in("json"), "markdown=" + in("md")},
	}
	must(t, f.check())
	writes := func(text string) func(goio.Writer) error {
		return func(w goio.Writer) error { _, err := goio.WriteString(w, text); return err }
	}
	var out bytes.Buffer
	err := f.all(streams{out: &out}, rendering{formatText: writes("t"), formatJSON: writes("j"), formatMarkdown: writes("m")})
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "--format text="+in("missing/x")) || out.String() != "t" {
		t.Errorf("%v, %q", err, out.String())
	}
	for name, want := range map[string]string{"json": "j", "md": "before\nm"} {
		if got, err := os.ReadFile(in(name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// TestFormatsOfARun writes a run in every format at once.
func TestFormatsOfARun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	stdout, stderr, code := execute(t, smoke(
		"--quiet",
		"--trials",
		"2",
		"--duration",
		"500ms",
		"--out",
		in("out"),
		"--format",
		"markdown",
		"--format",
		"json="+in("json"),
		"--format",
		"html="+in("html"),
		"--format",
		"junit="+in("junit"),
		"--format",
		"text="+in("text"),
	)...)
	if code != 0 && code != exitBottleneck && code != exitUnjudged {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	if strings.Count(stdout, "### eventmeter") != 2 || strings.Contains(stdout, "report ") {
		t.Errorf("%s", stdout)
	}
	read := func(name string) string {
		data := readFile(t, in(name))
		return string(data)
	}
	var suites struct {
		Suites []struct{} `xml:"testsuite"`
	}
	if err := xml.Unmarshal([]byte(read("junit")), &suites); err != nil || len(suites.Suites) != 2 {
		t.Errorf("%v: %d suites", err, len(suites.Suites))
	}
	if page := read("html"); !strings.Contains(page, "trial-001") || !strings.Contains(page, "trial-002") {
		t.Errorf("the page does not show both runs")
	}
	if text := read("text"); strings.Count(text, "\n") > 20 || !strings.Contains(text, in("out/trial-002/report.html")) {
		t.Errorf("%s", text)
	}
	if json := read("json"); !strings.HasPrefix(json, "{") || !strings.Contains(json, `"p95"`) {
		t.Errorf("%.200s", json)
	}
}
