package health

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// processes returns the process table: proc_pid_stat(5).
func processes() map[int]entry {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1) // what was read before an error is worth having
	all := map[int]entry{}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		// A process may be gone by now.
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		// The name of the program, in brackets, may hold anything.
		fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
		if len(fields) < 20 {
			continue
		}
		number := func(i int) uint64 {
			n, _ := strconv.ParseUint(string(fields[i]), 10, 64)
			return n
		}
		all[pid] = entry{parent: int(number(1)), born: number(19), waited: float64(number(13)+number(14)) * tick.Seconds()}
	}
	return all
}
