package witness

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Tree returns the CPU time that a process and its descendants have used, those that ended
// and were waited for included, and their resident bytes. The CPU time of each process has a
// resolution of 10 ms.
func Tree(root int) (cpu time.Duration, resident int64, err error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, 0, err
	}
	stats := map[int][]int64{} // proc_pid_stat(5), from the fourth field
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			continue // it has ended
		}
		line := string(text)
		words := strings.Fields(line[strings.LastIndex(line, ")")+1:])[1:]
		numbers := make([]int64, len(words))
		for i, w := range words {
			numbers[i], _ = strconv.ParseInt(w, 10, 64) // some are larger, and of no use here
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f)))
		if err != nil {
			return 0, 0, err
		}
		stats[pid] = numbers
	}
	if stats[root] == nil {
		return 0, 0, fmt.Errorf("there is no process %d", root)
	}
	for pid, s := range stats {
		for at := pid; at != 0; at = parentOf(stats, at) {
			if at == root {
				cpu += time.Duration(s[10]+s[11]+s[12]+s[13]) * 10 * time.Millisecond
				resident += s[20] * int64(os.Getpagesize())
				break
			}
		}
	}
	return cpu, resident, nil
}

func parentOf(stats map[int][]int64, pid int) int {
	if s := stats[pid]; s != nil {
		return int(s[0])
	}
	return 0
}
