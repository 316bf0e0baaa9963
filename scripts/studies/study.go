package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// study is a question and its answer. Its exported fields are the data of the answer, in units that
// their names say.
type study interface {
	// measure makes the runs and sets the fields.
	measure(ctx context.Context, l *lab) error
	// write writes the page, from the fields alone.
	write(p *page)
}

// entry is a study in the list.
type entry struct {
	name     string
	question string // the title of its page
	empty    func() study
}

// all is the list of the studies, in the order in which they are shown.
var all = []entry{
	{"leak", "Is a leak found, and is a clean server accused?", func() study { return &leak{} }},
	{"modes", "What does an event cost by poll, long poll, push and webhook, and how long does it take?", func() study { return &modes{} }},
	{"saturation", "Where does each mode stop keeping up, and what becomes of the oldest event?", func() study { return &saturation{} }},
	{"lists", "Time to live or list_changed: how stale are lists, what does it cost, and when do all clients ask at once?", func() study { return &lists{} }},
	{"throttle", "What does a throttled server look like to its clients?", func() study { return &throttle{} }},
	{"ttl", "What does a TTL really cost?", func() study { return &ttlStudy{} }},
	{"slow-host", "Does one slow callback host delay the others?", func() study { return &slowHost{} }},
	{"races", "How wide are the races of webhooks?", func() study { return &races{} }},
	{"reconnect", "What happens when all streams are lost at once?", func() study { return &reconnect{} }},
	{"bystanders", "What do idle streams cost the clients beside them?", func() study { return &bystanders{} }},
	{"streams", "What does a stream for each subscription cost?", func() study { return &streams{} }},
	{"plan", "Does a plan predict what a load takes?", func() study { return &plans{} }},
}

func find(name string) (entry, error) {
	i := slices.IndexFunc(all, func(e entry) bool { return e.name == name })
	if i < 0 {
		names := make([]string, len(all))
		for i, e := range all {
			names[i] = e.name
		}
		return entry{}, fmt.Errorf("no study %q; there are %s", name, strings.Join(names, ", "))
	}
	return all[i], nil
}

const (
	schema   = "eventmeter.study/1"
	dataFile = "data.json"
	pageFile = "README.md"
)

// file is data.json.
type file struct {
	Schema   string          `json:"schema"`
	Study    string          `json:"study"`
	Scale    float64         `json:"scale"` // 1 = the size that the study is meant to have
	Started  time.Time       `json:"started"`
	Finished time.Time       `json:"finished"`
	Partial  bool            `json:"partial,omitempty"` // it ended early
	Machine  machine         `json:"machine"`
	Runs     []runRecord     `json:"runs"` // in the order in which they ended
	Data     json.RawMessage `json:"data"`
}

func (f *file) save(dir string, s study) error {
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	f.Data = data
	text, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, dataFile), append(text, '\n'), 0o644)
}

// writeAgain writes the page of a study from its data.
func writeAgain(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, dataFile))
	if err != nil {
		return err
	}
	var f file
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(dir, dataFile), err)
	}
	switch {
	case f.Schema != schema:
		return fmt.Errorf("%s: schema %q, want %s", filepath.Join(dir, dataFile), f.Schema, schema)
	case f.Partial:
		return fmt.Errorf("%s: the study ended early, and has no page", dir)
	}
	e, err := find(f.Study)
	if err != nil {
		return err
	}
	s := e.empty()
	if err := json.Unmarshal(f.Data, s); err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(dir, dataFile), err)
	}
	p := &page{entry: e, file: f, charts: map[string]chart{}}
	s.write(p)
	if p.lead == "" {
		return errors.New("the page does not begin with an answer")
	}
	for name, c := range p.charts {
		if err := os.WriteFile(filepath.Join(dir, name), c.svg(), 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(dir, pageFile), p.markdown(), 0o644)
}
