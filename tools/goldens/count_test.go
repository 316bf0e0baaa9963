package goldens

import (
	"reflect"
	"testing"

	"github.com/eventmeter/eventmeter/internal/figure"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// The faulty run misses no count, so that each one is in every golden file.
func TestTheFaultyRunHasEveryCount(t *testing.T) {
	m := faulty().measure(t)
	var all ledger.LaneCounts
	for i := range m.account.Lanes {
		figure.Add(&all, &m.account.Lanes[i].LaneCounts)
	}
	// Zero at the end of any run, or part of another count.
	never := map[string]bool{"Undecided": true, "AlsoSuspended": true, "Foreign": true}
	var walk func(v reflect.Value, path string)
	walk = func(v reflect.Value, path string) {
		for i := range v.NumField() {
			f := v.Type().Field(i)
			switch {
			case f.Type.Kind() == reflect.Struct:
				walk(v.Field(i), path+f.Name+".")
			case v.Field(i).IsZero() && !never[f.Name]:
				t.Errorf("%s%s is 0", path, f.Name)
			}
		}
	}
	walk(reflect.ValueOf(all), "")
}
