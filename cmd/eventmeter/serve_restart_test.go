package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/internal/embedded"
)

// postJSON posts JSON, with a token if there is one.
func postJSON(t *testing.T, url, body, token string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	must(t, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(r)
	must(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode/100 != 2 {
		t.Fatalf("%s: HTTP %d %s, %v", url, resp.StatusCode, text, err)
	}
	return string(text)
}

// hookPost is one post to a callback.
type hookPost struct {
	header http.Header
	body   []byte
}

// A subscription without an expiry survives a server that is killed: the next
// one over the same file delivers to it, signed with the same secret, and asks
// the callback for no proof.
func TestSubscriptionsSurviveAKill(t *testing.T) {
	t.Parallel()
	posts := make(chan hookPost, 100)
	callback := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		var in struct{ Challenge string }
		_ = json.Unmarshal(body, &in)
		fmt.Fprintf(w, `{"challenge":%q}`, in.Challenge)
		posts <- hookPost{r.Header, body}
	}))
	defer callback.Close()
	file := filepath.Join(t.TempDir(), "state.json")
	opts := embedded.Options{State: file, AllowPrivateCallbacks: true, CallbackInsecure: true}
	key := []byte("0123456789abcdef0123456789abcdef")
	subscribe := fmt.Sprintf(
		`{"jsonrpc":"2.0","id":1,"method":"events/subscribe","params":{"name":"tick","delivery":{"mode":"webhook",`+
			`"url":"%s/h","secret":"whsec_%s"},"ttlMs":null}}`,
		callback.URL,
		base64.StdEncoding.EncodeToString(key),
	)

	first, process := serveTargetWith(t, opts)
	if answer := postJSON(t, first.URL, subscribe, "a"); !strings.Contains(answer, `"refreshBefore":null`) {
		t.Fatalf("the grant has an end: %s", answer)
	}
	if p := <-posts; !strings.Contains(string(p.body), "verification") {
		t.Fatalf("the first post is %s", p.body)
	}
	// Nothing is left to do when the subscription was answered.
	must(t, process.Process.Kill())
	_ = process.Wait()

	second, _ := serveTargetWith(t, opts)
	postJSON(t, second.Admin+"/inject", `{"name":"tick","data":{"n":1}}`, "")
	for _, want := range []string{`{"type":"gap"`, `"data":{"n":1}`} {
		p := <-posts
		if !strings.Contains(string(p.body), want) {
			t.Fatalf("posted %s, want %s", p.body, want)
		}
		mac := hmac.New(sha256.New, key)
		fmt.Fprintf(mac, "%s.%s.%s", p.header.Get("webhook-id"), p.header.Get("webhook-timestamp"), p.body)
		if got, want := p.header.Get("webhook-signature"), "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)); got != want {
			t.Errorf("signature %s, want %s", got, want)
		}
	}
	if stats := getText(
		t,
		second.Admin+"/stats",
	); !strings.Contains(stats, `"verifications":0`) ||
		!strings.Contains(stats, `"webhook":1`) {
		t.Errorf("stats %s", stats)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("%s: mode %v, %v", file, info.Mode(), err)
	}
}

func getText(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	must(t, err)
	defer resp.Body.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(resp.Body); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestServeOverADamagedState(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "state.json")
	must(t, os.WriteFile(file, []byte(`{"schema":"eventmeter.state/1","subscr`), 0o600))
	_, stderr, code := execute(t, "serve", "--options", fmt.Sprintf(`{"State":%q}`, file))
	if code != exitUsage || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, file+" is damaged") ||
		!strings.Contains(stderr, "move it away") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}
