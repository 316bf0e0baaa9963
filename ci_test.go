package eventmeter_test

import (
	"os"
	"regexp"
	"testing"
)

// TestOneTestCommand holds the pages that give the command of all tests to what
// CI runs.
func TestOneTestCommand(t *testing.T) {
	line := regexp.MustCompile(`(?m)^go test -race .* work\b`)
	want := ""
	for _, name := range []string{".ci/run", "README.md", "CONTRIBUTING.md"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		got := line.FindString(string(text))
		if want == "" {
			want = got
		}
		if got == "" || got != want {
			t.Errorf("%s gives %q, want %q", name, got, want)
		}
	}
}
