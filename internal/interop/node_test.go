package interop

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/internal/exectest"
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
	cmd := exectest.Command("node", append([]string{filepath.Join("testdata", name)}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
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
func (s *script) control(path string, body any) map[string]any {
	s.t.Helper()
	answer, err := s.try(path, body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer
}

// try is control, for what may be refused.
func (s *script) try(path string, body any) (answer map[string]any, err error) {
	return answer, call(s.t.Context(), http.MethodPost, s.Control+"/"+path, body, &answer)
}

// stats are the counts of a script.
func stats[T any](s *script) (counts T) {
	s.t.Helper()
	if err := call(s.t.Context(), http.MethodGet, s.Control+"/stats", nil, &counts); err != nil {
		s.t.Fatal(err)
	}
	return counts
}

// call sends JSON and decodes the JSON that comes back with status 200.
func call(ctx context.Context, method, url string, body, into any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(b))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s %s", method, url, resp.Status, got)
	}
	return json.Unmarshal(got, into)
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

// certificate writes a certificate for 127.0.0.1 and its key, and returns their
// files.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	must(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	must(t, err)
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for file, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: keyDER}} {
		must(t, os.WriteFile(file, pem.EncodeToMemory(block), 0o600))
	}
	return cert, key
}
