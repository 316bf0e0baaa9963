// Command proxy runs a command as if this checkout's modules had been released:
//
//	go run ./scripts/proxy xk6 build --with github.com/eventmeter/eventmeter/xk6-mcpevents@v0.1.0
//
// It packs the modules as the Go module proxy would, and serves them on the loopback
// interface while the command runs. Other modules come from the machine's cache, or from
// the proxies that it had before. All of them come from one address, because xk6 takes
// GOPROXY for one; where it cannot read the extension's go.mod it builds another major
// version of k6, in which the extension is missing without an error. The command also has
// a module cache of its own, so that the version does not stay on the machine.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path"
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
	env, err := settings()
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s := &http.Server{Handler: proxy(filepath.Join(dir, "proxy"), env), ReadHeaderTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	c := exec.Command(command[0], command[1:]...)
	c.Env = append(os.Environ(),
		"GOPROXY=http://"+l.Addr().String(),
		"GOMODCACHE="+filepath.Join(dir, "modules"),
		"GOFLAGS="+strings.TrimSpace(env.GOFLAGS+" -modcacherw"), // so that it can be removed
		"GONOSUMDB="+strings.TrimPrefix(env.GONOSUMDB+",github.com/eventmeter", ","),
		"GOWORK=off", // the checkout's workspace is none of its own
	)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	err = c.Run()
	_ = s.Close()
	<-served
	return err
}

// environment is what the machine is set to.
type environment struct{ GOPROXY, GOMODCACHE, GOFLAGS, GONOSUMDB string }

func settings() (environment, error) {
	var env environment
	out, err := exec.Command("go", "env", "-json", "GOPROXY", "GOMODCACHE", "GOFLAGS", "GONOSUMDB").Output()
	if err == nil {
		err = json.Unmarshal(out, &env)
	}
	if err != nil {
		return env, fmt.Errorf("go env: %w", err)
	}
	return env, nil
}

// proxy is a Go module proxy of the modules in a folder and of those that the machine can
// have. Where one place has no answer, the next is asked.
func proxy(folder string, env environment) http.Handler {
	folders := []string{folder, filepath.Join(env.GOMODCACHE, "cache", "download")}
	others := strings.FieldsFunc(env.GOPROXY, func(r rune) bool { return r == ',' || r == '|' })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, folder := range folders {
			// A list in the cache has only the versions that were asked for.
			if name := filepath.Join(folder, filepath.FromSlash(path.Clean(r.URL.Path))); isFile(name) && (folder == folders[0] || path.Base(name) != "list") {
				http.ServeFile(w, r, name)
				return
			}
		}
		for _, other := range others {
			if strings.HasPrefix(other, "http") && relay(w, r, strings.TrimSuffix(other, "/")+r.URL.EscapedPath()) {
				return
			}
		}
		http.NotFound(w, r)
	})
}

func isFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}

// relay passes on what another proxy has at an address. It reports whether it has something.
func relay(w http.ResponseWriter, r *http.Request, address string) bool {
	req, err := http.NewRequestWithContext(r.Context(), http.MethodGet, address, nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	if resp.StatusCode != http.StatusOK {
		return false
	}
	_, _ = io.Copy(w, resp.Body) // a proxy that breaks off is seen by the checksum
	return true
}

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
