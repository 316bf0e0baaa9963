package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDiscoverEverySystem(t *testing.T) {
	ready, _ := serveTarget(t, "--list-entries", "60", "--list-ttl", "2s", "--list-private")
	stdout, stderr, code := execute(t, "discover", "--target", ready.URL, "--token", "x")
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	for _, want := range []string{
		"smithery      4 triggers\n", "\nsmithery: chat.message  webhook\n",
		"sep-1803      6 event resources\n", "\nsep-1803: event://chat.message/{channel}  push, webhook\n",
		"sep-975       knows requests/getStatus", "tools/list: 50 entries on the first page, 2s to live, private\n",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q is missing in\n%s", want, stdout)
		}
	}
	stdout, _, _ = execute(t, "discover", "--target", ready.URL, "--token", "x", "--json")
	var o struct {
		Events, Smithery, Resources []struct{ Name string }
		Abilities                   struct {
			Resumable bool
			Lists     []struct{ Method string }
		}
	}
	if err := json.Unmarshal([]byte(stdout), &o); err != nil || len(o.Events) != 4 || len(o.Smithery) != 4 || len(o.Resources) != 6 || !o.Abilities.Resumable || len(o.Abilities.Lists) != 4 {
		t.Errorf("%v: %+v", err, o)
	}
}

// answersOnly is a server of the modern era that knows those methods.
func answersOnly(t *testing.T, results map[string]string) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		_ = json.NewDecoder(r.Body).Decode(&m)
		w.Header().Set("Content-Type", "application/json")
		if result := results[m.Method]; result != "" {
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
			return
		}
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"Method not found"}}`, m.ID)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// A server that has one system only is described by that one; the others are
// not invented.
func TestDiscoverOneSystem(t *testing.T) {
	const who = `{"supportedVersions":["2026-07-28"],"capabilities":{"extensions":{"ai.smithery/events":{}}},"serverInfo":{"name":"one","version":"1"}}`
	one := answersOnly(t, map[string]string{"server/discover": who, "ai.smithery/events/list": `{"events":[{"name":"build.done","delivery":["webhook"]}]}`})
	stdout, stderr, code := execute(t, "discover", "--target", one)
	if code != 0 || !strings.Contains(stdout, "smithery: build.done  webhook\n") || strings.Contains(stdout, "sep-") {
		t.Fatalf("exit code %d\n%s\n%s", code, stderr, stdout)
	}
	_, yaml, _ := strings.Cut(stdout, "--profile FILE\n")
	file := filepath.Join(t.TempDir(), "first.yaml")
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, stderr, code := execute(t, "profiles", "check", file); code != 0 || !strings.Contains(yaml, "system: smithery") {
		t.Errorf("exit code %d: %s%s\n%s", code, out, stderr, yaml)
	}
	none := answersOnly(t, map[string]string{"server/discover": who})
	if _, stderr, code := execute(t, "discover", "--target", none); code != exitTarget || !strings.Contains(stderr, "events/list") {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
}
