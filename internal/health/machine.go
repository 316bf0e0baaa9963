package health

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/shirou/gopsutil/v4/cpu"

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

// Listeners returns the processes of this machine that listen where u leads: those that
// hold the socket, and those with sockets of their own at the same address. They may have
// left the work to their descendants. It returns none if they are not known.
func Listeners(u *url.URL) []int {
	text := u.Port()
	if text == "" {
		text = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return nil
	}
	host, best := net.ParseIP(u.Hostname()), elsewhere
	var pids []int
	sockets := map[string]bool{}
	for _, l := range listening(uint32(port)) {
		near := nearness(l.ip, host)
		if near > best || near == elsewhere {
			continue
		}
		if near < best {
			best, pids = near, nil
			clear(sockets)
		}
		if l.socket != "" {
			sockets[l.socket] = true
		} else {
			pids = append(pids, l.pid)
		}
	}
	pids = append(pids, holders(sockets)...)
	slices.Sort(pids)
	pids = slices.Compact(pids)
	if len(pids) > 1 { // this process may have inherited the socket
		pids = slices.DeleteFunc(pids, func(pid int) bool { return pid == os.Getpid() })
	}
	return pids
}

// listener is a socket that listens: its name in /proc, or a process that holds it on systems without /proc.
type listener struct {
	ip     net.IP
	pid    int
	socket string
}

// How well the address of a listener fits a host, the best first.
const (
	exact     = iota
	anywhere  // it takes all addresses of the host's family
	dualStack // it takes all addresses of the other family, and may take these
	elsewhere
)

// nearness compares the address of a listener with a host of this machine, nil for a name.
func nearness(ip, host net.IP) int {
	switch v4 := ip.To4() != nil; {
	case host == nil && ip.IsLoopback(), host != nil && ip.Equal(host):
		return exact
	case !ip.IsUnspecified():
		return elsewhere
	case host == nil || v4 == (host.To4() != nil):
		return anywhere
	}
	return dualStack
}

// holders returns the processes that have one of these sockets open, by their names in
// /proc; none on systems without it.
func holders(sockets map[string]bool) (pids []int) {
	if len(sockets) == 0 {
		return nil
	}
	for pid := range processes() {
		dir := fmt.Sprintf("/proc/%d/fd/", pid)
		files, _ := os.ReadDir(dir) // it may be gone, or not ours
		if slices.ContainsFunc(files, func(f os.DirEntry) bool {
			name, err := os.Readlink(dir + f.Name())
			return err == nil && sockets[name]
		}) {
			pids = append(pids, pid)
		}
	}
	return pids
}
