package results

import (
	"strings"
	"testing"
)

func TestCheckName(t *testing.T) {
	for name, good := range map[string]bool{
		"nightly": true, "PR #41 @ 2b3c": true, "v1.2+rc_3-b": true, strings.Repeat("a", LongestName): true,
		"": false, strings.Repeat("a", LongestName+1): false, " a": false, "a ": false, "a\nb": false, "<b>": false,
		"größe": false, `a"b`: false, "a/b": false,
	} {
		if err := CheckName(name); (err == nil) != good {
			t.Errorf("%q: %v", name, err)
		}
	}
	for name, want := range map[string]string{
		"":    "0 characters: a name has 1 to 64",
		" a":  `" a": remove the space at its end or beginning`,
		"a/b": `"a/b": a name has letters a to z, digits, spaces and . _ - + # @`,
	} {
		if err := CheckName(name); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
