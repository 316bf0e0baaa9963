package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/eventmeter/eventmeter/internal/report"
	"github.com/eventmeter/eventmeter/internal/stats"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/results"
)

// loadPage reads the data of a run's HTML report from its archive. A checkpoint has
// no curves, and neither has an archive without logs or a lane without measured
// deliveries.
func loadPage(dir string, r *results.Result) (report.Page, error) {
	p := report.Page{Name: filepath.Base(filepath.Clean(dir)), Result: r, Logs: map[string]*results.Log{}, Profile: profileText(r)}
	if r.Checkpoint {
		return p, nil
	}
	for _, l := range r.Lanes {
		log, err := results.LoadLog(dir, l.Name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return p, err
		}
		p.Logs[l.Name] = log
	}
	t, err := results.LoadTimelines(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return p, err
	}
	p.Timelines = t
	return p, nil
}

// profileText returns the profile of a result in a form that can be run again. It is
// empty if this version cannot read the profile of the version that wrote the result.
func profileText(r *results.Result) string {
	p, err := profiles.FromJSON(r.Profile, systems.Table)
	if err != nil {
		return ""
	}
	text, err := p.YAML()
	if err != nil {
		return ""
	}
	return string(text)
}

// reportPage is the HTML report in an archive.
const reportPage = "report.html"

// writePage adds report.html and the profile to the archive of a run.
func writePage(dir string) error {
	r, err := results.Load(dir)
	if err != nil {
		return err
	}
	p, err := loadPage(dir, r)
	if err != nil {
		return err
	}
	p.Name = "" // the page shows a single run
	if p.Profile != "" {
		if err := results.WriteFile(filepath.Join(dir, "profile.yaml"), func(w io.Writer) error {
			_, err := io.WriteString(w, p.Profile)
			return err
		}); err != nil {
			return err
		}
	}
	return results.WriteFile(filepath.Join(dir, reportPage), func(w io.Writer) error { return report.HTML(w, []report.Page{p}) })
}

// comparisonPage writes a comparison. The runs of a pair are overlaid below it; those of trials are
// not.
func comparisonPage(w io.Writer, c *stats.Comparison) error {
	var dirs []string
	for _, s := range []stats.SideInfo{c.A, c.B} {
		if len(s.Runs) != 1 {
			return report.CompareHTML(w, c, nil)
		}
		dirs = append(dirs, s.Runs[0].Path)
	}
	pages, err := loadPages(dirs)
	if err != nil {
		return err
	}
	return report.CompareHTML(w, c, pages)
}

// overlay writes one HTML report of several archives.
func overlay(w io.Writer, dirs []string) error {
	pages, err := loadPages(dirs)
	if err != nil {
		return err
	}
	return report.HTML(w, pages)
}

// loadPages reads archives strictly. Pages of several have names that differ.
func loadPages(dirs []string) ([]report.Page, error) {
	var pages []report.Page
	seen := map[string]int{}
	for _, dir := range dirs {
		r, err := results.Rebuild(dir)
		if err != nil {
			return nil, usageError{err}
		}
		p, err := loadPage(dir, r)
		if err != nil {
			return nil, usageError{err}
		}
		if seen[p.Name]++; seen[p.Name] > 1 {
			p.Name = fmt.Sprintf("%s (%d)", p.Name, seen[p.Name])
		}
		pages = append(pages, p)
	}
	if len(pages) == 1 {
		pages[0].Name = ""
	}
	return pages, nil
}
