package results_test

import (
	"fmt"

	"github.com/eventmeter/eventmeter/results"
)

// What a threshold says is what was written, for messages and reports.
func ExampleThreshold_String() {
	t, err := results.ParseThreshold("push.latency.fromIntended.p99 < 250ms")
	fmt.Println(t, err)
	// Output: push.latency.fromIntended.p99 < 250ms <nil>
}
