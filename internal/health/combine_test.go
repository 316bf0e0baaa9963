package health

import (
	"math"
	"testing"

	"github.com/eventmeter/eventmeter/results"
)

func TestTogether(t *testing.T) {
	a := &results.Process{CPU: 1e9, CPUShare: 0.5, Memory: 10} // two seconds
	b := &results.Process{CPU: 3e9, CPUShare: 1.5, Memory: 5}  // two seconds
	got := Together(a, b)
	if got.CPU != 4e9 || math.Abs(got.CPUShare-1) > 1e-9 || got.Memory != 10 {
		t.Errorf("%+v", got)
	}
	if Together(nil, b) != b || Together(a, nil) != a {
		t.Error("nothing beside something changes it")
	}
}
