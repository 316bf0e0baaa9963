package events

import (
	"errors"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/sinks"
)

// signed checks a delivery's signature, and counts which of two secrets it was
// made with.
func (k *hook) signed(in *sinks.Inbound) error {
	cur, prev := k.valid(in.At)
	now := time.Now()
	err := wire.Verify(in.Header, in.Body, now, cur)
	if prev == nil || err != nil && !errors.Is(err, wire.ErrSignature) {
		return err
	}
	byNew, byOld := err == nil, wire.Verify(in.Header, in.Body, now, prev) == nil
	if (byNew || byOld) && k.judge(in.At, byNew, byOld) {
		return nil
	}
	return wire.ErrSignature
}

// judge tells whether a delivery that one of the two secrets verifies is
// accepted, and notes what it says about the race.
func (k *hook) judge(at eventmeter.Instant, byNew, byOld bool) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	accepted := true
	switch k.d.Opts.Webhook.Secrets {
	case driver.SecretsEarly:
		accepted = byNew
	case driver.SecretsLate:
		if k.race.answered == 0 {
			accepted = byOld
		} else {
			accepted = byNew
		}
	}
	switch {
	case !byNew:
		k.race.lastOld = max(k.race.lastOld, at)
		if accepted {
			k.race.byOld++
		}
	case byOld:
		k.race.lastDual = max(k.race.lastDual, at)
		if accepted {
			k.race.byBoth++
		}
	}
	if !accepted {
		k.race.refused++
	}
	return accepted
}

// tell brings the lane's tally up to date; the caller holds the lock. It is not
// done with each delivery, so that they share no lock.
func (k *hook) tell() {
	r, t := &k.race, &k.d.tally
	if r.byOld+r.byBoth+r.refused > 0 {
		t.Count("verifiedByOld", float64(r.byOld))
		t.Count("verifiedByBoth", float64(r.byBoth))
		t.Count("rejectedInRace", float64(r.refused))
		r.byOld, r.byBoth, r.refused = 0, 0, 0
	}
}

// endRace adds up the last change of secrets; the caller holds the lock.
func (k *hook) endRace() {
	k.tell()
	t := &k.d.tally
	if r := k.race; r.sent != 0 {
		if r.lastOld > r.sent {
			t.Took("rotationRace", r.lastOld.Sub(r.sent))
		}
		if r.lastDual > r.sent {
			t.Took("rotationDual", r.lastDual.Sub(r.sent))
		}
	}
	k.race = race{}
}
