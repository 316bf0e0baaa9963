package trust

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/internal/exectest"
)

var (
	full    = flag.Bool("trust", false, "measure; without it, only what takes seconds")
	samples = flag.Int("samples", 100, "pairs, or runs whose intervals are judged")
	runs    = flag.Int("runs", 1, "runs of each profile in TestClean")
	only    = flag.String("only", "", "rows of TestPlanted and TestPlantedLoad, profiles of TestClean, with commas between them")
	busy    = flag.Int("busy", 0, "threads that compute beside TestDuets")
	write   = flag.String("write", "", "folder to write the tables to, an absolute path")
)

func needsFull(t *testing.T) {
	if !*full {
		t.Skip("takes minutes to hours; see doc.go: go test -trust")
	}
}

// publish shows a table, and keeps it where -write says.
func publish(t *testing.T, name, text string) {
	t.Helper()
	t.Log("\n" + text)
	if *write == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(*write, name), []byte(text), 0o644); err != nil {
		t.Error(err)
	}
}

// conditions are the day and the machine.
func conditions() string {
	return fmt.Sprintf("%s, %s/%s, %d processors, -parallel %v",
		time.Now().UTC().Format(time.DateOnly), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), flag.Lookup("test.parallel").Value)
}

// selected reports whether -only names something or nothing.
func selected(name string) bool {
	return *only == "" || slices.Contains(strings.Split(*only, ","), name)
}

// program is the built command.
type program string

func build(t *testing.T) program {
	t.Helper()
	p := filepath.Join(t.TempDir(), "eventmeter.exe")
	if err := exectest.Build(p, "github.com/eventmeter/eventmeter/cmd/eventmeter"); err != nil {
		t.Fatal(err)
	}
	return program(p)
}

// start runs the command to its end. It is asked to stop before the test's own time is over: killed, it would leave its
// target behind.
func (p program) start(t *testing.T, args ...string) (code int, stdout, stderr []byte) {
	t.Helper()
	end := time.Now().Add(10 * time.Minute)
	if d, ok := t.Deadline(); ok && d.Add(-time.Minute).Before(end) {
		end = d.Add(-time.Minute)
	}
	ctx, cancel := context.WithDeadline(t.Context(), end)
	defer cancel()
	if ctx.Err() != nil {
		t.Skip("no time is left")
	}
	var out, errs bytes.Buffer
	c := exectest.CommandContext(ctx, string(p), args...)
	c.Stdout, c.Stderr = &out, &errs
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.WaitDelay = 30 * time.Second
	err := c.Run()
	if c.ProcessState == nil {
		t.Fatal(err)
	}
	if ctx.Err() != nil {
		t.Skipf("the time is over: %s", errs.Bytes())
	}
	return c.ProcessState.ExitCode(), out.Bytes(), errs.Bytes()
}

// run makes a run with its archive in dir. A busy generator and a failed threshold leave a result, too.
func (p program) run(t *testing.T, dir string, args ...string) (code int) {
	t.Helper()
	code, _, stderr := p.start(t, append([]string{"run", "--quiet", "--out", dir}, args...)...)
	if !slices.Contains([]int{0, 4, 5, 99}, code) {
		t.Fatalf("eventmeter run: exit code %d\n%s", code, stderr)
	}
	return code
}

func readJSON(t *testing.T, name string, v any) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, v); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// profileFile writes a profile of one push lane; schedule and phases are YAML.
func profileFile(t *testing.T, subscriptions, sources int, phases string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "trust.yaml")
	text := fmt.Sprintf(`name: trust
lanes:
  - {name: push, mode: push, subscriptions: %d, event: chat.message}
upstream:
  sources: %d
  payload: {channel: general, text: "{{.Probe}}"}
schedule: {kind: poisson, rate: 200/s}
phases: %s
`, subscriptions, sources, phases)
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

// delays is the fault by which the target delays each event by a uniform time.
func delays(low, high time.Duration, seed int) string {
	return fmt.Sprintf("delay(rate=1, uniform=%v..%v, seed=%d)", low, high, seed)
}

// wilson is E. B. Wilson's 95 % confidence interval of a share of which k of n were seen.
func wilson(k, n int) (low, high float64) {
	const z = 1.959963984540054
	p, m := float64(k)/float64(n), float64(n)
	centre := (p + z*z/(2*m)) / (1 + z*z/m)
	half := z / (1 + z*z/m) * math.Sqrt(p*(1-p)/m+z*z/(4*m*m))
	return max(0, centre-half), min(1, centre+half)
}

// Known values: 0 of 10 and 5 of 100.
func TestWilson(t *testing.T) {
	for _, tt := range []struct {
		k, n      int
		low, high float64
	}{{0, 10, 0, 0.2775}, {5, 100, 0.0215, 0.1118}, {10, 10, 0.7225, 1}} {
		if low, high := wilson(tt.k, tt.n); math.Abs(low-tt.low) > 1e-4 || math.Abs(high-tt.high) > 1e-4 {
			t.Errorf("%d of %d: %.4f to %.4f", tt.k, tt.n, low, high)
		}
	}
}
