package mcpclient_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/internal/refserver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/loadgen/systems/systemstest"
)

// TestNamedVersion: a version that is asked for is spoken, or the target's versions
// are named.
func TestNamedVersion(t *testing.T) {
	w := systemstest.NewWorld(t, refserver.Options{})
	for _, c := range []struct {
		version string
		era     mcpclient.Era // "" = the target does not speak it
	}{
		{"2026-07-28", mcpclient.Modern}, {"2025-11-25", mcpclient.Legacy}, {"2025-06-18", mcpclient.Legacy},
		{"2099-01-01", ""}, {"2001-01-01", ""},
	} {
		e, err := mcpclient.NewEndpoint(mcpclient.EndpointOptions{URL: w.Srv.URL(), Version: c.version, Tokens: []string{"k"}})
		must(t, err)
		err = e.Connect(t.Context())
		if c.era == "" {
			if !errors.Is(err, mcpclient.ErrProtocol) || !strings.Contains(err.Error(), "does not speak version "+c.version+", but ") ||
				strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "2025-11-25") {
				t.Errorf("%s: %v", c.version, err)
			}
		} else if era, version, ok := e.Negotiated(); err != nil || !ok || era != c.era || version != c.version {
			t.Errorf("%s: %s %s, %v", c.version, era, version, err)
		} else if s, err := e.Principal(0).Session(t.Context(), nil); err != nil ||
			s.Header("events/list", "").Get("Mcp-Protocol-Version") != c.version {
			t.Errorf("%s: requests name another version: %v", c.version, err)
		}
		if err := e.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	for _, o := range []mcpclient.EndpointOptions{{Version: "today"}, {Version: "2025-06-18", Era: mcpclient.Modern}} {
		o.URL = w.Srv.URL()
		if _, err := mcpclient.NewEndpoint(o); err == nil {
			t.Errorf("%s of era %s is taken", o.Version, o.Era)
		}
	}
}
