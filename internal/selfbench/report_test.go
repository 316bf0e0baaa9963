package selfbench

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestNewValue(t *testing.T) {
	for _, tt := range []struct {
		runs              []float64
		median, low, high float64
		text              string
	}{
		{[]float64{5}, 5, 5, 5, "5 µs"},
		{[]float64{9, 1, 5}, 5, 1, 9, "5 µs (1–9)"},
		{[]float64{4, 1, 3, 2}, 2.5, 1, 4, "2.50 µs (1–4)"},
		{[]float64{7, 7, 7}, 7, 7, 7, "7 µs"},
	} {
		given := slices.Clone(tt.runs)
		v := newValue("µs", tt.runs)
		if v.Median != tt.median || v.Low != tt.low || v.High != tt.high || v.String() != tt.text {
			t.Errorf("%v: %+v %q", tt.runs, v, v)
		}
		if !slices.Equal(v.Runs, given) {
			t.Errorf("%v: the order of the runs was lost: %v", given, v.Runs)
		}
	}
}

func TestOverPairsRuns(t *testing.T) {
	a, b := newValue("µs", []float64{2, 30, 4}), newValue("µs", []float64{1, 10, 4})
	if got := over(a, b, "×"); got.Median != 2 || !slices.Equal(got.Runs, []float64{2, 3, 1}) {
		t.Errorf("%+v", got)
	}
	if got := over(a, newValue("µs", []float64{0}), "×"); got.Median != 0 {
		t.Errorf("over nothing: %+v", got)
	}
}

func TestNumber(t *testing.T) {
	for f, want := range map[float64]string{
		0: "0", 1: "1", 48_000: "48,000", 1_234_567.8: "1,234,568", 104.6: "105", 12.34: "12.3", 1.234: "1.23",
		0.0123: "0.01", 0.00456: "0.0046", -0.5: "-0.50", -1234: "-1,234",
	} {
		if got := number(f); got != want {
			t.Errorf("%v: %q, want %q", f, got, want)
		}
	}
}

func TestVerdicts(t *testing.T) {
	v := Line{Measured: newValue("", []float64{1, 2, 9})}
	for _, tt := range []struct{ got, want string }{
		{v.atMost("", 2).Verdict, met}, {v.atMost("", 1.9).Verdict, notMet}, {v.atLeast("", 2).Verdict, met}, {v.atLeast("", 2.1).Verdict, notMet},
	} {
		if tt.got != tt.want {
			t.Errorf("%q, want %q", tt.got, tt.want)
		}
	}
}

// run is a measurement with numbers that are easy to calculate with.
func run() *figures {
	return &figures{
		Outcomes: []outcome{{
			Before: sample{RSS: 1 << 20, At: time.Second}, Opened: sample{At: 3 * time.Second, CPU: 100 * time.Millisecond},
			Full: sample{RSS: 5 << 20}, Settled: sample{RSS: 3 << 20, Heap: 1 << 20},
			Idle:    phase{CPU: 10 * time.Millisecond, Took: time.Second, Mallocs: 100, Calls: 20},
			Paced:   phase{CPU: 60 * time.Millisecond, Took: 2 * time.Second, Mallocs: 700},
			Streams: 1024, Expected: 10_000, Delivered: 10_000, Balanced: true,
			ErrorP50: 3 * time.Microsecond, Shared: 5, Copies: 50, Kernel: 25,
		}},
		Targets: []served{{}},
		Target:  targetUse{Opening: 512 * time.Millisecond, Paced: 30 * time.Millisecond, Memory: 2 << 20},
	}
}

func TestFigures(t *testing.T) {
	f := run()
	two := run()
	two.Outcomes = append(two.Outcomes, run().Outcomes[0])
	two.Outcomes[1].Opened.At = 5 * time.Second
	for name, tt := range map[string][2]float64{
		"memory":            {f.memory(), 4},
		"settled":           {f.settled(), 2},
		"heap":              {f.heap(), 1},
		"stack":             {f.stack(), 0},
		"CPU per delivery":  {f.perDelivery(), 4},        // (60 − 2×10) ms / 10,000
		"allocations":       {f.allocations(), 0.05},     // (700 − 200) / 10,000
		"CPU per call":      {f.perCall(), 500},          // 10 ms / 20
		"opened per second": {f.openRate(), 512},         // 1024 in 2 s
		"CPU to open":       {f.openCPU(), 97.65625},     // 100 ms / 1024
		"target, to open":   {f.targetCPU(), 500},        // 512 ms / 1024
		"target, memory":    {f.targetMemory(), 2},       // 2 MiB / 1024
		"target, delivery":  {f.targetPerDelivery(), 3},  // 30 ms / 10,000
		"throughput":        {f.throughput(), 5000},      // 10,000 in 2 s
		"shared":            {f.sharedRead(), 10},        // per cent
		"kernel":            {f.kernelTimed(), 50},       // per cent
		"two, memory":       {two.memory(), 4},           // each
		"two, per delivery": {two.perDelivery(), 4},      // each
		"two, opened":       {two.openRate(), 2048. / 4}, // the slower one counts
	} {
		if diff := tt[0] - tt[1]; diff > 1e-9 || diff < -1e-9 {
			t.Errorf("%s: %v, want %v", name, tt[0], tt[1])
		}
	}
}

func TestLost(t *testing.T) {
	if run().lost() {
		t.Error("a run without losses counts as one with")
	}
	for name, change := range map[string]func(*outcome){
		"one is missing":       func(o *outcome) { o.Delivered-- },
		"twice":                func(o *outcome) { o.Other = 1 },
		"not published":        func(o *outcome) { o.Dropped = 1 },
		"does not add up":      func(o *outcome) { o.Balanced = false },
		"nothing was expected": func(o *outcome) { o.Expected, o.Delivered = 0, 0 },
	} {
		f := run()
		change(&f.Outcomes[0])
		if !f.lost() {
			t.Errorf("%s: not seen", name)
		}
	}
}

func TestSized(t *testing.T) {
	r := &runner{row: &Row{}}
	r.complete("streams", "2,000", run())
	r.add(Line{What: "cost", Goal: "none", Verdict: notMet})
	r.add(Line{What: "shown"})
	r.sized(0, run(), 1024)
	if got := r.row.Lines[0].Verdict; got != met {
		t.Errorf("at its size: %q", got)
	}
	r.sized(0, run(), 2000)
	for i, want := range []string{met + smaller, notMet + smaller, ""} {
		if got := r.row.Lines[i].Verdict; got != want {
			t.Errorf("%s: %q, want %q", r.row.Lines[i].What, got, want)
		}
	}
	f := run()
	f.Targets[0].Skipped = 3
	r.complete("streams", "1", f)
	if l := r.row.Lines[3]; l.Verdict != notMet || !strings.Contains(l.Note, "skipped 3") {
		t.Errorf("skipped frames: %+v", l)
	}
}

func TestLinear(t *testing.T) {
	points := []Point{{CPU: 9, Memory: 9, Complete: true}, {CPU: 4, Memory: 4, Complete: true}, {CPU: 5, Memory: 5, Complete: true}}
	for _, tt := range []struct {
		change func([]Point)
		want   string
	}{
		{func([]Point) {}, met},
		{func(p []Point) { p[2].CPU = 5.1 }, notMet},
		{func(p []Point) { p[2].Memory = 5.1 }, notMet},
		{func(p []Point) { p[0].Complete = false }, notMet},
	} {
		r := &runner{row: &Row{}}
		p := slices.Clone(points)
		tt.change(p)
		r.linear("streams", p, 1)
		if got := r.row.Lines[0].Verdict; got != tt.want {
			t.Errorf("%+v: %q, want %q", p, got, tt.want)
		}
	}
}

func TestScaled(t *testing.T) {
	for _, tt := range []struct {
		scale     float64
		files     int
		free      uint64
		n, procs  int
		bytes     uint64
		want      int
		explained string
	}{
		{1, 20_000, 0, 19_000, 1, perStream1, 19_000, ""},
		{0.1, 20_000, 0, 19_000, 1, perStream1, 1900, ""},
		{0.001, 20_000, 0, 1000, 1, perStream1, least, ""},
		{1, 1024, 0, 19_000, 1, perStream1, 724, "1,024 open files"},
		{1, 1024, 0, 100_000, 1, perStream2, 100_000, ""},
		{1, 0, 1 << 30, 100_000, 1, perStream2, 98_304, "1,024 MiB"},
		{1, 0, 1 << 30, 16_000, 3, perStream1, 9362, "1,024 MiB"},
	} {
		r := &runner{opts: Options{Scale: tt.scale, Files: tt.files}, report: &Report{Machine: Machine{Free: tt.free}}, row: &Row{}}
		got := r.scaled(tt.n, tt.procs, tt.bytes)
		r.scaled(tt.n, tt.procs, tt.bytes) // is said once
		notes := strings.Join(r.row.Notes, "\n")
		if got != tt.want || !strings.Contains(notes, tt.explained) || (tt.explained == "") != (notes == "") || len(r.row.Notes) > 1 {
			t.Errorf("%+v: %d, %q", tt, got, notes)
		}
	}
}

func TestOptionsRefused(t *testing.T) {
	for _, tt := range []struct {
		o    Options
		want string
	}{
		{Options{Scale: 5}, "scale 5"},
		{Options{Scale: -1}, "scale -1"},
		{Options{Repeats: 16}, "16 repeats"},
		{Options{RowTime: time.Millisecond}, "for a row"},
		{Options{Only: []string{"push1", "push3"}}, `no row "push3"`},
	} {
		if _, err := Run(t.Context(), tt.o); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v", tt.o, err)
		}
	}
}

func TestNoise(t *testing.T) {
	for others, want := range map[float64]string{-1: "", 0.02: "quiet", 0.5: "busy"} {
		r := &Report{others: []float64{0.01, others}}
		if others < 0 {
			r.others = []float64{others}
		}
		r.noteNoise()
		if got := strings.Join(r.Notes, "\n"); (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%v: %q", others, got)
		}
	}
	r := &Report{
		Rows: []Row{
			{
				Lines: []Line{
					{What: "cost", Measured: newValue("", []float64{1, 1, 3})},
					{What: "steady", Measured: newValue("", []float64{1, 1.1})},
				},
			},
		},
	}
	r.noteNoise()
	if n := r.Rows[0].Notes; len(n) != 1 || !strings.Contains(n[0], "cost: runs differ by a factor of 3") {
		t.Errorf("%q", n)
	}
}

func TestPage(t *testing.T) {
	baseline := newValue("KiB", []float64{8})
	r := &Report{
		Schema: Schema, Machine: Machine{OS: "linux", Arch: "amd64", CPUs: 2, Go: "go1"}, Notes: []string{"It was quiet."}, Repeats: 3,
		Rows: []Row{{Title: "Push", Failed: "it broke", Lines: []Line{{
			What: "memory | stream", Goal: "at most 6 KiB", Measured: newValue("KiB", []float64{3, 4, 5}), Baseline: &baseline,
			Peers: []Peer{{"epoll", newValue("KiB", []float64{0.3})}}, Verdict: met, Note: "all came",
		}}, Curve: []Point{{Client: "eventmeter", Streams: 30_000, Processes: 2}}}},
	}
	page := r.Page(t.TempDir())
	for _, want := range []string{
		"| memory \\| stream<br>all came | at most 6 KiB | 8 KiB | epoll 0.30 KiB | **4 KiB (3–5)** | met |",
		"| eventmeter | 30,000 | 2 |", "eventmeter's docs/benchmarks.md says", "medians of 3", "**not complete**", "Not complete: it broke", "It was quiet.", "linux/amd64, 2 processors, go1",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
	b, err := r.JSON()
	var back Report
	if err != nil || json.Unmarshal(b, &back) != nil || back.Rows[0].Lines[0].Measured.Median != 4 ||
		back.Rows[0].Lines[0].Peers[0].Median != 0.3 {
		t.Errorf("%v: %s", err, b)
	}
}

// TestPageLinks: the link leads from wherever in a checkout the page stands.
func TestPageLinks(t *testing.T) {
	top := t.TempDir()
	if err := errors.Join(
		os.MkdirAll(filepath.Join(top, "docs"), 0o755),
		os.WriteFile(filepath.Join(top, "docs", "benchmarks.md"), nil, 0o600),
	); err != nil {
		t.Fatal(err)
	}
	r := &Report{Repeats: 1}
	for dir, want := range map[string]string{"": "docs/benchmarks.md", "a": "../docs/benchmarks.md", "results/studies/a/error": "../../../../docs/benchmarks.md"} {
		if page := r.Page(
			filepath.Join(top, dir),
		); !strings.Contains(page, "[docs/benchmarks.md]("+want+")") ||
			!strings.Contains(page, "each measured once") {
			t.Errorf("from %q:\n%s", dir, page)
		}
	}
}

func TestSentAt(t *testing.T) {
	for text, want := range map[string]int64{
		`{"data":{"sent":"1767225600000000001","pad":"x"}}`:                    1767225600000000001,
		`{"data":{"sent":"176722560000000000","pad":""}}`:                      0, // a digit short
		`{"data":{"sent":"17"}}`:                                               0,
		`{"data":{}}`:                                                          0,
		`{"sent":"0000000000000000000","data":{"sent":"0000000000000000007"}}`: 7,
	} {
		got, ok := sentAt([]byte(text))
		if got != want || ok != (want != 0) {
			t.Errorf("%s: %d, %t", text, got, ok)
		}
	}
}

// TestMillion: at any scale there are ten events, at the same rate of deliveries while
// streams are many.
func TestMillion(t *testing.T) {
	for _, tt := range []struct {
		n    int
		rate float64
		last time.Duration
	}{
		{1_000_000, 0.2, 50 * time.Second}, {100_000, 2, 5 * time.Second}, {1000, 5, 2 * time.Second},
	} {
		r := &runner{opts: Options{Scale: 1}}
		p := r.million(tt.n)
		if p.Client.Rate != tt.rate || p.Client.Paced != tt.last || p.Client.Batch != 0 || p.Client.Timeout != 5*time.Minute {
			t.Errorf("%d streams: %+v", tt.n, p.Client)
		}
	}
}
