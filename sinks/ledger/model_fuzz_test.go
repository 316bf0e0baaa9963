package ledger

import (
	"math/rand/v2"
	"testing"

	"github.com/eventmeter/eventmeter"
)

// playBoth plays data to a ledger and to the model and compares them.
func playBoth(data []byte) error {
	shape := byte(0)
	if len(data) > 0 {
		shape = data[0]
		data = data[1:]
	}
	opt := historyOptions(shape)
	l, err := New(opt)
	if err != nil {
		return err
	}
	m := &model{opt: opt}
	h := &history{bytes: data, to: eventmeter.Tee(l, m), opt: opt}
	h.play()
	l.now = func() eventmeter.Instant { return h.now }
	return m.compare(l)
}

func FuzzLedger(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	for n := range 64 {
		f.Add(randomHistory(r, 40+10*n))
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 2000 {
			t.Skip("the model is slow")
		}
		if err := playBoth(data); err != nil {
			t.Fatal(err)
		}
	})
}

// randomHistory makes bytes that first get everybody attached, so that more
// than the beginnings are met.
func randomHistory(r *rand.Rand, n int) []byte {
	data := []byte{byte(r.Uint32()), byte(r.Uint32())}
	for i := range byte(5) {
		if r.IntN(4) > 0 {
			data = append(data, 12, i, 0, 12, i, 0)
		}
	}
	for range n {
		data = append(data, byte(r.Uint32()))
	}
	return data
}

// TestLedgerAgainstModel holds the ledger to the model over random histories.
func TestLedgerAgainstModel(t *testing.T) {
	t.Parallel()
	seeds := uint64(3000)
	if raceEnabled || testing.Short() {
		seeds = 150
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 99))
		data := randomHistory(r, 20+r.IntN(500))
		if err := playBoth(data); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// randomLedger is a ledger after a random history.
func randomLedger(seed uint64) (*Ledger, error) {
	r := rand.New(rand.NewPCG(seed, 99))
	data := randomHistory(r, 20+r.IntN(500))
	opt := historyOptions(data[0])
	l, err := New(opt)
	if err != nil {
		return nil, err
	}
	h := &history{bytes: data[1:], to: l, opt: opt}
	h.play()
	l.now = func() eventmeter.Instant { return h.now }
	return l, nil
}
