package health

import (
	"fmt"
	"os"
)

// EphemeralPorts is how many local ports the kernel gives out by itself.
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
