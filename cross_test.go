package eventmeter_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestCrossBuild builds everything for the systems that the tests do not run
// on: what is for Linux only must stand behind a build tag.
func TestCrossBuild(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the standard library twice")
	}
	for _, system := range []string{"darwin/arm64", "windows/amd64"} {
		t.Run(system, func(t *testing.T) {
			goos, goarch, _ := strings.Cut(system, "/")
			cmd := exec.CommandContext(t.Context(), "go", "build", "./...")
			cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
