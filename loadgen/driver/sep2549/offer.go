package sep2549

import (
	"fmt"

	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
)

// Describe says of each list of a target how long it may be kept.
func Describe(a mcpclient.Abilities) (lines []string) {
	for _, l := range a.Lists {
		lines = append(lines, l.Method+": "+keeps(l))
	}
	return lines
}

// keeps says how long a list may be kept.
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

// Starter writes the lane of a profile whose clients use the first list of a target
// that is not empty; "" = there is none.
func Starter(a mcpclient.Abilities) string {
	for _, l := range a.Lists {
		for name, form := range forms {
			if form.method == l.Method && l.Entries > 0 {
				return starter(name, l.HasTTL)
			}
		}
	}
	return ""
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
