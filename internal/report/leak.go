package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/eventmeter/eventmeter/results"
)

// leakRows say of each gauge of the target that rises why it is or is not a leak, and list the others
// together. A gauge about which a run this short says nothing is left out.
func leakRows(r *results.Result) (rows [][2]string) {
	var calm []string
	for _, name := range slices.Sorted(maps.Keys(r.Target.Leak)) {
		g := r.Target.Leak[name]
		switch {
		case g.Verdict == results.LeakFound:
			rows = append(rows, [2]string{"LEAK", Clean(name) + ": " + Clean(g.Reason)})
		case g.Verdict == results.LeakUnknown && g.Slope != 0:
			rows = append(rows, [2]string{"leak?", Clean(name) + ": " + Clean(g.Reason)})
		case g.Verdict == results.LeakNone && g.After > 0:
			calm = append(calm, Clean(name))
		}
	}
	if len(calm) > 0 {
		rows = append(rows, [2]string{"no leak", strings.Join(calm, ", ")})
	}
	return rows
}

// leaks says what the target holds that it should have given back.
func (p *printer) leaks(r *results.Result) {
	for _, row := range leakRows(r) {
		p.beside(fmt.Sprintf("%-*s", noteIndent, row[0]), noteIndent, row[1])
	}
}
