package eventmeter_test

import (
	"os"
	"regexp"
	"testing"
)

// TestOneTestCommand holds the pages that give the command of all tests to what
// CI runs.
func TestOneTestCommand(t *testing.T) {
	line := regexp.MustCompile(`(?m)^go test -race work( +#.*)?$`)
	for _, name := range []string{".ci/run", "README.md", "CONTRIBUTING.md"} {
		text, err := os.ReadFile(name)
		must(t, err)
		if !line.Match(text) {
			t.Errorf("%s does not give the command of all tests, go test -race work", name)
		}
	}
}
