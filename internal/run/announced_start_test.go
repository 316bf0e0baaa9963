package run

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/internal/embedded"
	"github.com/eventmeter/eventmeter/internal/refserver"
	"github.com/eventmeter/eventmeter/internal/runtest"
	"github.com/eventmeter/eventmeter/internal/witness"
)

// lasting is a server that stays after the run, for the witness beside it.
type lasting struct{ embedded.Server }

func (lasting) Stop() {}

// TestChosenStartBesideWitness runs webhooks that begin at a cursor which is too old. In
// the older revision only an envelope announces that, and it may come before or after the
// answer to subscribe. It is no false alarm, and the gaps after it are judged as ever.
func TestChosenStartBesideWitness(t *testing.T) {
	t.Parallel() // it mostly waits
	const subs = 3
	w, handler := witness.Webhook()
	callback := httptest.NewTLSServer(handler)
	t.Cleanup(func() {
		callback.Close()
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	p := parseProfile(t, `name: test
target: {revision: older, embedded: {faults: "announce(every=6, offset=2)"}}
lanes:
  - {name: hooks, mode: webhook, subscriptions: 3, event: chat.message, events: {cursor: c0-0}}
upstream: {sources: 1, workers: 1, payload: {channel: c, text: "{{.Probe}}"}}
schedule: {kind: constant, rate: 20/s}
phases: {warmup: 0s, measure: 2s, drain: 5s}
`)
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
		return lasting{
				s,
			}, witness.Subscribe(
				ctx,
				witness.Options{URL: s.Ready().URL, Token: "w", Event: "chat.message", Cursor: "c0-0"},
				callback.URL+"/w",
				secret,
			)
	}})
	l, a := out.Result.Lanes[0], out.Accounts[0].Lanes[0]
	published := out.Result.Upstream.Accepted
	deadline, tick := time.NewTimer(20*time.Second), time.NewTicker(5*time.Millisecond)
	defer deadline.Stop()
	defer tick.Stop()
	for waiting := true; waiting && int64(w.Distinct())*subs < l.Delivered; {
		select {
		case <-tick.C:
		case <-deadline.C:
			waiting = false
		}
	}
	var gaps int64
	for _, id := range w.Log() {
		if id == witness.Gap {
			gaps++
		}
	}
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
	want := [...]int64{published * subs, missing * subs, 0, 0, gaps * subs, 0, subs, subs}
	if got != want {
		t.Errorf("expected, announced, silent, unknown, announcements, false alarms, started, truncated:\n got %v\nwant %v", got, want)
	}
}
