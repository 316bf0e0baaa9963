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
	if lists := &e.Lists; lists.Older && lists.TTL%time.Second != 0 {
		c.bad(here+"lists.ttl", "the earlier draft has whole seconds only", "give whole seconds, or older: false")
	}
	if e.SingleSign && e.DualSign != 0 {
		c.bad(here+"dualSign", "there is singleSign as well", "give one of the two")
	}
	if e.ResumeOnce && e.ResumeOverlap != 0 {
		c.bad(here+"resumeOverlap", "there is resumeOnce as well", "give one of the two")
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
	switch {
	case e.CapacityBurst != 0 && e.Capacity == 0:
		c.bad("target.embedded.capacityBurst", "there is no capacity", "give capacity too")
	case e.CapacityBurst < 0:
		c.bad("target.embedded.capacityBurst", fmt.Sprintf("%d is too small", e.CapacityBurst), "give at least 1")
	}
}
