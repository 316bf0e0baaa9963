package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/mcpload/mcpload/results"
)

// checkOut refuses a directory that holds a result already: a measurement cannot
// be had again, and one that is half overwritten is neither of the two. dir may
// be missing, or empty, or hold other things.
func checkOut(dir string) error {
	for _, pattern := range []string{results.File, results.CapacityFile, filepath.Join("*", results.File)} {
		// A pattern fails only if it is malformed, as a directory's name may be.
		found, err := filepath.Glob(filepath.Join(globQuote(dir), pattern))
		if err == nil && len(found) > 0 {
			return usageError{fmt.Errorf("--out %s: there is a result already, %s; choose another directory, or remove it", dir, found[0])}
		}
	}
	return nil
}

// globQuote writes a path so that a pattern means it and nothing else.
func globQuote(dir string) string {
	var out []rune
	for _, r := range dir {
		if r == '*' || r == '?' || r == '[' {
			out = append(out, '[', r, ']')
			continue
		}
		out = append(out, r)
	}
	return string(out)
}

// unused is dir, or where it is there already, from another run that began in
// the same second, the next like it that is not.
func unused(dir string) string {
	for n := 2; ; n++ {
		name := dir
		if n > 2 {
			name = fmt.Sprintf("%s-%d", dir, n-1)
		}
		if _, err := os.Lstat(name); os.IsNotExist(err) || n > 1000 {
			return name
		}
	}
}
