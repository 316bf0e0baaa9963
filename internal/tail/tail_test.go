package tail_test

import (
	"fmt"
	"testing"

	"github.com/mcpload/mcpload/internal/tail"
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
		w := tail.Writer{Max: c.max}
		for _, text := range c.writes {
			fmt.Fprint(&w, text)
		}
		if got := w.LastLine(); got != c.want {
			t.Errorf("%q: got %q, want %q", c.writes, got, c.want)
		}
	}
}
