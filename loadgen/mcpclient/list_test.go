package mcpclient_test

import (
	"strings"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/internal/refserver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/loadgen/systems/systemstest"
)

func TestList(t *testing.T) {
	w := systemstest.NewWorld(t, refserver.Options{Lists: refserver.ListOptions{Entries: 12, Page: 5, TTL: 3 * time.Second}})
	for _, era := range []mcpclient.Era{mcpclient.Modern, mcpclient.Legacy} {
		e, err := mcpclient.NewEndpoint(mcpclient.EndpointOptions{URL: w.Srv.URL(), Era: era, Tokens: []string{"k"}})
		must(t, err)
		for name, method := range map[string]string{
			"events": "events/list", "triggers": "ai.smithery/events/list", "tools": "tools/list", "prompts": "prompts/list",
			"resources": "resources/list", "templates": "resources/templates/list",
		} {
			l, err := e.List(t.Context(), name)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if l.Method != method || len(l.Entries) == 0 || l.Pages == 0 || l.Took <= 0 || l.Up <= 0 || l.Down <= 0 {
				t.Errorf("%s: %+v", name, l)
			}
			if name == "prompts" && (l.Pages < 3 || len(l.Entries) < 12 || !l.HasTTL || l.TTL != 3*time.Second || l.Scope != "public") {
				t.Errorf("%s: %d entries on %d pages, ttl %v, scope %q", name, len(l.Entries), l.Pages, l.TTL, l.Scope)
			}
		}
		if _, err := e.List(t.Context(), "cats"); err == nil || !strings.Contains(err.Error(), `there is no "cats": use events`) {
			t.Errorf("%v", err)
		}
		if err := e.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
