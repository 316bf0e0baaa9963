package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/internal/embedded"
	"github.com/eventmeter/eventmeter/internal/exectest"
	"github.com/eventmeter/eventmeter/results"
)

// needsTool finds a program that is not ours. Where it is missing the test is
// left out, unless the environment says that nothing may be missing there.
func needsTool(t *testing.T, name string, places ...string) string {
	t.Helper()
	for _, place := range append([]string{name}, places...) {
		if path, err := exec.LookPath(place); err == nil {
			return path
		}
	}
	if os.Getenv("CI") != "" || os.Getenv("EVENTMETER_REQUIRE_TOOLS") != "" {
		t.Fatalf("%s is not installed, and CI or EVENTMETER_REQUIRE_TOOLS is set", name)
	}
	t.Skipf("%s is not installed: install it to run this test", name)
	return ""
}

// freePorts returns addresses of loopback on which nobody listens.
func freePorts(t *testing.T, n int) []string {
	t.Helper()
	addrs := make([]string, n)
	for i := range addrs {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		defer l.Close() // all are held until all are known
		addrs[i] = l.Addr().String()
	}
	return addrs
}

// startNginx runs nginx with those servers in its http block, and waits until
// it accepts connections at addr. Everything that it writes goes into a folder
// of the test's.
func startNginx(t *testing.T, folder, servers, addr string) {
	t.Helper()
	path := needsTool(t, "nginx", "/usr/sbin/nginx")
	config := `daemon off;
master_process off;
pid nginx.pid;
error_log error.log warn;
events { worker_connections 1024; }
http {
  access_log off;
  client_body_temp_path body;
  proxy_temp_path proxy;
  fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi;
  scgi_temp_path scgi;
` + servers + "}\n"
	file := filepath.Join(folder, "nginx.conf")
	must(t, os.WriteFile(file, []byte(config), 0o600))
	cmd := exectest.Command(path, "-p", folder, "-c", file, "-e", filepath.Join(folder, "error.log"))
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	must(t, cmd.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for range 3000 {
		select {
		case <-ended:
			t.Fatalf("nginx ended: %s", said.String())
		case <-tick.C:
		}
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Close()
			return
		}
	}
	t.Fatalf("nginx does not listen: %s", said.String())
}

// certificate writes a certificate for 127.0.0.1 that signs itself.
func certificate(t *testing.T, folder string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "proxy"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	must(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	must(t, err)
	cert, key = filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")
	for file, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: pkcs8}} {
		must(t, os.WriteFile(file, pem.EncodeToMemory(block), 0o600))
	}
	return cert, key
}

const (
	hostKept = "proxy_set_header Host $http_host;" // the target checks it
	upward11 = `proxy_http_version 1.1; proxy_set_header Connection "";`
	upward10 = "proxy_http_version 1.0;"
	smallest = "proxy_buffer_size 1k; proxy_buffers 4 1k; proxy_busy_buffers_size 2k;"
)

// A real nginx stands between the generator and the target, with and without
// its buffers. docs/proxies.md says what is shown here.
func TestThroughNginx(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it runs for seconds")
	}
	needsTool(t, "nginx", "/usr/sbin/nginx")
	brisk := embedded.Options{Heartbeat: 500 * time.Millisecond, AckTimeout: time.Minute}
	args := []string{"--token", "t", "--allow-private-callbacks", "--callback-insecure"}
	asks, _ := serveTargetWith(t, brisk, args...)
	silent, _ := serveTargetWith(t, brisk, append(args, "--proxies-may-buffer")...)
	folder := t.TempDir()
	cert, key := certificate(t, folder)
	ports := freePorts(t, 9)
	servers := ""
	server := func(i int, listen, to, rest string) {
		servers += fmt.Sprintf("  server { listen %s%s; location / { proxy_pass %s; %s } }\n", ports[i], listen, to, rest)
	}
	plain := func(mcp string) string { return strings.TrimSuffix(mcp, "/mcp") }
	secure := fmt.Sprintf(" ssl http2; ssl_certificate %s; ssl_certificate_key %s", cert, key)
	server(0, "", plain(silent.URL), hostKept+upward11+"proxy_buffering off;")
	server(1, secure, plain(silent.URL), hostKept+upward11+"proxy_buffering off;")
	server(2, "", plain(silent.URL), hostKept+upward10)
	server(3, "", plain(silent.URL), hostKept+upward10+smallest)
	server(4, "", plain(silent.URL), hostKept+upward11)
	server(5, "", plain(asks.URL), hostKept+upward10)
	server(6, "", plain(asks.URL), hostKept+upward10+smallest+"proxy_ignore_headers X-Accel-Buffering;")
	server(7, secure, "https://"+ports[8], "proxy_ssl_verify off;") // callbacks
	startNginx(t, folder, servers, ports[0])

	// Runs that share a target must not hear each other's events.
	through := func(i int, admin, channel string, more ...string) []string {
		scheme := "http"
		if i == 1 {
			scheme = "https"
		}
		return smoke(append([]string{
			"--quiet",
			"--format=json",
			"--target",
			scheme + "://" + ports[i] + "/mcp",
			"--token",
			"t",
			"--upstream-url",
			admin,
			"--set",
			`upstream.payload={channel: "` + channel + `", text: "{{.Probe}}"}`,
			"--set",
			`lanes.*.arguments={channel: "` + channel + `"}`,
		}, more...)...)
	}
	pushOnly := func(heartbeat, channel string) string {
		return `--set=lanes=[{name: push, mode: push, subscriptions: 5, event: chat.message, push: {heartbeat: ` +
			heartbeat + `}, arguments: {channel: "` + channel + `"}}]`
	}
	// One event in 500 ms: a buffer of 1 KiB is full after three or four.
	slowly := func(channel string) []string {
		return []string{pushOnly("15s", channel), "--set=schedule.rate=2/s", "--set=phases.measure=7s", "--set=thresholds=[]"}
	}
	runs := map[string][]string{
		"off, callbacks too": through(
			0,
			silent.Admin,
			"a",
			"--set",
			"lanes.webhook.webhook.listen="+ports[8],
			"--set",
			"lanes.webhook.webhook.callback=https://"+ports[7],
		),
		"off, HTTP/2 and TLS": through(1, silent.Admin, "b", "--set", "lanes.*.http=2", "--set", "target.caFile="+cert),
		"on, HTTP/1.1 upward": through(4, silent.Admin, "c"),
		"on, header obeyed":   through(5, asks.Admin, "d"),
		"on, no header":       through(3, silent.Admin, "e", slowly("e")...),
		"on, header ignored":  through(6, asks.Admin, "f", slowly("f")...),
		"on, all held back":   through(2, silent.Admin, "g", pushOnly("500ms", "g"), "--set=phases.ready=10s"),
	}
	all := together(t, runs)
	for name, out := range all {
		if name == "on, all held back" {
			if out.code != exitTarget || !strings.Contains(out.stderr, "a proxy on the path buffers it") {
				t.Errorf("%s: exit code %d\n%s", name, out.code, out.stderr)
			}
			continue
		}
		r := out.result(t)
		coalesced := strings.HasSuffix(name, "no header") || strings.HasSuffix(name, "ignored")
		l := r.Lanes[0]
		q := l.Latency.FromSent
		t.Logf(
			"%s: %d of %d, ready after %v, from sent p50 %v, p99 %v",
			name,
			l.Delivered,
			l.Expected,
			l.Ready.Time.Max.Duration(),
			q.P50.Duration(),
			q.P99.Duration(),
		)
		if !coalesced {
			accounted(t, r, 40, 1)
		} else if l.Expected != 5*r.Upstream.Accepted || l.Expected == 0 || l.Delivered != l.Expected || l.Unexpected+l.OutOfOrder != 0 {
			t.Errorf("%s: %+v", name, l)
		}
		if warned(r, "coalesced-reads") != coalesced || (l.Figures["coalescedStreams"] > 0) != coalesced {
			t.Errorf("%s: %v, %+v", name, l.Figures, r.Warnings)
		}
	}
}

// outcome is what came of a command.
type outcome struct {
	stdout, stderr string
	code           int
}

// together runs commands side by side: most of their time they wait.
func together(t *testing.T, runs map[string][]string) map[string]outcome {
	t.Helper()
	var wg sync.WaitGroup
	var mu sync.Mutex
	out := map[string]outcome{}
	for name, args := range runs {
		cmd := command(t, args...)
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		wg.Go(func() {
			err := cmd.Run()
			mu.Lock()
			defer mu.Unlock()
			out[name] = outcome{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
			if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	wg.Wait()
	return out
}

// result reads the result of a run that went well.
func (o outcome) result(t *testing.T) *results.Result {
	t.Helper()
	if o.code != 0 && o.code != exitBottleneck {
		t.Fatalf("exit code %d\n%s", o.code, o.stderr)
	}
	r, err := results.Read(strings.NewReader(o.stdout))
	must(t, err)
	return r
}

func warned(r *results.Result, code string) bool {
	return slices.ContainsFunc(r.Warnings, func(w results.Warning) bool { return w.Code == code })
}
