package eventmeter_test

import (
	"testing"

	"github.com/eventmeter/eventmeter"
)

type nosy struct {
	eventmeter.Recorder
	seen []eventmeter.Observation
}

func (n *nosy) Observed(o eventmeter.Observation) { n.seen = append(n.seen, o) }

func TestObserverOf(t *testing.T) {
	plain := eventmeter.Tee() // tells nobody
	if eventmeter.ObserverOf(plain) != nil || eventmeter.ObserverOf(eventmeter.Tee(plain, plain)) != nil {
		t.Error("nobody looks")
	}
	a, b := &nosy{}, &nosy{}
	for name, c := range map[string]struct {
		r    eventmeter.Recorder
		want [2]int
	}{
		"alone":  {a, [2]int{1, 0}},
		"beside": {eventmeter.Tee(plain, a), [2]int{1, 0}},
		"both":   {eventmeter.Tee(a, eventmeter.Tee(plain, b)), [2]int{1, 1}},
	} {
		a.seen, b.seen = nil, nil
		eventmeter.ObserverOf(c.r).Observed(eventmeter.Observation{EventID: 7})
		if len(a.seen) != c.want[0] || len(b.seen) != c.want[1] {
			t.Errorf("%s: %d and %d", name, len(a.seen), len(b.seen))
		}
	}
}
