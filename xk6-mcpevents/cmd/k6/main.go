//go:build !race || k6

// Command k6 is k6 with the extension k6/x/mcpevents built in. The race detector
// would have all of k6 compiled once more for it, which no test runs: to build it
// so, add -tags k6.
package main

import (
	"os"

	_ "github.com/eventmeter/eventmeter/xk6-mcpevents"
	"go.k6.io/k6/v2/cmd"
)

func main() {
	// A script that imports an extension which is not here must fail, not make
	// k6 fetch another program; and nothing is reported to anybody.
	for name, value := range map[string]string{"K6_AUTO_EXTENSION_RESOLUTION": "false", "K6_NO_USAGE_REPORT": "true"} {
		if _, set := os.LookupEnv(name); !set {
			_ = os.Setenv(name, value)
		}
	}
	cmd.Execute()
}
