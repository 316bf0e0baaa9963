package main

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/internal/exectest"
)

// written returns the page of a study, on one line.
func written(s study) string {
	p := &page{entry: entry{name: "x", question: "Why?"}, file: file{Scale: 1}, charts: map[string]chart{}}
	s.write(p)
	return string(p.markdown())
}

// saysNot checks what a page contains and what not.
func saysNot(t *testing.T, page string, want, not []string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(page, w) {
			t.Errorf("no %q in\n%s", w, page)
		}
	}
	for _, w := range not {
		if strings.Contains(page, w) {
			t.Errorf("%q is in\n%s", w, page)
		}
	}
}

func within(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-3*max(1, math.Abs(want)) {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

// Two streams in two tenths: a tenth has none with 0.25, at most one with 0.75. So the larger of two
// is 0 with 0.0625, at most 1 with 0.5625, and 1.375 on average.
func TestHerdPeak(t *testing.T) {
	mean, low, high := herdPeak(2, 200*time.Millisecond)
	within(t, "the mean", mean, 1.375)
	if low != 0 || high != 2 {
		t.Errorf("from %v to %v, want 0 to 2", low, high)
	}
	if mean, low, high = herdPeak(100, 50*time.Millisecond); mean != 100 || low != 100 || high != 100 {
		t.Errorf("without a window %v (%v to %v) of 100 return", mean, low, high)
	}
	// 5,000 in 100 tenths: 50 on average with a deviation of 7, and the largest of 100 about 2.5 above.
	if mean, low, high = herdPeak(5000, 10*time.Second); mean < 66 || mean > 70 || low > mean || high < mean {
		t.Errorf("%v (%v to %v), want about 68", mean, low, high)
	}
}

func TestAgeLoss(t *testing.T) {
	for _, c := range []struct {
		away, window, maxAge time.Duration
		want                 float64
	}{
		{10 * time.Second, 0, 4 * time.Second, 0.6}, {10 * time.Second, 0, 0, 0}, {10 * time.Second, 0, 12 * time.Second, 0},
		{10 * time.Second, 2 * time.Second, 10 * time.Second, 0.1},
		{10 * time.Second, 4 * time.Second, 12 * time.Second, 0.05}, // (u-2)/10 for u of 2 to 4, else 0
	} {
		within(t, "the loss", ageLoss(c.away, c.window, c.maxAge), c.want)
	}
}

func TestReconnectPage(t *testing.T) {
	row := func(windowMs float64, events int, peak, catchUpMs, memory float64) reconnection {
		return reconnection{WindowMs: windowMs, AwayMs: 1000, Events: events, Peak: exactly(peak), CatchUpMs: exactly(catchUpMs), MemoryMiB: exactly(memory), Replayed: int64(2 * 100 * events)}
	}
	aged := func(maxAgeMs float64, lost, replayed int64) reconnection {
		return reconnection{Streams: 100, AwayMs: 1000, MaxAgeMs: maxAgeMs, Events: 10, Peak: spread{N: 1}, Announced: lost, Replayed: replayed}
	}
	good := &reconnect{
		Streams: 100,
		Jitter:  []reconnection{row(0, 10, 100, 50, 80), row(1000, 10, 15, 1000, 80)},          // 14.8 expected
		Backlog: []reconnection{row(100, 1, 60, 100, 80), row(100, 100, 60, 2000, 80)},         // 5,000 deliveries a second
		Age:     []reconnection{aged(250, 750, 250), aged(500, 510, 490), aged(1500, 0, 1000)}, // of 100 × 10
	}
	saysNot(t, written(good), []string{
		"**Of 100 streams that are lost together, 100 come back within one tenth of a second without jitter, and 15 with a window of 1.00 s.** With windows of 1.00 s and more, the peaks are as the closed form says, within 1.",
		"the last stream has caught up 2.00 (2.00–2.00) s after the streams may return (5\u202f000 deliveries a second)", "does not depend on the backlog",
		"Nothing was lost silently, and nothing came twice; with `maxAge` below the time away, the share 1 − maxAge / away is lost, and announced.",
	}, []string{"are not as"})
	bad := *good
	bad.Jitter = []reconnection{good.Jitter[0], row(1000, 10, 40, 1000, 80)}
	bad.Backlog = []reconnection{good.Backlog[0], row(100, 100, 60, 2000, 180)}
	bad.Age = []reconnection{{Streams: 100, AwayMs: 1000, MaxAgeMs: 250, Events: 10, Peak: spread{N: 1}, Silent: 7, Announced: 743, Replayed: 250, Duplicates: 3}}
	saysNot(t, written(&bad), []string{
		"not as the closed form says: up to 17", "changes with the backlog, from 80.0 (80.0–80.0) MiB with 1 missed to 180 (180–180) MiB with 100: 1\u202f024 KiB a stream",
		"7 deliveries were lost silently, and 3 came twice; with `maxAge` below the time away, the loss is not the share",
	}, []string{"does not depend"})
}

// way has 10 KiB a stream for 100 → 178.125 MiB, of 2,000 and 10,000 streams.
func way(http string, per int, memory, p99, open float64) streamsWay {
	return streamsWay{HTTP: http, PerConnection: per, Sizes: []streamsSize{
		{Streams: 2000, P99Ms: exactly(p99 / 5), OpenMs: exactly(open / 5), MemoryMiB: exactly(100), Connections: int64(2000 / per)},
		{Streams: 10_000, P99Ms: exactly(p99), OpenMs: exactly(open), MemoryMiB: exactly(memory), Connections: int64(10_000/per) + 1, Files: 10_010},
	}}
}

// heldMiB is the memory of 10,000 streams of so many KiB.
func heldMiB(perStream float64) float64 { return 100 + perStream*8000/1024 }

func TestStreamsPage(t *testing.T) {
	w := way("h2c", 1, 178.125, 1, 1)
	within(t, "memory per stream", w.perStream().Median, 10)
	// a = 10 KiB for a stream, b = 20 KiB for a connection.
	good := &streams{Ways: []streamsWay{
		way("1.1", 1, heldMiB(25), 300, 4000), way("h2c", 1, heldMiB(30), 400, 5000), way("h2c", 10, heldMiB(12), 200, 3000), way("h2c", 100, heldMiB(10.2), 150, 2000),
	}}
	a, b := good.memoryModel()
	within(t, "a", a, 10)
	within(t, "b", b, 20) // (30 - 10.2) / (1 - 0.01)
	saysNot(t, written(good), []string{
		"**A stream over HTTP/1.1 takes 25.0 (25.0–25.0) KiB of the server's memory and a file; over HTTP/2 it takes 30.0 (30.0–30.0) KiB with a connection of its own, and 10.2 (10.2–10.2) KiB with 100 to a connection.**",
		"2.00 times earlier", "It held: no way had more than eight others.", "It held: each point between", "It held, and sharing is faster: 400 (400–400) ms with connections of their own, and 150 (150–150) ms with 100 streams to one.",
	}, []string{"It did not hold"})
	bad := &streams{Ways: []streamsWay{
		way("1.1", 1, heldMiB(25), 300, 4000), way("h2c", 1, heldMiB(30), 400, 5000), way("h2c", 10, heldMiB(22), 500, 6000), way("h2c", 100, heldMiB(10.2), 300, 4000),
	}}
	bad.Ways[2].Sizes[1].Connections = 2000
	saysNot(t, written(bad), []string{
		"the repeats do not tell them apart", "It did not hold: HTTP/2, 10 had 2\u202f000 for 10\u202f000 streams.", "It did not hold: with 10 to a connection a stream takes 22.0 (22.0–22.0) KiB, and 12.0 were expected.",
		"It did not hold: 400 (400–400) ms with connections of their own, and 500 (500–500) ms with 10 streams to one.",
	}, []string{"times earlier", "times later"})
}

func TestBystandersPage(t *testing.T) {
	size := func(n int, p95, memory float64) bystanderSize {
		return bystanderSize{Streams: n, Active: int64(n), P95Ms: exactly(p95), MemoryMiB: exactly(memory), OpenMs: exactly(10), Requests: 800}
	}
	limited := bystanderSize{Streams: 1500, Active: 1024, Refused: 476, Why: "Subscription limit reached", P95Ms: exactly(1), MemoryMiB: exactly(1)}
	good := bystanderServer{Name: "one", Sizes: []bystanderSize{size(1, 1, 20), size(1001, 1, 30), size(10_001, 1, 120)}, Limited: &limited}
	within(t, "memory per stream", good.perStream(), 10.24)
	within(t, "the line", good.expectedMemory(&good.Sizes[1]).Median, 30)
	bad := bystanderServer{Name: "two", Sizes: []bystanderSize{size(1, 1, 20), size(1001, 2, 100), size(10_001, 4, 320), {Streams: 15_000, Broke: "signal: killed"}}}
	full := bystanderServer{Name: "three", Sizes: []bystanderSize{size(1, 1, 20), size(1001, 1, 30), {Streams: 10_001, Active: 5000, Refused: 5001, Why: "http 503", P95Ms: exactly(1), MemoryMiB: exactly(70)}}}
	saysNot(t, written(&bystanders{Servers: []bystanderServer{good}}), []string{
		"**Up to 10\u202f001 idle streams slow a bystander on none of the 1 servers by more than the repeats differ.**", "It held for all: one. A fifth", "**one** opened all of 10\u202f001 streams.",
		"With the limit that its SDK has by default it opened 1\u202f024 of 1\u202f500: Subscription limit reached.",
	}, []string{"left out", "did not hold"})
	saysNot(t, written(&bystanders{Servers: []bystanderServer{good, bad, full}, Missing: "Node is not installed"}), []string{
		"slow a bystander on 1 of the 3 servers: two.**", "It held for one, three. It did not hold for two (4.00 times).", "two (2.00 times the expected memory with 1\u202f001)",
		"**two** broke with 15\u202f000 streams: signal: killed.", "**three** opened 5\u202f000 of 10\u202f001 streams: http 503.", "left out: Node is not installed",
	}, nil)
}

func TestComplaint(t *testing.T) {
	for text, want := range map[string]string{
		"a-1: exit status 3\nsome figures\neventmeter: the target went away: refused\n": "the target went away: refused",
		"a-1: exit status 3": "a-1: exit status 3",
	} {
		if got := complaint(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if fellOver(errors.New("no")) {
		t.Error("an error of the study is a result")
	}
	for code, want := range map[string]bool{"2": false, "3": true} {
		if err := exectest.Command("sh", "-c", "exit "+code).Run(); fellOver(fmt.Errorf("run: %w", err)) != want {
			t.Errorf("exit code %s: want %v", code, want)
		}
	}
}
