//go:build unix

package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/results"
)

// fullPipe is a pipe that nobody reads, and that takes nothing more.
func fullPipe(t *testing.T) *os.File {
	t.Helper()
	var ends [2]int
	must(t, syscall.Pipe(ends[:]))
	read, write := os.NewFile(uintptr(ends[0]), "read"), os.NewFile(uintptr(ends[1]), "write")
	t.Cleanup(func() { read.Close(); write.Close() })
	must(t, syscall.SetNonblock(ends[1], true))
	for filled := false; !filled; {
		_, err := syscall.Write(ends[1], make([]byte, 4096))
		filled = err != nil
	}
	must(t, syscall.SetNonblock(ends[1], false))
	return write
}

// TestBlockedStandardError: a run whose progress nobody reads goes on, and writes its archive.
func TestBlockedStandardError(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "out")
	cmd := command(t, smoke("--plain", "--verbose", "--out", dir)...)
	cmd.Stderr = fullPipe(t)
	if err := cmd.Run(); err != nil && cmd.ProcessState.ExitCode() > exitUnjudged {
		t.Fatal(err)
	}
	if _, err := results.Load(dir); err != nil {
		t.Error(err)
	}
}

// TestBlockedStandardOutput: the archive is written before the output, and a signal ends a
// program that waits for the reader of its output.
func TestBlockedStandardOutput(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "out")
	cmd := command(t, smoke("--quiet", "--format=json", "--out", dir)...)
	cmd.Stdout = fullPipe(t)
	must(t, cmd.Start())
	over := make(chan error, 1)
	go func() { over <- cmd.Wait() }()
	for {
		if _, err := results.Load(dir); err == nil {
			break
		}
		select {
		case err := <-over:
			t.Fatal("it ended, although its output is blocked: ", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
	for cmd.ProcessState == nil {
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			break // it has ended
		}
		select {
		case <-over:
			if code := cmd.ProcessState.ExitCode(); code != exitInterrupted {
				t.Errorf("exit code %d", code)
			}
			return
		case <-time.After(2 * time.Second):
		}
	}
	<-over
}
