package events_test

import (
	"encoding/json"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/loadgen/systems/systemstest"
)

// TestTimesOfDeliveries looks that a delivery says whose time it has, and
// whether it shared a read.
func TestTimesOfDeliveries(t *testing.T) {
	event := "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/events/event\",\"params\":{\"eventId\":\"E\",\"data\":{}}}\n\n"
	more := make(chan struct{})
	url := systemstest.Serve(t, nil, func(w http.ResponseWriter, r *http.Request, id json.RawMessage, method string) {
		systemstest.Open(w)
		io.WriteString(w, strings.Repeat(event, 2)) // in one write
		w.(http.Flusher).Flush()
		<-more
		io.WriteString(w, event)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	for _, stamps := range []bool{false, true} {
		d, rec := systemstest.Lane(t, mcpclient.EndpointOptions{URL: url}, driver.Options{Mode: eventmeter.Push, KernelTimestamps: stamps})
		systemstest.Attach(t, d, 1)
		rec.Wait(t, "two events", func(m *systemstest.Memory) bool { return len(m.Deliveries) == 2 })
		more <- struct{}{}
		rec.Wait(t, "the third", func(m *systemstest.Memory) bool { return len(m.Deliveries) == 3 })
		rec.Mu.Lock()
		for i, shared := range []bool{true, false, false} {
			v := rec.Deliveries[i]
			if v.Shared != shared {
				t.Errorf("delivery %d: shared is %t", i, v.Shared)
			}
			if !stamps && (v.Kernel || v.Waited != 0) {
				t.Errorf("delivery %d has the kernel's time unasked", i)
			}
			// A machine whose clock is being set gives none; there is at least
			// no such time elsewhere.
			if v.Kernel && runtime.GOOS != "linux" || v.Waited < 0 {
				t.Errorf("delivery %d: %+v", i, v)
			}
		}
		rec.Mu.Unlock()
		d.Close(t.Context())
	}
}
