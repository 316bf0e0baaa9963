package main

import (
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/internal/exectest"
)

// TestLoopbackOfIPv6: where the machine has ::1 and no 127.0.0.1, the servers of this program listen there, and say so.
func TestLoopbackOfIPv6(t *testing.T) {
	t.Parallel()
	const prepare = `ip link set lo up && ip addr del 127.0.0.1/8 dev lo && ip addr show lo | grep -q ::1 && exec "$@"`
	alone := []string{"-rn", "sh", "-c", prepare, "sh"}
	if out, err := exectest.Command("unshare", append(alone, "true")...).CombinedOutput(); err != nil {
		t.Skipf("no network namespace with ::1 alone: %v %s", err, out)
	}
	for name, c := range map[string]struct {
		args []string
		says []string
	}{
		"run": {
			[]string{"run", "--profile", "smoke", "--metrics", ":0"},
			[]string{"metrics at http://[::1]:"},
		},
		"feed": {[]string{"run", "--profile", "feed", "--quiet"}, nil},
		"serve": {
			[]string{"serve", "--options", "-", "--tls"},
			[]string{`"url":"http://[::1]:`, `"tlsUrl":"https://[::1]:`, `"admin":"http://[::1]:`},
		},
	} {
		cmd := limited(t, "unshare", append(append(alone, program(t)), c.args...)...)
		cmd.Stdin = strings.NewReader("{}")
		stdout, stderr, code := toItsEnd(t, cmd)
		if code != exitOK && code != exitBottleneck {
			t.Errorf("%s: exit code %d\n%s%s", name, code, stdout, stderr)
		}
		for _, want := range c.says {
			if !strings.Contains(stdout+stderr, want) {
				t.Errorf("%s: no %q in\n%s%s", name, want, stdout, stderr)
			}
		}
	}
}
