package goldens

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/internal/exectest"
)

var update = flag.Bool("update", false, "write the golden files again")

var (
	command string // the path of the command, which TestMain builds
	home    string // the directory of this package
)

func TestMain(m *testing.M) {
	flag.Parse()
	home, _ = os.Getwd() // without it, no golden file is found
	os.Exit(withCommand(m))
}

// withCommand builds the command and runs the tests. All golden files are removed before
// all of them are written again, so that none is left that no test knows.
func withCommand(m *testing.M) int {
	dir, err := os.MkdirTemp("", "goldens")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	command = filepath.Join(dir, "eventmeter")
	build := exectest.Command("go", "build", "-buildvcs=false", "-ldflags=-X main.release=v0.0.0-golden", "-o", command, "./cmd/eventmeter")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the command: %v\n%s", err, out)
		return 1
	}
	if *update && flag.Lookup("test.run").Value.String() == "" {
		if err := os.RemoveAll("testdata"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return m.Run()
}

// golden compares an output with its golden file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join(home, "testdata", filepath.FromSlash(name))
	if *update {
		must(t, os.MkdirAll(filepath.Dir(file), 0o755))
		must(t, os.WriteFile(file, []byte(got), 0o644))
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v; run go test ./goldens -update", err)
	}
	if at, a, b := firstDifference(string(want), got); at > 0 {
		t.Errorf("%s, line %d:\n want %s\n got  %s\nIf it is meant, run go test ./goldens -update and look at the diff.", name, at, a, b)
	}
}

// firstDifference returns the number of the first line that differs, from 1, and both
// lines; 0 = none does.
func firstDifference(want, got string) (at int, a, b string) {
	if want == got {
		return 0, "", ""
	}
	left, right := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range max(len(left), len(right)) {
		a, b = "(end)", "(end)"
		if i < len(left) {
			a = left[i]
		}
		if i < len(right) {
			b = right[i]
		}
		if a != b {
			return i + 1, a, b
		}
	}
	return 1, want, got
}

// run runs the command in a directory, and returns what it printed. A code other than
// 0 and what it printed on standard error are at the end.
func run(t *testing.T, dir string, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	c := exectest.CommandContext(t.Context(), command, args...)
	c.Dir, c.Stdout, c.Stderr = dir, &out, &errs
	c.Env = []string{"HOME=" + dir, "TMPDIR=" + os.TempDir(), "SystemRoot=" + os.Getenv("SystemRoot")}
	if err := c.Run(); err != nil {
		fmt.Fprintf(&errs, "%v\n", err)
	}
	if errs.Len() > 0 {
		fmt.Fprintf(&out, "\n-- error --\n%s", &errs)
	}
	return out.String()
}

var (
	constantParts = regexp.MustCompile(`(?s)(<style>|<script>|<svg class="mark[^>]*>)(.*?)(</style>|</script>|</svg>)`)
	constantHash  = regexp.MustCompile(`'sha256-[^']*'`)
)

// readable makes an output easy to read in a diff: of a page, the style, the scripts and
// the marks of lanes are replaced by their hashes, and cells have no end; of JSON, what
// fits in a line is put there. Rows of conformance that were not seen are counted.
func readable(text string) string {
	if strings.HasPrefix(text, "{") {
		return shorter(folded(text), func(line string) bool { return strings.Contains(line, `"not seen"`) })
	}
	text = constantParts.ReplaceAllStringFunc(text, func(part string) string {
		m := constantParts.FindStringSubmatch(part)
		return fmt.Sprintf("%s%.4x%s", m[1], sha256.Sum256([]byte(m[2])), m[3])
	})
	text = constantHash.ReplaceAllString(text, "'sha256-…'")
	if strings.HasPrefix(text, "<!doctype") {
		text = cellEnds.Replace(text)
	}
	return shorter(text, func(line string) bool { return strings.Contains(line, ">not seen<") })
}

// cellEnds removes what is in every cell of a table.
var cellEnds = strings.NewReplacer("</td>", "", "</th>", "", ` scope="row"`, "", ` scope="col"`, "")

// shorter leaves out all but the first of successive lines that are alike.
func shorter(text string, alike func(line string) bool) string {
	var out []string
	more := 0
	end := func() {
		if more > 0 {
			out = append(out, fmt.Sprintf("(%d more lines like this)\n", more))
		}
	}
	was := false
	for line := range strings.Lines(text) {
		is := alike(line)
		if is && was {
			more++
			continue
		}
		end()
		out, more, was = append(out, line), 0, is
	}
	end()
	return strings.Join(out, "")
}

// foldWidth is how wide a line of folded JSON may be.
const foldWidth = 200

// folded puts the objects and lists of indented JSON that fit into one line there.
func folded(text string) string {
	var out []string
	var open []int // lines of out that open what is not closed
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		out = append(out, line)
		switch body := strings.TrimSpace(line); {
		case strings.HasSuffix(body, "{") || strings.HasSuffix(body, "["):
			open = append(open, len(out)-1)
		case len(open) > 0 && strings.Trim(body, "}],") == "" && body != "":
			from := open[len(open)-1]
			open = open[:len(open)-1]
			parts := []string{out[from]}
			for _, part := range out[from+1:] {
				parts = append(parts, strings.TrimSpace(part))
			}
			if one := strings.Join(parts, " "); len(one) <= foldWidth {
				out = append(out[:from], one)
			}
		}
	}
	return strings.Join(out, "\n") + "\n"
}

// fileOf is the name of a form's file.
func fileOf(form string) string {
	return cmp.Or(map[string]string{
		"text": "report.txt", "markdown": "report.md", "html": "report.html", "junit": "junit.xml", "json": "result.json",
	}[form], "annotations."+form+".txt")
}
