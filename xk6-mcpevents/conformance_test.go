package mcpevents

import (
	"fmt"
	"testing"

	"github.com/eventmeter/eventmeter/internal/conform"
	"github.com/eventmeter/eventmeter/internal/refserver"
)

// What a group saw of the rows of conformance is sent with their levels: a row that
// held counts 0, and a fault breaks its own row alone. Systems without rows send
// nothing.
func TestConformance(t *testing.T) {
	noLeaks(t)
	const subs = 3
	for _, c := range []struct {
		name, fault, open string
		seen              string // a row that this way to subscribe shows; "" = none is judged
		breaks            string
		level             conform.Level
	}{
		{name: "stream", open: "stream('chat.message', {%s})", seen: "stream-active-confirmation"},
		{name: "poll", open: "poll('chat.message', {%s, minInterval: 0})", seen: "poll-events-array"},
		{name: "subscribe", open: "subscribe('chat.message', {%s})", seen: "delivery-standard-webhooks-headers"},
		{name: "smithery", open: "subscribe('chat.message', {%s, system: 'smithery'})"},
		{name: "early", fault: "early", open: "subscribe('chat.message', {%s})", seen: "subscribe-id-derived",
			breaks: "verification-required-before-delivery", level: conform.Must},
		{name: "reid", fault: "reid(every=1)", open: "stream('chat.message', {%s})", seen: "occurrence-event-id",
			breaks: "occurrence-event-id-from-upstream", level: conform.Should},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := serveHere(t, refserver.Options{}, c.fault)
			root := New()
			s := newStage(t, root)
			s.must(at(srv, `
				const topic = 'rows';
				const up = new Upstream({event: 'chat.message', topic, admin: ADMIN, data: {channel: topic, text: '{probe}'}});
				const client = new Client(TARGET, {token: 'k6'});
				const sub = await client.`+fmt.Sprintf(c.open, fmt.Sprintf("arguments: {channel: topic}, topic, subscriptions: %d", subs))+`;
				await up.fire(4);
				await sub.received();
				await sub.close();
			`))
			finished(t, root)
			s.over()
			if _, n := s.sum("mcp_events_conformance_seen"); (n > 0) != (c.seen != "") {
				t.Errorf("%d rows were sent", n)
			}
			if c.seen == "" {
				return
			}
			if seen, _ := s.sum("mcp_events_conformance_seen", "row", c.seen, "system", "events"); seen < subs {
				t.Errorf("%s was seen %v times, by %d subscriptions", c.seen, seen, subs)
			}
			if broken, n := s.sum("mcp_events_conformance_broken", "row", c.seen); broken != 0 || n != 1 {
				t.Errorf("%s was broken %v times, in %d samples", c.seen, broken, n)
			}
			all, _ := s.sum("mcp_events_conformance_broken")
			own, _ := s.sum("mcp_events_conformance_broken", "level", string(c.level), "row", c.breaks)
			if all != own || (own > 0) != (c.breaks != "") {
				t.Errorf("rows were broken %v times, %q of them %v times", all, c.breaks, own)
			}
		})
	}
}
