package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// selection says which rows of the runs belong together.
type selection struct {
	Of    []string         `yaml:"of"`    // groups of runs
	Where string           `yaml:"where"` // expression; "" = all rows
	By    []string         `yaml:"by"`    // rows with the same of these are one, with lists of figures; none = each row
	Order []string         `yaml:"order"` // expressions; none = as they were measured
	Rows  []map[string]any `yaml:"rows"`  // values instead of measured rows
	Let   yaml.MapSlice    `yaml:"let"`   // further variables of a row: expressions
}

// table is a table of the page.
type table struct {
	Name   string    `yaml:"name"`
	Select selection `yaml:",inline"`
	// Columns are heads with what is below: an expression whose value is a text, a number or a list of
	// repeats. Or a list of texts, one for each row, which nothing computes again: another measurement than
	// the one that they were computed for has no such column.
	Columns []yaml.MapSlice `yaml:"columns"`
}

// rows returns the rows of all runs: the variables of the cell and the figures.
func (d *data) rows() []any {
	var all []any
	for _, r := range d.Runs {
		for _, figures := range r.Rows {
			row := map[string]any{"group": r.Group, "run": r.Name, "repeat": float64(r.Repeat), "cell": r.Cell}
			maps.Copy(row, r.Cell)
			maps.Copy(row, figures)
			all = append(all, row)
		}
	}
	return all
}

// environment is what tables and charts know, beside a row.
func (s *study) environment(d *data) (map[string]any, error) {
	env := map[string]any{"rows": d.rows(), "cpus": float64(d.Machine.CPUs)}
	maps.Copy(env, s.Constants)
	return env, assign(s.Values, env)
}

// pick returns the variables of each selected row, in order.
func (q *selection) pick(env map[string]any) ([]map[string]any, error) {
	picked := make([]map[string]any, len(q.Rows))
	for i, row := range q.Rows {
		picked[i] = maps.Clone(env)
		for k, v := range row {
			picked[i][k] = plain(v)
		}
	}
	if q.Rows == nil {
		var err error
		if picked, err = q.merge(env); err != nil {
			return nil, err
		}
	}
	for _, row := range picked {
		if err := assign(q.Let, row); err != nil {
			return nil, err
		}
	}
	return picked, q.sort(picked)
}

// merge makes one row of the rows that have the same values of By.
func (q *selection) merge(env map[string]any) ([]map[string]any, error) {
	var keys []string
	these := map[string][]any{}
	all, _ := env["rows"].([]any)
	for i, r := range all {
		row, _ := r.(map[string]any)
		if !slices.Contains(q.Of, fmt.Sprint(row["group"])) {
			continue
		}
		of := maps.Clone(env)
		maps.Copy(of, row)
		if yes, err := truth(q.Where, of); err != nil || !yes {
			if err != nil {
				return nil, err
			}
			continue
		}
		key := fmt.Sprint(i)
		if len(q.By) > 0 {
			key = ""
			for _, name := range q.By {
				key += fmt.Sprint(row[name]) + "\x00"
			}
		}
		if these[key] == nil {
			keys = append(keys, key)
		}
		these[key] = append(these[key], row)
	}
	var picked []map[string]any
	for _, key := range keys {
		row := maps.Clone(env)
		row["these"] = these[key]
		first, _ := these[key][0].(map[string]any)
		variables, _ := first["cell"].(map[string]any)
		for name, v := range first {
			_, variable := variables[name]
			if len(q.By) > 0 && !variable && !slices.Contains(q.By, name) && name != "group" {
				v = column(these[key], name)
			}
			row[name] = v
		}
		picked = append(picked, row)
	}
	return picked, nil
}

// column is a variable in each of the rows.
func column(rows []any, name string) []any {
	values := make([]any, len(rows))
	for i, r := range rows {
		row, _ := r.(map[string]any)
		values[i] = row[name]
	}
	return values
}

// sort orders rows by the expressions of Order.
func (q *selection) sort(rows []map[string]any) (failed error) {
	value := func(code string, row map[string]any) any {
		v, err := eval(code, row)
		failed = errors.Join(failed, err)
		return v
	}
	slices.SortStableFunc(rows, func(a, b map[string]any) int {
		for _, code := range q.Order {
			x, y := value(code, a), value(code, b)
			m, isNumber := number(x)
			n, too := number(y)
			c := cmp.Compare(fmt.Sprint(x), fmt.Sprint(y))
			if isNumber && too {
				c = cmp.Compare(m, n)
			}
			if c != 0 {
				return c
			}
		}
		return 0
	})
	return failed
}

var errNothing = errors.New("nothing was measured for it")

// markdown writes a table. The first column is text, the others are numbers.
func (t *table) markdown(env map[string]any, kept bool) (string, error) {
	rows, err := t.Select.pick(env)
	if err != nil {
		return "", fmt.Errorf("table %s: %w", t.Name, err)
	}
	if len(rows) == 0 {
		return "", fmt.Errorf("table %s: %w", t.Name, errNothing)
	}
	var heads []string
	lines := make([][]string, len(rows))
	for i, c := range t.Columns {
		if len(c) != 1 {
			return "", fmt.Errorf("table %s: column %d is no pair of a head and a value", t.Name, i+1)
		}
		head := fmt.Sprint(c[0].Key)
		texts, fixed := plain(c[0].Value).([]any)
		if fixed && !kept {
			continue
		}
		if fixed && len(texts) != len(rows) {
			return "", fmt.Errorf("table %s, column %q: %d texts for %d rows", t.Name, head, len(texts), len(rows))
		}
		heads = append(heads, head)
		for k, row := range rows {
			var text any
			if fixed {
				text = texts[k]
			} else if text, err = cell(fmt.Sprint(c[0].Value), row); err != nil {
				return "", fmt.Errorf("table %s, column %q: %w", t.Name, head, err)
			}
			lines[k] = append(lines[k], fmt.Sprint(text))
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "| %s |\n|---%s|\n", strings.Join(heads, " | "), strings.Repeat("|--:", len(heads)-1))
	for _, line := range lines {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(line, " | "))
	}
	return b.String(), nil
}

// cell is the text of a column in a row.
func cell(code string, row map[string]any) (any, error) {
	v, err := eval(code, row)
	if err != nil {
		return nil, err
	}
	if text, ok := v.(string); ok {
		return text, nil
	}
	return spread(v)
}

// What the runner writes into a page is between two comments.
const (
	beginMark = "<!-- studies: %s -->\n"
	endMark   = "<!-- end -->\n"
)

// parts are the texts between the comments of a page, by name.
func (s *study) parts(d *data, env map[string]any) (parts map[string]string, err error) {
	parts = map[string]string{"conditions": s.conditions(d) + "\n"}
	for i := range s.Tables {
		t := &s.Tables[i]
		parts[t.Name], err = t.markdown(env, s.Kept.Equal(d.Started))
		if err != nil {
			return nil, err
		}
	}
	return parts, nil
}

// rewrite replaces what is between the comments of a page. Each table must be in the page once.
func rewrite(page string, parts map[string]string) (string, error) {
	for name, text := range parts {
		begin := fmt.Sprintf(beginMark, name)
		before, rest, ok := strings.Cut(page, begin)
		_, after, ended := strings.Cut(rest, endMark)
		if !ok || !ended || strings.Contains(after, begin) {
			return "", fmt.Errorf("the page has not one %q with its %q", strings.TrimSpace(begin), strings.TrimSpace(endMark))
		}
		page = before + begin + text + endMark + after
	}
	return page, nil
}

// draft is a page with nothing but what the runner writes. The answer is for a person to write.
func (s *study) draft(d *data) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n", s.Title)
	if d.Scale != 1 {
		fmt.Fprintf(&b, "**This is a small trial (scale %g), not the study.**\n\n", d.Scale)
	}
	for _, c := range s.Charts {
		fmt.Fprintf(&b, "![%s](%s.svg)\n\n", c.Title, c.Name)
	}
	for _, t := range s.Tables {
		fmt.Fprintf(&b, beginMark+endMark+"\n", t.Name)
	}
	fmt.Fprintf(&b, "## Conditions\n\n"+beginMark+endMark, "conditions")
	return b.String()
}

// render reads the figures of a directory's results again, writes the tables into its page, which is
// drafted where there is none, and draws the charts that are not there.
func render(dir string) error {
	s, d, err := read(dir)
	if err != nil {
		return err
	}
	if d.Partial {
		return fmt.Errorf("%s: the study ended early, and has no tables", dir)
	}
	if err := extract(dir, s, d); err != nil {
		return err
	}
	env, err := s.environment(d)
	if err != nil {
		return err
	}
	file := filepath.Join(dir, pageFile)
	page, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		page, err = []byte(s.draft(d)), nil
	}
	if err != nil {
		return err
	}
	parts, err := s.parts(d, env)
	if err != nil {
		return err
	}
	text, err := rewrite(string(page), parts)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return err
	}
	return errors.Join(d.save(dir), s.drawCharts(dir, env))
}

func read(dir string) (*study, *data, error) {
	s, err := loadStudy(dir)
	if err != nil {
		return nil, nil, err
	}
	d, err := loadData(dir)
	return s, d, err
}
