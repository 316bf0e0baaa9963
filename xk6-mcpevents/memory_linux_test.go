package mcpevents_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestManyStreams opens 5,000 streams on ten VUs, each of which hears every
// event of its VU, and looks at the most memory that k6 ever had. k6 is built
// without the race detector, so this is the figure that users have.
func TestManyStreams(t *testing.T) {
	const vus, events, most = 10, 5, 250e6 // bytes
	streams := 5000
	var files syscall.Rlimit
	must(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files))
	if files.Max < 8000 {
		streams = 500
		t.Logf("at most %d files: %d streams instead of 5000", files.Max, streams)
	}
	url, admin := serve(t)
	c := k6Command(t, filepath.Join("testdata", "many-streams.js"), url, admin,
		"-e", fmt.Sprint("STREAMS=", streams), "-e", fmt.Sprint("EVENTS=", events))
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	must(t, c.Start())
	over := make(chan error, 1)
	go func() { over <- c.Wait() }()
	var used int64
	var err error
	for done := false; !done; {
		select {
		case err = <-over:
			done = true
		case <-time.After(10 * time.Millisecond):
			used = max(used, highest(c.Process.Pid))
		}
	}
	if used == 0 {
		t.Error("its memory was never seen")
	}
	t.Logf("%d streams: %.0f MB", streams, float64(used)/1e6)
	if err != nil || used > most {
		t.Errorf("%v, %d bytes, at most %d\n%s", err, used, int64(most), out.String())
	}
}

// highest is the most memory that a process had so far, in bytes, 0 if it is
// gone. What the kernel says at the end of a process (ru_maxrss) is no use: to
// it belongs what the process had that started it.
func highest(pid int) (bytes int64) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	if _, after, ok := strings.Cut(string(text), "VmHWM:"); ok {
		_, _ = fmt.Sscan(after, &bytes) // 0 stays 0
	}
	return bytes * 1024
}
