package health

import (
	"net"
	"net/url"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/internal/exectest"
	"github.com/eventmeter/eventmeter/internal/witness"
)

// TestTreeOfChildrenThatComeAndGo: the CPU time of children that end stays with the tree,
// whether or not their parent waits for them, and never falls.
func TestTreeOfChildrenThatComeAndGo(t *testing.T) {
	const burn = `i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done`
	for name, script := range map[string]string{
		// Each is gone before the next reading.
		"waited for": `while read l; do sh -c '` + burn + `'; echo; done`,
		// The kernel reaps them, and adds their CPU time to nobody's.
		"not waited for": `trap '' CHLD; while read l; do sh -c '` + burn + `; echo; read l' <&0; done`,
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exectest.Command("sh", "-c", script)
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				_ = in.Close()
				_ = cmd.Wait()
			})
			tree := newTree([]int{cmd.Process.Pid})
			last, _ := tree.read(true)
			var seen float64 // by the witness, while each child was there or its time was added
			for range 5 {
				before, _, err := witness.Tree(cmd.Process.Pid)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := in.Write([]byte("\n")); err != nil {
					t.Fatal(err)
				}
				if _, err := out.Read(make([]byte, 1)); err != nil {
					t.Fatal(err)
				}
				after, _, err := witness.Tree(cmd.Process.Pid)
				if err != nil {
					t.Fatal(err)
				}
				seen += max(0, (after - before).Seconds())
				now, _ := tree.read(true)
				if now < last {
					t.Errorf("%v after %v", now, last)
				}
				last = now
				if name == "not waited for" { // ends the child
					if _, err := in.Write([]byte("\n")); err != nil {
						t.Fatal(err)
					}
					for len(processesBelow(tree)) > 1 {
						if now, _ := tree.read(true); now < last {
							t.Errorf("%v after %v", now, last)
						}
					}
				}
			}
			if now, _ := tree.read(true); now < 0.7*seen-0.05 || now > 1.3*seen+0.15 || seen < 0.05 {
				t.Errorf("the tree used %v, the witness saw %v", now, seen)
			}
		})
	}
}

func processesBelow(t *tree) (pids []int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for pid := range t.members {
		pids = append(pids, pid)
	}
	return pids
}

// TestTreeWithoutTheGenerator: what a process started in order to measure itself is no part
// of it.
func TestTreeWithoutTheGenerator(t *testing.T) {
	tree := newTree([]int{os.Getppid()})
	tree.read(true)
	if slices.Contains(processesBelow(tree), os.Getpid()) {
		t.Error("the tree of the parent includes this process")
	}
}

// TestTargetThatEnded: what a target used that ended, and may have been replaced, is not known.
func TestTargetThatEnded(t *testing.T) {
	cmd := exectest.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	m := newMeter(newTree([]int{cmd.Process.Pid}))
	if p := m.finish(time.Second); p == nil {
		t.Error("the process is there, and nothing is known of it")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if p := m.finish(time.Second); p != nil {
		t.Errorf("%+v", p)
	}
}

// TestListeners: all processes that hold the socket of a URL are found, and no other.
func TestListeners(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	f, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	at := &url.URL{Scheme: "http", Host: l.Addr().String()}
	if got := Listeners(at); !slices.Equal(got, []int{os.Getpid()}) {
		t.Errorf("alone: %v, this is %d", got, os.Getpid())
	}
	var want []int
	for range 2 {
		cmd := exectest.Command("sleep", "60")
		cmd.ExtraFiles = []*os.File{f}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		want = append(want, cmd.Process.Pid)
	}
	slices.Sort(want)
	if got := Listeners(at); !slices.Equal(got, want) {
		t.Errorf("inherited: %v, want %v", got, want)
	}
	// Another address with the same port is another server's.
	_, port, _ := net.SplitHostPort(at.Host)
	other, err := net.Listen("tcp", "127.0.0.2:"+port)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if got := Listeners(at); !slices.Equal(got, want) {
		t.Errorf("beside another address: %v, want %v", got, want)
	}
	at.Host = other.Addr().String()
	if got := Listeners(at); !slices.Equal(got, []int{os.Getpid()}) {
		t.Errorf("the other address: %v, this is %d", got, os.Getpid())
	}
}

// A reading costs little, and a look at the process table happens about once a second.
func BenchmarkTree(b *testing.B) {
	tree := newTree([]int{os.Getpid()})
	b.Run("look", func(b *testing.B) {
		for b.Loop() {
			tree.read(true)
		}
	})
	b.Run("read", func(b *testing.B) {
		for b.Loop() {
			tree.read(false)
		}
	})
}
