package faults

import (
	"errors"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter"
)

func TestCheck(t *testing.T) {
	var (
		push     = Place{Events, eventmeter.Push}
		webhook  = Place{Events, eventmeter.Webhook}
		triggers = Place{Smithery, eventmeter.Webhook}
		updates  = Place{SEP1803, eventmeter.Push}
		requests = Place{SEP975, eventmeter.Push}
		lists    = Place{SEP2549, eventmeter.Poll}
	)
	for _, tt := range []struct {
		spec   string
		places []Place
		want   string // "" = accepted
	}{
		{"drop(every=2)", []Place{push, webhook, triggers, updates, requests, lists}, ""},
		{"cut(every=2, replay=true)", []Place{push, webhook}, ""},
		{"cut(every=2, replay=true)", []Place{webhook}, "system events has no such fault by webhook"},
		{"cut(every=2, replay=true)", []Place{push, triggers}, "system smithery has no such fault by webhook; it has delay, drop,"},
		{"announce(every=2)", []Place{push, triggers}, "announce(every=2): system smithery"},
		{"announce(every=2, mode=push)", []Place{push, triggers}, ""},
		{"announce(every=2, mode=poll)", []Place{push}, ""},
		{"announce(every=2)", []Place{updates}, "system sep-1803 has no such fault by push"},
		{"leak()", []Place{push}, "system events"},
		{"leak()", []Place{requests}, ""},
		{"scope()", []Place{requests}, "system sep-975"},
		{"stale(every=2); listttl(ms=0)", []Place{lists}, ""},
		{"reorder(every=5, by=2)", []Place{lists}, "it has delay, drop, duplicate, hoard, listttl, mixscope, scope, stale"},
	} {
		s, err := Parse(tt.spec)
		if err != nil {
			t.Fatal(err)
		}
		switch err := s.Check(tt.places); {
		case tt.want == "" && err != nil:
			t.Errorf("%s: %v", tt.spec, err)
		case tt.want != "" && (!errors.Is(err, errMisfit) || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: %v, want %s", tt.spec, err, tt.want)
		}
	}
}
