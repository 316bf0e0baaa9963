package health

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// listening returns what listens at a port. In these tables, it comes before all connections, of which there may be many
// thousands (proc_net_tcp.rst).
func listening(port uint32) (out []listener) {
	place := fmt.Sprintf(":%04X", port)
	for _, name := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		file, err := os.Open(name)
		if err != nil { // without IPv6 there is one of them
			continue
		}
		defer file.Close()
		lines := bufio.NewScanner(file)
		for lines.Scan(); lines.Scan(); { // the first one is the head
			fields := strings.Fields(lines.Text())
			if len(fields) < 10 || fields[3] != "0A" { // TCP_LISTEN
				break
			}
			address, here := strings.CutSuffix(fields[1], place)
			ip, err := hex.DecodeString(address)
			if !here || err != nil {
				continue
			}
			for i := 0; i+4 <= len(ip); i += 4 { // words in the order of the machine
				binary.BigEndian.PutUint32(ip[i:], binary.NativeEndian.Uint32(ip[i:]))
			}
			out = append(out, listener{ip: ip, socket: "socket:[" + fields[9] + "]"})
		}
	}
	return out
}

// processes returns the process table: proc_pid_stat(5).
func processes() map[int]entry {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	buf := make([]byte, 1024)
	names, _ := dir.Readdirnames(-1) // what was read before an error is worth having
	all := map[int]entry{}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		// A process may be gone by now.
		text := buf[:readAt(int(dir.Fd()), name+"/stat", buf)]
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

// readAt reads the beginning of a file of a directory, and returns its length; 0 if that fails.
// An [os.File] would make twice as many system calls, for hundreds of files.
func readAt(dir int, name string, into []byte) int {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	defer unix.Close(fd)
	n, _ := unix.Read(fd, into)
	return max(0, n)
}
