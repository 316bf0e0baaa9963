package cpuquota

import (
	"bufio"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// period is the time in which a group may use its quota, the default of the kernel and
// of container runtimes.
const period = 100 * time.Millisecond

// Group is a control group with a CPU quota. It is not safe for concurrent use.
type Group struct {
	dir string
	v2  bool
}

// New makes a group for processes that this process starts. The error says what the
// system lacks. The caller must call [Group.Remove].
func New() (*Group, error) {
	mounts, err := mountsOf("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	groups, err := groupsOf("/proc/self/cgroup")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	var errs []error
	for _, m := range mounts {
		own, ok := groups[m.controller]
		if !ok {
			continue
		}
		g, err := m.newGroup(own)
		if err == nil {
			return g, nil
		}
		errs = append(errs, err)
	}
	if len(errs) == 0 {
		errs = append(errs, errors.New("no control groups are mounted"))
	}
	return nil, fmt.Errorf("%w: %w", ErrUnavailable, errors.Join(errs...))
}

// mount is where a hierarchy of control groups is mounted: of the controller cpu, or of
// all, which has no name.
type mount struct {
	controller string // cpu (version 1), or empty (version 2)
	root, dir  string // the group that is mounted, and where
}

// mountsOf reads the mounts of control groups, version 2 first.
func mountsOf(file string) ([]mount, error) {
	var out []mount
	err := eachLine(file, func(line string) {
		left, right, ok := strings.Cut(line, " - ")
		fields, kind := strings.Fields(left), strings.Fields(right)
		if !ok || len(fields) < 5 || len(kind) < 3 {
			return
		}
		switch m := (mount{root: fields[3], dir: fields[4]}); {
		case kind[0] == "cgroup2":
			out = slices.Insert(out, 0, m)
		case kind[0] == "cgroup" && slices.Contains(strings.Split(kind[2], ","), "cpu"):
			m.controller = "cpu"
			out = append(out, m)
		}
	})
	return out, err
}

// groupsOf reads the groups of this process by controller.
func groupsOf(file string) (map[string]string, error) {
	out := map[string]string{}
	err := eachLine(file, func(line string) {
		if parts := strings.SplitN(line, ":", 3); len(parts) == 3 {
			for _, c := range strings.Split(parts[1], ",") {
				out[c] = parts[2]
			}
		}
	})
	return out, err
}

func eachLine(file string, do func(string)) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		do(lines.Text())
	}
	return lines.Err()
}

// newGroup makes a group below own or, in version 2, below the closest group above it
// that gives its children the controller: a group with processes of its own may not.
func (m mount) newGroup(own string) (*Group, error) {
	below, err := filepath.Rel(m.root, own)
	if err != nil || !filepath.IsLocal(below) {
		below = "." // the group of this process is not within the mount
	}
	name := fmt.Sprintf("eventmeter-%d", os.Getpid())
	for at := filepath.Join(m.dir, below); ; at = filepath.Dir(at) {
		g := &Group{dir: filepath.Join(at, name), v2: m.controller == ""}
		last := !g.v2 || at == filepath.Clean(m.dir)
		err := g.make(at)
		if err == nil {
			return g, nil
		}
		if last {
			return nil, err
		}
	}
}

func (g *Group) make(parent string) error {
	if g.v2 {
		children, err := os.ReadFile(filepath.Join(parent, "cgroup.subtree_control"))
		if err != nil {
			return err
		}
		if !slices.Contains(strings.Fields(string(children)), "cpu") {
			return fmt.Errorf("%s does not give its children the controller cpu", parent)
		}
	}
	if err := os.Mkdir(g.dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	if err := g.Set(1); err != nil {
		return errors.Join(err, g.Remove())
	}
	return nil
}

// Set bounds the CPU time of all processes of the group together to so many cores, at
// least 0.01.
func (g *Group) Set(cores float64) error {
	quota := int64(math.Round(max(cores, 0.01) * float64(period.Microseconds())))
	if g.v2 {
		return g.write("cpu.max", fmt.Sprintf("%d %d", quota, period.Microseconds()))
	}
	if err := g.write("cpu.cfs_period_us", strconv.FormatInt(period.Microseconds(), 10)); err != nil {
		return err
	}
	return g.write("cpu.cfs_quota_us", strconv.FormatInt(quota, 10))
}

// Add moves a process into the group, with all its threads.
func (g *Group) Add(pid int) error { return g.write("cgroup.procs", strconv.Itoa(pid)) }

// Remove removes the group. Its processes must have ended.
func (g *Group) Remove() error {
	// The kernel needs a moment to let go of processes that ended.
	var err error
	for range 50 {
		if err = os.Remove(g.dir); err == nil || errors.Is(err, os.ErrNotExist) {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return fmt.Errorf("remove the control group: %w", err)
}

func (g *Group) write(file, text string) error {
	return os.WriteFile(filepath.Join(g.dir, file), []byte(text), 0o644)
}
