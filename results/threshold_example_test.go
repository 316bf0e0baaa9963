package results_test

import (
	"fmt"

	"github.com/eventmeter/eventmeter/results"
)

// String returns a threshold as it was written, for messages and reports.
func ExampleThreshold_String() {
	t, err := results.ParseThreshold("push.latency.fromIntended.p99 < 250ms")
	fmt.Println(t, err)
	// Output: push.latency.fromIntended.p99 < 250ms <nil>
}
