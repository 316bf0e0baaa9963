package sinks

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter"
)

// statusOf is the answer to a delivery at a path.
func statusOf(r *Receiver, path string) int {
	w := httptest.NewRecorder()
	r.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, strings.NewReader("x")))
	return w.Code
}

// A path that was issued and retired is answered 503, and one that was not
// issued 404, whatever it has in common with one that was.
func TestIssuedPaths(t *testing.T) {
	r := NewReceiver(ReceiverOptions{Clock: eventmeter.NewClock()})
	issued, other := r.Issue("/h/1-2-"), r.Issue("/h/1-2-")
	if issued == other || len(issued) != len("/h/1-2-")+24 ||
		strings.Trim(issued, "/-_0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
		t.Errorf("issued %q and %q", issued, other)
	}
	r.Add(issued, silentHook{})
	r.Add("/fixed", silentHook{})
	for path, want := range map[string]int{issued: 200, "/fixed": 200, other: 503} {
		if got := statusOf(r, path); got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
	r.Retire(issued)
	r.Retire(issued)
	r.Retire("/fixed")
	flipped := func(i int) string {
		c := byte('A')
		if issued[i] == c {
			c = 'B'
		}
		return issued[:i] + string(c) + issued[i+1:]
	}
	forged := []string{
		"/fixed",
		"/",
		"",
		"/h/",
		"/h/1-2-" + strings.Repeat("A", 24),
		"/h/1-3-" + issued[len("/h/1-2-"):],
		"/x" + issued,
		issued + "A",
		issued[:len(issued)-1],
		issued[len("/h/1-2-"):],
		strings.Replace(
			issued,
			"/h/",
			"/r/",
			1,
		),
		NewReceiver(ReceiverOptions{Clock: eventmeter.NewClock()}).Issue("/h/1-2-"),
		issued[:len(issued)-24] + strings.Repeat("!", 24),
	}
	for i := len("/h/1-2-"); i < len(issued); i++ {
		forged = append(forged, flipped(i))
	}
	if got := statusOf(r, issued); got != http.StatusServiceUnavailable {
		t.Errorf("retired: %d, want 503", got)
	}
	for _, path := range forged {
		req := httptest.NewRequest(http.MethodPost, "/", nil)
		req.URL.Path = path
		w := httptest.NewRecorder()
		if r.ServeHTTP(w, req); w.Code != http.StatusNotFound {
			t.Errorf("forged %s: %d, want 404", path, w.Code)
		}
	}
}

// Retired paths take no memory.
func TestRetiredPathsTakeNoMemory(t *testing.T) {
	r := NewReceiver(ReceiverOptions{Clock: eventmeter.NewClock()})
	churn := func(n int) (last string) {
		for i := range n {
			last = r.Issue(fmt.Sprintf("/h/0-%d-", i))
			r.Add(last, silentHook{})
			r.Retire(last)
		}
		return last
	}
	used := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	first := churn(1000)
	before := used()
	last := churn(30_000)
	if grown := used() - before; grown > 256<<10 || len(r.hooks) != 0 {
		t.Errorf("30,000 retired paths take %d KiB, and %d are held", grown>>10, len(r.hooks))
	}
	if a, b := statusOf(r, first), statusOf(r, last); a != 503 || b != 503 {
		t.Errorf("retired: %d and %d, want 503", a, b)
	}
}

func BenchmarkIssue(b *testing.B) {
	r := NewReceiver(ReceiverOptions{Clock: eventmeter.NewClock()})
	b.ReportAllocs()
	for b.Loop() {
		r.Issue("/h/1-2-")
	}
}

// BenchmarkReceiverForged is a request for a path that looks issued.
func BenchmarkReceiverForged(b *testing.B) {
	r := NewReceiver(ReceiverOptions{Clock: eventmeter.NewClock()})
	req := httptest.NewRequest(http.MethodPost, "/h/1-2-"+strings.Repeat("A", 24), nil)
	w := discard{http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		r.ServeHTTP(w, req)
	}
}
