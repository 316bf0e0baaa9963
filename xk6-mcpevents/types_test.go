package mcpevents_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/eventmeter/eventmeter/internal/exectest"
)

// TestTypes has the TypeScript compiler check every example against
// index.d.ts, and that it finds the mistakes of testdata/types/wrong.ts.
func TestTypes(t *testing.T) {
	t.Parallel()
	tsc, err := exec.LookPath("tsc")
	if err != nil {
		if os.Getenv("EVENTMETER_REQUIRE_TOOLS") != "" {
			t.Fatal("tsc is not installed, and EVENTMETER_REQUIRE_TOOLS is set")
		}
		t.Skip("tsc is not installed (Debian's package node-typescript)")
	}
	if out, err := exectest.Command(tsc, "-p", "testdata/types").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
