package eventmeter_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestRecipeOfASystem holds the checklist in CONTRIBUTING.md to the tree: each
// file that it names exists, and holds the names that it says are there.
func TestRecipeOfASystem(t *testing.T) {
	text, err := os.ReadFile("CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	_, recipe, ok := strings.Cut(string(text), "**… a system**")
	recipe, _, ok2 := strings.Cut(recipe, "**… an upstream**")
	if !ok || !ok2 {
		t.Fatal("there is no recipe")
	}
	files := 0
	for _, name := range regexp.MustCompile("`([a-zA-Z0-9_/.]+\\.(?:go|md))`").FindAllStringSubmatch(recipe, -1) {
		if strings.Contains(name[1], "NAME") {
			continue
		}
		files++
		if _, err := os.Stat(name[1]); err != nil {
			t.Error(err)
		}
	}
	if files < 10 {
		t.Errorf("only %d files are named", files)
	}
	named := 0
	for _, m := range regexp.MustCompile("((?:`[a-zA-Z]+`(?:, )?)+) (?:in|of) `([a-zA-Z0-9_/.]+\\.go)`").FindAllStringSubmatch(recipe, -1) {
		source, err := os.ReadFile(m[2])
		if err != nil {
			continue // said above
		}
		for _, name := range strings.Split(m[1], ", ") {
			named++
			if name = strings.Trim(name, "`"); !regexp.MustCompile(`\b` + name + `\b`).Match(source) {
				t.Errorf("%s has no %s", m[2], name)
			}
		}
	}
	if named < 6 {
		t.Errorf("only %d names are looked up", named)
	}
}
