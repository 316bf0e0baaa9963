// Package figure holds what is declared once of a figure: its name, its unit,
// what it says, how the values of several parts of a run become one, and the
// metric that shows it. It imports no other package of this module, so that
// whoever counts, merges or shows a figure can use it.
package figure

import (
	"fmt"
	"slices"
	"strings"
)

// Figure is one figure of a driver or an upstream. A pointer to it is its
// identity: it is made by a [Table], and counted by it.
type Figure struct {
	// Name is camel-case, as in result.json.
	Name string
	// Unit is the unit of the value: "" is a plain count or factor.
	Unit string
	// Help says what is counted.
	Help string
	// Rule says what the values of several parts of a run are together.
	Rule Rule
	// Timing is a distribution of durations instead of one value.
	Timing bool
	// Metric shows the figure under a name of its own; nil for most.
	Metric *Metric

	table *Table
	index int
}

// Metric is a metric that shows one figure, or several by a label.
type Metric struct {
	Name, Help string
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

// As shows the figure as a metric, too. It returns f.
func (f *Figure) As(m Metric) *Figure {
	f.Metric = &m
	return f
}

// Index is the place of the figure in arrays of its table: see [Table.Len].
func (f *Figure) Index() int { return f.index }

// In tells whether the figure is one of t.
func (f *Figure) In(t *Table) bool { return f.table == t }

func (f *Figure) String() string { return f.Name }

// Table is the figures of one system or upstream. Fill it where package
// variables are set, and only read it afterwards. A name that is declared twice
// is a fault of the program, and panics.
type Table struct {
	// Name is the system's or upstream's.
	Name string
	list []*Figure
}

// Count declares a value that only rises: parts are added.
func (t *Table) Count(name, unit, help string) *Figure { return t.Value(name, unit, help, Sum) }

// Value declares a value with a rule.
func (t *Table) Value(name, unit, help string, r Rule) *Figure {
	return t.declare(&Figure{Name: name, Unit: unit, Help: help, Rule: r})
}

// Time declares a distribution of durations: parts are added bucket by bucket.
func (t *Table) Time(name, help string) *Figure {
	return t.declare(&Figure{Name: name, Unit: "ns", Help: help, Rule: Sum, Timing: true})
}

func (t *Table) declare(f *Figure) *Figure {
	if t.Find(f.Name) != nil {
		panic(fmt.Sprintf("figure: %s of %s is declared twice", f.Name, t.Name))
	}
	f.table, f.index = t, len(t.list)
	t.list = append(t.list, f)
	return f
}

// Len is the number of figures: the length of an array indexed by
// [Figure.Index].
func (t *Table) Len() int { return len(t.list) }

// All returns the figures by name.
func (t *Table) All() []*Figure {
	return slices.SortedFunc(slices.Values(t.list), func(a, b *Figure) int { return strings.Compare(a.Name, b.Name) })
}

// Find returns the figure of that name, nil if there is none.
func (t *Table) Find(name string) *Figure {
	for _, f := range t.list {
		if f.Name == name {
			return f
		}
	}
	return nil
}

// Tables are the figures of several systems. A name that several of them have
// must have one rule.
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

// Find returns the table of that name, nil if there is none.
func (ts Tables) Find(name string) *Table {
	for _, t := range ts {
		if t.Name == name {
			return t
		}
	}
	return nil
}
