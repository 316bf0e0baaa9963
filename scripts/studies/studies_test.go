package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// fake is a study that makes no runs.
type fake struct {
	Answer float64 `json:"answer"`
	fails  bool
}

func (f *fake) measure(context.Context, *lab) error {
	f.Answer = 42
	if f.fails {
		return errors.New("no more")
	}
	return nil
}

func (f *fake) write(p *page) {
	p.answer("**It is %s.**", number(f.Answer))
	p.heading("Figures")
	p.table([]string{"what", "how many"}, [][]string{{"a <b>", count(1234567)}})
	p.chart("line", "a line", chart{title: "T & U", x: axis{title: "x", log: true}, y: axis{title: "y"}, series: []series{{name: "s", points: []point{{x: 1, y: 2}, {x: 100, y: 4, low: 3, high: 5}}}}})
	p.changesIt("Another question.")
}

func TestPage(t *testing.T) {
	dir := t.TempDir()
	defer func(old []entry) { all = old }(all)
	all = []entry{{"fake", "What is the answer?", func() study { return &fake{} }}}
	f := file{Schema: schema, Study: "fake", Scale: 1, Machine: machine{OS: "linux", Arch: "amd64", Kernel: "6", CPUs: 2, Go: "go1"},
		Runs: []runRecord{{Name: "a", Load: 0.5}, {Name: "b", Load: 1.5, Bottleneck: []string{"slow"}}}}
	f.Started = time.Date(2026, 11, 26, 10, 0, 0, 0, time.UTC)
	f.Finished = f.Started.Add(90 * time.Second)
	if err := f.save(dir, &fake{Answer: 42}); err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), []string{"-page", dir}, io.Discard, io.Discard); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, pageFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"# What is the answer?\n\n**It is 42.0.**\n\n## Figures", "| a <b> | 1\u202f234\u202f567 |", "![a line](line.svg)",
		"2026-11-26, linux/amd64, kernel 6, go1, 2 processors", "The load average was 0.5 to 1.5", "bottleneck in 1 of them** (`b`)", "- Another question.\n",
		"go run ./scripts/studies fake\n", "It takes about 2 minutes",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(string(text), "small trial") {
		t.Error("a study of full size is called a trial")
	}
	svg, err := os.ReadFile(filepath.Join(dir, "line.svg"))
	if err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		if _, err := d.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	// The plot is 626 wide from 78 and 300 high from 344 upwards; y ends at 5 because of the interval.
	for _, want := range []string{"M78.0 224.0L704.0 104.0", "M704.0 164.0V44.0", ">10</text>", "T &amp; U"} {
		if !strings.Contains(string(svg), want) {
			t.Errorf("no %q in\n%s", want, svg)
		}
	}
}

func TestPageOfAnotherFile(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"no JSON":         {"{", "unexpected EOF"},
		"another schema":  {`{"schema":"eventmeter.result/1"}`, `schema "eventmeter.result/1", want eventmeter.study/1`},
		"another field":   {`{"schema":"eventmeter.study/1","more":1}`, "unknown field"},
		"an unknown name": {`{"schema":"eventmeter.study/1","study":"nothing"}`, `no study "nothing"; there are `},
		"a part":          {`{"schema":"eventmeter.study/1","partial":true}`, "the study ended early"},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, dataFile), []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := writeAgain(dir); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestArguments(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"nothing"}, `no study "nothing"`},
		{[]string{"a", "b"}, "one study at a time"},
		{[]string{"-scale", "2", "a"}, "want a scale of 0.001 to 1"},
		{[]string{"-scale", "NaN", "a"}, "want a scale of 0.001 to 1"},
		{[]string{"-page", "x", "a"}, "-page takes no name"},
	} {
		if err := run(t.Context(), c.args, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v", c.args, err)
		}
	}
	var out bytes.Buffer
	if err := run(t.Context(), nil, &out, io.Discard); err != nil || strings.Count(out.String(), "\n") != len(all) {
		t.Errorf("%v\n%s", err, &out)
	}
}

// A page of every kept study is what its data say.
func TestKeptPages(t *testing.T) {
	kept, err := filepath.Glob("../../results/studies/*/" + dataFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, data := range kept {
		dir := filepath.Dir(data)
		again := t.TempDir()
		text, err := os.ReadFile(data)
		if err != nil {
			t.Fatal(err)
		}
		var f file
		if err := json.Unmarshal(text, &f); err != nil || f.Scale != maxScale {
			t.Errorf("%s: scale %g, %v", dir, f.Scale, err)
		}
		if err := os.WriteFile(filepath.Join(again, dataFile), text, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := writeAgain(again); err != nil {
			t.Error(err)
			continue
		}
		made, err := filepath.Glob(filepath.Join(again, "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range made {
			want, err := os.ReadFile(m)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(filepath.Join(dir, filepath.Base(m))); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s is not what its data say (%v); go run ./scripts/studies -page %s", filepath.Join(dir, filepath.Base(m)), err, dir)
			}
		}
		for _, r := range f.Runs {
			if _, err := os.Stat(filepath.Join(dir, "runs", r.Name+".json.gz")); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestNumbers(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.0012345: "0.00123", 1.234: "1.23", 56.78: "56.8", 123.4: "123", 1234.5: "1\u202f235", -12345: "-12\u202f345"} {
		if got := number(v); got != want {
			t.Errorf("%v: %q, want %q", v, got, want)
		}
	}
	if got := number(math.NaN()); got != "–" {
		t.Errorf("NaN: %q", got)
	}
	for d, want := range map[time.Duration]string{90 * time.Second: "1m30s", 1500 * time.Millisecond: "1.50 s", 12345 * time.Microsecond: "12.3 ms", 42 * time.Microsecond: "42.0 µs"} {
		if got := duration(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
	if got := spreadOf([]float64{3, 1, 2, 10}).String(); got != "2.50 (1.00–10.0)" {
		t.Errorf("spread: %s", got)
	}
	if got := spreadOf([]float64{3}).String(); got != "3.00" {
		t.Errorf("spread of one: %s", got)
	}
}
