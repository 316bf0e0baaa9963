package profiles

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/eventmeter/eventmeter/internal/settings"
)

// With returns the profile of one case: p with the case's lanes, overrides and
// faults, and without cases.
func (p *Profile) With(c Case) (*Profile, error) {
	plain := *p
	plain.Cases = nil
	if len(c.Lanes) > 0 {
		plain.Lanes = nil
		for _, name := range c.Lanes {
			i := slices.IndexFunc(p.Lanes, func(l Lane) bool { return l.Name == name })
			if i < 0 {
				return nil, fmt.Errorf("case %s: there is no lane %q", c.Name, name)
			}
			plain.Lanes = append(plain.Lanes, p.Lanes[i])
		}
	}
	text, err := plain.YAML()
	if err != nil {
		return nil, fmt.Errorf("case %s: %w", c.Name, err)
	}
	set := append([]string(nil), c.Set...)
	if c.Faults != "" {
		set = append(set, "target.embedded.faults="+strconv.Quote(c.Faults))
	}
	return Parse("case "+c.Name, text, set, p.systems)
}

// maxCases bounds the runs of one calibration.
const maxCases = 200

// cases checks the cases, except for their faults, which this package does not know.
func (c *checker) cases() {
	if n := len(c.p.Cases); n > maxCases {
		c.bad("cases", fmt.Sprintf("%d are too many", n), fmt.Sprintf("give at most %d", maxCases))
		return
	}
	seen, good := map[string]bool{}, map[string]bool{}
	for i, k := range c.p.Cases {
		path := "cases." + strconv.Itoa(i)
		if seen[k.Name] {
			c.bad(path+".name", settings.Quote(k.Name)+" appears twice", "give each case a name of its own")
		}
		seen[k.Name] = true
		// Cases that differ in their faults alone are checked once.
		rest := fmt.Sprintf("%q %q %t", k.Lanes, k.Set, k.Faults == "")
		if good[rest] {
			continue
		}
		if _, err := c.p.With(k); err != nil {
			c.bad(path, oneProblem(err), "fix the case's set")
		} else {
			good[rest] = true
		}
	}
	if len(c.p.Cases) > 0 && len(c.p.Target.Command) > 0 {
		c.bad("target.command", "a calibration needs faults, which only the embedded target injects", "remove it, or cases")
	}
	if len(c.p.Cases) > 0 && c.p.Target.URL != "" {
		c.bad("target.url", "a calibration needs faults, which only the embedded target injects", "remove it, or cases")
	}
}
