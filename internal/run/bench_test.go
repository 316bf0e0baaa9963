package run

import (
	"errors"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/profiles"
)

func TestCheckHost(t *testing.T) {
	for _, tt := range []struct {
		url     string
		allowed []string
		ok      bool
	}{
		{"http://127.0.0.1:80/mcp", nil, true},
		{"http://127.9.9.9/mcp", nil, true},
		{"https://[::1]:8443/mcp", nil, true},
		{"http://localhost:8080/", nil, true},
		{"http://LOCALHOST/", nil, true},
		{"http://[::ffff:127.0.0.1]/", nil, true},
		{"http://192.0.2.1/", nil, false},
		{"http://192.0.2.1/", []string{"192.0.2.2"}, false},
		{"http://192.0.2.1/", []string{"192.0.2.1"}, true},
		{"http://192.0.2.1:99/", []string{"192.0.2.1:99"}, true},
		{"http://0.0.0.0/", nil, false},
		{"http://127.0.0.1.example.invalid/", nil, false},
		{"ftp://127.0.0.1/", nil, false},
		{"127.0.0.1:80", nil, false},
		{"http://user@127.0.0.1@192.0.2.1/", nil, false},
	} {
		err := CheckHost(t.Context(), nil, tt.url, "target", tt.allowed)
		if (err == nil) != tt.ok || (err != nil && !errors.Is(err, ErrProfile)) {
			t.Errorf("%s allowing %v: %v", tt.url, tt.allowed, err)
		}
	}
}

func TestCheckHostsOfAProfile(t *testing.T) {
	p := &profiles.Profile{}
	p.Upstream.HTTP.URL = "http://{{.Probe}}.example/"
	if err := checkHosts(t.Context(), nil, p, nil); err == nil || !strings.Contains(err.Error(), "must not be a template") {
		t.Errorf("a templated host: %v", err)
	}
	p.Upstream.HTTP.URL = "http://127.0.0.1/{{.Probe}}"
	p.Target.Allow = []string{"load.example"}
	if err := checkHosts(t.Context(), nil, p, nil); err == nil || !strings.Contains(err.Error(), "--allow-host load.example") {
		t.Errorf("a host that only the file allows: %v", err)
	}
	if err := checkHosts(t.Context(), nil, p, []string{"load.example"}); err != nil {
		t.Error(err)
	}
}

func TestCheckFiles(t *testing.T) {
	p := &profiles.Profile{Lanes: []profiles.Lane{
		{Mode: "push", HTTP: "1.1", Subscriptions: 1000},
		{Mode: "push", HTTP: "h2c", Subscriptions: 100000},
		{Mode: "webhook", HTTP: "1.1", Subscriptions: 100000},
	}}
	const need = spareFiles + 1000 + 1001 + 2048
	for limit, ok := range map[int64]bool{0: true, need: true, need - 1: false} {
		if err := checkFiles(p, limit); (err == nil) != ok {
			t.Errorf("limit %d: %v", limit, err)
		}
	}
	p.Phases.Order = "turns"
	if err := checkFiles(p, spareFiles+2048); err != nil {
		t.Errorf("in turns only the widest lane counts: %v", err)
	}
}

// The target's connections are bounded by the memory and by the files that the rest
// of the run leaves, and every listener takes some.
func TestCallbackConnections(t *testing.T) {
	push := profiles.Lane{Mode: "push", HTTP: "1.1", Subscriptions: 1000}
	few, many := profiles.Lane{Mode: "webhook", Subscriptions: 20}, profiles.Lane{Mode: "webhook", Subscriptions: 100_000}
	for _, c := range []struct {
		lanes         []profiles.Lane
		files, memory int64
		want          int
	}{
		{[]profiles.Lane{push}, 0, 256 << 20, 0},
		{[]profiles.Lane{push, few}, 0, 256 << 20, 4096},
		{[]profiles.Lane{push, few, many}, 0, 256 << 20, 2048},
		{[]profiles.Lane{push, few}, 2048, 256 << 20, 2048 - spareFiles - 1000},
		{[]profiles.Lane{push, many}, spareFiles + 1000 + 2048, 256 << 20, 2048},
		{[]profiles.Lane{push, few}, 0, 16 << 20, 256},
		{[]profiles.Lane{push, few, many}, 0, 1 << 20, leastCallbacks},
		{[]profiles.Lane{push, few}, spareFiles + 1000, 256 << 20, leastCallbacks},
	} {
		if got := callbackConnections(&profiles.Profile{Lanes: c.lanes}, c.files, c.memory); got != c.want {
			t.Errorf("%d lanes, %d files, %d MiB: %d, want %d", len(c.lanes), c.files, c.memory>>20, got, c.want)
		}
	}
	p := &profiles.Profile{Lanes: []profiles.Lane{push, few}}
	p.Phases.Order = "turns"
	if got := callbackConnections(p, 2000, 256<<20); got != 2000-spareFiles-980 {
		t.Errorf("in turns: %d", got)
	}
}
