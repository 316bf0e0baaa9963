package eventmeter_test

import (
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

var (
	mdFence = regexp.MustCompile("(?ms)^```.*?^```$")
	mdCode  = regexp.MustCompile("`[^`\n]*`")
	mdLink  = regexp.MustCompile(`\]\(([^()\s]+)\)|(?:src|srcset|href)="([^"]+)"`)
	mdHead  = regexp.MustCompile(`(?m)^#{1,6} +(.+)$`)
)

// TestLinks follows every link of every page of the tree that leads to another
// file of it, and to a section where it names one.
func TestLinks(t *testing.T) {
	pages := 0
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		slashed := filepath.ToSlash(name)
		if d.IsDir() && name != "." &&
			(strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "node_modules" || slashed == "results/runs") {
			return fs.SkipDir
		}
		if path.Ext(slashed) != ".md" || d.IsDir() {
			return nil
		}
		pages++
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for _, link := range linksOf(string(text)) {
			if why := follow(slashed, link); why != "" {
				t.Errorf("%s: %s: %s", slashed, link, why)
			}
		}
		return nil
	})
	must(t, err)
	if pages < 20 {
		t.Errorf("only %d pages were found", pages)
	}
}

func linksOf(text string) (out []string) {
	text = mdCode.ReplaceAllString(mdFence.ReplaceAllString(text, ""), "")
	for _, m := range mdLink.FindAllStringSubmatch(text, -1) {
		out = append(out, m[1]+m[2])
	}
	return out
}

// follow says what is wrong with a link of a page; nothing, of one that leads
// out of the tree.
func follow(page, link string) string {
	u, err := url.Parse(link)
	if err != nil {
		return err.Error()
	}
	if u.Scheme != "" || u.Host != "" {
		return ""
	}
	to := page
	if u.Path != "" {
		to = path.Join(path.Dir(page), u.Path)
	}
	if _, err := os.Stat(filepath.FromSlash(to)); err != nil {
		return "there is no " + to
	}
	if u.Fragment == "" || path.Ext(to) != ".md" {
		return ""
	}
	text, err := os.ReadFile(filepath.FromSlash(to))
	if err != nil {
		return err.Error()
	}
	for _, m := range mdHead.FindAllStringSubmatch(mdFence.ReplaceAllString(string(text), ""), -1) {
		if slug(m[1]) == u.Fragment {
			return ""
		}
	}
	return to + " has no section of that name"
}

// slug is what a heading is called in links, as GitHub makes it.
func slug(heading string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c == ' ':
			return '-'
		case c == '-' || c == '_' || unicode.IsLetter(c) || unicode.IsDigit(c):
			return unicode.ToLower(c)
		}
		return -1
	}, strings.TrimSpace(heading))
}

// TestPictures: pages of documentation are read over slow lines, too.
func TestPictures(t *testing.T) {
	pictures, err := filepath.Glob("docs/images/*")
	if err != nil || len(pictures) == 0 {
		t.Fatalf("%d pictures, %v", len(pictures), err)
	}
	for _, name := range pictures {
		if info, err := os.Stat(name); err != nil || info.Size() > 300<<10 {
			t.Errorf("%s: %v, want at most 300 KiB", name, err)
		}
	}
}

// TestFollow: the test of links finds what is wrong with one.
func TestFollow(t *testing.T) {
	for link, wrong := range map[string]bool{
		"CONTRIBUTING.md": false, "docs/figures.md#latency": false, "https://example.com/nothing": false, "#three-ways-on": false, "docs": false,
		"docs/nothing.md": true, "docs/figures.md#nothing": true, "../LICENSE": true, "#nothing": true,
	} {
		if why := follow("README.md", link); (why != "") != wrong {
			t.Errorf("%s: %q", link, why)
		}
	}
	if got := linksOf("[a](b.md) `[c](d.md)` <img src=\"e.png\">\n```\n[f](g.md)\n```\n"); strings.Join(got, " ") != "b.md e.png" {
		t.Errorf("links %q", got)
	}
}
