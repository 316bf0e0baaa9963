// Package figure declares figures: their names, units and help, how the values of
// several parts of a run are merged, and the metrics that show them. It imports no
// other package of this module, so that any package that counts, merges or shows
// figures can use it.
//
// There are two kinds. The figures that every lane has are fields of structs, which
// [Add] merges. The figures of one system or upstream have names and are declared in
// a [Table].
package figure

import (
	"fmt"
	"slices"
)

// Figure is one figure of a system or an upstream.
type Figure struct {
	// Name is camel-case, as in result.json.
	Name string
	// Unit is "" for a plain count or factor, and "ns" for a timing.
	Unit string
	// Help says what is counted.
	Help string
	// Rule merges the values of several parts of a run. The zero value adds them. The
	// buckets of timings are always added.
	Rule Rule
	// Timing marks a distribution of durations instead of a single value.
	Timing bool
	// Metric shows the figure under a name of its own as well; nil for most figures.
	Metric *Metric
}

// Duration returns a timing.
func Duration(name, help string) Figure {
	return Figure{Name: name, Unit: "ns", Timing: true, Help: help}
}

// Metric is a metric that shows one figure, or several by a label.
type Metric struct {
	Name string
	// Help is the figure's help if empty. If several figures share a metric by label,
	// the first one's help is used.
	Help string
	// Gauge marks a value that may fall; otherwise the metric is a counter.
	Gauge bool
	// Label and Value distinguish the figures of one metric.
	Label, Value string
	// Scale is a factor for the value; 0 is 1.
	Scale float64
}

// Shown returns the value of the metric for the value v of the figure.
func (m *Metric) Shown(v float64) float64 {
	if m.Scale == 0 {
		return v
	}
	return v * m.Scale
}

// Table declares the figures of one system or upstream.
type Table struct {
	Name string // of the table, for messages
	// Systems are the systems whose lanes have the figures; empty for an upstream.
	Systems []string
	Figures []Figure
}

// Find returns the figure of that name, nil if there is none.
func (t *Table) Find(name string) *Figure {
	for i := range t.Figures {
		if t.Figures[i].Name == name {
			return &t.Figures[i]
		}
	}
	return nil
}

// Names are the names of the figures. It works on nil.
func (t *Table) Names() (names []string) {
	if t == nil {
		return nil
	}
	for _, f := range t.Figures {
		names = append(names, f.Name)
	}
	return names
}

// Tables are the tables of several systems and upstreams.
type Tables []*Table

// Of returns the table of a system, or of a kind of upstream; nil if it has no figures.
func (all Tables) Of(name string) *Table {
	for _, t := range all {
		if t.Name == name && len(t.Systems) == 0 || slices.Contains(t.Systems, name) {
			return t
		}
	}
	return nil
}

// Rule returns the merge rule of a figure. A figure that no table has is added; it
// comes from an archive of another version.
func (ts Tables) Rule(name string) Rule {
	for _, t := range ts {
		if f := t.Find(name); f != nil {
			return f.Rule
		}
	}
	return Sum
}

// Check returns an error if a figure is declared twice in a table, or with different
// rules in several, or if a rule or a metric is incomplete.
func (ts Tables) Check() error {
	for _, t := range ts {
		for i := range t.Figures {
			f := &t.Figures[i]
			if f.Name == "" || f.Help == "" {
				return fmt.Errorf("%s: figure %q has no name or has no help; give both", t.Name, f.Name)
			}
			if t.Find(f.Name) != f {
				return fmt.Errorf("%s: %s is declared twice", t.Name, f.Name)
			}
			if r := ts.Rule(f.Name); r != f.Rule {
				return fmt.Errorf("%s: %s has another rule elsewhere", t.Name, f.Name)
			}
			for _, part := range f.Rule.parts() {
				if p := t.Find(part); p == nil || p.Rule != Sum || p.Timing {
					return fmt.Errorf("%s: %s is made of %s, which is no sum", t.Name, f.Name, part)
				}
			}
			if f.Rule.kind == percentile {
				if p := t.Find(f.Rule.of); p == nil || !p.Timing {
					return fmt.Errorf("%s: %s is a percentile of %s, which is no timing", t.Name, f.Name, f.Rule.of)
				}
			}
			if f.Timing && (f.Unit != "ns" || f.Rule != Sum) {
				return fmt.Errorf("%s: %s: a timing is in ns and has no rule", t.Name, f.Name)
			}
			if m := f.Metric; m != nil && (m.Name == "" || (m.Label == "") != (m.Value == "")) {
				return fmt.Errorf("%s: %s: its metric lacks a name, a label or a value", t.Name, f.Name)
			}
		}
	}
	return nil
}
