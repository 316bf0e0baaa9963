package run

import (
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/profiles"
)

// TestMinIntervalOfNothing makes sure that a min interval of 0, which long polls want, is none: to a
// driver, 0 is its own default of a second.
func TestMinIntervalOfNothing(t *testing.T) {
	for _, c := range []struct {
		set  string
		want time.Duration
	}{{"lanes.longpoll.poll.minInterval=0", -1}, {"lanes.longpoll.poll.minInterval=20ms", 20 * time.Millisecond}} {
		p, err := profiles.Load("longpoll", []string{c.set}, systems.Table)
		if err != nil {
			t.Fatal(err)
		}
		l, err := newLane(0, p.Lanes[0])
		if err != nil {
			t.Fatal(err)
		}
		if got := l.options(0, eventmeter.NewClock(), nil, &targetSide{}, 1).Poll.MinInterval; got != c.want {
			t.Errorf("%s: the driver is given %v, want %v", c.set, got, c.want)
		}
	}
}
