package ledger

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
)

const testRun = 42

func ms(n float64) eventmeter.Instant { return eventmeter.Instant(n * 1e6) }

// script tells a recorder what a line of words says, for one subscription and
// source 0 unless it says otherwise: "word:seq/id@milliseconds". A source other
// than 0 is written "seq.source", an event id is any number. The number of a
// state is until when the subscription could have received something.
func script(t testing.TB, r eventmeter.Recorder, sub eventmeter.Sub, lines string) {
	t.Helper()
	for word := range strings.FieldsSeq(lines) {
		head, at, ok := strings.Cut(word, "@")
		if !ok {
			t.Fatalf("%s: no time", word)
		}
		when, err := strconv.ParseFloat(at, 64)
		if err != nil {
			t.Fatal(err)
		}
		head, id, _ := strings.Cut(head, "/")
		verb, number, _ := strings.Cut(head, ":")
		number, src, _ := strings.Cut(number, ".")
		seq, _ := strconv.Atoi(number)
		source, _ := strconv.Atoi(src)
		event, err := strconv.Atoi(id)
		if err != nil {
			event = 1000 + seq
		}
		if id == "none" {
			event = 0
		}
		say(t, r, sub, verb, eventmeter.Stamp{Run: testRun, Source: uint16(source), Seq: uint32(seq)}, uint64(event), ms(when))
	}
}

func say(t testing.TB, r eventmeter.Recorder, sub eventmeter.Sub, verb string, s eventmeter.Stamp, id uint64, at eventmeter.Instant) {
	t.Helper()
	states := map[string]eventmeter.State{
		"attaching": eventmeter.Attaching,
		"active":    eventmeter.Active,
		"detaching": eventmeter.Detaching,
		"detached":  eventmeter.Detached,
		"failed":    eventmeter.Failed,
	}
	outcomes := map[string]eventmeter.Outcome{"ok": eventmeter.Accepted, "uncertain": eventmeter.Uncertain, "refused": eventmeter.Refused}
	d := eventmeter.Delivery{Sub: sub, Stamp: s, Probed: true, EventID: id, At: at, Bytes: 100}
	switch verb {
	case "fire", "warm":
		r.Fired(eventmeter.Emission{Stamp: s, Intended: at - ms(1), Fired: at, Measured: verb == "fire"})
	case "ok", "uncertain", "refused":
		r.Resolved(s, outcomes[verb], at)
	case "got":
		r.Delivered(d)
	case "reject":
		d.Refused = true
		r.Delivered(d)
	case "foreign":
		d.Stamp.Run++
		r.Delivered(d)
	case "unprobed":
		d.Stamp, d.Probed = eventmeter.Stamp{}, false
		r.Delivered(d)
	case "truncated":
		r.Noticed(eventmeter.Notice{Sub: sub, Kind: eventmeter.Truncated, At: at})
	case "passed": // a gap that may be before the subscription
		r.Noticed(eventmeter.Notice{Sub: sub, Kind: eventmeter.Truncated, At: at, Before: true})
	case "claimed":
		r.Noticed(eventmeter.Notice{Sub: sub, Kind: eventmeter.Claimed, At: at, Stamp: s})
	case "resumed": // at a cursor, for what was published after as many milliseconds as the number says
		r.Noticed(eventmeter.Notice{Sub: sub, Kind: eventmeter.Resumed, At: at, Since: ms(float64(s.Seq))})
	case "turned": // a copy that is no delivery
		r.Noticed(eventmeter.Notice{Sub: sub, Kind: eventmeter.Rejected, At: at, Detail: "wrong signature", Stamp: s, Refused: true})
	case "handshake":
		r.Noticed(eventmeter.Notice{Sub: sub, Kind: eventmeter.Undeliverable, At: at, Detail: "bad certificate"})
	case "closed": // there was no room here
		r.Noticed(eventmeter.Notice{Sub: sub, Kind: eventmeter.Undeliverable, At: at, Detail: "too many", Own: true})
	case "suspended", "ended": // at as many milliseconds as the number says, or not before
		n := eventmeter.Notice{Sub: sub, Kind: eventmeter.Suspended, At: at, Since: ms(float64(s.Seq)), Detail: "tls_error"}
		n.Later = verb == "suspended"
		r.Noticed(n)
	default:
		to, ok := states[verb]
		if !ok {
			t.Fatalf("no such word: %s", verb)
		}
		r.Changed(eventmeter.Transition{Sub: sub, To: to, At: at, Reason: "no reason", Seen: ms(float64(s.Seq))})
	}
}

func newTestLedger(t testing.TB, opt Options) *Ledger {
	t.Helper()
	opt.Run = testRun
	if opt.Sources == 0 {
		opt.Sources = 2
	}
	if opt.Lanes == nil {
		opt.Lanes = []LaneSpec{{Name: "push", Mode: eventmeter.Push, Subscriptions: 4, Ordered: true}}
	}
	l, err := New(opt)
	if err != nil {
		t.Fatal(err)
	}
	l.now = func() eventmeter.Instant { return ms(1000) }
	return l
}

const up = "attaching@1 active@2 "

// TestLedgerFigures checks every count of a subscription by hand.
func TestLedgerFigures(t *testing.T) {
	t.Parallel()
	second := func(c SubCounts) SubCounts { // what every open window has
		c.Windows++
		c.Active += 998 * time.Millisecond
		return c
	}
	again := func(script string) string { // fires 1 while there is no subscription
		return up + "detaching@3 detached@4 fire:1@5 ok:1@6 attaching@8 active@9 " + script
	}
	resumed := func(c SubCounts) SubCounts {
		c.Expected, c.Delivered, c.Windows, c.Active = c.Expected+1, c.Delivered+1, 2, 992*time.Millisecond
		return c
	}
	replay := Options{Lanes: []LaneSpec{{Mode: eventmeter.Poll, Subscriptions: 1, Ordered: true, Replay: true}}}
	hooks := Options{Lanes: []LaneSpec{{Mode: eventmeter.Webhook, Subscriptions: 1}}}
	for _, c := range []struct {
		name, script string
		opt          Options
		want         SubCounts
	}{
		{"in order", up + "fire:1@3 ok:1@4 got:1@5 fire:2@6 ok:2@7 got:2@8", Options{},
			second(SubCounts{Expected: 2, Delivered: 2})},
		{"delivered before resolved", up + "fire:1@3 got:1@4 ok:1@5", Options{},
			second(SubCounts{Expected: 1, Delivered: 1})},
		{"delivered before resolved as uncertain", up + "fire:1@3 got:1@4 uncertain:1@5", Options{},
			second(SubCounts{Recovered: 1})},
		{"delivered after it was refused", up + "fire:1@3 refused:1@4 got:1@5", Options{},
			second(SubCounts{Recovered: 1})},
		{"not resolved at all", up + "fire:1@3 got:1@4", Options{},
			second(SubCounts{Undecided: 1})},
		{"uncertain and refused are owed to nobody", up + "fire:1@3 uncertain:1@4 fire:2@5 refused:2@6", Options{},
			second(SubCounts{})},
		{"lost at the end", up + "fire:1@3 ok:1@4 got:1@5 fire:2@6 ok:2@7 fire:3@8 ok:3@9", Options{},
			second(SubCounts{Expected: 3, Delivered: 1, LostSilent: 2, GapIncidents: 1, LongestGap: 2})},
		{"lost in the middle, twice", up + "fire:1@3 ok:1@4 fire:2@5 ok:2@6 got:2@7 fire:3@8 ok:3@9 fire:4@10 ok:4@11 got:4@12", Options{},
			second(SubCounts{Expected: 4, Delivered: 2, LostSilent: 2, GapIncidents: 2, LongestGap: 1})},
		{"a gap is not split by what was owed to nobody", up + "fire:1@3 ok:1@4 fire:2@5 uncertain:2@6 got:2@7 fire:3@8 ok:3@9", Options{},
			second(SubCounts{Expected: 2, LostSilent: 2, Recovered: 1, GapIncidents: 1, LongestGap: 2})},
		{"sources have gaps of their own", up + "fire:1@3 ok:1@4 fire:1.1@5 ok:1.1@6 fire:2.1@7 ok:2.1@8 got:2.1@9", Options{},
			second(SubCounts{Expected: 3, Delivered: 1, LostSilent: 2, GapIncidents: 2, LongestGap: 1})},
		{"announced between its neighbours", up + "fire:1@3 ok:1@4 got:1@5 fire:2@6 ok:2@7 truncated@8 fire:3@9 ok:3@10 got:3@11", Options{},
			second(SubCounts{Expected: 3, Delivered: 2, LostAnnounced: 1, Announcements: 1, GapIncidents: 1, LongestGap: 1})},
		{"announced after the later neighbour", up + "fire:1@3 ok:1@4 got:1@5 fire:2@6 ok:2@7 fire:3@9 ok:3@10 got:3@11 truncated@12", Options{},
			second(SubCounts{Expected: 3, Delivered: 2, LostSilent: 1, Announcements: 1, FalseAlarms: 1, GapIncidents: 1, LongestGap: 1})},
		{"announced before the end", up + "fire:1@3 ok:1@4 truncated@5 truncated@6", Options{},
			second(SubCounts{Expected: 1, LostAnnounced: 1, Announcements: 2, GapIncidents: 1, LongestGap: 1})},
		{"announced and filled", up + "fire:1@3 ok:1@4 truncated@5 fire:2@6 ok:2@7 got:2@8 got:1@9", Options{},
			second(SubCounts{Expected: 2, Delivered: 2, Announcements: 1, FalseAlarms: 1, OutOfOrder: 1})},
		{"announced before it was fired", up + "truncated@3 fire:1@4 ok:1@5", Options{},
			second(SubCounts{Expected: 1, LostSilent: 1, Announcements: 1, FalseAlarms: 1, GapIncidents: 1, LongestGap: 1})},
		{"announced after one that overlaps", up + "fire:1@3 fire:2@3.5 ok:1@4 ok:2@4 got:2@5 truncated@6", Options{},
			second(SubCounts{Expected: 2, Delivered: 1, LostOrderUnknown: 1, Announcements: 1, GapIncidents: 1, LongestGap: 1})},
		{"announced before one that overlaps", up + "fire:1@3 ok:1@4 got:1@4 fire:2@5 fire:3@5 ok:2@6 ok:3@6 truncated@7 got:3@8", Options{},
			second(SubCounts{Expected: 3, Delivered: 2, LostOrderUnknown: 1, Announcements: 1, GapIncidents: 1, LongestGap: 1})},
		{"announced between two that overlap", up + "fire:1@3 ok:1@4 got:1@4 fire:2@5 fire:3@5 fire:4@5 ok:4@6 ok:3@6 " +
			"ok:2@6 got:4@7 truncated@7 got:3@8 fire:5@9 ok:5@9 got:5@9", Options{},
			second(SubCounts{Expected: 5, Delivered: 4, LostOrderUnknown: 1, Announcements: 1, GapIncidents: 1, LongestGap: 1})},
		{"two that overlap, both lost and announced", up + "fire:1@3 ok:1@4 got:1@4 fire:2@5 fire:3@5 ok:3@6 ok:2@6 " +
			"truncated@7 fire:4@9 ok:4@9 got:4@9", Options{},
			second(SubCounts{Expected: 4, Delivered: 2, LostAnnounced: 2, Announcements: 1, GapIncidents: 1, LongestGap: 2})},
		{"overlapping ones lost, another announced", up + "fire:1@3 fire:2@3 ok:1@4 ok:2@4 got:2@4 fire:3@5 ok:3@6 " +
			"truncated@7 fire:4@9 ok:4@9 got:4@9", Options{},
			second(SubCounts{Expected: 4, Delivered: 2, LostOrderUnknown: 1, LostAnnounced: 1, Announcements: 1, GapIncidents: 2, LongestGap: 1})},
		{"overlapping ones lost, and a later one received before the announcement",
			up + "fire:1@3 fire:2@3 ok:1@4 ok:2@4 got:2@4 fire:3@5 ok:3@6 got:3@6 truncated@7", Options{},
			second(SubCounts{Expected: 3, Delivered: 2, LostSilent: 1, Announcements: 1, FalseAlarms: 1, GapIncidents: 1, LongestGap: 1})},
		{"announced, then received in one answer",
			up + "fire:1@3 ok:1@4 fire:2@5 ok:2@6 fire:3@7 ok:3@8 truncated@10 got:1@10 got:3@10", Options{},
			second(SubCounts{Expected: 3, Delivered: 2, LostSilent: 1, Announcements: 1, FalseAlarms: 1, GapIncidents: 1, LongestGap: 1})},
		{"one that is out of order says nothing about an announcement",
			up + "fire:1@3 ok:1@4 fire:2@5 ok:2@6 fire:3@7 ok:3@8 got:2@9 truncated@10 got:1@11 fire:4@12 ok:4@13 got:4@14", Options{},
			second(SubCounts{Expected: 4, Delivered: 3, OutOfOrder: 1, LostAnnounced: 1, Announcements: 1, GapIncidents: 1, LongestGap: 1})},
		{"beside one whose firing failed nothing is known", up + "fire:1@3 uncertain:1@4 got:1@4 fire:2@5 ok:2@6 truncated@7", Options{},
			second(SubCounts{Expected: 1, Recovered: 1, LostOrderUnknown: 1, Announcements: 1, GapIncidents: 1, LongestGap: 1})},
		{"a gap by webhook at its place", up + "fire:1@3 ok:1@4 got:1@5 fire:2@6 ok:2@7 truncated@8 fire:3@9 ok:3@10 got:3@11", hooks,
			second(SubCounts{Expected: 3, Delivered: 2, LostOrderUnknown: 1, Announcements: 1, GapIncidents: 1, LongestGap: 1})},
		{"a gap by webhook that comes late", up + "fire:1@3 ok:1@4 got:1@5 fire:2@6 ok:2@7 fire:3@8 ok:3@9 got:3@10 truncated@11 " +
			"fire:4@12 ok:4@13 fire:5@14 ok:5@15 got:5@16", hooks,
			second(SubCounts{Expected: 5, Delivered: 3, LostOrderUnknown: 1, LostSilent: 1, Announcements: 1, GapIncidents: 2, LongestGap: 1})},
		{"a gap by webhook before an earlier event",
			up + "fire:1@3 ok:1@4 fire:2@6 ok:2@7 truncated@8 got:1@9 fire:3@10 ok:3@11 got:3@12", hooks,
			second(SubCounts{Expected: 3, Delivered: 2, LostOrderUnknown: 1, Announcements: 1, GapIncidents: 1, LongestGap: 1})},
		{"gaps by webhook in vain, and what filled the others", up + "truncated@2.5 fire:1@3 ok:1@4 truncated@5 got:1@6 " +
			"truncated@7 truncated@8 fire:2@9 ok:2@10 truncated@11 got:2@12 fire:3@13 ok:3@14 truncated@15", hooks,
			second(SubCounts{Expected: 3, Delivered: 2, LostOrderUnknown: 1, Announcements: 6, FalseAlarms: 5, GapIncidents: 1, LongestGap: 1})},
		{"announced before active", "attaching@1 truncated@1.5 active@2 fire:1@3 ok:1@4", Options{},
			second(SubCounts{Expected: 1, LostSilent: 1, Announcements: 1, GapIncidents: 1, LongestGap: 1})},
		{"announced, and nothing was published since it began", "attaching@1 fire:1@1 ok:1@1.5 active@2 truncated@3", Options{},
			second(SubCounts{Announcements: 1, FalseAlarms: 1})},
		{"passed over before it began", up + "passed@3 fire:1@4 ok:1@5 got:1@6", Options{},
			second(SubCounts{Expected: 1, Delivered: 1, Announcements: 1})},
		{"passed over before it began, and announced", up + "passed@3 truncated@3 fire:1@4 ok:1@5 got:1@6", Options{},
			second(SubCounts{Expected: 1, Delivered: 1, Announcements: 2, FalseAlarms: 1})},
		{"passed over before or after it began", up + "fire:1@3 ok:1@4 passed@5 fire:2@6 ok:2@7 got:2@8", Options{},
			second(SubCounts{Expected: 2, Delivered: 1, LostAnnounced: 1, Announcements: 1, GapIncidents: 1, LongestGap: 1})},
		{"out of order", up + "fire:1@3 ok:1@4 fire:2@5 ok:2@6 got:2@7 got:1@8", Options{},
			second(SubCounts{Expected: 2, Delivered: 2, OutOfOrder: 1})},
		{"concurrent events have no order", up + "fire:1@3 fire:2@5 ok:1@5 ok:2@6 got:2@7 got:1@8", Options{},
			second(SubCounts{Expected: 2, Delivered: 2})},
		{"out of order and resolved late", up + "fire:1@3 fire:2@5 got:2@7 got:1@8 ok:1@4.5 ok:2@9", Options{},
			second(SubCounts{Expected: 2, Delivered: 2, OutOfOrder: 1})},
		{"sources have no order among them", up + "fire:1@3 ok:1@4 fire:1.1@5 ok:1.1@6 got:1.1@7 got:1@8", Options{},
			second(SubCounts{Expected: 2, Delivered: 2})},
		{"late counts from intended", up + "fire:1@3 ok:1@4 got:1@7 fire:2@8 ok:2@9 got:2@12.000001", Options{LateAfter: 5 * time.Millisecond},
			second(SubCounts{Expected: 2, Delivered: 2, Late: 1})},
		{"same event twice", up + "fire:1@3 ok:1@4 got:1/7@5 got:1/7@6 got:1/7@7", Options{},
			second(SubCounts{Expected: 1, Delivered: 1, Duplicates: Duplicates{SameEvent: 2}})},
		{"another id, then each again", up + "fire:1@3 ok:1@4 got:1/7@5 got:1/8@6 got:1/7@7 got:1/8@8", Options{},
			second(SubCounts{Expected: 1, Delivered: 1, Duplicates: Duplicates{SameEvent: 2, SameEmission: 1}})},
		{"without ids", up + "fire:1@3 ok:1@4 got:1/none@5 got:1/none@6", Options{},
			second(SubCounts{Expected: 1, Delivered: 1, Duplicates: Duplicates{SameEmission: 1}})},
		{"asked for once", up + "fire:1@3 ok:1@4 reject:1@5 got:1@6 got:1@7", Options{},
			second(SubCounts{Expected: 1, Delivered: 1, Duplicates: Duplicates{Requested: 1, SameEvent: 1}})},
		{"asked for twice", up + "fire:1@3 ok:1@4 reject:1@5 reject:1@6 got:1@7 got:1@8", Options{},
			second(SubCounts{Expected: 1, Delivered: 1, Duplicates: Duplicates{Requested: 2, SameEvent: 1}})},
		{"two copies refused before one comes again", up + "fire:1@3 ok:1@4 got:1@4 reject:1@5 reject:1@6 got:1@7 got:1@8", Options{},
			second(SubCounts{Expected: 1, Delivered: 1, Duplicates: Duplicates{Requested: 2, SameEvent: 2}})},
		{"duplicate of what is owed to nobody", up + "fire:1@3 refused:1@4 got:1@5 got:1@6", Options{},
			second(SubCounts{Recovered: 1, Duplicates: Duplicates{SameEvent: 1}})},
		{"warm-up enters no figure", up + "warm:1@3 ok:1@4 got:1@5 got:1@6 warm:2@7 ok:2@8 fire:3@9 ok:3@10 got:3@11", Options{},
			second(SubCounts{Expected: 1, Delivered: 1})},
		{"fired while attaching", "attaching@1 fire:1@1.5 ok:1@1.6 active@2 got:1@3", Options{},
			second(SubCounts{InFlight: 1})},
		{"fired before, acknowledged while attaching", "fire:1@0.5 attaching@1 ok:1@1.6 active@2 got:1@3", Options{},
			second(SubCounts{InFlight: 1})},
		{"fired at the instant of activation", "attaching@1 active@2 fire:1@2 ok:1@3 got:1@4 fire:2@2.000001 ok:2@3", Options{},
			second(SubCounts{InFlight: 1, Expected: 1, LostSilent: 1, GapIncidents: 1, LongestGap: 1})},
		{"came before active was reported", "attaching@1 fire:1@2.5 ok:1@2.6 got:1@2.7 active@2", Options{},
			second(SubCounts{Expected: 1, Delivered: 1})},
		{"stale", "fire:1@0.4 ok:1@0.5 " + up + "got:1@3", Options{},
			second(SubCounts{Unexpected: Unexpected{Stale: 1}})},
		{"replayed", "fire:1@0.4 ok:1@0.5 " + up + "got:1@3 got:1@4", Options{Lanes: []LaneSpec{{Subscriptions: 1, Replay: true}}},
			second(SubCounts{Replayed: 1, Duplicates: Duplicates{SameEvent: 1}})},
		{"foreign run, never fired, unprobed", up + "foreign:1@3 got:9@4 got:1.77@4 unprobed@5 got:0@6", Options{},
			second(SubCounts{Unprobed: 1, Unexpected: Unexpected{ForeignRun: 1, NeverFired: 3}})},
		{"a source it does not hear", up + "fire:1.1@3 ok:1.1@4 got:1.1@5",
			Options{Lanes: []LaneSpec{{Subscriptions: 1, Owed: func(int) []uint16 { return []uint16{0} }}}},
			second(SubCounts{Unexpected: Unexpected{NotSubscribed: 1}})},
		{"never attached", "fire:1@3 ok:1@4 got:1@5", Options{},
			SubCounts{Unexpected: Unexpected{NotSubscribed: 1}}},
		{"could not be opened", "attaching@1 fire:1@2 ok:1@3 got:1@4 failed@5 fire:2@6 ok:2@7 got:2@8", Options{},
			SubCounts{InFlight: 1, Unexpected: Unexpected{AfterEnd: 1}}},
		{"claimed, and never delivered", up + "fire:1@3 ok:1@4 claimed:1@5", Options{},
			second(SubCounts{Expected: 1, LostSilent: 1, Overclaimed: 1, GapIncidents: 1, LongestGap: 1})},
		{"claimed before it was delivered", up + "fire:1@3 ok:1@4 claimed:1@5 got:1@6", Options{},
			second(SubCounts{Expected: 1, Delivered: 1})},
		{"claimed by what happened later", up + "fire:1@3 ok:1@4 fire:2@5 ok:2@6 got:2@7 claimed:2@8 claimed:2@9 fire:3@10 " +
			"ok:3@11 got:3@12 claimed:3@13", Options{},
			second(SubCounts{Expected: 3, Delivered: 2, LostSilent: 1, Overclaimed: 1, GapIncidents: 1, LongestGap: 1})},
		{"claimed one after the other", up + "fire:1@3 ok:1@4 fire:2@5 ok:2@6 got:2@7 claimed:2@8 fire:3@10 ok:3@11 claimed:3@13", Options{},
			second(SubCounts{Expected: 3, Delivered: 1, LostSilent: 2, Overclaimed: 2, GapIncidents: 2, LongestGap: 1})},
		{"not claimed by what overlaps", up + "fire:1@3 fire:2@3 ok:1@4 ok:2@4 got:2@5 claimed:2@6", Options{},
			second(SubCounts{Expected: 2, Delivered: 1, LostSilent: 1, GapIncidents: 1, LongestGap: 1})},
		{"not claimed by what happened before", up + "fire:1@3 ok:1@4 got:1@5 claimed:1@6 fire:2@7 ok:2@8", Options{},
			second(SubCounts{Expected: 2, Delivered: 1, LostSilent: 1, GapIncidents: 1, LongestGap: 1})},
		{"claimed and announced", up + "fire:1@3 ok:1@4 truncated@5 fire:2@6 ok:2@7 got:2@8 claimed:2@9", Options{},
			second(SubCounts{Expected: 2, Delivered: 1, LostAnnounced: 1, Announcements: 1, GapIncidents: 1, LongestGap: 1})},
		{"claims of another run, of what was never fired, and of another source",
			up + "fire:1@3 ok:1@4 claimed:9@5 claimed:1.77@5 claimed:0@5 fire:1.1@5 ok:1.1@6 claimed:1.1@7", Options{},
			second(SubCounts{Expected: 2, LostSilent: 2, Overclaimed: 1, GapIncidents: 2, LongestGap: 1})},
		{"ended",
			up + "fire:1@3 ok:1@4 got:1@5 fire:2@6 ok:2@7 detaching@8 fire:3@9 ok:3@9 got:3@10 detached@10 fire:4@11 ok:4@12 got:4@13", Options{},
			SubCounts{Expected: 2, Delivered: 1, LostSilent: 1, InFlight: 1, Unexpected: Unexpected{AfterEnd: 1},
				GapIncidents: 1, LongestGap: 1, Windows: 1, Active: 6 * time.Millisecond}},
		{"excused, and not", up + "fire:1@3 ok:1@3 fire:2@5 ok:2@5 fire:3@6 ok:3@6 detaching@8 got:3@9 detached@10",
			Options{DetachGrace: 3 * time.Millisecond},
			SubCounts{Expected: 2, Delivered: 1, LostSilent: 1, Excused: 1, GapIncidents: 1, LongestGap: 1, Windows: 1,
				Active: 6 * time.Millisecond}},
		{"a poller that last asked before the end", up + "fire:1@3 ok:1@3 fire:2@5 ok:2@5 fire:3@6 ok:3@6 fire:4@7 ok:4@7 " +
			"got:2@7 detaching:6@12 detached@13", Options{},
			SubCounts{Expected: 2, Delivered: 1, LostSilent: 1, Excused: 2, GapIncidents: 1, LongestGap: 1, Windows: 1,
				Active: 10 * time.Millisecond}},
		{"and a grace before that", up + "fire:1@3 ok:1@3 fire:2@5 ok:2@5 fire:3@6 ok:3@6 failed:7@12",
			Options{DetachGrace: 2 * time.Millisecond},
			SubCounts{Expected: 1, LostSilent: 1, Excused: 2, GapIncidents: 1, LongestGap: 1, Windows: 1, Active: 10 * time.Millisecond}},
		{"a poller that asks after the end has no more time",
			up + "fire:1@3 ok:1@3 fire:2@7 ok:2@7 detaching:20@8 detached@9", Options{DetachGrace: 2 * time.Millisecond},
			SubCounts{Expected: 1, LostSilent: 1, Excused: 1, GapIncidents: 1, LongestGap: 1, Windows: 1, Active: 6 * time.Millisecond}},
		{"broken", up + "fire:1@3 ok:1@4 failed@5 fire:2@6 ok:2@7", Options{},
			SubCounts{Expected: 1, LostSilent: 1, GapIncidents: 1, LongestGap: 1, Windows: 1, Active: 3 * time.Millisecond}},
		{"delivered between the reading and the report of the end",
			up + "fire:1@4 ok:1@4 got:1@5 fire:2@5.5 ok:2@5.5 detaching@3 got:2@7 detached@8", Options{},
			SubCounts{Expected: 1, Delivered: 1, InFlight: 1, Windows: 1, Active: time.Millisecond}},
		{"twice",
			up + "fire:1@3 ok:1@4 detaching@5 detached@6 fire:2@7 ok:2@8 attaching@9 active@10 fire:3@11 ok:3@12 got:3@13 got:1@14", Options{},
			SubCounts{Expected: 2, Delivered: 1, LostSilent: 1, Unexpected: Unexpected{Stale: 1}, GapIncidents: 1,
				LongestGap: 1, Windows: 2, Active: 993 * time.Millisecond}},
		{"twice, with a firing that is resolved in the second window",
			up + "fire:1@3 fire:2@3 got:2@4 detaching@5 detached@6 attaching@9 active@10 ok:1@11 ok:2@11", Options{},
			SubCounts{Expected: 2, Delivered: 1, LostSilent: 1, GapIncidents: 1, LongestGap: 1, Windows: 2, Active: 993 * time.Millisecond}},
		{"announced to the ledger after the next window began", up + "fire:1@3 detaching@5 detached@6 attaching@9 active@10 " +
			"fire:2@4 ok:1@11 ok:2@11", Options{},
			SubCounts{Expected: 1, LostSilent: 1, GapIncidents: 1, LongestGap: 1, Windows: 2, Active: 993 * time.Millisecond}},
		{"resumed in vain", again("resumed@9 fire:2@10 ok:2@11 got:2@12"), replay, resumed(SubCounts{NotReplayed: 1})},
		{"resumed", again("resumed@9 got:1@9 fire:2@10 ok:2@11 got:2@12"), replay, resumed(SubCounts{Replayed: 1})},
		{"resumed, and replayed late", again("resumed@9 fire:2@10 ok:2@11 got:2@12 got:1@13"), replay, resumed(SubCounts{Replayed: 1})},
		{"opened again from now on", again("fire:2@10 ok:2@11 got:2@12"), replay, resumed(SubCounts{})},
		{"resumed, and skipped", again("passed@9 resumed@9 fire:2@10 ok:2@11 got:2@12"), replay, resumed(SubCounts{Announcements: 1})},
		{"resumed for what is younger", again("resumed:7@9 fire:2@10 ok:2@11 got:2@12"), replay, resumed(SubCounts{})},
		{"resumed, and the sink refused what came", again("resumed@9 turned:1@9 fire:2@10 ok:2@11 got:2@12"), replay, resumed(SubCounts{})},
		{"resumed when nothing was published", up + "detaching@3 detached@4 attaching@8 active@9 resumed@9 fire:1@10 ok:1@11 got:1@12", replay,
			resumed(SubCounts{})},
		{"resumed while it was published", up + "detaching@3 detached@4 fire:1@5 attaching@8 ok:1@8.5 active@9 resumed@9 " +
			"fire:2@10 ok:2@11 got:2@12",
			replay, resumed(SubCounts{})},
		{"resumed by webhook, where nothing has an order", again("resumed@9 fire:2@10 ok:2@11 got:2@12"), hooks, resumed(SubCounts{})},
		{"resumed by webhook in vain, and ended", again("resumed@9 fire:2@10 ok:2@11 got:2@12 detaching@20 detached@21"),
			hooks, SubCounts{Expected: 1, Delivered: 1, NotReplayed: 1, Windows: 2, Active: 12 * time.Millisecond}},
		{"resumed twice, the second time in vain", again("resumed@9 got:1@9.5 detaching@10 detached@11 fire:2@12 ok:2@13 " +
			"attaching@14 active@15 resumed@15 fire:3@16 ok:3@17 got:3@18"), replay,
			SubCounts{Expected: 1, Delivered: 1, Replayed: 1, NotReplayed: 1, Windows: 3, Active: 987 * time.Millisecond}},
		{"windows go by instants, not by the order of reports", "fire:1@5 ok:1@5 attaching@1 active@2", Options{},
			second(SubCounts{Expected: 1, LostSilent: 1, GapIncidents: 1, LongestGap: 1})},
		{"acknowledged before it was fired", "attaching@1 active@2 fire:1@5 ok:1@1 got:1@6", Options{},
			second(SubCounts{Expected: 1, Delivered: 1})},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newTestLedger(t, c.opt)
			script(t, l, eventmeter.Sub{}, c.script)
			if got := l.SubAccount(eventmeter.Sub{}); got != c.want {
				t.Errorf("subscription:\n got %+v\nwant %+v", got, c.want)
			}
			a := l.Account()
			if a.Lanes[0].SubCounts != c.want {
				t.Errorf("lane:\n got %+v\nwant %+v", a.Lanes[0].SubCounts, c.want)
			}
			if err := a.Check(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestLedgerVerdicts checks what the observer is told.
func TestLedgerVerdicts(t *testing.T) {
	t.Parallel()
	var got []string
	names := map[VerdictKind]string{
		VerdictDelivered:             "delivered",
		VerdictUndecided:             "undecided",
		VerdictDuplicateRequested:    "requested",
		VerdictDuplicateSameEvent:    "same event",
		VerdictDuplicateSameEmission: "same emission",
		VerdictForeignRun:            "foreign",
		VerdictNeverFired:            "never",
		VerdictNotSubscribed:         "not subscribed",
		VerdictAfterEnd:              "after its end",
		VerdictStale:                 "stale",
		VerdictInFlight:              "in flight",
		VerdictRecovered:             "recovered",
		VerdictUnprobed:              "unprobed",
		VerdictWarmUp:                "warm-up",
		VerdictIgnored:               "ignored",
	}
	l := newTestLedger(t, Options{LateAfter: 2 * time.Millisecond, Observe: func(d eventmeter.Delivery, v Verdict) {
		got = append(
			got,
			fmt.Sprintf("%d %s late=%t disorder=%t %v %v", d.Stamp.Seq, names[v.Kind], v.Late, v.OutOfOrder, v.FromIntended, v.FromSent),
		)
	}})
	script(
		t,
		l,
		eventmeter.Sub{},
		"fire:1@0.1 ok:1@0.2 attaching@1 fire:2@1.5 ok:2@1.5 got:2@1.5 active@2 got:1@3 fire:3@4 got:3@4.5 ok:3@5 fire:4@6 "+
			"ok:4@6 got:4@6.5 got:4@8",
	)
	script(
		t,
		l,
		eventmeter.Sub{},
		"fire:5@9 ok:5@9 fire:6@10 ok:6@10 got:6@10.5 got:5@11 unprobed@12 foreign:1@13 got:99@14 got:4/9@15 reject:6@16 "+
			"got:6@17 fire:7@18 refused:7@18 got:7@19 warm:8@20 got:8@21",
	)
	script(t, l, eventmeter.Sub{Index: 1}, "got:4@30")
	script(t, l, eventmeter.Sub{Index: 99}, "got:4@30")
	want := []string{
		"2 undecided late=false disorder=false 1ms 0s",
		"1 stale late=false disorder=false 3.9ms 2.9ms",
		"3 undecided late=false disorder=false 1.5ms 500µs",
		"4 delivered late=false disorder=false 1.5ms 500µs",
		"4 same event late=false disorder=false 3ms 2ms",
		"6 delivered late=false disorder=false 1.5ms 500µs",
		"5 delivered late=true disorder=true 3ms 2ms",
		"0 unprobed late=false disorder=false 0s 0s",
		"1 foreign late=false disorder=false 0s 0s",
		"99 never late=false disorder=false 0s 0s",
		"4 same emission late=false disorder=false 10ms 9ms",
		"6 same event late=false disorder=false 7ms 6ms",
		"6 requested late=false disorder=false 8ms 7ms",
		"7 recovered late=false disorder=false 2ms 1ms",
		"8 warm-up late=false disorder=false 2ms 1ms",
		"4 not subscribed late=false disorder=false 25ms 24ms",
		"4 ignored late=false disorder=false 0s 0s",
	}
	if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
		t.Errorf("got\n%s\nwant\n%s", g, w)
	}
}
