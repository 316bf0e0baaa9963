package bench

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/results"
)

func TestCheckHost(t *testing.T) {
	for _, tt := range []struct {
		url     string
		allowed []string
		ok      bool
	}{
		{"http://127.0.0.1:80/mcp", nil, true},
		{"http://127.9.9.9/mcp", nil, true},
		{"https://[::1]:8443/mcp", nil, true},
		{"http://localhost:8080/", nil, true},
		{"http://LOCALHOST/", nil, true},
		{"http://[::ffff:127.0.0.1]/", nil, true},
		{"http://192.0.2.1/", nil, false},
		{"http://192.0.2.1/", []string{"192.0.2.2"}, false},
		{"http://192.0.2.1/", []string{"192.0.2.1"}, true},
		{"http://192.0.2.1:99/", []string{"192.0.2.1:99"}, true},
		{"http://0.0.0.0/", nil, false},
		{"http://127.0.0.1.example.invalid/", nil, false},
		{"ftp://127.0.0.1/", nil, false},
		{"127.0.0.1:80", nil, false},
		{"http://user@127.0.0.1@192.0.2.1/", nil, false},
	} {
		err := checkHost(t.Context(), nil, tt.url, "target", tt.allowed)
		if (err == nil) != tt.ok || (err != nil && !errors.Is(err, ErrProfile)) {
			t.Errorf("%s allowing %v: %v", tt.url, tt.allowed, err)
		}
	}
}

func TestCheckHostsOfAProfile(t *testing.T) {
	p := &profiles.Profile{}
	p.Upstream.HTTP.URL = "http://{{.Probe}}.example/"
	if err := checkHosts(t.Context(), nil, p, nil); err == nil || !strings.Contains(err.Error(), "must not be a template") {
		t.Errorf("a templated host: %v", err)
	}
	p.Upstream.HTTP.URL = "http://127.0.0.1/{{.Probe}}"
	p.Target.Allow = []string{"load.example"}
	if err := checkHosts(t.Context(), nil, p, nil); err == nil || !strings.Contains(err.Error(), "--allow-host load.example") {
		t.Errorf("a host that only the file allows: %v", err)
	}
	if err := checkHosts(t.Context(), nil, p, []string{"load.example"}); err != nil {
		t.Error(err)
	}
}

func TestCheckFiles(t *testing.T) {
	p := &profiles.Profile{Lanes: []profiles.Lane{
		{Mode: "push", HTTP: "1.1", Subscriptions: 1000},
		{Mode: "push", HTTP: "h2c", Subscriptions: 100000},
		{Mode: "webhook", HTTP: "1.1", Subscriptions: 100000},
	}}
	const need = spareFiles + 1000 + 1001 + 2048
	for limit, ok := range map[int64]bool{0: true, need: true, need - 1: false} {
		if err := checkFiles(p, limit); (err == nil) != ok {
			t.Errorf("limit %d: %v", limit, err)
		}
	}
	p.Phases.Order = "turns"
	if err := checkFiles(p, spareFiles+2048); err != nil {
		t.Errorf("in turns only the widest lane counts: %v", err)
	}
}

// The target's connections are bounded by the memory and by the files that the rest
// of the run leaves, and every listener takes some.
func TestCallbackConnections(t *testing.T) {
	push := profiles.Lane{Mode: "push", HTTP: "1.1", Subscriptions: 1000}
	few, many := profiles.Lane{Mode: "webhook", Subscriptions: 20}, profiles.Lane{Mode: "webhook", Subscriptions: 100_000}
	for _, c := range []struct {
		lanes         []profiles.Lane
		files, memory int64
		want          int
	}{
		{[]profiles.Lane{push}, 0, 256 << 20, 0},
		{[]profiles.Lane{push, few}, 0, 256 << 20, 4096},
		{[]profiles.Lane{push, few, many}, 0, 256 << 20, 2048},
		{[]profiles.Lane{push, few}, 2048, 256 << 20, 2048 - spareFiles - 1000},
		{[]profiles.Lane{push, many}, spareFiles + 1000 + 2048, 256 << 20, 2048},
		{[]profiles.Lane{push, few}, 0, 16 << 20, 256},
		{[]profiles.Lane{push, few, many}, 0, 1 << 20, leastCallbacks},
		{[]profiles.Lane{push, few}, spareFiles + 1000, 256 << 20, leastCallbacks},
	} {
		if got := callbackConnections(&profiles.Profile{Lanes: c.lanes}, c.files, c.memory); got != c.want {
			t.Errorf("%d lanes, %d files, %d MiB: %d, want %d", len(c.lanes), c.files, c.memory>>20, got, c.want)
		}
	}
	p := &profiles.Profile{Lanes: []profiles.Lane{push, few}}
	p.Phases.Order = "turns"
	if got := callbackConnections(p, 2000, 256<<20); got != 2000-spareFiles-980 {
		t.Errorf("in turns: %d", got)
	}
}

func TestBottlenecks(t *testing.T) {
	ms := func(n int64) results.Quantiles {
		return results.Quantiles{Count: 1, P99: results.Nanos(n * 1e6), Max: results.Nanos(n * 1e6)}
	}
	for name, tt := range map[string]struct {
		in   results.Generator
		want string
	}{
		"idle":       {results.Generator{}, ""},
		"busy, fine": {results.Generator{DroppedEvents: 0.01, TimerLag: ms(50), ReadDelay: ms(100), GCPauses: ms(100), Others: 0.5, Process: results.Process{CPUShare: 1.7}}, ""},
		"drops":      {results.Generator{DroppedEvents: 0.011}, "1.1 % of the events were due while all 64 workers waited for the upstream's answers, and were dropped (limit 1 %); the upstream answered within 40.0ms at the 99th percentile: raise upstream.workers, or lower the rate"},
		"timers":     {results.Generator{TimerLag: ms(51)}, "timers woke"},
		"cpu":        {results.Generator{Process: results.Process{CPUShare: 1.71}}, "the generator used 1.71 of 2 CPUs"},
		"others":     {results.Generator{Others: 0.51}, "other processes used 0.51 of 2 CPUs"},
		"read delay": {results.Generator{ReadDelay: ms(101)}, "to read what had arrived"},
		"gc":         {results.Generator{GCPauses: ms(101)}, "garbage collector"},
	} {
		got := bottlenecks(tt.in, 2, sending{workers: 64, answer: ms(40), lag: ms(100)})
		if tt.want == "" && len(got) != 0 || tt.want != "" && (len(got) != 1 || !strings.Contains(got[0], tt.want)) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// A generator that is late with its emissions is named as such: a lack of workers
// drops emissions and delays none.
func TestBottlenecksOfSending(t *testing.T) {
	ms := func(n int64) results.Quantiles {
		return results.Quantiles{Count: 1, P99: results.Nanos(n * 1e6)}
	}
	for name, tt := range map[string]struct {
		dropped float64
		s       sending
		want    string
	}{
		"fine":        {0.01, sending{workers: 8, burst: 500, lag: ms(100)}, ""},
		"late":        {0, sending{workers: 8, lag: ms(101)}, "events were sent 101ms after they were due, at the 99th percentile (limit 100ms): the machine is too busy for this rate, or for bursts of this size"},
		"large burst": {0.5, sending{workers: 8, burst: 500, answer: ms(3)}, "50.0 % of the events were due while all 8 workers waited for the upstream's answers, and were dropped (limit 1 %); a burst of 500 needs upstream.workers: 500"},
		"small burst": {0.5, sending{workers: 8, burst: 8, answer: ms(3)}, "50.0 % of the events were due while all 8 workers waited for the upstream's answers, and were dropped (limit 1 %); the upstream answered within 3.00ms at the 99th percentile: raise upstream.workers, or lower the rate"},
	} {
		got := bottlenecks(results.Generator{DroppedEvents: tt.dropped}, 2, tt.s)
		if strings.Join(got, "|") != tt.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// A core that this process burns and does not own up to must be seen as
// others' use.
func TestBurntCoreIsSeen(t *testing.T) {
	machine := newMachineMeter()
	if machine == nil {
		t.Skip("this system does not tell the CPU time of the whole machine")
	}
	start := time.Now()
	x := 1.0
	for time.Since(start) < 300*time.Millisecond {
		x = math.Sqrt(x + 1)
	}
	if x == 0 {
		t.Error("unreachable; it keeps the loop")
	}
	// Not told of our own use, the machine's meter counts it as others'.
	if got := machine.others(time.Since(start), 0, nil); got < 0.5 {
		t.Errorf("one core was burnt and %.2f CPUs were seen", got)
	}
}

func TestEchoMeasuresItself(t *testing.T) {
	e, err := openEcho(echoEvery(0))
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.After(10 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for range 10 {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("the machine stands still")
		}
	}
	h := e.close()
	if h.TotalCount() == 0 || h.Max() <= 0 {
		t.Errorf("%d samples, longest %d ns", h.TotalCount(), h.Max())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := readDelay(time.Hour, ctx.Done()); err == nil {
		t.Error("a cancelled watch goes on")
	}
}

func TestTogether(t *testing.T) {
	a := &results.Process{CPU: 1e9, CPUShare: 0.5, Memory: 10} // two seconds
	b := &results.Process{CPU: 3e9, CPUShare: 1.5, Memory: 5}  // two seconds
	got := together(a, b)
	if got.CPU != 4e9 || math.Abs(got.CPUShare-1) > 1e-9 || got.Memory != 10 {
		t.Errorf("%+v", got)
	}
	if together(nil, b) != b || together(a, nil) != a {
		t.Error("nothing beside something changes it")
	}
}

func TestEmbeddedArgs(t *testing.T) {
	got := embeddedArgs(profiles.Embedded{NextPoll: 50 * time.Millisecond, Retries: -1, Queue: 7, ProxiesMayBuffer: true})
	sse := embeddedArgs(profiles.Embedded{SSEAnswers: true})
	want := []string{"--next-poll", "50ms", "--queue", "7", "--retries", "-1", "--proxies-may-buffer"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if want := []string{"--sse-answers"}; !slices.Equal(sse, want) {
		t.Errorf("%q, want %q", sse, want)
	}
	if got := embeddedArgs(profiles.Embedded{}); got != nil {
		t.Errorf("no wishes: %q", got)
	}
}

func TestTopFailures(t *testing.T) {
	counts := map[string]int64{"b": 2, "a": 2, "c": 9, "d": 1}
	if got := topFailures(counts, 3); !slices.Equal(got, []string{"c", "a", "b"}) {
		t.Errorf("%q", got)
	}
	if got := topReason(counts); got != "c (9 times)" {
		t.Errorf("%q", got)
	}
	if got := topReason(nil); got != "no reason was given" {
		t.Errorf("%q", got)
	}
}

func TestChildThatFails(t *testing.T) {
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"not there":    {[]string{"/nonexistent/eventmeter"}, "start the embedded target"},
		"ends at once": {[]string{"sh", "-c", "echo no port free >&2; exit 3"}, "exit status 3: no port free"},
		"talks":        {[]string{"sh", "-c", "echo hello; cat"}, `printed "hello\n"`},
	} {
		c, err := StartChild(t.Context(), tt.args[0], tt.args[1:]...)
		if err == nil {
			c.Stop()
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
