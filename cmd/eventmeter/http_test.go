package main

import (
	"fmt"
	"strings"
	"testing"
)

// Each version of HTTP carries each mode, in both eras of the protocol, and
// everything arrives.
func TestEveryHTTP(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it runs for seconds")
	}
	var lanes []string
	for mode, rest := range map[string]string{"push": "", "poll": ", poll: {minInterval: 100ms}", "webhook": ""} {
		for name, version := range map[string]string{"one": "1.1", "two": "2", "clear": "h2c"} {
			lanes = append(
				lanes,
				fmt.Sprintf(
					`{name: %s-%s, mode: %s, http: "%s", subscriptions: 5, event: chat.message%s}`,
					mode,
					name,
					mode,
					version,
					rest,
				),
			)
		}
	}
	runs := map[string][]string{}
	for _, era := range []string{"modern", "legacy"} {
		runs[era] = []string{
			"run",
			"--profile",
			"smoke",
			"--quiet",
			"--format=json",
			"--set=lanes=[" + strings.Join(lanes, ",") + "]",
			"--set=target.era=" + era,
			"--set=phases.ready=60s",
			"--set=phases.measure=1s",
		}
	}
	for era, out := range together(t, runs) {
		r := out.result(t)
		accounted(t, r, 20, 1)
		if r.Target.Era != era || len(r.Lanes) != 9 {
			t.Errorf("%s: era %s, %d lanes", era, r.Target.Era, len(r.Lanes))
		}
		for _, l := range r.Lanes {
			if l.Mode != "push" {
				continue
			}
			// A stream takes a connection of HTTP/1.1 for itself. Those of HTTP/2
			// share one, and a second one if they come before it stands.
			if own, n := strings.HasSuffix(l.Name, "-one"), l.Overhead.Causes["subscribe"].Connections; own != (n == 5) || n == 0 {
				t.Errorf("%s: %s opened %d connections for 5 streams", era, l.Name, n)
			}
		}
	}
}
