package summary

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// topFailures returns the n most frequent keys, most frequent first.
func topFailures(counts map[string]int64, n int) []string {
	keys := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	return keys[:min(n, len(keys))]
}

func topReason(counts map[string]int64) string {
	top := topFailures(counts, 1)
	if len(top) == 0 {
		return "no reason was given"
	}
	return fmt.Sprintf("%s (%d times)", top[0], counts[top[0]])
}
