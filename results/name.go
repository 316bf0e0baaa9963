package results

import (
	"fmt"
	"strings"
)

// LongestName is the largest number of characters in the name of a run.
const LongestName = 64

const nameSigns = " ._-+#@"

// CheckName returns an error if name cannot name a run: a label of metrics, a title of pages. It has 1
// to [LongestName] characters, which are ASCII letters, digits and " . _ - + # @", and no space at
// its ends.
func CheckName(name string) error {
	bad := strings.IndexFunc(name, func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune(nameSigns, c))
	})
	switch {
	case name == "" || len(name) > LongestName:
		return fmt.Errorf("%d characters: a name has 1 to %d", len([]rune(name)), LongestName)
	case bad >= 0:
		return fmt.Errorf("%q: a name has letters a to z, digits, spaces and . _ - + # @", name)
	case strings.TrimSpace(name) != name:
		return fmt.Errorf("%q: remove the space at its end or beginning", name)
	}
	return nil
}
