package goldens

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// kept are outputs that the tree keeps, and that tests of their own make again. Here
// are only their hashes, so that a change of them is seen beside the others.
var kept = []string{
	"docs/profile.md", "profiles/profile.schema.json", "results/testdata/*.keys", "cmd/eventmeter/testdata/*.golden",
	"sinks/ledger/testdata/*.keys", "xk6-mcpevents/index.d.ts",
}

func TestKept(t *testing.T) {
	var out strings.Builder
	for _, pattern := range kept {
		files, err := filepath.Glob(filepath.Join(home, "..", "..", filepath.FromSlash(pattern)))
		must(t, err)
		for _, file := range files {
			fmt.Fprintf(&out, "%x  %s\n", sha256.Sum256(read(t, file)), named(t, file))
		}
	}
	golden(t, "kept.txt", out.String())
}

// What each driver must send, to the byte, is in hand-written files that the drivers'
// tests play. Here are the requests that each file has, and a hash of them all.
func TestWireFiles(t *testing.T) {
	var out strings.Builder
	for _, kind := range []string{"wire", "stdio"} {
		files, err := filepath.Glob(filepath.Join(home, "..", "..", "loadgen", "driver", "*", "testdata", kind, "*.txtar"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no files: %v", err)
		}
		slices.Sort(files)
		for _, file := range files {
			sent, requests := sha256.New(), 0
			for _, f := range txtar.Parse(read(t, file)).Files {
				if f.Name != "request" && f.Name != "reply" {
					continue
				}
				requests++
				sent.Write(f.Data)
			}
			fmt.Fprintf(&out, "%.8x  %2d  %s\n", sent.Sum(nil), requests, named(t, file))
		}
	}
	golden(t, "wire.txt", out.String())
}

// read reads a file as it is in the repository, whatever the ends of lines here.
func read(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	must(t, err)
	return bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
}

// named is the path of a file in the repository.
func named(t *testing.T, file string) string {
	t.Helper()
	name, err := filepath.Rel(filepath.Join(home, "..", ".."), file)
	must(t, err)
	return filepath.ToSlash(name)
}
