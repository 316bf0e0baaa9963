package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
)

// study is study.yaml: what is run, what is read from the results, and how it is shown.
// Wherever the comments say expression, the language is that of github.com/expr-lang/expr.
type study struct {
	Title     string         `yaml:"title"`     // the question
	Kept      time.Time      `yaml:"kept"`      // start of the measurement to which columns of texts belong; see table
	Constants map[string]any `yaml:"constants"` // known to all expressions
	Runs      []group        `yaml:"runs"`
	Values    yaml.MapSlice  `yaml:"values"` // expressions over the rows of all runs, known to tables and charts
	Tables    []table        `yaml:"tables"`
	Charts    []chart        `yaml:"charts"`
}

// group is a matrix of runs, whose results have the same figures.
// Its texts may contain expressions as ${…}. One that is nothing else may be a list, and is then several such texts.
type group struct {
	Group   string        `yaml:"group"`
	Name    string        `yaml:"name"`    // of a run: the same for no two runs of the study
	Matrix  yaml.MapSlice `yaml:"matrix"`  // variable: values; the first varies slowest; a map sets several variables
	Where   string        `yaml:"where"`   // expression: which cells are run; "" = all
	Let     yaml.MapSlice `yaml:"let"`     // further variables: expressions, each of which knows those before it
	Repeats int           `yaml:"repeats"` // of the whole matrix, so that a machine that slows down does so for all cells
	AtOnce  int           `yaml:"atOnce"`  // runs side by side; 0 = 1
	Args    []string      `yaml:"args"`    // of eventmeter; --quiet and --out are added
	Set     []string      `yaml:"set"`     // each becomes --set
	Prints  bool          `yaml:"prints"`  // its result is what it prints; such a run measures nothing
	// Options has each run use a reference server of its own, with these options as JSON. Its counters are
	// read every 200 ms for the expressions of sampled.
	Options string `yaml:"options"`
	// Server has each run use a server of its own, by command. It prints a line {"url": "…"} when it is
	// ready, and ends with its standard input. An empty list is the server of the profile.
	Server  []string      `yaml:"server"`
	Lanes   []string      `yaml:"lanes"`   // each has a row of figures; none = the first lane has
	Figures yaml.MapSlice `yaml:"figures"` // expressions over a result
	Sampled yaml.MapSlice `yaml:"sampled"` // expressions over a result and the samples of its server
}

// data is data.json.
type data struct {
	Schema   string    `json:"schema"`
	Study    string    `json:"study"`
	Scale    float64   `json:"scale"` // 1 = the size that the study is meant to have
	Started  time.Time `json:"started"`
	Finished time.Time `json:"finished"`
	Partial  bool      `json:"partial,omitempty"` // it ended early
	Machine  machine   `json:"machine"`
	Runs     []run     `json:"runs"` // in the order in which they ended
}

// machine is where a study was made.
type machine struct {
	OS     string `json:"os"`
	Arch   string `json:"arch"`
	Kernel string `json:"kernel"`
	CPUs   int    `json:"cpus"`
	Go     string `json:"go"`
}

// run is one run of a study. runs/NAME.json.gz is its result.
type run struct {
	Name       string         `json:"name"`
	Group      string         `json:"group"`
	Repeat     int            `json:"repeat"`
	Cell       map[string]any `json:"cell"` // variables of the matrix, and numbers that follow from them
	Args       []string       `json:"args"` // of eventmeter
	Server     string         `json:"server,omitempty"`
	ExitCode   int            `json:"exitCode"`
	Seconds    float64        `json:"seconds"`
	Load       float64        `json:"load"`                 // load average of the last minute when it ended; -1 = not known
	Bottleneck []string       `json:"bottleneck,omitempty"` // why the generator was the bottleneck
	// Rows are the figures. There are none where the target fell over.
	Rows []map[string]any `json:"rows"`

	of  *group
	env map[string]any // variables, lists included
}

const (
	schema    = "eventmeter.study/2"
	studyFile = "study.yaml"
	dataFile  = "data.json"
	pageFile  = "README.md"
)

// loadStudy reads study.yaml of a directory. An unknown key is an error.
func loadStudy(dir string) (*study, error) {
	text, err := os.ReadFile(filepath.Join(dir, studyFile))
	if err != nil {
		return nil, err
	}
	s := new(study)
	if err := yaml.UnmarshalWithOptions(text, s, yaml.DisallowUnknownField(), yaml.AllowDuplicateMapKey()); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, studyFile), err)
	}
	for k, v := range s.Constants {
		s.Constants[k] = plain(v)
	}
	return s, nil
}

// loadData reads data.json of a directory.
func loadData(dir string) (*data, error) {
	text, err := os.ReadFile(filepath.Join(dir, dataFile))
	if err != nil {
		return nil, err
	}
	d := new(data)
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(d); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, dataFile), err)
	}
	if d.Schema != schema {
		return nil, fmt.Errorf("%s: schema %q, want %s", filepath.Join(dir, dataFile), d.Schema, schema)
	}
	return d, nil
}

func (d *data) save(dir string) error {
	text, err := json.MarshalIndent(d, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, dataFile), append(text, '\n'), 0o644)
}

// name is that of the study in a directory DATE-NAME.
func name(dir string) string {
	const date = time.DateOnly + "-"
	base := filepath.Base(dir)
	if len(base) > len(date) {
		if _, err := time.Parse(date, base[:len(date)]); err == nil {
			return base[len(date):]
		}
	}
	return base
}

// expand returns the runs of a study at a scale, in the order in which they are started.
func (s *study) expand(scale float64) ([]*run, error) {
	var all []*run
	names := map[string]bool{}
	for i := range s.Runs {
		runs, err := s.expandGroup(&s.Runs[i], scale)
		if err != nil {
			return nil, fmt.Errorf("group %s: %w", s.Runs[i].Group, err)
		}
		for _, r := range runs {
			if names[r.Name] {
				return nil, fmt.Errorf("group %s: two runs have the name %s", r.Group, r.Name)
			}
			names[r.Name] = true
		}
		all = append(all, runs...)
	}
	return all, nil
}

func (s *study) expandGroup(g *group, scale float64) ([]*run, error) {
	cells, err := g.cells()
	if err != nil {
		return nil, err
	}
	repeats := max(g.Repeats, 1)
	if scale < 0.5 { // a small trial
		repeats = 1
	}
	var runs []*run
	for i := range len(cells) * repeats {
		cell, repeat := cells[i%len(cells)], i/len(cells)+1
		env := maps.Clone(s.Constants)
		if env == nil {
			env = map[string]any{}
		}
		maps.Copy(env, cell)
		env["repeat"], env["scale"], env["scaled"] = float64(repeat), scale, scaledBy(scale)
		if err := assign(g.Let, env); err != nil {
			return nil, err
		}
		if yes, err := truth(g.Where, env); err != nil {
			return nil, err
		} else if !yes {
			continue
		}
		name, err := fill(g.Name, env)
		if err != nil {
			return nil, err
		}
		variables := scalars(cell)
		for _, item := range g.Let {
			if n, ok := env[fmt.Sprint(item.Key)].(float64); ok {
				variables[fmt.Sprint(item.Key)] = n
			}
		}
		runs = append(runs, &run{Name: name, Group: g.Group, Repeat: repeat, Cell: variables, of: g, env: env})
	}
	return runs, nil
}

// scalars leaves out the variables that are lists or maps.
func scalars(cell map[string]any) map[string]any {
	kept := map[string]any{}
	for k, v := range cell {
		switch v.(type) {
		case float64, string, bool:
			kept[k] = v
		}
	}
	return kept
}

// cells returns the combinations of the matrix.
func (g *group) cells() ([]map[string]any, error) {
	cells := []map[string]any{{}}
	for _, axis := range g.Matrix {
		values, ok := plain(axis.Value).([]any)
		if !ok || len(values) == 0 {
			return nil, fmt.Errorf("matrix: %v has no list of values", axis.Key)
		}
		var next []map[string]any
		for _, cell := range cells {
			for _, v := range values {
				more := maps.Clone(cell)
				if several, ok := v.(map[string]any); ok {
					maps.Copy(more, several)
				} else {
					more[fmt.Sprint(axis.Key)] = v
				}
				next = append(next, more)
			}
		}
		cells = next
	}
	return cells, nil
}

// scaledBy returns scaled(n, least), which multiplies a number by the scale.
func scaledBy(scale float64) func(n, least any) (float64, error) {
	return func(n, least any) (float64, error) {
		size, ok := number(n)
		limit, too := number(least)
		if !ok || !too {
			return 0, fmt.Errorf("scaled wants two numbers, not %v and %v", n, least)
		}
		return max(limit, size*scale), nil
	}
}

var hole = regexp.MustCompile(`\$\{([^}]*)\}`)

// fill replaces the ${…} of a text.
func fill(text string, env map[string]any) (string, error) {
	var failed error
	filled := hole.ReplaceAllStringFunc(text, func(m string) string {
		v, err := eval(m[2:len(m)-1], env)
		if err == nil && v == nil {
			err = fmt.Errorf("%s is nothing", m)
		}
		if err != nil && failed == nil {
			failed = err
		}
		return inText(v)
	})
	return filled, failed
}

// fillAll fills texts. One that is a single ${…} of a list becomes its items.
func fillAll(texts []string, env map[string]any) ([]string, error) {
	var filled []string
	for _, t := range texts {
		if m := hole.FindString(t); m == t && m != "" {
			v, err := eval(t[2:len(t)-1], env)
			if err != nil {
				return nil, err
			}
			if items, ok := v.([]any); ok {
				for _, item := range items {
					one, err := fill(inText(item), env)
					if err != nil {
						return nil, err
					}
					filled = append(filled, one)
				}
				continue
			}
		}
		one, err := fill(t, env)
		if err != nil {
			return nil, err
		}
		filled = append(filled, one)
	}
	return filled, nil
}

// arguments are those of eventmeter for a run, without the ones that the runner adds.
func (r *run) arguments(env map[string]any) ([]string, error) {
	args, err := fillAll(r.of.Args, env)
	if err != nil {
		return nil, err
	}
	sets, err := fillAll(r.of.Set, env)
	if err != nil {
		return nil, err
	}
	for _, s := range sets {
		args = append(args, "--set", s)
	}
	return args, nil
}

// measures reports whether the runs of a group load a target.
func (s *study) measures(name string) bool {
	i := slices.IndexFunc(s.Runs, func(g group) bool { return g.Group == name })
	return i < 0 || !s.Runs[i].Prints
}

// conditions says on what the figures were measured, and names the runs whose figures describe the
// generator more than the target.
func (s *study) conditions(d *data) string {
	var slow []string
	var loads []float64
	runs := 0
	for _, r := range d.Runs {
		if !s.measures(r.Group) {
			continue
		}
		runs++
		loads = append(loads, r.Load)
		if len(r.Bottleneck) > 0 {
			slow = append(slow, "`"+r.Name+"`")
		}
	}
	text := fmt.Sprintf("%s, %s/%s, kernel %s, %s, %d processors that generator, target and upstream share, "+
		"all on one machine. %d runs.",
		d.Started.Format(time.DateOnly), d.Machine.OS, d.Machine.Arch, d.Machine.Kernel, d.Machine.Go,
		d.Machine.CPUs, runs)
	if runs > 0 && slices.Min(loads) >= 0 {
		text += fmt.Sprintf(" The load average was %.1f to %.1f at the ends of the runs, whose own load is part of it.",
			slices.Min(loads), slices.Max(loads))
	}
	const little = ": their latencies say little about the target."
	switch {
	case len(slow) == 0:
		return text + " The generator was the bottleneck in none of them."
	case len(slow) == runs:
		return text + " **The generator was the bottleneck in all of them**" + little
	}
	return text + fmt.Sprintf(" **The generator was the bottleneck in %d of them** (%s)%s",
		len(slow), strings.Join(slow, ", "), little)
}
