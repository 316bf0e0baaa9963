package upstream_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/mcpload/mcpload"
	"github.com/mcpload/mcpload/loadgen"
	"github.com/mcpload/mcpload/loadgen/upstream"
)

// An upstream that brings its own loop is given the firing; any other is fired
// by [loadgen.Loop].
func ExampleAttacker() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusAccepted)
	}))
	defer server.Close()

	var up upstream.Upstream
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

	clock, recorder := mcpload.NewClock(), mcpload.Tee() // tells nobody
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
	ctx, workers := context.Background(), 8
	if attacker, ok := up.(upstream.Attacker); ok {
		err = attacker.Attack(ctx, firing, workers)
	} else {
		loadgen.Loop(ctx, firing, loadgen.LoopOptions{Fire: up.Fire, Workers: workers})
	}
	fmt.Println(firing.Stats().Accepted, err)
	// Output: 10 <nil>
}
