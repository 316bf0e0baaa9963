package run

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/eventmeter/eventmeter/internal/embedded"
	"github.com/eventmeter/eventmeter/internal/refserver"
	"github.com/eventmeter/eventmeter/internal/runtest"
	"github.com/eventmeter/eventmeter/internal/witness"
	"github.com/eventmeter/eventmeter/results"
)

// lasting is a server that stays after the run, for the witness beside it.
type lasting struct{ embedded.Server }

func (lasting) Stop() {}

// besideWebhook runs a profile with the reference server, at which a witness has a webhook
// beside the run, from a cursor or from now on. It returns when the witness has caught up.
func besideWebhook(t *testing.T, profile, cursor string) (*Outcome, *witness.Witness) {
	t.Helper()
	w, handler := witness.Webhook()
	callback := httptest.NewTLSServer(handler)
	t.Cleanup(func() {
		callback.Close()
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	p := parseProfile(t, profile)
	out := runs(t, Options{Profile: p, Embedded: func(ctx context.Context, given embedded.Options) (embedded.Server, error) {
		trusted, err := os.ReadFile(given.CallbackCAFile)
		if err != nil {
			return nil, err
		}
		given.CallbackCAFile = filepath.Join(t.TempDir(), "roots.pem")
		own := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: callback.Certificate().Raw})
		if err := os.WriteFile(given.CallbackCAFile, append(trusted, own...), 0o600); err != nil {
			return nil, err
		}
		s, err := runtest.InProcessWith(ctx, given, refserver.Options{AllowPrivateCallbacks: true})
		if err != nil {
			return nil, err
		}
		t.Cleanup(s.Stop)
		secret := "whsec_" + base64.StdEncoding.EncodeToString([]byte("0123456789abcdef0123456789abcdef"))
		o := witness.Options{URL: s.Ready().URL, Token: "w", Event: "chat.message", Cursor: cursor}
		return lasting{s}, witness.Subscribe(ctx, o, callback.URL+"/w", secret)
	}})
	l := out.Result.Lanes[0]
	caughtUp(w, l.Delivered/int64(l.Subscriptions))
	return out, w
}

// gapsOf returns how many gaps a witness read.
func gapsOf(w *witness.Witness) (n int64) {
	for _, id := range w.Log() {
		if id == witness.Gap {
			n++
		}
	}
	return n
}

// TestChosenStartBesideWitness runs webhooks that begin at a cursor which is too old. In
// the older revision only an envelope announces that, and it may come before or after the
// answer to subscribe. It is no false alarm. Whether the gaps after it are about what is
// missing is not known, as webhooks have no order.
func TestChosenStartBesideWitness(t *testing.T) {
	t.Parallel() // it mostly waits
	const subs = 3
	out, w := besideWebhook(t, `name: test
target: {revision: older, embedded: {faults: "announce(every=6, offset=2)"}}
lanes:
  - {name: hooks, mode: webhook, subscriptions: 3, event: chat.message, events: {cursor: c0-0}}
upstream: {sources: 1, workers: 1, payload: {channel: c, text: "{{.Probe}}"}}
schedule: {kind: constant, rate: 20/s}
phases: {warmup: 0s, measure: 2s, drain: 5s}
`, "c0-0")
	l, a := out.Result.Lanes[0], out.Accounts[0].Lanes[0]
	published, gaps := out.Result.Upstream.Accepted, gapsOf(w)
	missing := published - int64(w.Distinct())
	if log := w.Log(); missing == 0 || gaps != missing+1 || log[0] != witness.Gap {
		t.Fatalf("the witness missed %d of %d events, and read %d gaps: %v", missing, published, gaps, log)
	}
	got := [...]int64{
		l.Expected,
		l.LostAnnounced,
		l.LostSilent,
		l.LostOrderUnknown,
		a.Announcements,
		l.Gaps.FalseAlarms,
		int64(l.Figures["started"]),
		int64(l.Figures["startedTruncated"]),
	}
	want := [...]int64{published * subs, 0, 0, missing * subs, gaps * subs, 0, subs, subs}
	if got != want {
		t.Errorf("expected, announced, silent, unknown, announcements, false alarms, started, truncated:\n got %v\nwant %v", got, want)
	}
}

// TestLateGapsBesideWitness runs webhooks whose gap envelopes come 250 ms after the events
// around the gap. What is missing is not silent while an envelope may be about it, and no
// envelope is a false alarm. Only the events that are dropped after all envelopes are lost
// silently.
func TestLateGapsBesideWitness(t *testing.T) {
	t.Parallel() // it mostly waits
	const subs = 3
	out, w := besideWebhook(t, `name: test
target: {embedded: {faults: "announce(every=6, offset=2, to=40, over=250ms, mode=webhook); drop(every=1, from=66, to=68)"}}
lanes:
  - {name: hooks, mode: webhook, subscriptions: 3, event: chat.message}
upstream: {sources: 1, workers: 1, payload: {channel: c, text: "{{.Probe}}"}}
schedule: {kind: constant, rate: 20/s}
phases: {warmup: 0s, measure: 4s, drain: 2s}
`, "")
	l := out.Result.Lanes[0]
	published, gaps, log := out.Result.Upstream.Accepted, gapsOf(w), w.Log()
	missing := published - int64(w.Distinct())
	unsaid := missing - gaps // of three events, where each was published
	if unsaid < 1 || unsaid > 3 || gaps == 0 || log[0] == witness.Gap || log[1] == witness.Gap || log[2] == witness.Gap {
		t.Fatalf("the witness missed %d of %d events, and read %d gaps: %v", missing, published, gaps, log)
	}
	got := [...]int64{l.Expected, l.LostAnnounced, l.LostSilent, l.LostOrderUnknown, l.Gaps.FalseAlarms}
	want := [...]int64{published * subs, 0, unsaid * subs, gaps * subs, 0}
	if got != want {
		t.Errorf("expected, announced, silent, unknown, false alarms:\n got %v\nwant %v", got, want)
	}
	if !slices.ContainsFunc(out.Result.Warnings, func(w results.Warning) bool { return w.Code == "order-unknown" }) {
		t.Errorf("no warning that the order is unknown: %+v", out.Result.Warnings)
	}
}
