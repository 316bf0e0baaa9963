package cpuquota

import (
	"bufio"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/internal/cputime"
	"github.com/eventmeter/eventmeter/internal/exectest"
)

// TestQuotaHolds bounds a process that never rests to a fifth of a core. A busy machine
// gives it less, and nothing gives it more.
func TestQuotaHolds(t *testing.T) {
	g, err := New()
	if err != nil {
		t.Skip(err)
	}
	defer func() {
		if err := g.Remove(); err != nil {
			t.Error(err)
		}
	}()
	if err := g.Set(0.2); err != nil {
		t.Fatal(err)
	}
	cmd := exectest.Command("sh", "-c", "echo; read go; while :; do :; done")
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
	defer func() { _, _ = cmd.Process.Kill(), cmd.Wait() }()
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if err := g.Add(cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	started := time.Now()
	if _, err := in.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	before, err := cputime.Of(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	<-time.After(time.Second) // the length of the measurement
	used, err := cputime.Of(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	wall := time.Since(started)
	// At the edges of a second there may be one period more.
	if most := 0.2 * (wall + 2*period).Seconds(); (used - before).Seconds() > most {
		t.Errorf("used %v of %v, the quota allows %.3g s", used-before, wall, most)
	}
}

func TestMounts(t *testing.T) {
	dir := t.TempDir()
	mounts := filepath.Join(dir, "mounts")
	text := `24 1 0:22 / /proc rw shared:5 - proc proc rw
30 24 0:26 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct
31 24 0:27 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset
32 24 0:28 /pod /sys/fs/cgroup rw - cgroup2 cgroup2 rw
broken
`
	if err := os.WriteFile(mounts, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := mountsOf(mounts)
	want := []mount{{"", "/pod", "/sys/fs/cgroup"}, {"cpu", "/", "/sys/fs/cgroup/cpu,cpuacct"}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	groups := filepath.Join(dir, "groups")
	if err := os.WriteFile(groups, []byte("4:cpu,cpuacct:/a\n0::/pod/x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	of, err := groupsOf(groups)
	if want := map[string]string{"cpu": "/a", "cpuacct": "/a", "": "/pod/x"}; err != nil || !maps.Equal(of, want) {
		t.Errorf("%v, %v", of, err)
	}
}

// TestDelegation makes the group below the closest group that gives its children the
// controller, and says what is missing where there is none.
func TestDelegation(t *testing.T) {
	dir := t.TempDir()
	for path, control := range map[string]string{".": "memory cpu", "a": "cpu", "a/b": "memory", "none": "", "none/c": ""} {
		if err := os.MkdirAll(filepath.Join(dir, path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, path, "cgroup.subtree_control"), []byte(control+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	name := "eventmeter-" + strconv.Itoa(os.Getpid())
	g, err := mount{root: "/", dir: dir}.newGroup("/a/b")
	if err != nil || g.dir != filepath.Join(dir, "a", name) {
		t.Errorf("%+v, %v", g, err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "a", name, "cpu.max")); err != nil || string(text) != "100000 100000" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := (mount{root: "/", dir: filepath.Join(dir, "none")}).newGroup("/c"); err == nil {
		t.Error("a group without the controller was made")
	}
}
