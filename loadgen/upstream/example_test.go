package upstream_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/loadgen"
	"github.com/eventmeter/eventmeter/loadgen/upstream"
)

// [loadgen.Loop] fires the emissions of a schedule through any upstream.
func ExampleHTTP() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusAccepted)
	}))
	defer server.Close()

	up, err := upstream.NewHTTP(upstream.HTTPOptions{
		Request: func(source int, _ uint32, probe string) (string, http.Header, []byte) {
			return fmt.Sprintf("%s/hooks/%d", server.URL, source), nil, []byte(probe)
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer up.Close()

	clock, recorder := eventmeter.NewClock(), eventmeter.Tee() // records nothing
	firing, err := loadgen.NewFiring(loadgen.FiringOptions{
		Clock:     clock,
		Recorder:  recorder,
		Stamper:   loadgen.NewStamper(clock, recorder, 1, 2),
		Schedule:  loadgen.Burst{Size: 5, Every: 20 * time.Millisecond},
		Duration:  40 * time.Millisecond,
		Tolerance: time.Minute,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	stats := loadgen.Loop(context.Background(), firing, loadgen.LoopOptions{Fire: up.Fire, Workers: 8})
	fmt.Println(stats.Accepted)
	// Output: 10
}

// A trace gives a schedule its times and a replay its payloads; the probes of
// the recording give way to new ones.
func ExampleReplay() {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Println(string(body))
	}))
	defer server.Close()
	trace, err := upstream.ReadTrace(strings.NewReader(`{"t":0.5,"payload":{"text":"hello"}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	times := loadgen.Trace{Offsets: []time.Duration{trace[0].At}, Warp: 2}
	fmt.Println(times.At(0))
	replay, err := upstream.NewReplay(upstream.ReplayOptions{Trace: trace, Probe: "text", URL: server.URL})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer replay.Close()
	fmt.Println(replay.Fire(context.Background(), eventmeter.Emission{Stamp: eventmeter.Stamp{Run: 1, Seq: 1}}))
	// Output:
	// 250ms true
	// {"text":"hello evtm-00000001-0000-00000001-26"}
	// accepted
}
