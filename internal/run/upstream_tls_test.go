package run

import (
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/loadgen/upstream"
)

// What the profile trusts at the target it trusts on the way to the upstream.
func TestUpstreamTrustsTheCAFile(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // it logs every handshake that fails
	s.StartTLS()
	defer s.Close()
	folder := t.TempDir()
	ca, trace := filepath.Join(folder, "ca.pem"), filepath.Join(folder, "trace.jsonl")
	for file, text := range map[string][]byte{
		ca:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}),
		trace: []byte(`{"t":1,"event":"chat.message","payload":{"text":"evtm-00000001-0000-00000001-26"}}` + "\n"),
	} {
		must(t, os.WriteFile(file, text, 0o600))
	}
	for kind, rest := range map[string]string{
		"http":   fmt.Sprintf("http: {url: %q, body: '{{.Probe}}'}", s.URL),
		"github": fmt.Sprintf("github: {url: %q, secret: s}", s.URL),
		"slack":  fmt.Sprintf("slack: {url: %q, secret: s}", s.URL),
		"stripe": fmt.Sprintf("stripe: {url: %q, secret: s}", s.URL),
		"inject": fmt.Sprintf("admin: %q, %s", s.URL, chat),
		"replay": fmt.Sprintf("replay: {file: %q, url: %q}", trace, s.URL),
	} {
		for file, want := range map[string]eventmeter.Outcome{"": eventmeter.Uncertain, ca: eventmeter.Accepted} {
			p := profileOf(
				t,
				"https://127.0.0.1:1/mcp",
				fmt.Sprintf("schedule: {kind: constant, rate: 40/s}\nupstream: {kind: %s, sources: 2, %s}\n", kind, rest),
			)
			p.Target.CAFile = file
			r := &run{profile: p}
			must(t, r.readTraces())
			u, err := r.openUpstream()
			if err != nil {
				t.Fatalf("%s: %v", kind, err)
			}
			got := u.Fire(t.Context(), upstream.Emission{Stamp: eventmeter.Stamp{Run: 1, Seq: 1}})
			if accepted := got == eventmeter.Accepted; accepted != (want == eventmeter.Accepted) {
				t.Errorf("%s with caFile %q: outcome %v", kind, file, got)
			}
			if e, ok := u.(upstream.Explainer); ok && file == "" {
				if first, _ := e.Failures(); !strings.Contains(first, "target.caFile") {
					t.Errorf("%s: %q does not name target.caFile", kind, first)
				}
			}
			if err := u.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	p := profileOf(t, s.URL, steady+"upstream: {kind: inject, sources: 2, admin: 'http://127.0.0.1:1', "+chat+"}\n")
	p.Target.CAFile = trace
	if _, err := (&run{profile: p}).openUpstream(); err == nil || !strings.Contains(err.Error(), "target.caFile") {
		t.Error(err)
	}
}
