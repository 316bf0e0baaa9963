// Package figure holds what is declared once of a figure: its name, its unit,
// what it says, how the values of several parts of a run become one, and the
// metric that shows it. It imports no other package of this module, so that
// whoever counts, merges or shows a figure can use it.
//
// There are two kinds. The figures that every lane has are fields of structs,
// which [Add] merges. Those of one system or upstream have names, and stand in a
// [Table].
package figure

import "fmt"

// Figure is one figure of a system or an upstream.
type Figure struct {
	// Name is camel-case, as in result.json.
	Name string
	// Unit is "" for a plain count or factor, and "ns" for a timing.
	Unit string
	// Help says what is counted.
	Help string
	// Rule says what the values of several parts of a run are together. The
	// zero value adds. The buckets of timings are always added.
	Rule Rule
	// Timing is a distribution of durations instead of one value.
	Timing bool
	// Metric shows the figure under a name of its own as well; nil for most.
	Metric *Metric
}

// Metric is a metric that shows one figure, or several by a label.
type Metric struct {
	Name string
	// Help is that of the figure where it is empty. Of several figures by a
	// label, the first one's counts.
	Help string
	// Gauge is a value that may fall; otherwise it is a counter.
	Gauge bool
	// Label and Value tell the figures of one metric apart.
	Label, Value string
	// Scale is what the value is multiplied by; 0 is 1.
	Scale float64
}

// Shown is the value that the metric shows.
func (m *Metric) Shown(v float64) float64 {
	if m.Scale == 0 {
		return v
	}
	return v * m.Scale
}

// Table is the figures of one system or upstream.
type Table struct {
	Name string // of the table, for messages
	// Systems are those whose lanes have the figures; none of an upstream.
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

// Tables are the figures of several systems and upstreams.
type Tables []*Table

// Rule returns the rule for a name. What no table has is added: it can only be
// of an archive that another version wrote.
func (ts Tables) Rule(name string) Rule {
	for _, t := range ts {
		if f := t.Find(name); f != nil {
			return f.Rule
		}
	}
	return Sum
}

// Check returns an error where a figure is declared twice in a table, or with
// two rules in several, or where a rule or a metric lacks something.
func (ts Tables) Check() error {
	for _, t := range ts {
		for i := range t.Figures {
			f := &t.Figures[i]
			if f.Name == "" || f.Help == "" {
				return fmt.Errorf("%s: figure %q: say what it is", t.Name, f.Name)
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
