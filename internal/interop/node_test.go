package interop

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// patience bounds every wait. Nothing here takes a tenth of it on an idle machine.
const patience = time.Minute

// script is a running script of testdata.
type script struct {
	t *testing.T
	// What the first line of its output says. Not every script has both.
	URL     string `json:"url"`
	Control string `json:"control"`

	in  io.WriteCloser
	out *bufio.Reader // the rest of its standard output
}

// needsPackages finds Node and the packages. Where they are missing the test is
// left out, unless the environment says that nothing may be missing.
func needsPackages(t *testing.T) {
	t.Helper()
	missing := ""
	if _, err := exec.LookPath("node"); err != nil {
		missing = "node is not installed: install the package nodejs"
	} else if err := installed(); err != nil {
		missing = fmt.Sprintf("%v: run npm ci --prefix internal/interop/testdata --ignore-scripts", err)
	}
	switch {
	case missing == "":
	case os.Getenv("EVENTMETER_REQUIRE_TOOLS") != "":
		t.Fatalf("%s (EVENTMETER_REQUIRE_TOOLS is set)", missing)
	default:
		t.Skip(missing)
	}
}

// installed compares the installed packages with package.json.
func installed() error {
	var wanted struct{ Dependencies map[string]string }
	if err := readJSON(filepath.Join("testdata", "package.json"), &wanted); err != nil {
		return err
	}
	for name, version := range wanted.Dependencies {
		var got struct{ Version string }
		err := readJSON(filepath.Join("testdata", "node_modules", filepath.FromSlash(name), "package.json"), &got)
		switch {
		case errors.Is(err, os.ErrNotExist):
			return fmt.Errorf("the npm package %s is not installed", name)
		case err != nil:
			return err
		case got.Version != version:
			return fmt.Errorf("the npm package %s is installed at %s, want %s", name, got.Version, version)
		}
	}
	return nil
}

func readJSON(file string, into any) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, into); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// start runs a script of testdata until the test ends, and reads its first line.
func start(t *testing.T, name string, args ...string) *script {
	t.Helper()
	needsPackages(t)
	cmd := exec.Command("node", append([]string{filepath.Join("testdata", name)}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// A script that hangs is killed, which ends its output and so every read of it.
	late := time.AfterFunc(2*patience, func() { _ = cmd.Process.Kill() })
	s := &script{t: t, in: in, out: bufio.NewReader(out)}
	t.Cleanup(func() {
		_ = in.Close() // its sign to end
		_, _ = io.Copy(io.Discard, s.out)
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, stderr.String())
		} else if t.Failed() && stderr.Len() > 0 {
			t.Logf("%s said on standard error:\n%s", name, stderr.String())
		}
		late.Stop()
	})
	line, err := s.out.ReadBytes('\n')
	if err != nil {
		t.Fatalf("%s: no first line: %v", name, err)
	}
	if err := json.Unmarshal(line, s); err != nil {
		t.Fatalf("%s: first line %q: %v", name, line, err)
	}
	return s
}

// control posts to the control endpoint and returns its answer.
func (s *script) control(path string, body any) (answer map[string]any) {
	s.t.Helper()
	call(s.t, http.MethodPost, s.Control+"/"+path, body, &answer)
	return answer
}

// stats are the counts of a script.
func stats[T any](s *script) (counts T) {
	s.t.Helper()
	call(s.t, http.MethodGet, s.Control+"/stats", nil, &counts)
	return counts
}

// call sends JSON and decodes the JSON that comes back with status 200.
func call(t *testing.T, method, url string, body, into any) {
	t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %s %s %v", method, url, resp.Status, got, err)
	}
	if err := json.Unmarshal(got, into); err != nil {
		t.Fatalf("%s %s: %q: %v", method, url, got, err)
	}
}

// until waits for a state that another process reaches.
func until(t *testing.T, what string, reached func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.Now().Add(patience)
	for !reached() {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v in vain for: %s", patience, what)
		}
		<-tick.C
	}
}
