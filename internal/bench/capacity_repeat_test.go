package bench

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestScrapeStays: the address of the metrics was held to the rule for hosts,
// and where it redirects to, or a proxy, was not.
func TestScrapeStays(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") }))
	defer elsewhere.Close()
	server := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusFound))
	defer server.Close()
	if _, err := newRemoteMeter(server.URL, nil); !errors.Is(err, ErrTarget) || !strings.Contains(err.Error(), "302") {
		t.Errorf("%v", err)
	}
	if scrapeClient(nil).Transport.(*http.Transport).Proxy != nil {
		t.Error("it would ask a proxy of the environment")
	}
}

// TestCapacityOfAProgram: a program is started anew for each step, so what an
// overload left in it is gone, and nothing has to come round.
func TestCapacityOfAProgram(t *testing.T) {
	c, err := search(t, func(o Options) (*Outcome, error) {
		if rateOf(o) <= 100 {
			return meets(o, 0), nil
		}
		out := meets(o, 5)
		o.probe.undrained = 5
		return out, nil
	}, "capacity.idle=0", "target={command: server}", "upstream.admin=http://127.0.0.1:2")
	if err != nil || c.Outcome != "found" {
		t.Fatalf("%v, %+v", err, c.Maximum)
	}
	for _, s := range c.Steps {
		if s.Purpose == purposeRecover {
			t.Errorf("step %d was to recover", s.Number)
		}
	}
}
