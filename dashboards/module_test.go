package dashboards_test

import (
	"os"
	"testing"

	"github.com/eventmeter/eventmeter/internal/exectest"
)

// TestOutsideTheWorkspace: go.mod and go.sum list all that the module takes, so
// that it builds where nobody has the go.work.
func TestOutsideTheWorkspace(t *testing.T) {
	c := exectest.Command("go", "list", "-test", "-deps", "./...")
	c.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly")
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v; in dashboards: GOWORK=off go vet -mod=mod ./...\n%s", err, out)
	}
}
