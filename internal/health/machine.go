package health

import (
	"net"
	"net/url"
	"strconv"
	"time"

	"github.com/shirou/gopsutil/v4/cpu"
	gopsnet "github.com/shirou/gopsutil/v4/net"

	"github.com/eventmeter/eventmeter/results"
)

// machineMeter measures the CPU time of the whole machine. Its method does nothing on
// nil.
type machineMeter struct{ before float64 }

// newMachineMeter returns nil if the machine's CPU time cannot be read.
func newMachineMeter() *machineMeter {
	busy, ok := busySeconds()
	if !ok {
		return nil
	}
	return &machineMeter{before: busy}
}

// busySeconds returns the CPU time that all processes have used and that the
// hypervisor took away.
func busySeconds() (float64, bool) {
	ts, err := cpu.Times(false)
	if err != nil || len(ts) == 0 {
		return 0, false
	}
	t := ts[0]
	return t.User + t.System + t.Nice + t.Irq + t.Softirq + t.Steal, true
}

// others returns the CPU time used by neither this process nor the target's, in CPUs.
func (m *machineMeter) others(wall time.Duration, self results.Nanos, target *results.Process) float64 {
	if m == nil {
		return 0
	}
	busy, ok := busySeconds()
	if !ok {
		return 0
	}
	rest := busy - m.before - self.Duration().Seconds()
	if target != nil {
		rest -= target.CPU.Duration().Seconds()
	}
	return max(0, rest/wall.Seconds())
}

// ListenerPID returns the process of this machine that listens at the port of u; 0 if
// it is not known.
func ListenerPID(u *url.URL) int {
	text := u.Port()
	if text == "" {
		text = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return 0
	}
	conns, err := gopsnet.Connections("tcp")
	if err != nil {
		return 0
	}
	for _, c := range conns {
		if c.Status != "LISTEN" || c.Laddr.Port != uint32(port) {
			continue
		}
		if ip := net.ParseIP(c.Laddr.IP); ip == nil || ip.IsLoopback() || ip.IsUnspecified() {
			return int(c.Pid)
		}
	}
	return 0
}
