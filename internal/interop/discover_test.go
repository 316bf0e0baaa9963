package interop

import (
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/internal/exectest"
)

// offer holds the checked part of what discover says with --format json.
type offer struct {
	Server, ServerVersion, Era, Version, Capability, Revision string

	Deviations []string
	Events     []struct{ Name string }
}

func discover(t *testing.T, args ...string) (o offer) {
	t.Helper()
	path, err := program()
	must(t, err)
	var stderr strings.Builder
	cmd := exectest.CommandContext(t.Context(), path, append([]string{"discover", "--format=json"}, args...)...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("discover %v: %v\n%s", args, err, stderr.String())
	}
	if err := json.Unmarshal(out, &o); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return o
}

type discoverCase struct {
	name   string
	script []string
	want   offer
	events []string
}

func (c discoverCase) check(t *testing.T, got offer) {
	t.Helper()
	var names []string
	for _, e := range got.Events {
		names = append(names, e.Name)
	}
	if !slices.Equal(names, c.events) || len(got.Deviations) > 0 {
		t.Errorf("discover lists the event types %v and the deviations %q, want %v and none", names, got.Deviations, c.events)
	}
	got.Events, got.Deviations = nil, nil
	if !reflect.DeepEqual(got, c.want) {
		t.Errorf("discover says %+v, want %+v", got, c.want)
	}
}

// TestDiscover: discover names what each server is, and nothing that it is not.
func TestDiscover(t *testing.T) {
	t.Parallel()
	cert, _ := certificate(t)
	for _, c := range []discoverCase{
		{
			"mcp-handler", []string{"handler.mjs", "--until-eof", "--ca", cert},
			offer{Server: "handler", ServerVersion: "2.4.0", Era: "modern", Version: "2026-07-28", Capability: "events", Revision: "sketch"},
			[]string{"chat.message"},
		},
		{"sdk", []string{"sdk1.mjs", "--until-eof"}, offer{Server: "sdk1", ServerVersion: "1.32.2", Era: "legacy", Version: "2025-11-25"}, nil},
		{"server", []string{"sdk2.mjs", "--until-eof"}, offer{Server: "sdk2", ServerVersion: "2.4.0", Era: "modern", Version: "2026-07-28"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := start(t, c.script[0], c.script[1:]...)
			c.check(t, discover(t, "--target", s.URL, "--token", "principal"))
		})
		if c.events != nil {
			continue // webhooks need HTTP
		}
		t.Run(c.name+" over pipes", func(t *testing.T) {
			t.Parallel()
			needsPackages(t)
			c.check(t, discover(t, "--command", "node testdata/"+c.script[0]+" --stdio"))
		})
	}
}

// TestDiscoverGo: the same of a server of the official Go SDK.
func TestDiscoverGo(t *testing.T) {
	t.Parallel()
	modern := discoverCase{want: offer{Server: "go-sdk", ServerVersion: "1", Era: "modern", Version: "2026-07-28"}}
	modern.check(t, discover(t, "--target", newGoServer(t).http.URL))
	modern.check(t, discover(t, "--command", "'"+os.Args[0]+"' "+goPiped))
}
