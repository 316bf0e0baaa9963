package health

import (
	"fmt"
	"os"
)

// EphemeralPorts returns the number of local ports that the kernel assigns by itself.
func EphemeralPorts() int {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return 0
	}
	var first, last int
	if _, err := fmt.Sscan(string(text), &first, &last); err != nil || last < first {
		return 0
	}
	return last - first + 1
}
