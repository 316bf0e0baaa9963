package main

import (
	"bufio"
	"io"
	"math"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/internal/promtest"
	"github.com/eventmeter/eventmeter/results"
)

// TestMetricsAgreeEverywhere runs a real run that a real Prometheus scrapes and
// gets by remote write, and that goes out by OTLP, too: all three say what
// result.json says.
func TestMetricsAgreeEverywhere(t *testing.T) {
	t.Parallel()
	server := promtest.Start(t, promtest.Options{Every: 2 * time.Second})
	otlp := promtest.OTLP(t)
	dir := filepath.Join(t.TempDir(), "out")
	cmd := watched(
		t,
		"run",
		"--profile",
		"smoke",
		"--quiet",
		"--out",
		dir,
		"--set",
		"phases.ready=60s",
		"--set",
		"target.embedded.nextPoll=200ms",
		"--set",
		"phases.drain=60s",
		"--metrics",
		"127.0.0.1:0",
		"--metrics-linger",
		"2m",
		"--remote-write",
		server.WriteURL(),
		"--remote-write-every",
		"1s",
		"--otlp",
		otlp.URL,
		"--otlp-every",
		"1s",
	)
	stderr, err := cmd.StderrPipe()
	must(t, err)
	must(t, cmd.Start())
	said := bufio.NewScanner(stderr)
	if !said.Scan() || !strings.HasPrefix(said.Text(), "metrics at http://") {
		t.Fatalf("it says %q", said.Text())
	}
	server.Scrape(t, strings.TrimSuffix(strings.TrimPrefix(said.Text(), "metrics at http://"), "/metrics"))
	rest, err := io.ReadAll(stderr)
	must(t, err)
	if code := codeOf(t, cmd.Wait()); code != 0 && code != exitBottleneck || strings.Contains(string(rest), "warning") {
		t.Fatalf("exit code %d\n%s", code, rest)
	}
	r := loaded(t, dir)
	pushed{otlp.Last(t), nil}.agree(t, r)
	rising(t, otlp.Pushes(t))
	for way, selector := range map[string]string{"scraped": `instance!=""`, "written": `instance=""`} {
		// A scrape counts when it is stored, shortly after it was answered.
		promtest.Await(t, "what was "+way, func() bool {
			return len(server.Query(t, `last_over_time(eventmeter_phase{phase="done",`+selector+`}[5m]) == 1`, time.Time{})) > 0
		})
		stored(t, server, r, selector)
	}
}

// stored holds what Prometheus has to the result.
func stored(t *testing.T, server *promtest.Server, r *results.Result, selector string) {
	t.Helper()
	// The target is gone, so that of what was scraped there is nothing now.
	samples := server.Query(t, `eventmeter_phase{phase="done",run="`+r.Run+`",`+selector+`}[5m]`, time.Time{})
	if len(samples) != 1 {
		t.Fatalf("of the run there is %v", samples)
	}
	then := func(expr string) float64 {
		all := server.Query(t, expr, samples[0].At)
		if len(all) != 1 {
			t.Fatalf("%s has %v, want one value", expr, all)
		}
		return all[0].Value
	}
	value := func(name, more string) float64 {
		return then(name + `{run="` + r.Run + `",` + selector + more + `}`)
	}
	is := func(name, more string, want int64) {
		if got := value(name, more); got != float64(want) {
			t.Errorf("%s{%s%s} is %v in Prometheus, and the result says %d", name, selector, more, got, want)
		}
	}
	is("eventmeter_events_published_total", "", r.Upstream.Published)
	is("eventmeter_events_resolved_total", `,outcome="accepted"`, r.Upstream.Accepted)
	for _, l := range r.Lanes {
		lane := `,lane="` + l.Name + `",system="` + l.System + `",mode="` + l.Mode + `"`
		is("eventmeter_deliveries_expected_total", lane, l.Expected)
		is("eventmeter_deliveries_total", lane, l.Delivered)
		is("eventmeter_deliveries_lost_total", lane+`,kind="silent"`, l.LostSilent)
		is("eventmeter_duplicates_total", lane+`,kind="same_event"`, l.Duplicates.SameEvent)
		is("eventmeter_gaps_total", lane, l.Gaps.Incidents)
		is("eventmeter_requests_total", lane+`,cause="subscribe"`, l.Overhead.Causes["subscribe"].Requests)
		q := l.Latency.FromIntended
		native := `eventmeter_latency_from_intended_seconds{run="` + r.Run + `",` + selector + lane + `}`
		if got := then(`histogram_count(` + native + `)`); got != float64(q.Count) {
			t.Errorf("%s has %v samples, and the result says %d", native, got, q.Count)
		}
		for quantile, want := range map[string]results.Nanos{"0.5": q.P50, "0.99": q.P99} {
			got := then(`histogram_quantile(` + quantile + `, ` + native + `)`)
			// Of 200 latencies both mean the same one.
			if off := math.Abs(got/want.Duration().Seconds() - 1); q.Count == 200 && off > 0.05 {
				t.Errorf("%s has %v at %s, and the result says %v", native, got, quantile, want.Duration())
			}
		}
	}
}

// TestMetricsOfProcesses holds the metrics of a run that is split to the merged
// result.
func TestMetricsOfProcesses(t *testing.T) {
	t.Parallel()
	to := promtest.RemoteWrite(t)
	dir := filepath.Join(t.TempDir(), "out")
	_, stderr, code := executeWatched(
		t,
		"run",
		"--profile",
		"smoke",
		"--processes",
		"2",
		"--quiet",
		"--out",
		dir,
		"--set",
		"phases.ready=60s",
		"--set",
		"target.embedded.nextPoll=200ms",
		"--set",
		"phases.drain=60s",
		"--remote-write",
		to.URL,
		"--remote-write-every",
		"1s",
	)
	if code != 0 && code != exitBottleneck || strings.Contains(stderr, "warning") {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	r := loaded(t, dir)
	s := pushed{to.Last(t), map[string]string{"job": "eventmeter"}}
	s.agree(t, r)
	rising(t, to.Pushes(t))
	for i, shard := range r.Shards {
		labels := s.run(r, "shard", string(rune('0'+i)))
		s.is(t, "eventmeter_shard_events_published_total", labels, float64(shard.Published))
		s.is(t, "eventmeter_shard_deliveries_total", labels, float64(shard.Delivered))
		s.is(t, "eventmeter_shard_deliveries_foreign_total", labels, float64(shard.Foreign))
		s.is(t, "eventmeter_shard_up", labels, 0)
	}
	if len(r.Shards) != 2 {
		t.Errorf("%d shards", len(r.Shards))
	}
}

// TestMetricsNobodyTakes costs a warning, and neither the run nor its verdict.
func TestMetricsNobodyTakes(t *testing.T) {
	t.Parallel()
	gone := freePorts(t, 1)[0]
	dir := filepath.Join(t.TempDir(), "out")
	_, stderr, code := executeWatched(
		t,
		"run",
		"--profile",
		"smoke",
		"--quiet",
		"--out",
		dir,
		"--set",
		"phases.ready=60s",
		"--set",
		"target.embedded.nextPoll=200ms",
		"--set",
		"phases.drain=60s",
		"--set",
		"phases.measure=500ms",
		"--set",
		"phases.warmup=0s",
		"--remote-write",
		"http://"+gone+"/write",
		"--otlp",
		"http://"+gone,
		"--metrics",
		"127.0.0.1:0",
		"--metrics-linger",
		"0s",
	)
	if code != 0 && code != exitBottleneck {
		t.Errorf("exit code %d", code)
	}
	for _, want := range []string{
		"warning: remote write to http://" + gone + "/write: ", "warning: OTLP to http://" + gone + "/v1/metrics: ",
		"; the end of the run is missing there\n",
	} {
		if !strings.Contains(stderr, want) {
			t.Errorf("it does not say %q:\n%s", want, stderr)
		}
	}
	if _, err := results.Load(dir); err != nil {
		t.Error(err)
	}
}

func TestMetricsFlags(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer taken.Close()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--metrics", taken.Addr().String()}, "listen for scrapes of metrics: listen tcp " + taken.Addr().String()},
		{[]string{"--metrics", "9464"}, `metrics address "9464": `},
		{[]string{"--metrics", "127.0.0.1:0", "--metrics-linger", "-1s"}, "--metrics-linger -1s: want 0 or more"},
		{[]string{"--remote-write", "127.0.0.1:9090"}, `--remote-write "127.0.0.1:9090": want a URL such as http://127.0.0.1:9090/api/v1/write`},
		{[]string{"--remote-write", "http://127.0.0.1:9090/api/v1/write", "--remote-write-every", "10ms"},
			"--remote-write-every 10ms: want 1s or more"},
		{[]string{"--otlp", "127.0.0.1:4318"}, `--otlp "127.0.0.1:4318": want a URL such as http://127.0.0.1:4318`},
		{[]string{"--otlp", "http://127.0.0.1:4318", "--otlp-every", "0s"}, "--otlp-every 0s: want 1s or more"},
	} {
		for _, name := range []string{"run", "capacity"} {
			stdout, stderr, code := execute(t, append([]string{name}, c.args...)...)
			if code != exitUsage || !strings.Contains(stderr, c.want) || strings.Count(strings.TrimSpace(stderr), "\n") > 1 ||
				stdout != "" {
				t.Errorf("%s %v: exit code %d, %q, want %q", name, c.args, code, stderr, c.want)
			}
		}
	}
}
