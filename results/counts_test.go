package results_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/eventmeter/eventmeter/results"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// TestEveryCountIsInTheResult changes one count of an account at a time: the
// lane of the result says so.
func TestEveryCountIsInTheResult(t *testing.T) {
	left := map[string]bool{
		"Undecided": true, "AlsoSuspended": true, // 0 of an account that is complete
		// In the account, in metrics and in what follows from them, only.
		"GapIncidents": true, "LongestGap": true, "Active": true, "Windows": true,
		"Announcements": true, "EventMessages": true, "Broken": true,
	}
	text := func(a *ledger.LaneAccount) string {
		out, err := json.Marshal(results.NewLane(a))
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	none := text(&ledger.LaneAccount{})
	changed := 0
	var walk func(path string, v reflect.Value, a *ledger.LaneAccount)
	walk = func(path string, v reflect.Value, a *ledger.LaneAccount) {
		for i := range v.NumField() {
			f, name := v.Field(i), v.Type().Field(i).Name
			if f.Kind() == reflect.Struct {
				walk(path+name+".", f, a)
				continue
			}
			f.SetInt(3)
			if same := text(a) == none; same != left[name] {
				t.Errorf("%s%s: left out of the result: %v, want %v", path, name, same, left[name])
			}
			f.SetInt(0)
			changed++
		}
	}
	var a ledger.LaneAccount
	walk("", reflect.ValueOf(&a.LaneCounts).Elem(), &a)
	if changed < 40 {
		t.Errorf("only %d counts were changed", changed)
	}
}
