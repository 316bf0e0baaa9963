package interop

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/internal/exectest"
)

// resumeProfile has clients whose answers break in the middle, and resumes them by the id
// of the last event. Nothing warms up, so that every request is in the figures.
const resumeProfile = `
name: resume
lanes:
  - name: event-id
    system: sep-975
    mode: push
    subscriptions: 20
    attach: {rate: 50/s}
    push: {backoff: {max: 1s}}
    sep975: {via: lastEventId, steps: 20, step: 250ms, logEvery: 5, SETTINGS}
upstream: {kind: none}
phases: {ready: 60s, warmup: 0s, measure: 1s, drain: 60s}
thresholds: ["*.figures.messagesLost == 0", "*.figures.messagesRepeated == 0", "*.figures.messagesOutOfOrder == 0",
  "*.figures.unbalanced == 0", "*.figures.requestsFailed == 0"]
`

// resumeStats are the counts of resume.mjs.
type resumeStats struct {
	Calls, Results, Messages, Resumes, Unknown, HangUps, Sessions, OpenStreams int
}

// TestLastEventIDNode cuts the streams of a server of the npm SDK that keeps events, and
// has the server end them on its own: everything comes, once, and both sides count alike.
func TestLastEventIDNode(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, settings string
		args           []string
		check          func(t *testing.T, f map[string]float64, s resumeStats)
	}{
		{"cut by the client", "at: 1s, away: 1s", nil, func(t *testing.T, f map[string]float64, _ resumeStats) {
			if f["cuts"] != f["requestsBegun"] || f["resumes"] < f["cuts"] || f["hangUps"] != 0 {
				t.Errorf("%v requests, %v cuts and %v resumes", f["requestsBegun"], f["cuts"], f["resumes"])
			}
		}},
		{"wrong ids", "at: 1s, away: 1s, wrong: 1", nil, func(t *testing.T, f map[string]float64, s resumeStats) {
			same(t, map[string][2]float64{"wrong ids": {f["wrongTried"], float64(s.Unknown)}})
			if f["wrongTried"] == 0 || f["wrongAccepted"]+f["wrongUnclear"] != 0 {
				t.Errorf("of %v wrong ids, %v were accepted and %v were not clearly refused", f["wrongTried"], f["wrongAccepted"], f["wrongUnclear"])
			}
		}},
		{"closed by the server", "disconnect: none, hangUp: 10", []string{"--retry", "50"},
			func(t *testing.T, f map[string]float64, s resumeStats) {
				// A client that comes back late has no stream that the server could close.
				if s.HangUps != 2*s.Calls || f["hangUps"] == 0 || f["hangUps"] > float64(s.HangUps) || f["cuts"] != 0 {
					t.Errorf("%d calls, %d streams closed, and %v seen", s.Calls, s.HangUps, f["hangUps"])
				}
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := start(t, "resume.mjs", append(c.args, "--until-eof")...)
			file := filepath.Join(t.TempDir(), "resume.yaml")
			must(t, os.WriteFile(file, []byte(strings.Replace(resumeProfile, "SETTINGS", c.settings, 1)), 0o600))
			f := runProgram(t, "--profile", file, "--target", s.URL)[0].Figures
			var server resumeStats
			until(t, "the end of the streams", func() bool {
				server = stats[resumeStats](s)
				return server.OpenStreams == 0 && server.Results == server.Calls
			})
			same(t, map[string][2]float64{
				"calls":    {f["requestsBegun"], float64(server.Calls)},
				"results":  {f["requestsCompleted"], float64(server.Results)},
				"messages": {f["messagesDelivered"], float64(server.Messages + server.Results)},
				"sessions": {20 + 1, float64(server.Sessions)}, // and one that the first handshake opens
			})
			if server.Calls == 0 || f["messagesDelivered"] != f["messagesExpected"] || f["messagesDelivered"] != 25*f["requestsBegun"] {
				t.Errorf("of %v messages, %v came", f["messagesExpected"], f["messagesDelivered"])
			}
			if float64(server.Resumes) > f["resumes"] || server.Resumes == 0 { // the rest were told to come back
				t.Errorf("we resumed %v times, the server %d", f["resumes"], server.Resumes)
			}
			c.check(t, f, server)
		})
	}
}

// TestNoEventStoreNode meets the same server without a store: its streams have no ids, and
// the run says so in a line.
func TestNoEventStoreNode(t *testing.T) {
	t.Parallel()
	s := start(t, "resume.mjs", "--no-store", "--until-eof")
	path, err := program()
	must(t, err)
	file := filepath.Join(t.TempDir(), "resume.yaml")
	if err := os.WriteFile(
		file,
		[]byte(strings.NewReplacer("SETTINGS", "", "step: 250ms", "step: 10ms").Replace(resumeProfile)),
		0o600,
	); err != nil {
		t.Fatal(err)
	}
	said, err := exectest.CommandContext(t.Context(), path, "run", "--quiet", "--out", t.TempDir(), "--profile", file, "--target", s.URL).
		CombinedOutput()
	if want := "the events of the answer have no ids, so Last-Event-ID cannot resume it: does the server have an event store?\n"; err == nil ||
		!strings.HasSuffix(string(said), want) {
		t.Errorf("%v\n%s", err, said)
	}
}
