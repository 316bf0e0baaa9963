package report

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestContrast checks the page's colours against WCAG 2: text at least 4.5 to 1 on every
// background, lines and dots at least 3 to 1.
func TestContrast(t *testing.T) {
	style, err := asset("report.css")
	must(t, err)
	blocks := regexp.MustCompile(`(?s):root[^{]*\{(.*?)\}`).FindAllStringSubmatch(style, -1)
	if len(blocks) != 3 {
		t.Fatalf("%d sets of colours, want light, dark and paper", len(blocks))
	}
	colour := regexp.MustCompile(`--(\w+): #([0-9a-f]{3}|[0-9a-f]{6});`)
	read := func(text string, into map[string]string) map[string]string {
		out := map[string]string{}
		for k, v := range into {
			out[k] = v
		}
		for _, m := range colour.FindAllStringSubmatch(text, -1) {
			out[m[1]] = m[2]
		}
		return out
	}
	light := read(blocks[0][1], nil)
	for name, set := range map[string]map[string]string{"light": light, "dark": read(blocks[1][1], nil), "paper": read(blocks[2][1], light)} {
		for _, on := range []string{"page", "band"} {
			for c := range set {
				least := 4.5
				switch {
				case strings.HasPrefix(c, "hue"):
					least = 3
				case c == "page" || c == "band" || c == "line" || c == "shade":
					continue
				}
				if got := contrast(t, set[c], set[on]); got < least {
					t.Errorf("%s: %s #%s on %s #%s: %.2f to 1, want %v", name, c, set[c], on, set[on], got, least)
				}
			}
		}
		if len(set) < 8+hues {
			t.Errorf("%s has only %d colours: %v", name, len(set), set)
		}
	}
}

// contrast is the ratio of the luminances of two colours, as WCAG defines it.
func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	light := func(c string) float64 {
		if len(c) == 3 {
			c = string([]byte{c[0], c[0], c[1], c[1], c[2], c[2]})
		}
		var sum float64
		for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
			n, err := strconv.ParseUint(c[2*i:2*i+2], 16, 8)
			must(t, err)
			v := float64(n) / 255
			if v <= 0.04045 {
				v /= 12.92
			} else {
				v = math.Pow((v+0.055)/1.055, 2.4)
			}
			sum += weight * v
		}
		return sum
	}
	x, y := light(a), light(b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}
