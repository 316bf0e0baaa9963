package mcpevents_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/eventmeter/eventmeter/internal/exectest"
)

// segment is what one k6 process of several is told, and what it said.
type segment struct {
	args, env []string
	out       string
	code      int
}

// runSegments runs a script in two processes at the same time. Each gets the
// arguments that with returns for its number.
func runSegments(t *testing.T, script string, with func(i int) (args, env []string)) []segment {
	t.Helper()
	target, admin := serve(t)
	parts := []string{"0:1/2", "1/2:1"}
	all := make([]segment, len(parts))
	var over sync.WaitGroup
	for i, part := range parts {
		s := &all[i]
		s.args, s.env = with(i)
		args := append([]string{
			"run", "-q", "--address", "", "--no-color", "--execution-segment", part, "--execution-segment-sequence", "0,1/2,1",
		}, s.args...)
		c := exectest.Command(k6Bin, append(args, "-e", "TARGET="+target, "-e", "ADMIN="+admin, script)...)
		c.Env = append(os.Environ(), s.env...)
		over.Go(func() {
			out, err := c.CombinedOutput()
			s.out, s.code = string(out), c.ProcessState.ExitCode()
			if err != nil {
				t.Errorf("segment %s: %v\n%s", part, err, out)
			}
		})
	}
	over.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return all
}

// sample is a line of k6's JSON output.
type sample struct {
	Type, Metric string
	Data         struct {
		Value float64
		Tags  map[string]string
	}
}

// sums adds the samples of each metric up, and counts them.
func sums(t *testing.T, path string) (sum map[string]float64, count map[string]int) {
	t.Helper()
	f, err := os.Open(path)
	must(t, err)
	defer f.Close()
	sum, count = map[string]float64{}, map[string]int{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var s sample
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
			t.Fatalf("%v: %s", err, lines.Bytes())
		}
		if s.Type == "Point" {
			sum[s.Metric] += s.Data.Value
			count[s.Metric]++
		}
	}
	must(t, lines.Err())
	return sum, count
}

// What the example comes to: 4 VUs with 5 streams, each of which fires 20
// events that its own streams hear.
const (
	segmentStreams = 4 * 5
	segmentEvents  = segmentStreams * 20
)

// TestSegments: two processes open and fire their halves, and hear nothing of
// each other.
func TestSegments(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(i int) string { return filepath.Join(dir, strconv.Itoa(i)+".json") }
	runSegments(t, "examples/segments.js", func(i int) (args, env []string) { return []string{"-o", "json=" + file(i)}, nil })
	for i := range 2 {
		sum, count := sums(t, file(i))
		for metric, want := range map[string]float64{
			"iterations": 2, "mcp_events_expected": segmentEvents / 2, "mcp_events_delivered": segmentEvents / 2, "mcp_events_lost": 0,
			"mcp_events_lost_announced": 0, "mcp_events_lost_order_unknown": 0, "mcp_event_duplicate_copies": 0,
			"mcp_events_unexpected": 0, "mcp_event_duplicates": 0,
		} {
			if got, ok := sum[metric]; !ok || got != want {
				t.Errorf("segment %d: %s %v, want %v", i, metric, got, want)
			}
		}
		if n := count["mcp_event_latency"]; n != segmentEvents/2 {
			t.Errorf("segment %d: %d latencies, want %d", i, n, segmentEvents/2)
		}
		if n := count["mcp_time_to_ready"]; n != segmentStreams/2 {
			t.Errorf("segment %d: %d times to ready, want %d", i, n, segmentStreams/2)
		}
	}
}

// TestSegmentsRemoteWrite: the same, into a real Prometheus, whose sums must be
// those of the whole.
func TestSegmentsRemoteWrite(t *testing.T) {
	t.Parallel()
	base := prometheus(t)
	deployed, environment := testRun(t)
	runSegments(t, "examples/segments.js", func(i int) (args, env []string) {
		// What comes later takes the place of what came before.
		return append(slices.Clone(deployed), "--tag", fmt.Sprintf("instance_id=%d", i)),
			append(slices.Clone(environment), "K6_PROMETHEUS_RW_SERVER_URL="+base+"/api/v1/write", "K6_PROMETHEUS_RW_PUSH_INTERVAL=200ms")
	})
	for query, want := range map[string]float64{
		`sum(k6_mcp_events_expected_total)`:                               segmentEvents,
		`sum(k6_mcp_events_delivered_total)`:                              segmentEvents,
		`sum(k6_mcp_events_delivered_total{instance_id="0",mode="push"})`: segmentEvents / 2,
		`sum(k6_mcp_events_lost_total)`:                                   0,
		`sum(k6_mcp_events_unexpected_total)`:                             0,
		`count(k6_mcp_events_delivered_total)`:                            2,
		`histogram_count(sum(k6_mcp_event_latency_seconds))`:              segmentEvents,
		`histogram_count(sum(k6_mcp_time_to_ready_seconds))`:              segmentStreams,
	} {
		if got, err := ask(base, query); err != nil || got != want {
			t.Errorf("%s = %v, want %v (%v)", query, got, want, err)
		}
	}
	checkFleet(t, base)
	// 10 minutes is the most that a latency can be.
	p99, err := ask(base, `histogram_quantile(0.99, sum(k6_mcp_event_latency_seconds))`)
	if err != nil || p99 <= 0 || p99 > 600 {
		t.Errorf("p99 of both %v s (%v)", p99, err)
	}
}

// testRun returns the arguments and the environment that the manifest for
// Kubernetes gives to k6.
func testRun(t *testing.T) (args, env []string) {
	t.Helper()
	text := readFile(t, "../dashboards/deploy/testrun.yaml")
	var run struct {
		Spec struct {
			Arguments string
			Runner    struct {
				Env []struct{ Name, Value string }
			}
		}
	}
	must(t, yaml.Unmarshal(text, &run))
	for _, e := range run.Spec.Runner.Env {
		if e.Value != "" {
			env = append(env, e.Name+"="+e.Value)
		}
	}
	args = strings.Fields(run.Spec.Arguments)
	if len(args) == 0 || len(env) == 0 {
		t.Fatalf("arguments %q, environment %q", args, env)
	}
	return args, env
}

var listening = regexp.MustCompile(`msg="Listening on" address=(\S+)`)

// prometheus starts one that takes remote writes, and returns its address.
func prometheus(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("prometheus")
	if err != nil {
		if os.Getenv("EVENTMETER_REQUIRE_TOOLS") != "" {
			t.Fatal("prometheus is not installed, and EVENTMETER_REQUIRE_TOOLS is set")
		}
		t.Skip("prometheus is not installed (Debian's package prometheus)")
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	must(t, os.WriteFile(config, nil, 0o600))
	c := exectest.Command(path, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address=127.0.0.1:0",
		"--web.enable-remote-write-receiver", "--enable-feature=native-histograms")
	log, err := c.StderrPipe()
	must(t, err)
	must(t, c.Start())
	var said bytes.Buffer
	address, ready := "", false
	lines := bufio.NewScanner(log)
	for !(ready && address != "") && lines.Scan() { // they come in any order
		fmt.Fprintln(&said, lines.Text())
		if m := listening.FindSubmatch(lines.Bytes()); m != nil {
			address = string(m[1])
		}
		ready = ready || bytes.Contains(lines.Bytes(), []byte("Server is ready to receive web requests"))
	}
	drained := make(chan struct{})
	go func() { // it must not stop at a full pipe
		defer close(drained)
		for lines.Scan() {
		}
	}()
	t.Cleanup(func() {
		_ = c.Process.Kill()
		<-drained
		_ = c.Wait()
	})
	if !ready || address == "" {
		t.Fatalf("prometheus does not begin\n%s", said.String())
	}
	return "http://" + address
}

// ask has Prometheus work out an expression that gives one number.
func ask(base, query string) (float64, error) {
	answer, err := http.Get(base + "/api/v1/query?query=" + url.QueryEscape(query))
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	var got struct {
		Status, Error string
		Data          struct{ Result []struct{ Value [2]any } }
	}
	if err := json.NewDecoder(answer.Body).Decode(&got); err != nil {
		return 0, err
	}
	if got.Status != "success" || len(got.Data.Result) != 1 {
		return 0, fmt.Errorf("status %q %s, %d results", got.Status, got.Error, len(got.Data.Result))
	}
	text, _ := got.Data.Result[0].Value[1].(string)
	return strconv.ParseFloat(text, 64)
}

// TestKeptInSegments: the script of README.md that keeps its subscriptions may run in
// several processes. Its thresholds allow nothing unexpected.
func TestKeptInSegments(t *testing.T) {
	t.Parallel()
	script := ""
	for _, b := range regexp.MustCompile("(?s)```js\n(import .*?)```").FindAllStringSubmatch(readme(t), -1) {
		if strings.Contains(b[1], "keep: ") {
			script = b[1]
		}
	}
	if !strings.Contains(script, "mcp_events_unexpected: ['count==0']") {
		t.Fatalf("no script with keep that requires that nothing is unexpected:\n%s", script)
	}
	path := filepath.Join(t.TempDir(), "kept.js")
	must(t, os.WriteFile(path, []byte(script), 0o600))
	files := []string{path + "-0.json", path + "-1.json"}
	runSegments(t, path, func(i int) (args, env []string) { return []string{"--out", "json=" + files[i]}, nil })
	for _, file := range files {
		sum, _ := sums(t, file)
		if got := sum["mcp_events_delivered"]; got == 0 || got != sum["mcp_events_expected"] {
			t.Errorf("%v delivered, %v expected", got, sum["mcp_events_expected"])
		}
	}
}
