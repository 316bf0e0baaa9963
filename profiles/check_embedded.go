package profiles

import (
	"cmp"
	"fmt"
	"time"
)

// embedded checks how the embedded target is to behave, so that it need not be
// started to find out that it refuses.
func (c *checker) embedded() {
	e := &c.p.Target.Embedded
	const here = "target.embedded."
	if e.Proof != "" {
		c.enum(here+"proof", e.Proof, "challenge", "well-known")
	}
	c.lists()
	if e.SingleSign && e.DualSign != 0 {
		c.bad(here+"dualSign", "there is singleSign as well", "give one of the two")
	}
	if e.ResumeOnce && e.ResumeOverlap != 0 {
		c.bad(here+"resumeOverlap", "there is resumeOnce as well", "give one of the two")
	}
	for _, n := range []struct {
		key                string
		value, least, most int
	}{{"buffer", e.Buffer, 0, maxBuffer}, {"queue", e.Queue, 0, maxBuffer}, {"retries", e.Retries, -1, 1000}, {"suspendAfter", e.SuspendAfter, -1, maxCount}} {
		c.count(here+n.key, n.value, n.least, n.most)
	}
	for _, d := range []struct {
		key          string
		value, least time.Duration
	}{
		{"heartbeat", e.Heartbeat, time.Millisecond}, {"nextPoll", e.NextPoll, time.Millisecond}, {"ttlMin", e.TTLMin, time.Millisecond},
		{"retryBase", e.RetryBase, time.Millisecond}, {"ackTimeout", e.AckTimeout, time.Millisecond},
		{"resumeMaxWait", e.ResumeMaxWait, time.Millisecond}, {"feedEvery", e.FeedEvery, time.Millisecond},
	} {
		if d.value != 0 { // the target's own
			c.span(here+d.key, d.value, d.least, longest)
		}
	}
	least := cmp.Or(e.TTLMin, 5*time.Minute)
	granted := cmp.Or(e.TTLDefault, max(30*time.Minute, least))
	if granted < least {
		c.bad(here+"ttlDefault", fmt.Sprintf("%v is below ttlMin, which is %v", granted, least), "raise it, or lower ttlMin")
	}
	if most := cmp.Or(e.TTLMax, max(24*time.Hour, granted)); most < granted {
		c.bad(here+"ttlMax", fmt.Sprintf("%v is below ttlDefault, which is %v", most, granted), "raise it, or lower ttlDefault")
	}
}

func (c *checker) embeddedCapacity() {
	e := &c.p.Target.Embedded
	c.between("target.embedded.capacity", float64(e.Capacity), 0, 1e6)
	switch {
	case e.CapacityBurst != 0 && e.Capacity == 0:
		c.bad("target.embedded.capacityBurst", "there is no capacity", "give capacity too")
	case e.CapacityBurst < 0:
		c.bad("target.embedded.capacityBurst", fmt.Sprintf("%d is too small", e.CapacityBurst), "give at least 1")
	}
}
