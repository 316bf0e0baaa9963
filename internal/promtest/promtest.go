// Package promtest runs a real Prometheus for tests: on a folder of the test's and a port that the
// system chooses, with native histograms and the receiver of remote write on. Other Prometheus
// servers on the machine do not interfere.
package promtest

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/internal/exectest"
)

// Server is a Prometheus that a test started. It ends with the test. Its methods
// are for the test's goroutine.
type Server struct {
	// URL is where it is, http://127.0.0.1:PORT.
	URL string

	config, base string // the file, and all of it but the targets
	log          *lines
}

// Options of a server; the zero value scrapes nothing until [Server.Scrape] is called.
type Options struct {
	// Every is the time between two scrapes, [Every] by default.
	Every time.Duration
	// Rules are files of rules, and may be patterns.
	Rules []string
	// Program is the Prometheus to run instead of the one on the PATH.
	Program string
}

// Every is the default time between two scrapes.
const Every = time.Second

// Program finds Prometheus. If it is missing, the test is skipped, unless the environment requires
// all tools.
func Program(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("prometheus")
	if err == nil {
		return path
	}
	if os.Getenv("CI") != "" || os.Getenv("EVENTMETER_REQUIRE_TOOLS") != "" {
		t.Fatal("prometheus is not installed, and CI or EVENTMETER_REQUIRE_TOOLS is set")
	}
	t.Skip("prometheus is not installed: install it to run this test")
	return ""
}

// startTimeout is for a machine that is busy with other tests.
const startTimeout = 2 * time.Minute

// Start starts a server and returns when it answers.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	program := o.Program
	if program == "" {
		program = Program(t)
	}
	if o.Every <= 0 {
		o.Every = Every
	}
	dir := t.TempDir()
	s := &Server{config: filepath.Join(dir, "prometheus.yml"), log: &lines{found: make(chan string, 1)}}
	s.base = o.config()
	if err := os.WriteFile(s.config, []byte(s.base), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exectest.CommandContext(ctx, program,
		"--config.file="+s.config, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address=127.0.0.1:0",
		"--enable-feature=native-histograms", "--web.enable-remote-write-receiver", "--web.enable-lifecycle", "--log.level=info")
	cmd.Dir, cmd.Stderr, cmd.Stdout = dir, s.log, s.log
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	over := false
	t.Cleanup(func() {
		cancel()
		if !over {
			<-ended
		}
	})
	select {
	case s.URL = <-s.log.found:
	case err := <-ended:
		over = true
		t.Fatalf("prometheus ended: %v\n%s", err, s.log)
	case <-time.After(startTimeout):
		t.Fatalf("prometheus does not listen\n%s", s.log)
	}
	Await(t, "prometheus to be ready", func() bool {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/-/ready", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	return s
}

// config is the configuration of a server that scrapes nothing yet.
func (o *Options) config() string {
	every := o.Every.Milliseconds()
	text := fmt.Sprintf("global:\n  scrape_interval: %dms\n  scrape_timeout: %dms\n  evaluation_interval: %dms\n", every, every, every)
	if len(o.Rules) > 0 {
		text += "rule_files:\n"
	}
	for _, r := range o.Rules {
		text += fmt.Sprintf("  - %q\n", r)
	}
	return text
}

// Await waits until a state is reached.
func Await(t testing.TB, what string, reached func() bool) {
	t.Helper()
	for end := time.Now().Add(startTimeout); !reached(); {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// WriteURL is where it takes remote writes.
func (s *Server) WriteURL() string { return s.URL + "/api/v1/write" }

// Scrape makes the server scrape exactly these targets, each HOST:PORT. It takes effect within five
// seconds, the interval at which Prometheus reloads targets.
func (s *Server) Scrape(t testing.TB, targets ...string) {
	t.Helper()
	quoted := make([]string, len(targets))
	for i, target := range targets {
		quoted[i] = fmt.Sprintf("%q", target)
	}
	text := fmt.Sprintf(
		"%sscrape_configs:\n  - job_name: eventmeter\n    static_configs: [{targets: [%s]}]\n",
		s.base,
		strings.Join(quoted, ", "),
	)
	if err := os.WriteFile(s.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/-/reload", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if said, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK {
		t.Fatalf("prometheus does not reload: %s %s\n%s", resp.Status, said, s.log)
	}
}

// listening is the message of Prometheus once it has a port.
var listening = regexp.MustCompile(`msg="Listening on".* address=(\S+)`)

// lines keeps the output of the program and extracts its address.
type lines struct {
	mu    sync.Mutex
	all   bytes.Buffer
	found chan string
	told  bool
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, err := l.all.Write(b)
	if l.told {
		return n, err
	}
	for s := bufio.NewScanner(bytes.NewReader(l.all.Bytes())); s.Scan(); {
		if m := listening.FindStringSubmatch(s.Text()); m != nil {
			l.told = true
			l.found <- "http://" + m[1]
			break
		}
	}
	return n, err
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}
