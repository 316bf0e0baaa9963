//go:build !linux

package health

import "github.com/shirou/gopsutil/v4/process"

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
