// Command typecheck finds what does not compile for other systems, in a tenth of the time that
// compiling takes there, where nothing is compiled yet: it checks the types of packages and of all
// that they import, from source.
//
//	go run ./tools/typecheck darwin/arm64 windows/amd64
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"
)

func main() {
	failed := false
	for _, system := range os.Args[1:] {
		goos, goarch, ok := strings.Cut(system, "/")
		if !ok {
			fmt.Fprintf(os.Stderr, "typecheck: %s: want GOOS/GOARCH\n", system)
			os.Exit(2)
		}
		if err := check(goos, goarch); err != nil {
			failed = true
			fmt.Fprintf(os.Stderr, "typecheck: %s: %v\n", system, err)
		}
	}
	if failed {
		os.Exit(1)
	}
}

// listed is a package as go list describes it.
type listed struct {
	ImportPath, Dir string
	GoFiles         []string
	ImportMap       map[string]string // of the paths in the source that mean another package
	DepOnly         bool

	files []*ast.File
}

// check checks the packages of the working directory's module for a system.
func check(goos, goarch string) error {
	list, err := list(goos, goarch)
	if err != nil {
		return err
	}
	files, err := parse(list)
	if err != nil {
		return err
	}
	known := map[string]*types.Package{"unsafe": types.Unsafe}
	var found []error
	for _, p := range list { // each after those that it imports
		config := types.Config{
			Importer:         importer{p.ImportMap, known},
			Sizes:            types.SizesFor("gc", goarch),
			IgnoreFuncBodies: p.DepOnly,
			Error:            func(err error) { found = append(found, err) },
		}
		if p.ImportPath != "unsafe" {
			known[p.ImportPath], _ = config.Check(p.ImportPath, files, p.files, nil) // see Error
		}
	}
	return errors.Join(found...)
}

// list returns the packages of the module, after all that they import.
func list(goos, goarch string) ([]*listed, error) {
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Dir,GoFiles,ImportMap,DepOnly", "./...")
	cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	var all []*listed
	for dec := json.NewDecoder(out); err == nil; {
		p := &listed{}
		if err = dec.Decode(p); err == nil {
			all = append(all, p)
		}
	}
	if wait := cmd.Wait(); wait != nil {
		return nil, fmt.Errorf("go list: %w", wait)
	}
	if !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("go list: %w", err)
	}
	return all, nil
}

// parse reads the files of the packages.
func parse(list []*listed) (*token.FileSet, error) {
	files := token.NewFileSet()
	var work errgroup.Group
	for _, p := range list {
		work.Go(func() error {
			for _, name := range p.GoFiles {
				f, err := parser.ParseFile(files, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
				if err != nil {
					return err
				}
				p.files = append(p.files, f)
			}
			return nil
		})
	}
	return files, work.Wait()
}

// importer finds the packages that a package imports among those that were checked.
type importer struct {
	as    map[string]string
	known map[string]*types.Package
}

// Import implements [types.Importer].
func (i importer) Import(path string) (*types.Package, error) {
	if real, ok := i.as[path]; ok {
		path = real
	}
	if p, ok := i.known[path]; ok {
		return p, nil
	}
	return nil, fmt.Errorf("there is no package %s", path)
}
