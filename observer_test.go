package eventmeter

import "testing"

type nosy struct {
	Recorder
	seen []Observation
}

func (n *nosy) Observed(o Observation) { n.seen = append(n.seen, o) }

func TestObserverOf(t *testing.T) {
	plain := Tee() // tells nobody
	if ObserverOf(plain) != nil || ObserverOf(Tee(plain, plain)) != nil {
		t.Error("nobody looks")
	}
	a, b := &nosy{}, &nosy{}
	for name, c := range map[string]struct {
		r    Recorder
		want [2]int
	}{
		"alone":  {a, [2]int{1, 0}},
		"beside": {Tee(plain, a), [2]int{1, 0}},
		"both":   {Tee(a, Tee(plain, b)), [2]int{1, 1}},
	} {
		a.seen, b.seen = nil, nil
		ObserverOf(c.r).Observed(Observation{EventID: 7})
		if len(a.seen) != c.want[0] || len(b.seen) != c.want[1] {
			t.Errorf("%s: %d and %d", name, len(a.seen), len(b.seen))
		}
	}
}
