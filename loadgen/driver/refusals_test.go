package driver

import (
	"testing"
)

func TestRefusals(t *testing.T) {
	f := refusals{share: 0.25, seed: 3}
	g := refusals{share: 0.25, seed: 3}
	n := 0
	for id := uint64(1); id <= 10_000; id++ {
		refuse, repeat := f.decide(1, id)
		again, _ := g.decide(1, id)
		if refuse != again || repeat {
			t.Fatal("not repeatable")
		}
		if refuse {
			n++
			if refuse, repeat := f.decide(1, id); refuse || !repeat {
				t.Fatal("refused twice")
			}
		}
	}
	if n < 2300 || n > 2700 {
		t.Errorf("%d of 10000 refused", n)
	}
	none := refusals{}
	if refuse, _ := none.decide(1, 1); refuse {
		t.Error("refused without a share")
	}
}
