package summary

import (
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/results"
)

// What the lane did get comes before what is only likely.
func TestWhyALaneReceivedNothing(t *testing.T) {
	l := results.Lane{Name: "hook", Subscriptions: 2, Expected: 20, LostSilent: 20}
	p := profiles.Lane{Name: "hook", Mode: "webhook", Event: "x", Sources: "all"}
	for want, change := range map[string]func(*results.Lane){
		"the event type": func(*results.Lane) {},
		"7 streams, answers or webhook bodies were too large: a cursor is larger than 8 KiB (7 times)": func(l *results.Lane) {
			l.Detail.Oversized, l.Detail.OversizedBy = 7, map[string]int64{"a cursor is larger than 8 KiB": 7}
		},
		"7 deliveries were refused here for their signature": func(l *results.Lane) { l.Detail.Rejected = 7 },
		"7 events came without a probe id":                   func(l *results.Lane) { l.Detail.Unprobed = 7 },
		"7 messages could not be read: no eventId (7 times)": func(l *results.Lane) {
			l.Detail.Malformed, l.Detail.MalformedBy = 7, map[string]int64{"no eventId": 7}
		},
		"the target ended 7 subscriptions": func(l *results.Lane) { l.Detail.Terminated = 7 },
	} {
		changed := l
		change(&changed)
		if got := whyNothing(&changed, &p); !strings.HasPrefix(got[0], want) {
			t.Errorf("first %q, want %q", got[0], want)
		}
	}
}
