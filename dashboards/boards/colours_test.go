package boards

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"testing"
)

// TestColoursOfTheReport: the lanes of built-in profiles have the colours of report.html, which
// gives the first lane of a mode the mode's, and every other one the next that is free.
func TestColoursOfTheReport(t *testing.T) {
	style, err := os.ReadFile("../../internal/report/page/report.css")
	if err != nil {
		t.Fatal(err)
	}
	var hues [8]string
	for i := range hues {
		m := regexp.MustCompile(fmt.Sprintf(`--hue%d: (#[0-9a-f]{6});`, i)).FindSubmatch(style) // the first set is the light one
		if m == nil {
			t.Fatalf("the report has no colour %d", i)
		}
		hues[i] = string(m[1])
	}
	for profile, here := range map[string][]colour{"compare": modes, "mixed": slices.Concat(modes, lanes), "sep-2549": listLanes} {
		text, err := os.ReadFile("../../profiles/builtin/" + profile + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		var want []colour
		taken := map[int]bool{}
		for _, m := range regexp.MustCompile(`(?s)- name: ([a-z-]+)\n.*?mode: (push|poll|webhook)\n`).FindAllSubmatch(text, -1) {
			of := map[string]int{"push": 0, "poll": 1, "webhook": 2}[string(m[2])]
			hue := of
			if taken[of] {
				for _, h := range []int{3, 4, 5, 6, 7, 0, 1, 2, of} {
					if hue = h; !taken[h] {
						break
					}
				}
			}
			taken[hue] = true
			want = append(want, colour{string(m[1]), hues[hue]})
		}
		if !slices.Equal(here, want) {
			t.Errorf("%s: %v, want %v", profile, here, want)
		}
	}
}
