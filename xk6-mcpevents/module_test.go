package mcpevents_test

import (
	"os"
	"os/exec"
	"testing"
)

// TestOutsideTheWorkspace: go.mod and go.sum list all that the module takes,
// for builds by xk6 and of the image, which know no go.work.
func TestOutsideTheWorkspace(t *testing.T) {
	c := exec.Command("go", "list", "-deps", "./...")
	c.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly")
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v; in xk6-mcpevents: GOWORK=off go build -mod=mod ./...\n%s", err, out)
	}
}
