package results_test

import (
	"cmp"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/eventmeter/eventmeter/results"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// TestCountsAreFigures: each count, and each total that it is a part of, is a figure of a lane.
func TestCountsAreFigures(t *testing.T) {
	for _, c := range results.LaneCounts {
		for _, name := range []string{c.Name, cmp.Or(c.Per, c.Name)} {
			if _, ok := new(results.Lane).Figure(name); !ok {
				t.Errorf("%s: there is no figure %s", c.Name, name)
			}
		}
	}
}

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
