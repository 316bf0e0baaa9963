//go:build !linux

package loadgen

import "time"

// nap returns at once: nothing here sleeps more exactly than the runtime's timers.
func nap(time.Duration) {}
