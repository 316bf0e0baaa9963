package summary

import (
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/results"
)

// TestEachUnexpectedDeliveryHasItsHint: only deliveries of other sources hint at the sources.
func TestEachUnexpectedDeliveryHasItsHint(t *testing.T) {
	for kind, code := range map[string]string{
		"notSubscribed": "not-subscribed", "afterEnd": "after-end", "foreignRun": "foreign-run", "stale": "stale-events",
	} {
		s := New(Options{Profile: &profiles.Profile{}, Result: &results.Result{}})
		s.warnLane(results.Lane{Name: "push", Detail: results.Detail{UnexpectedBy: map[string]int64{kind: 540}}})
		ws := s.Result.Warnings
		if len(ws) != 1 || ws[0].Code != code || !strings.HasPrefix(ws[0].Text, "540 deliveries were of ") ||
			strings.Contains(ws[0].Text, "lanes.*.sources") != (kind == "notSubscribed") {
			t.Errorf("%s: %+v", kind, ws)
		}
	}
}
