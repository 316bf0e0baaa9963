//go:build !linux

package health

import (
	"net"

	gopsnet "github.com/shirou/gopsutil/v4/net"
	"github.com/shirou/gopsutil/v4/process"
)

// listening returns what listens at a port.
func listening(port uint32) (out []listener) {
	conns, _ := gopsnet.Connections("tcp") // none where they are not known
	for _, c := range conns {
		if c.Status == "LISTEN" && c.Laddr.Port == port && c.Pid != 0 {
			out = append(out, listener{ip: net.ParseIP(c.Laddr.IP), pid: int(c.Pid)})
		}
	}
	return out
}

// processes returns the process table, without the CPU time of children that ended.
func processes() map[int]entry {
	found, err := process.Processes()
	if err != nil {
		return nil
	}
	all := map[int]entry{}
	for _, p := range found {
		parent, err := p.Ppid()
		born, gone := p.CreateTime()
		if err == nil && gone == nil {
			all[int(p.Pid)] = entry{parent: int(parent), born: uint64(born)}
		}
	}
	return all
}
