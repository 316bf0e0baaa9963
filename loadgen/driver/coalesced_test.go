package driver

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
)

// arrival is bytes that were read, after a pause.
type arrival struct {
	after  time.Duration
	n      int
	within bool
}

func foundCoalesced(all []arrival) (n int) {
	var c CoalescedReads
	var now eventmeter.Instant
	for _, a := range all {
		now = now.Add(a.after)
		if c.Piece(a.n, now, a.within) {
			n++
		}
	}
	return n
}

// through returns what comes of messages of those sizes, one every so often,
// behind a buffer.
func through(buffer, head int, every time.Duration, sizes ...int) (out []arrival) {
	kept, since, end := head, time.Duration(0), 0
	var ends []int
	sent := 0
	for i := range 400 {
		n := sizes[i%len(sizes)]
		end += n
		ends = append(ends, end)
		kept, since = kept+n, since+every
		for kept >= buffer {
			take := buffer
			if sent == 0 {
				take -= head
			}
			sent += take
			out = append(out, arrival{since, take, !slices.Contains(ends, sent)})
			kept, since = kept-buffer, 0
		}
	}
	return out
}

func TestCoalescedReads(t *testing.T) {
	whole := make([]arrival, 500)
	for i := range whole {
		whole[i] = arrival{3 * time.Second, 310, false}
	}
	// Each message is cut in two, the halves far apart: packets are lost
	// wherever packets end, which is not where blocks do.
	random := rand.New(rand.NewPCG(1, 2))
	var lossy []arrival
	for range 5000 {
		n := 1 + random.IntN(309)
		lossy = append(lossy, arrival{time.Millisecond, n, true}, arrival{2 * time.Second, 310 - n, false})
	}
	// A batch that is larger than the first flight of packets: cut at equal
	// distances, each time for a round trip.
	var flights []arrival
	for range 500 {
		flights = append(flights, arrival{5 * time.Second, 14480, true}, arrival{600 * time.Millisecond, 5520, false})
	}
	for name, tt := range map[string]struct {
		all  []arrival
		want int
	}{
		"nothing":           {nil, 0},
		"whole messages":    {whole, 0},
		"cut anywhere":      {lossy, 0},
		"cut by flights":    {flights, 0},
		"default buffer":    {through(4096, 310, 500*time.Millisecond, 310, 297, 311), 1},
		"small buffer":      {through(1024, 285, 400*time.Millisecond, 310), 1},
		"large buffer":      {through(8192, 310, 200*time.Millisecond, 310, 155), 1},
		"filled too fast":   {through(4096, 310, 5*time.Millisecond, 310), 0},
		"too few yet":       {through(4096, 310, 500*time.Millisecond, 310)[:coalescedCuts], 0},
		"just enough":       {through(4096, 310, 500*time.Millisecond, 310)[:coalescedCuts+1], 1},
		"stalls in between": {append(through(1024, 0, time.Second, 311), arrival{time.Minute, 5, true}), 1},
	} {
		if got := foundCoalesced(tt.all); got != tt.want {
			t.Errorf("%s: found %d times, want %d", name, got, tt.want)
		}
	}
}
