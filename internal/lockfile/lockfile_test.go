package lockfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

func TestLock(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	l, err := Take(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Take(name); !errors.Is(err, ErrHeld) || !strings.Contains(err.Error(), fmt.Sprintf("process %d", os.Getpid())) {
		t.Errorf("taken twice: %v", err)
	}
	l.Release()
	if _, err := os.Stat(name); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is left: %v", err)
	}
	if l, err = Take(name); err != nil {
		t.Fatal(err)
	}
	l.Release()
	(*Lock)(nil).Release()
	if _, err := Take(filepath.Join(t.TempDir(), "nowhere", "lock")); err == nil || errors.Is(err, ErrHeld) {
		t.Errorf("a folder that is not there: %v", err)
	}
}

// TestStaleLock takes over the file of a process that has ended without giving
// it back: nobody has it locked.
func TestStaleLock(t *testing.T) {
	if !GivenBack {
		t.Skip("here a stale lock has to be removed by hand")
	}
	name := filepath.Join(t.TempDir(), "lock")
	if err := os.WriteFile(name, []byte("4194304999"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := Take(name)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	if text, err := os.ReadFile(name); err != nil || string(text) != fmt.Sprint(os.Getpid()) {
		t.Errorf("%s %v", text, err)
	}
}

// TestOneHolderAtATime takes and releases one lock from many sides: a file that
// is removed while another side opens it must not be a second lock.
func TestOneHolderAtATime(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	var holders, taken atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for taken.Load() < 500 {
				l, err := Take(name)
				if errors.Is(err, ErrHeld) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				if n := holders.Add(1); n != 1 {
					t.Errorf("%d holders at once", n)
				}
				taken.Add(1)
				holders.Add(-1)
				l.Release()
			}
		})
	}
	wg.Wait()
}
