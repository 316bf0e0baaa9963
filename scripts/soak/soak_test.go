package main

import (
	"strings"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/profiles"
)

// The first window is the warm-up. Each later one is held to the second.
func TestJudge(t *testing.T) {
	const mib = 1 << 20
	flat := [windows]uint64{50, 100, 104, 101, 109, 91, 100, 105, 108, 100}
	rising, falling := flat, flat
	rising[7], falling[3] = 111, 89
	for name, c := range map[string]struct {
		of   [windows]uint64
		want string // of the error
	}{
		"flat":    {flat, ""},
		"rising":  {rising, "the generator's memory until 8m0s is +11 % of what it was after the warm-up"},
		"falling": {falling, "the generator's memory until 4m0s is -11 % of what it was after the warm-up"},
		"missing": {[windows]uint64{50, 100, 0, 101, 100, 100, 100, 100, 100, 100}, "no sample of the time until 3m0s"},
	} {
		var samples []sample
		for i, n := range c.of {
			if n == 0 {
				continue
			}
			// The highest sample of a window counts.
			at := time.Duration(i) * time.Minute
			samples = append(samples, sample{at: at + 10*time.Second, generator: n * mib}, sample{at: at + 30*time.Second, generator: (n - 20) * mib})
		}
		var out strings.Builder
		err := judge(&out, samples, windows*time.Minute)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q\n%s", name, err, c.want, out.String())
		}
	}
}

// The address of the metrics is passed on when the measured window begins.
func TestRelay(t *testing.T) {
	measuring := make(chan string, 1)
	relay(strings.NewReader("metrics at http://127.0.0.1:9/metrics\nwarm-up 5s left\nmeasure 3600s left\nmeasure 3598s left\n"), &strings.Builder{}, measuring)
	select {
	case got := <-measuring:
		if got != "http://127.0.0.1:9" {
			t.Errorf("the address is %q", got)
		}
	default:
		t.Error("the window never began")
	}
}

func TestTheProfile(t *testing.T) {
	p, err := profiles.Load("soak", nil, systems.Table)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, l := range p.Lanes {
		n += l.Subscriptions
	}
	if n != 10_000 {
		t.Errorf("%d subscriptions, want 10,000", n)
	}
}
