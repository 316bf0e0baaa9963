package sinks

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/budget"
)

// silentHook takes everything.
type silentHook struct{}

func (silentHook) Receive(*Inbound) Reply { return Reply{} }

// A body that finds no room in the budget is answered 503 and told; one that
// comes when there is room is taken.
func TestReceiverBudget(t *testing.T) {
	b := budget.New(256 << 10)
	var turned []int
	r := NewReceiver(ReceiverOptions{
		Clock: eventmeter.NewClock(), Budget: b,
		Turned: func(h Hook, status int, _ eventmeter.Instant, _ int) {
			if h == nil {
				t.Error("no hook")
			}
			turned = append(turned, status)
		},
	})
	r.Add("/hook", silentHook{})
	post := func(size int, announced bool) int {
		req := httptest.NewRequest(http.MethodPost, "/hook", strings.NewReader(strings.Repeat("x", size)))
		if !announced {
			req.Body, req.ContentLength = io.NopCloser(req.Body), -1
		}
		w := httptest.NewRecorder()
		r.ServeHTTP(w, req)
		return w.Code
	}
	for _, announced := range []bool{true, false} {
		for size, want := range map[int]int{100: 200, 60 << 10: 200, 200 << 10: 503} {
			if got := post(size, announced); got != want {
				t.Errorf("%d bytes, announced %v: %d, want %d", size, announced, got, want)
			}
		}
	}
	if len(turned) != 2 || turned[0] != 503 || turned[1] != 503 || b.Used() != 0 {
		t.Errorf("turned %v, %d bytes are left", turned, b.Used())
	}
}
