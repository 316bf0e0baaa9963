package events_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/refserver"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/driver/events"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/loadgen/systems/systemstest"
)

// TestChosenStart: a cursor of an earlier life of the target begins at its oldest
// event, and one that it cannot read begins now; both are truncated. In the older
// revision streams and pollers begin now in any case, and webhooks learn it after the
// answer.
func TestChosenStart(t *testing.T) {
	for _, revision := range []mcpclient.Revision{mcpclient.SEP3415, mcpclient.Older} {
		t.Run(string(revision), func(t *testing.T) { testChosenStart(t, revision) })
	}
}

func testChosenStart(t *testing.T, revision mcpclient.Revision) {
	w := systemstest.NewWorld(t, refserver.Options{NextPoll: 50 * time.Millisecond, Revision: string(revision)})
	for i, mode := range []eventmeter.Mode{eventmeter.Poll, eventmeter.Push, eventmeter.Webhook} {
		for j, cursor := range []string{"c0-0", `no "cursor"`} {
			t.Run(fmt.Sprintf("%s/%d", mode, j), func(t *testing.T) {
				source := uint16(2*i + j)
				w.Fire(t, t.Name(), source, 1)
				d, rec := systemstest.Lane(
					t,
					mcpclient.EndpointOptions{URL: w.Srv.URL(), Tokens: []string{"a"}, Revision: revision},
					driver.Options{
						Mode: mode, Settings: events.Settings{Cursor: cursor},
						Arguments: func(int) json.RawMessage { return json.RawMessage(fmt.Sprintf(`{"channel":%q}`, t.Name())) },
						Poll:      &driver.Poll{MinInterval: time.Millisecond},
						Listener:  driver.ListenerOptions{Authority: w.Authority},
					},
				)
				systemstest.Attach(t, d, 1)
				w.Fire(t, t.Name(), source, 2)
				want := 2 - j
				if revision == mcpclient.Older && mode != eventmeter.Webhook {
					want = 1
				}
				rec.Wait(
					t,
					"the events",
					func(m *systemstest.Memory) bool { return len(m.Seen(0, source)) >= want && m.Seen(0, source)[2] > 0 },
				)
				must(t, d.Detach(t.Context(), 0))
				rec.Mu.Lock()
				defer rec.Mu.Unlock()
				if n := len(rec.Seen(0, source)); n != want {
					t.Errorf("%d events, want %d", n, want)
				}
				if systemstest.Figure(d, "started") != 1 || systemstest.Figure(d, "startedTruncated") != 1 {
					t.Errorf("figures %v", d.(driver.Figurer).Figures().Values)
				}
				if n := rec.CountNotices(eventmeter.Malformed); n > 0 {
					t.Errorf("%d notices", n)
				}
			})
		}
	}
}
