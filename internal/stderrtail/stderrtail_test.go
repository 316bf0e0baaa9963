package stderrtail_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/internal/stderrtail"
)

func TestLastLine(t *testing.T) {
	for _, c := range []struct {
		max    int
		writes []string
		want   string
	}{
		{0, nil, ""},
		{0, []string{"one"}, "one"},
		{0, []string{"one\nt", "wo\r\n\n"}, "two"},
		{4, []string{"something long"}, "long"},
		{4, []string{"\n", "  \n"}, ""},
	} {
		w := stderrtail.Writer{Max: c.max}
		for _, text := range c.writes {
			fmt.Fprint(&w, text)
		}
		if got := w.Lines(1); c.max == 0 && len(got) > 0 && strings.TrimSpace(got[0]) != c.want {
			t.Errorf("%q: the last of one line is %q, want %q", c.writes, got, c.want)
		}
		if got := w.LastLine(); got != c.want {
			t.Errorf("%q: got %q, want %q", c.writes, got, c.want)
		}
	}
}

func TestLines(t *testing.T) {
	w := stderrtail.Writer{Max: 8}
	if got := w.Lines(3); got != nil {
		t.Errorf("of nothing: %q", got)
	}
	fmt.Fprint(&w, "long gone\n1\n2\n3\n")
	for n, want := range map[int][]string{1: {"3"}, 2: {"2", "3"}, 9: {"e", "1", "2", "3"}} {
		if got := w.Lines(n); !slices.Equal(got, want) {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
}
