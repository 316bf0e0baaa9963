package calibrate

import (
	"net/url"
	"slices"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/conform"
	"github.com/eventmeter/eventmeter/internal/refserver/breach"
	"github.com/eventmeter/eventmeter/internal/refserver/faults"
	"github.com/eventmeter/eventmeter/internal/settings"
	"github.com/eventmeter/eventmeter/loadgen/driver/events"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// calibrateEvents is the calibration of MCP Events: streams and pollers are promised
// one order, and subscriptions without a token are refused.
var calibrateEvents = calibration{
	early:   true,
	ordered: func(m *expectedCounts) bool { return m.mode != eventmeter.Webhook },
	refuses: turnsAway,
	ends:    unlisted,
	own: func(m *expectedCounts) []Check {
		return slices.Concat(anonymous(m), m.stalled(), m.started(), m.received(), m.serial(), m.broken())
	},
}

// unlisted is how callbacks are refused that are at a host which the target's operator has
// not named.
func unlisted(p *profiles.Profile, l *profiles.Lane) refusal {
	e := &p.Target.Embedded
	if eventmeter.Mode(l.Mode) != eventmeter.Webhook || e.Proof != "allow-list" {
		return refusal{}
	}
	host := "127.0.0.1" // of a listener without a name of its own
	if u, err := url.Parse(l.Webhook.Callback); err == nil && u.Host != "" {
		host = u.Hostname()
	}
	switch {
	case slices.Contains(e.CallbackHosts, host):
		return refusal{}
	case p.Target.Revision == "" || p.Target.Revision == "sep-3415":
		return refusal{"rpc -32027", eventmeter.Subscribe}
	}
	return refusal{"rpc -32015", eventmeter.Subscribe}
}

// isAnonymous reports whether the lane's subscriptions have no token.
func isAnonymous(m *expectedCounts) bool {
	set, ok := m.settings.Settings.(*events.Settings)
	return ok && set.Anonymous
}

// turnsAway reports whether the target refuses the lane's subscriptions because
// they have no token.
func turnsAway(m *expectedCounts) bool {
	_, admitted := m.spec.Server(faults.Anonymous, m.mode)
	return isAnonymous(m) && !admitted
}

// anonymous returns the figures of subscriptions without a token.
func anonymous(m *expectedCounts) []Check {
	if !isAnonymous(m) {
		return nil
	}
	refused, accepted := int64(m.settings.Subscriptions), int64(0)
	if !turnsAway(m) {
		refused, accepted = accepted, refused
	}
	return []Check{m.figure("anonymousRefused", refused), m.figure("anonymousAccepted", accepted)}
}

// stalled are the figures of streams that stopped reading. What came meanwhile waited,
// and is not lost, unless the target kept too little of it.
func (m *expectedCounts) stalled() []Check {
	set, ok := m.settings.Settings.(*events.Settings)
	if !ok || set.StallFor == 0 {
		return nil
	}
	subs := int64(m.settings.Subscriptions)
	waited := atLeast("fromIntended.max, ms", set.StallFor.Milliseconds()/2, millis(m.result.Latency.FromIntended.Max))
	if m.overflows() {
		return append(m.overflowed(), m.figure("stalled", subs), waited)
	}
	var behind int64 // published for sure while all streams were held
	for i := range m.settings.Subscriptions {
		for _, s := range m.owed(i) {
			behind += m.during(s, set.StallFor/2)
		}
	}
	return []Check{m.figure("stalled", subs), atLeast("heldBack", behind, int64(m.result.Figures["heldBack"])), waited}
}

// during counts the measured events of a source within a time after the first.
func (m *expectedCounts) during(source uint16, d time.Duration) (n int64) {
	var first eventmeter.Instant
	for _, e := range m.sources[source] {
		switch {
		case !e.Measured:
		case first == 0:
			first = e.Fired
		case e.Fired.Sub(first) < d:
			n++
		}
	}
	return n
}

// started returns the figures of subscriptions that begin at a cursor from before a
// restart of the target, from which it cannot continue.
func (m *expectedCounts) started() []Check {
	set, ok := m.settings.Settings.(*events.Settings)
	if !ok || set.Cursor == "" {
		return nil
	}
	subs := int64(m.settings.Subscriptions)
	out := []Check{m.figure("started", subs), m.figure("startedTruncated", subs)}
	if m.hits(faults.Announce) > 0 {
		return out
	}
	// Only a webhook of the older revision is told by an envelope, which is no false alarm.
	told, announced := int64(0), int64(0)
	if m.mode == eventmeter.Webhook && m.target.Revision == "older" {
		told = subs
	}
	for _, gaps := range m.gaps {
		announced += int64(len(gaps))
	}
	return append(out, exactly("announcements", told, announced))
}

// overflows reports whether streams stop reading for so long that the target's queue
// does not hold what comes meanwhile. What the buffers of the kernel hold is the
// kernel's to know, so that the number of losses is the target's word.
func (m *expectedCounts) overflows() bool {
	set, ok := m.settings.Settings.(*events.Settings)
	return ok && set.StallFor > 0 && m.target.Embedded.QueueLen > 0
}

// overflowed are the figures of streams whose target skipped events: what the ledger
// counts as lost is what the target skipped, and it was announced. On a busy machine a
// stream may get by with its queue, and two events of a source may be published at once:
// then it cannot be known whether the announcement spoke of a loss beside them, which is
// no silent one.
func (m *expectedCounts) overflowed() []Check {
	told := 0
	for _, gaps := range m.gaps {
		if len(gaps) > 0 {
			told++
		}
	}
	lost := m.result.LostAnnounced + m.result.LostOrderUnknown
	return []Check{
		atLeast("streams with a gap", 1, int64(told)),
		exactly("lostSilent", 0, m.result.LostSilent),
		exactly("losses beyond the target's", 0, lost-m.applied.Overflow),
		atLeast("losses announced", 1, lost),
	}
}

// early reports whether each subscription gets an event before its challenge.
func (m *expectedCounts) early() bool {
	_, ok := m.spec.Server(faults.Early, m.mode)
	return ok && m.system.early
}

// unfit reports whether the lane's client refuses every event, because it requires that
// the webhook-id is the event's, and the target gives messages ids of their own.
func (m *expectedCounts) unfit() bool {
	return m.mode == eventmeter.Webhook && m.target.Embedded.WebhookID == "message" &&
		slices.Contains(m.settings.Webhook.Require, "eventId")
}

// judged is how many deliveries the lane's client refuses, each of which is tried once.
func (m *expectedCounts) judged() (n int64) {
	for i := range m.settings.Subscriptions {
		for _, s := range m.owed(i) {
			if m.unfit() {
				n += int64(len(m.sources[s]))
			}
		}
	}
	return n + m.pending()
}

// pending is how many deliveries the lane's client refuses because its subscription is
// not answered yet.
func (m *expectedCounts) pending() int64 {
	if !m.early() || m.settings.Webhook.Pending != settings.Refuse {
		return 0
	}
	return int64(m.settings.Subscriptions)
}

// dropped reports whether the target gives up subscriptions without an expiry, because
// their callbacks fail all the time.
func (m *expectedCounts) dropped() bool {
	w := &m.settings.Webhook
	return m.mode == eventmeter.Webhook && w.NoExpiry() && m.target.Embedded.DropAfter > 0 &&
		slices.ContainsFunc(w.Answer, func(a settings.WebhookAnswer) bool {
			return !a.Challenge && !a.Accepts() && a.Share == 0 && a.Times > 1
		})
}

// received are the figures of webhooks: of their grants, of a shared callback, of secrets
// that change, and of what the client refuses.
func (m *expectedCounts) received() (out []Check) {
	w := &m.settings.Webhook
	subs := int64(m.settings.Subscriptions)
	if m.mode != eventmeter.Webhook {
		return nil
	}
	if w.NoExpiry() {
		out = append(out, m.figure("grantsWithoutEnd", subs))
	}
	if w.ShareURL {
		out = append(out, m.figure("unrouted", 0))
	}
	if w.RotateEvery > 0 {
		out = append(out, atLeast("rotations", subs, int64(m.result.Figures["rotations"])), m.figure("rejectedInRace", 0))
	}
	if len(w.Require) > 0 {
		out = append(out, m.figure("refusedUnfit", m.judged()-m.pending()))
	}
	if w.Pending == settings.Refuse {
		out = append(out, exactly("refusedPending", m.pending(), int64(m.result.Figures["refusedPending"])))
	}
	return out
}

// unreplayed counts the subscriptions that were opened again with their cursor and got
// nothing of what was published meanwhile. The target keeps one event, so that its cursors
// soon lie before what it has. That it hides this, and so it never says truncated, is planted.
func (m *expectedCounts) unreplayed(lane *ledger.LaneAccount) Check {
	const name = "cursors that replayed nothing"
	if slices.ContainsFunc(m.spec.Breaches(), func(p breach.Plan) bool { return p.Row == hidesTruncation }) {
		return atLeast(name, 1, lane.NotReplayed)
	}
	return exactly(name, 0, lane.NotReplayed)
}

// hidesTruncation is the row that no lane judges. The ledger counts its effect.
var hidesTruncation = conform.Rows[conform.ReplayCeilingSetsTruncated].Name

// serial is the latency of events for several subscriptions that the target delivers
// one after the other: the last of them waits for the answers to the others.
func (m *expectedCounts) serial() []Check {
	answers := m.settings.Webhook.Answer
	if m.target.Embedded.Senders != 1 || len(answers) == 0 {
		return nil
	}
	readers := map[uint16]int64{}
	var most int64
	for i := range m.settings.Subscriptions {
		for _, s := range m.owed(i) {
			readers[s]++
			most = max(most, readers[s])
		}
	}
	return []Check{atLeast("fromIntended.max, ms", (most-1)*answers[0].Delay.Milliseconds()-1, millis(m.result.Latency.FromIntended.Max))}
}
