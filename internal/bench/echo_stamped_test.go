package bench

import (
	"testing"
	"time"

	"github.com/mcpload/mcpload/internal/wire/pump"
)

func TestStampedEcho(t *testing.T) {
	e, err := openStampedEcho()
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(5 * echoEvery) // what is tested writes by the clock
	h := e.close()
	if !pump.Stamps(pump.Options{}) {
		if h.TotalCount() != 0 {
			t.Errorf("%d times of a kernel that gives none", h.TotalCount())
		}
		return
	}
	if h.Min() < 0 {
		t.Errorf("arrived %d ns before it was written", -h.Min())
	}
	var none *stampedEcho
	if none.close() != nil {
		t.Error("an echo that was not opened has delays")
	}
}
