package mcpevents

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// bounds are the least and the most of a count.
type bounds struct{ least, most int64 }

// maxGroup is the most subscriptions that are opened together.
const maxGroup = 100_000

// countBounds are those of every option that is a count. Most of them cost
// memory or work before anything is asked of the target.
var countBounds = map[string]bounds{
	"subscriptions": {1, maxGroup}, "streams": {1, maxGroup}, "clients": {1, maxGroup}, "requests": {1, maxGroup},
	"sampleEvery": {1, 1_000_000}, "perSession": {1, maxGroup}, "maxEvents": {1, 1_000_000}, "rotateEvery": {0, 1_000_000},
	"steps": {1, 100_000}, "logEvery": {0, 100_000}, "hangUp": {0, 1_000_000},
	"workers": {1, 10_000}, "count": {1, 10_000_000}, "events": {1, 1_000_000_000},
}

// checkCounts looks at the counts among the options that were given. null is
// none.
func checkCounts(given map[string]json.RawMessage) error {
	for _, name := range slices.Sorted(maps.Keys(given)) { // the same message every time
		var n *int64
		if _, ok := countBounds[name]; !ok || json.Unmarshal(given[name], &n) != nil || n == nil {
			continue // decode has found what is no whole number
		}
		if err := checkCount(name, *n); err != nil {
			return err
		}
	}
	return nil
}

func checkCount(name string, n int64) error {
	if b := countBounds[name]; n < b.least || n > b.most {
		return fmt.Errorf("options: %s: use a whole number from %d to %d, not %d", name, b.least, b.most, n)
	}
	return nil
}
