package mcpevents_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
)

// TestManyStreams opens 5,000 streams on ten VUs, each of which hears every
// event of its VU, and looks at the most memory that k6 ever had. k6 is built
// without the race detector, so this is the figure that users have.
func TestManyStreams(t *testing.T) {
	const vus, events, most = 10, 5, 250e6 // bytes
	streams := 5000
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		t.Fatal(err)
	}
	if files.Max < 8000 {
		streams = 500
		t.Logf("at most %d files: %d streams instead of 5000", files.Max, streams)
	}
	url, admin := serve(t)
	c := k6Command(t, filepath.Join("testdata", "many-streams.js"), url, admin,
		"-e", fmt.Sprint("STREAMS=", streams), "-e", fmt.Sprint("EVENTS=", events))
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	used := c.ProcessState.SysUsage().(*syscall.Rusage).Maxrss * 1024
	t.Logf("%d streams: %.0f MB", streams, float64(used)/1e6)
	if err != nil || used > most {
		t.Errorf("%v, %d bytes, at most %d\n%s", err, used, int64(most), out.String())
	}
}
