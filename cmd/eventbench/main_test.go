package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/internal/selfbench"
)

// TestMain lets the test binary be the child processes of a measurement.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == selfbench.ChildArg {
		main()
		return
	}
	// At their end, programs under the race detector sleep for a second, which
	// some sixty child processes would do.
	if err := os.Setenv("GORACE", strings.TrimSpace(os.Getenv("GORACE")+" atexit_sleep_ms=0")); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// TestEverything measures every row at a tiny size. It says nothing of times:
// only that whatever is sent arrives, and that every line gets a number.
func TestEverything(t *testing.T) {
	if testing.Short() {
		t.Skip("a minute of measurements")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	dir := filepath.Join(t.TempDir(), "study")
	var out, progress bytes.Buffer
	if err := run(ctx, []string{"--scale", "0.005", "--repeats", "1", "--out", dir}, strings.NewReader(""), &out, &progress); err != nil {
		t.Fatalf("%v\n%s", err, &progress)
	}
	text, err := os.ReadFile(filepath.Join(dir, "bench.json"))
	if err != nil {
		t.Fatal(err)
	}
	var r selfbench.Report
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, row := range r.Rows {
		names = append(names, row.Name)
		checkRow(t, row)
	}
	if !slices.Equal(names, selfbench.RowNames()) {
		t.Errorf("rows %v, want %v", names, selfbench.RowNames())
	}
	page, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil || !strings.Contains(string(page), "## Push over HTTP/1.1") {
		t.Errorf("the page: %v\n%s", err, page)
	}
	if !strings.Contains(out.String(), "memory per stream") {
		t.Errorf("printed:\n%s", &out)
	}
	if t.Failed() {
		t.Logf("progress:\n%s\nreport:\n%s", &progress, &out)
	}
}

func checkRow(t *testing.T, row selfbench.Row) {
	t.Helper()
	if row.Failed != "" {
		t.Errorf("%s: %s", row.Name, row.Failed)
	}
	if len(row.Lines) == 0 {
		t.Errorf("%s has no lines", row.Name)
	}
	for _, l := range row.Lines {
		if len(l.Measured.Runs) == 0 {
			t.Errorf("%s: %s: nothing was measured", row.Name, l.What)
		}
		if sent, came := deliveries(l.Note); sent != came || (sent == "" && l.Measured.Unit == "streams") {
			t.Errorf("%s: %s: %s", row.Name, l.What, l.Note)
		}
		if l.Measured.Unit == "streams" && l.Measured.Median < 20 {
			t.Errorf("%s: %s: %v", row.Name, l.What, l.Measured)
		}
	}
	for _, p := range row.Curve {
		if p.Streams < 20 || p.Delivered < int64(p.Streams) {
			t.Errorf("%s: %+v", row.Name, p)
		}
	}
}

// deliveries reads "5 of 5 deliveries arrived".
func deliveries(note string) (came, sent string) {
	head, ok := strings.CutSuffix(note, " deliveries arrived")
	if !ok {
		return "", ""
	}
	came, sent, _ = strings.Cut(head, " of ")
	return came, sent
}

func TestOptions(t *testing.T) {
	for _, args := range [][]string{{"--scale", "9"}, {"--only", "everything"}, {"--repeats", "100"}, {"--row-time", "1ms"}, {"surplus"}, {"--nonsense"}} {
		var out bytes.Buffer
		if err := run(t.Context(), args, strings.NewReader(""), &out, &out); err == nil {
			t.Errorf("%v: taken", args)
		}
	}
}

func TestChildWithoutParent(t *testing.T) {
	for in, want := range map[string]string{"": "EOF", "{}\n": `no role ""`, "x\n": "invalid"} {
		if err := run(
			t.Context(),
			[]string{selfbench.ChildArg},
			strings.NewReader(in),
			&bytes.Buffer{},
			&bytes.Buffer{},
		); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", in, err)
		}
	}
}
