package mcpevents_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// readme is README.md.
func readme(t *testing.T) string {
	t.Helper()
	text := readFile(t, "README.md")
	return string(text)
}

// TestReadmeScripts: the whole scripts of README.md pass.
func TestReadmeScripts(t *testing.T) {
	t.Parallel()
	url, admin := serve(t)
	blocks := regexp.MustCompile("(?s)```js\n(import .*?)```").FindAllStringSubmatch(readme(t), -1)
	if len(blocks) < 2 {
		t.Fatalf("%d scripts", len(blocks))
	}
	for i, b := range blocks {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "script.js")
			must(t, os.WriteFile(path, []byte(b[1]), 0o600))
			if code, out := runK6(t, "-e", "TARGET="+url, "-e", "ADMIN="+admin, path); code != 0 {
				t.Errorf("exit code %d\n%s", code, out)
			}
		})
	}
}

// TestReadmeNames: README.md names every option, method and metric, no metric
// that there is not, and no file that there is not.
func TestReadmeNames(t *testing.T) {
	text := readme(t)
	named := map[string]bool{}
	for _, m := range regexp.MustCompile("`[^`\n]+`").FindAllString(text, -1) {
		for _, word := range regexp.MustCompile(`\w+`).FindAllString(m, -1) {
			named[word] = true
		}
	}
	d := readDeclarations(t)
	for _, of := range d.options {
		for _, key := range d.keys[of] {
			if !named[key] {
				t.Errorf("option %s (%s) is not named", key, of)
			}
		}
	}
	for class, methods := range d.methods {
		for _, method := range methods {
			if !named[method] {
				t.Errorf("method %s of %s is not named", method, class)
			}
		}
	}
	code := readFile(t, "metrics.go")
	metrics := map[string]bool{}
	for _, m := range regexp.MustCompile(`"(mcp_\w+)"`).FindAllStringSubmatch(string(code), -1) {
		metrics[m[1]] = true
		if !strings.Contains(text, "`"+m[1]+"`") {
			t.Errorf("metric %s is not named", m[1])
		}
	}
	for _, name := range regexp.MustCompile(`(?:k6_)?mcp_\w+`).FindAllString(text, -1) {
		name = strings.TrimSuffix(strings.TrimSuffix(strings.TrimPrefix(name, "k6_"), "_total"), "_seconds")
		if !metrics[name] {
			t.Errorf("there is no metric %s", name)
		}
	}
	for _, m := range regexp.MustCompile(`\]\(([^)#:]+)\)`).FindAllStringSubmatch(text, -1) {
		if _, err := os.Stat(m[1]); err != nil {
			t.Error(err)
		}
	}
}
