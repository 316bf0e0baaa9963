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
}
