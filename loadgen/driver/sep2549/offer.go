package sep2549

import (
	"fmt"

	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
)

// Describe returns for each list of a target a line, for people, that says how long the
// list may be kept.
func Describe(a mcpclient.Abilities) (lines []string) {
	for _, l := range a.Lists {
		lines = append(lines, l.Method+": "+keeps(l))
	}
	return lines
}

// keeps returns a text that says how long a list may be kept.
func keeps(l mcpclient.ListAbility) string {
	entries := fmt.Sprintf("%d entries", l.Entries)
	if l.Entries == 1 {
		entries = "1 entry"
	}
	if l.More {
		entries += " on the first page"
	}
	if !l.HasTTL {
		return entries + ", no time to live"
	}
	scope := l.Scope
	if scope == "" {
		scope = "scope not said"
	}
	return fmt.Sprintf("%s, %v to live, %s", entries, l.TTL, scope)
}

// Starter returns a lane in YAML whose clients use the target's first list that is not
// empty, if there is one.
func Starter(a mcpclient.Abilities) driver.Starter {
	for _, l := range a.Lists {
		for name, list := range driver.Lists {
			if list.Read == l.Method && l.Entries > 0 {
				return driver.Starter{Lane: starter(name, l.HasTTL)}
			}
		}
	}
	return driver.Starter{}
}

func starter(list string, hasTTL bool) string {
	why := "The server says how long a copy may be kept."
	if !hasTTL {
		why = "The server does not say how long a copy may be kept, so every use fetches."
	}
	return fmt.Sprintf(`  # Clients that use a list again and again. %s
  - name: lists
    system: sep-2549
    mode: poll
    subscriptions: 10
    sep2549: {list: %s, use: 1/s}
`, why, list)
}
