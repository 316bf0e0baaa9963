package summary

import (
	"slices"
	"testing"
)

func TestTopFailures(t *testing.T) {
	counts := map[string]int64{"b": 2, "a": 2, "c": 9, "d": 1}
	if got := topFailures(counts, 3); !slices.Equal(got, []string{"c", "a", "b"}) {
		t.Errorf("%q", got)
	}
	if got := topReason(counts); got != "c (9 times)" {
		t.Errorf("%q", got)
	}
	if got := topReason(nil); got != "no reason was given" {
		t.Errorf("%q", got)
	}
}
