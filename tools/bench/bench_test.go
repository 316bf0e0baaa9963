//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/internal/exectest"
)

// orphanArg makes the test binary a parent that starts a target and a client, and then waits to be killed.
const orphanArg = "orphan"

// TestMain lets the test binary be the child processes of a measurement.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case childArg:
			main()
			return
		case orphanArg:
			orphan(os.Args[2])
			return
		}
	}
	// At their end, programs under the race detector sleep for a second, which some sixty children would do.
	if err := os.Setenv("GORACE", strings.TrimSpace(os.Getenv("GORACE")+" atexit_sleep_ms=0")); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// build builds eventmeter once for a test.
func build(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "eventmeter")
	if err := exectest.Build(program, "github.com/eventmeter/eventmeter/cmd/eventmeter"); err != nil {
		t.Fatal(err)
	}
	return program
}

// TestEveryRow measures every row at a tiny size. It does not judge times: it checks that whatever is
// published arrives at every client, and that every figure has a number.
func TestEveryRow(t *testing.T) {
	if testing.Short() {
		t.Skip("a minute of measurements")
	}
	t.Parallel()
	program := build(t)
	for i := range rows {
		rows[i].often = false // one round finds as much as five
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			b := &bench{only: []string{row.name}, scale: 0.002, repeats: 1, program: program, progress: &bytes.Buffer{}}
			r, err := b.measure(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Notes) > 0 {
				t.Fatal(r.Notes)
			}
			checkRow(t, row, r)
		})
	}
}

func checkRow(t *testing.T, row row, r *report) {
	seen := map[string]bool{}
	for _, m := range r.Measurements {
		if m.Row != row.name {
			continue
		}
		seen[m.Client] = true
		if f := m.Figures; f["deliveries"] < float64(m.Streams) && m.Rate >= 1 || f["lost"] != 0 || f["failed"] != 0 ||
			f["broken"] != 0 {
			t.Errorf("%s: %v", m.Client, f)
		}
	}
	for _, c := range row.clients {
		if !seen[c.name] {
			t.Errorf("%s was not measured", c.name)
		}
	}
	lines := r.linesOf(row)
	for _, name := range strings.Fields(row.figures) {
		i := slices.IndexFunc(figures, func(f figure) bool { return f.name == name })
		if i < 0 ||
			!slices.ContainsFunc(lines, func(l line) bool { return strings.HasPrefix(l.figure, figures[i].what) && l.mine != "" }) {
			t.Errorf("there is no line for %s in %+v", name, lines)
		}
	}
}

func TestTable(t *testing.T) {
	two := func(row, client string, figure string, runs ...float64) (all []measurement) {
		for i, v := range runs {
			all = append(all, measurement{
				Row: row, Client: client, Round: i, Streams: 19_000, Rate: 5, Figures: map[string]float64{figure: v, "others": float64(i)},
			})
		}
		return all
	}
	r := &report{Scale: 1, Notes: []string{"push2: no files."}}
	r.Measurements = slices.Concat(
		two("push1", "eventmeter run", "cpu", 2, 3, 4),
		two("push1", reader.name, "cpu", 4, 2, 4),
		two("push1", rawEpoll.name, "cpu", 1, 1, 1),
		two("million", "driver and ledger", "settled", 0.5),
	)
	var got []string
	for _, text := range strings.Split(r.Table(), "\n") {
		got = append(got, strings.Join(strings.Fields(text), " "))
	}
	for _, want := range []string{
		"| push1 | 19,000 streams over HTTP/1.1 | eventmeter run | 19,000 streams, 5 events/s | | |",
		"| | CPU per delivery, µs | 3 (2–4) | goroutine and 4 KiB reader | 4 (2–4) | 1 (0.50–1.50) |",
		"| | | | epoll | 1 | 3 (2–4) |",
		"| | … after garbage collection, KiB | 0.50 | | | |",
		"Other processes used up to 2 processors (push1, eventmeter run). Do not trust the times.",
		"push2: no files.",
	} {
		if want = strings.ReplaceAll(want, "2 processors", "2.00 processors"); !slices.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, strings.Join(got, "\n"))
		}
	}
}

// TestEvaluate: a client with 0.1 s of CPU a second when idle, 0.2 s to open its streams, 1 MiB of
// memory for them, and 0.4 s of CPU for 1000 deliveries in 2 s.
func TestEvaluate(t *testing.T) {
	zero := time.Now()
	at := func(s float64) time.Time { return zero.Add(time.Duration(s * float64(time.Second))) }
	const mib = 1 << 20
	points := []point{
		{at: at(0), client: usage{1, 5 * mib}},
		{at: at(1), client: usage{1.2, 6 * mib}, busy: 1},
		{at: at(3), client: usage{1.4, 7 * mib}, busy: 2, calls: 100},
		{at: at(5), client: usage{2.0, 9 * mib}, busy: 4, calls: 200},
	}
	o := &outcome{
		Began: at(0.001), Opened: at(1), Full: at(1.001), Paced: at(3), Ended: at(5), Delivered: 1000, Lost: 2,
		Values: map[string]float64{"kernel": 100},
	}
	s := spec{Mode: "poll", Streams: 1024, Idle: 2 * time.Second}
	got := evaluate(s, o, points)
	for name, want := range map[string]float64{
		"cpu": 400, "idle": 100, "memory": 1, "settled": 1, "calls": 50, "callCPU": 2000, "deliveries": 1000, "lost": 2, "kernel": 100,
	} {
		if d := got[name] - want; d > 0.001*want || d < -0.001*want {
			t.Errorf("%s: %v, want %v", name, got[name], want)
		}
	}
}

func TestBodyOf(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nContent-Length: 12\r\nX: y\r\n\r\n"
	for _, c := range []struct {
		text, body string
		length     int
		fails      bool
	}{
		{text: head[:20], length: -1},
		{text: head + "hello", body: "hello", length: 12},
		{text: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", fails: true},
	} {
		body, length, err := bodyOf([]byte(c.text))
		if string(body) != c.body && !c.fails || length != c.length || (err != nil) != c.fails {
			t.Errorf("%q: %q, %d, %v", c.text, body, length, err)
		}
	}
}

func TestOptions(t *testing.T) {
	for _, args := range [][]string{
		{"--scale", "9"}, {"--only", "everything"}, {"--repeats", "100"},
		{"surplus"}, {"--nonsense"},
	} {
		var out bytes.Buffer
		if err := run(t.Context(), args, strings.NewReader(""), &out, &out); err == nil {
			t.Errorf("%v: taken", args)
		}
	}
}

func TestChildWithoutParent(t *testing.T) {
	for in, want := range map[string]string{"": "EOF", "{}\n": `no role ""`, "x\n": "invalid"} {
		err := run(t.Context(), []string{childArg}, strings.NewReader(in), &bytes.Buffer{}, &bytes.Buffer{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", in, err)
		}
	}
}

// orphan starts a target and a run, and prints their process ids.
func orphan(program string) {
	self := []string{os.Args[0], childArg}
	ctx := context.Background()
	s := spec{
		Role: "baseline", Mode: "push", HTTP: "1.1", Streams: 1, Rate: 1,
		Settle: time.Second, Idle: time.Second, Paced: time.Hour, Timeout: time.Minute, Program: program, Dir: filepath.Dir(program),
	}
	target, err := start(ctx, self, s)
	if err != nil {
		panic(err)
	}
	r, err := target.next()
	if err != nil {
		panic(err)
	}
	s.Role, s.URL, s.Admin = "run", r.Target.HTTP1, r.Target.Admin
	client, err := start(ctx, self, s)
	if err != nil {
		panic(err)
	}
	if r, err = client.next(); err != nil {
		panic(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode([]int{target.PID(), client.PID(), r.PID}); err != nil {
		panic(err)
	}
	select {}
}

// TestKilledParent: when the parent is killed, its children end, and the run that one of them started.
func TestKilledParent(t *testing.T) {
	t.Parallel()
	parent := exectest.CommandContext(t.Context(), os.Args[0], orphanArg, build(t))
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	var pids []int
	err = json.NewDecoder(out).Decode(&pids)
	if killed := parent.Process.Kill(); err != nil || killed != nil {
		t.Fatal(err, killed)
	}
	_ = parent.Wait() // it was killed
	for _, pid := range pids {
		for !ended(pid) {
			select {
			case <-t.Context().Done():
				t.Fatalf("process %d runs on", pid)
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
}

// ended reports whether a process is gone, or only waits to be reaped.
func ended(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	_, state, _ := strings.Cut(string(text), ") ")
	return strings.HasPrefix(state, "Z") || strings.HasPrefix(state, "X")
}
