// Command proxy runs a command as if this checkout's modules had been released:
//
//	go run ./scripts/proxy xk6 build --with github.com/eventmeter/eventmeter/xk6-mcpevents@v0.1.0
//
// It packs the modules as the Go module proxy would, into a folder that the command
// has as its first proxy. The command also has a module cache of its own, so that the
// version does not stay on the machine. Other modules come from the machine's cache,
// or from where they came before.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// folders hold the modules that are released.
var folders = []string{".", "xk6-mcpevents"}

func main() {
	root := flag.String("root", ".", "folder of the checkout")
	version := flag.String("version", "v0.1.0", "version that the modules are released as")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "proxy: name the command to run, with its arguments")
		os.Exit(2)
	}
	err := run(*root, *version, flag.Args())
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.Exited() {
		os.Exit(exit.ExitCode())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "proxy:", err)
		os.Exit(1)
	}
}

// run runs a command that finds the modules under a version.
func run(root, version string, command []string) error {
	dir, err := os.MkdirTemp("", "eventmeter-proxy-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	for _, folder := range folders {
		if err := pack(filepath.Join(dir, "proxy"), filepath.Join(root, folder), version); err != nil {
			return fmt.Errorf("%s: %w", folder, err)
		}
	}
	env, err := environment(dir)
	if err != nil {
		return err
	}
	c := exec.Command(command[0], command[1:]...)
	c.Env, c.Stdin, c.Stdout, c.Stderr = env, os.Stdin, os.Stdout, os.Stderr
	return c.Run()
}

// environment is that of the command. The checkout's workspace is none of its own.
func environment(dir string) ([]string, error) {
	out, err := exec.Command("go", "env", "-json", "GOPROXY", "GOMODCACHE", "GOFLAGS", "GONOSUMDB").Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	var now struct{ GOPROXY, GOMODCACHE, GOFLAGS, GONOSUMDB string }
	if err := json.Unmarshal(out, &now); err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	proxies := []string{fileURL(filepath.Join(dir, "proxy")), fileURL(filepath.Join(now.GOMODCACHE, "cache", "download")), now.GOPROXY}
	return append(os.Environ(),
		"GOPROXY="+strings.Join(proxies, ","),
		"GOMODCACHE="+filepath.Join(dir, "modules"),
		"GOFLAGS="+strings.TrimSpace(now.GOFLAGS+" -modcacherw"), // so that it can be removed
		"GONOSUMDB="+strings.TrimPrefix(now.GONOSUMDB+",github.com/eventmeter", ","),
		"GOWORK=off",
	), nil
}

func fileURL(path string) string { return "file:///" + strings.TrimPrefix(filepath.ToSlash(path), "/") }

// pack writes the files that a proxy serves of a module: a list of versions, and the
// version's time, go.mod and zip.
func pack(proxy, folder, version string) error {
	mod, err := os.ReadFile(filepath.Join(folder, "go.mod"))
	if err != nil {
		return err
	}
	parsed, err := modfile.Parse("go.mod", mod, nil)
	if err != nil {
		return err
	}
	m := module.Version{Path: parsed.Module.Mod.Path, Version: version}
	escaped, err := module.EscapePath(m.Path)
	if err != nil {
		return err
	}
	to := filepath.Join(proxy, filepath.FromSlash(escaped), "@v")
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	info, err := json.Marshal(map[string]any{"Version": version, "Time": time.Now().UTC()})
	if err != nil {
		return err
	}
	for name, text := range map[string][]byte{"list": []byte(version + "\n"), version + ".info": info, version + ".mod": mod} {
		if err := os.WriteFile(filepath.Join(to, name), text, 0o644); err != nil {
			return err
		}
	}
	files, err := filesOf(folder)
	if err != nil {
		return err
	}
	out, err := os.Create(filepath.Join(to, version+".zip"))
	if err != nil {
		return err
	}
	// Create leaves out the modules within the folder.
	return errors.Join(zip.Create(out, m, files), out.Close())
}

// filesOf are the files of a folder that git knows, or would add.
func filesOf(folder string) (files []zip.File, err error) {
	c := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate")
	c.Dir = folder
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		f := file{folder, name}
		if _, err := f.Lstat(); err == nil { // not removed
			files = append(files, f)
		}
	}
	return files, nil
}

// file is a file of a module.
type file struct{ folder, name string }

func (f file) Path() string                 { return f.name }
func (f file) Lstat() (os.FileInfo, error)  { return os.Lstat(filepath.Join(f.folder, f.name)) }
func (f file) Open() (io.ReadCloser, error) { return os.Open(filepath.Join(f.folder, f.name)) }
