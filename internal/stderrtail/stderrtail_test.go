package stderrtail_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/internal/stderrtail"
)

// long is a line as long as what is kept.
var long = strings.Repeat("l", stderrtail.Kept)

func TestLastLine(t *testing.T) {
	for _, c := range []struct {
		writes []string
		want   string
	}{
		{nil, ""},
		{[]string{"one"}, "one"},
		{[]string{"one\nt", "wo\r\n\n"}, "two"},
		{[]string{"something ", long}, long},
		{[]string{long, strings.Repeat("\n", stderrtail.Kept-2), "  \n"}, ""},
	} {
		var w stderrtail.Writer
		for _, text := range c.writes {
			fmt.Fprint(&w, text)
		}
		if got := w.Lines(1); len(got) > 0 && strings.TrimSpace(got[0]) != c.want {
			t.Errorf("%q: the last of one line is %q, want %q", c.writes, got, c.want)
		}
		if got := w.LastLine(); got != c.want {
			t.Errorf("%q: got %q, want %q", c.writes, got, c.want)
		}
	}
}

func TestLines(t *testing.T) {
	var w stderrtail.Writer
	if got := w.Lines(3); got != nil {
		t.Errorf("of nothing: %q", got)
	}
	fmt.Fprint(&w, "gone"+long[6:]+"\n2\n3\n")
	for n, want := range map[int][]string{1: {"3"}, 2: {"2", "3"}, 9: {"e" + long[6:], "2", "3"}} {
		if got := w.Lines(n); !slices.Equal(got, want) {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
}
