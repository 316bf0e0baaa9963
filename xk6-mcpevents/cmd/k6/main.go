//go:build !race || k6

// Command k6 is k6 with the extension k6/x/mcpevents built in. It is built only
// without the race detector, or with the tag k6: the detector would compile all of k6
// once more, and no test runs the result.
package main

import (
	"os"

	_ "github.com/eventmeter/eventmeter/xk6-mcpevents"
	"go.k6.io/k6/v2/cmd"
)

func main() {
	// A script that imports an unknown extension must fail instead of making k6
	// download another program. No usage reports are sent.
	for name, value := range map[string]string{"K6_AUTO_EXTENSION_RESOLUTION": "false", "K6_NO_USAGE_REPORT": "true"} {
		if _, set := os.LookupEnv(name); !set {
			_ = os.Setenv(name, value)
		}
	}
	cmd.Execute()
}
