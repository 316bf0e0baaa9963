package ledger

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// TestEncode: a histogram is written byte for byte as the library writes it.
func TestEncode(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for n := range 300 {
		h := hdrhistogram.NewPacked(lowestNanos, highestNanos, histogramSigs)
		for range n * n / 50 {
			// Of all sizes, and often beside each other.
			v := min(highestNanos, int64(time.Microsecond)<<r.IntN(30)+r.Int64N(1+lowestNanos<<r.IntN(20)))
			if err := h.RecordValues(v*r.Int64N(2), 1+r.Int64N(1<<r.IntN(40))); err != nil {
				t.Fatal(err)
			}
		}
		if n == 7 {
			_ = h.RecordValue(highestNanos)
		}
		want, err := h.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := Encode(h); err != nil || string(got) != string(want) {
			t.Fatalf("%d values: %v\n%s, want\n%s", h.TotalCount(), err, got, want)
		}
	}
	other := hdrhistogram.NewPacked(1, 1e9, 2)
	_ = other.RecordValue(12345)
	want, _ := other.Encode()
	if got, _ := Encode(other); string(got) != string(want) {
		t.Errorf("another range: %s, want %s", got, want)
	}
}

// TestIntervalOutOfRange: a single sample that no histogram of a lane can hold is refused, not dropped.
func TestIntervalOutOfRange(t *testing.T) {
	for _, c := range []struct {
		value int64
		ok    bool
	}{{highestNanos, true}, {100 * highestNanos, false}} {
		h := hdrhistogram.NewPacked(1, 1000*highestNanos, histogramSigs)
		if err := h.RecordValue(c.value); err != nil {
			t.Fatal(err)
		}
		part, err := h.Encode()
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(map[string][]byte{"fromIntended": part})
		if err != nil {
			t.Fatal(err)
		}
		var lane LaneInterval
		if err := json.Unmarshal(text, &lane); (err == nil) != c.ok {
			t.Errorf("%d ns: %v", c.value, err)
		}
	}
}
