package main

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/expr-lang/expr"
	"github.com/goccy/go-yaml"
)

// keptStudies are the directories of results/studies that have a study.yaml.
func keptStudies(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", "results", "studies", "*", studyFile))
	if err != nil || len(files) < 12 {
		t.Fatalf("%d studies are kept, want 12 at least (%v)", len(files), err)
	}
	for i := range files {
		files[i] = filepath.Dir(files[i])
	}
	return files
}

func each(t *testing.T, test func(t *testing.T, dir string, s *study, d *data)) {
	for _, dir := range keptStudies(t) {
		t.Run(name(dir), func(t *testing.T) {
			s, d, err := read(dir)
			must(t, err)
			test(t, dir, s, d)
		})
	}
}

func TestPagesHaveTheTablesOfTheirData(t *testing.T) {
	each(t, func(t *testing.T, dir string, s *study, d *data) {
		page, err := os.ReadFile(filepath.Join(dir, pageFile))
		must(t, err)
		env, err := s.environment(d)
		must(t, err)
		parts, err := s.parts(d, env)
		must(t, err)
		again, err := rewrite(string(page), parts)
		must(t, err)
		have, want := strings.Split(string(page), "\n"), strings.Split(again, "\n")
		for i := range min(len(have), len(want)) {
			if have[i] != want[i] {
				t.Errorf("line %d of the page:\n%s\nmade again:\n%s", i+1, have[i], want[i])
			}
		}
		if len(have) != len(want) {
			t.Errorf("the page has %d lines, and %d with its tables made again", len(have), len(want))
		}
		if !strings.HasPrefix(string(page), "# "+s.Title+"\n") || name(dir) != d.Study {
			t.Errorf("the page or the data are of another study: %q, %q", s.Title, d.Study)
		}
	})
}

func TestFiguresAreThoseOfTheKeptResults(t *testing.T) {
	each(t, func(t *testing.T, dir string, s *study, d *data) {
		again, err := loadData(dir)
		must(t, err)
		must(t, extract(dir, s, again))
		for i := range d.Runs {
			have, want := inJSON(t, d.Runs[i]), inJSON(t, again.Runs[i])
			if have != want {
				t.Errorf("%s has\n%s\nand its result\n%s", d.Runs[i].Name, have, want)
			}
		}
	})
}

func inJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	must(t, err)
	return string(text)
}

func TestMatricesMakeTheRunsThatWereMade(t *testing.T) {
	each(t, func(t *testing.T, dir string, s *study, d *data) {
		planned, err := s.expand(d.Scale)
		must(t, err)
		if len(planned) != len(d.Runs) {
			t.Fatalf("%d runs were made, and the matrices make %d", len(d.Runs), len(planned))
		}
		for _, r := range d.Runs {
			p := planned[slices.IndexFunc(planned, func(p *run) bool { return p.Name == r.Name })]
			env := p.env
			env["rows"], env["study"], env["temp"] = d.rows(), "STUDY", "TEMP"
			args, err := p.arguments(env)
			if err != nil {
				t.Fatalf("%s: %v", r.Name, err)
			}
			have, want := settings(args), settings(r.Args)
			for key, value := range want {
				if !same(have[key], value) {
					t.Errorf("%s: %s was %s, and the matrix has %s", r.Name, key, value, have[key])
				}
			}
			for key := range have {
				if _, ok := want[key]; !ok {
					t.Errorf("%s: the matrix has %s as well", r.Name, key)
				}
			}
		}
	})
}

// settings are the values of --set.
func settings(args []string) map[string]string {
	set := map[string]string{}
	for i, a := range args {
		if a == "--set" {
			key, value, _ := strings.Cut(args[i+1], "=")
			set[key] = value
		}
	}
	return set
}

// same reports whether two settings mean the same, although they may be written in another way.
func same(a, b string) bool {
	var x, y any
	return a == b || yaml.Unmarshal([]byte(a), &x) == nil && yaml.Unmarshal([]byte(b), &y) == nil && equal(plain(x), plain(y))
}

func equal(x, y any) bool {
	switch x := x.(type) {
	case []any:
		y, ok := y.([]any)
		return ok && slices.EqualFunc(x, y, equal)
	case map[string]any:
		y, ok := y.(map[string]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for k := range x {
			if !equal(x[k], y[k]) {
				return false
			}
		}
		return true
	}
	a, err := duration(x)
	b, too := duration(y)
	if err == nil && too == nil {
		return (a - b).Abs() < time.Microsecond
	}
	return x == y
}

// duration reads 0.5s, 500ms and 2/s, whose fraction is written in more than one way.
func duration(v any) (time.Duration, error) {
	text, _ := v.(string)
	if rate, ok := strings.CutSuffix(text, "/s"); ok {
		text = rate + "s"
	}
	return time.ParseDuration(text)
}

// What samples showed cannot be read again from a kept result, so it is compiled alone.
func TestSampledFiguresAreExpressions(t *testing.T) {
	each(t, func(t *testing.T, _ string, s *study, _ *data) {
		for _, g := range s.Runs {
			for _, f := range g.Sampled {
				if _, err := expr.Compile(fmt.Sprint(f.Value)); err != nil {
					t.Errorf("group %s, figure %v: %v", g.Group, f.Key, err)
				}
			}
		}
	})
}

func TestChartsOfKeptStudies(t *testing.T) {
	each(t, func(t *testing.T, dir string, s *study, d *data) {
		page, err := os.ReadFile(filepath.Join(dir, pageFile))
		must(t, err)
		env, err := s.environment(d)
		must(t, err)
		for i := range s.Charts {
			c := &s.Charts[i]
			if !strings.Contains(string(page), "]("+c.Name+".svg)") {
				t.Errorf("the page does not show %s.svg", c.Name)
			}
			svg, err := c.draw(env)
			must(t, err)
			checkXML(t, c.Name, svg)
		}
	})
}

func checkXML(t *testing.T, name string, text []byte) {
	t.Helper()
	for dec := xml.NewDecoder(bytes.NewReader(text)); ; {
		if _, err := dec.Token(); err == io.EOF {
			return
		} else if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, text)
		}
	}
}

// must ends the test if a step of it has failed.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
