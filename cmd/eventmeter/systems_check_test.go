package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/results"
)

// eventsInShort makes everything of the profile happen within three seconds. A stream of a
// target that a busy machine does not let send counts as silent only after a minute.
var eventsInShort = []string{
	"lanes.*.subscriptions=20",
	"phases.measure=4s",
	"target.embedded.ttlDefault=30s",
	"lanes.rotating.webhook.ttl=30s",
	"target.embedded.typesEvery=400ms",
	"lanes.push.events.cutEvery=1s",
	"lanes.push.push.heartbeat=30s",
}

func checkEvents(t *testing.T, r *results.Result) {
	t.Helper()
	push := laneOf(t, r, "push")
	positive(t, push, "cuts", "replayedOnReconnect", "listChanged", "relists", "typesAppeared", "typesVanished")
	none(t, push, "relistsFailed")
	if n := push.Timings["outage"].Count; n == 0 || float64(n) > figureOf(t, push, "cuts") || n > push.Detail.Reconnects {
		t.Errorf("%d outages of %v cuts and %d reconnects", n, push.Figures["cuts"], push.Detail.Reconnects)
	}
	resumed := laneOf(t, r, "resumed")
	positive(t, resumed, "resumed")
	none(t, resumed, "resumedTruncated")
	if resumed.Detail.Replayed == 0 {
		t.Error("nothing was replayed to who came back")
	}
	rotating := laneOf(t, r, "rotating")
	positive(t, rotating, "rotations", "grants")
	none(t, rotating, "rejectedInRace", "idsChanged", "grantsWithoutEnd")
	refreshes := rotating.Overhead.Causes["refresh"].Requests
	if got := figureOf(t, rotating, "rotations"); got > float64(refreshes) {
		t.Errorf("%v rotations in %d refreshes", got, refreshes)
	}
}

func checkEventsNewest(t *testing.T, r *results.Result) {
	checkEvents(t, r)
	forever := laneOf(t, r, "forever")
	sum(t, forever, "grants", "grantsWithoutEnd")
	if n := figureOf(t, forever, "grants"); n != float64(forever.Subscriptions) || forever.Overhead.Causes["refresh"].Requests != 0 {
		t.Errorf("%v grants without an end, and %d refreshes", n, forever.Overhead.Causes["refresh"].Requests)
	}
	rotating := laneOf(t, r, "rotating")
	positive(t, rotating, "verifiedByBoth")
	none(t, rotating, "grantsShorter", "grantsLonger")
	// Each proved that it wants to be called. A refresh that was given up at the
	// end may reach the target behind the unsubscribe, and be proved anew.
	for _, l := range []results.Lane{rotating, forever} {
		if n := l.Overhead.Causes["verification"].Requests; n < int64(l.Subscriptions) {
			t.Errorf("%s: %d challenges", l.Name, n)
		}
	}
}

func checkEventsOlder(t *testing.T, r *results.Result) {
	checkEvents(t, r)
	forever := laneOf(t, r, "forever")
	none(t, forever, "grantsWithoutEnd", "grantsShorter", "grantsLonger")
	// There is no challenge in this revision, and the newest secret signs alone.
	none(t, laneOf(t, r, "rotating"), "verifiedByBoth")
	for _, l := range []results.Lane{laneOf(t, r, "rotating"), forever} {
		if n := l.Overhead.Causes["verification"].Requests; n != 0 {
			t.Errorf("%s: %d challenges", l.Name, n)
		}
	}
	if forever.Overhead.Causes["refresh"].Requests == 0 {
		t.Error("a life that ends was not refreshed")
	}
}

func checkSmithery(t *testing.T, r *results.Result) {
	for _, l := range r.Lanes {
		none(t, l, "controlEnvelopes", "idsChanged", "grantsWithoutEnd", "refreshedLate")
		if n := l.Overhead.Causes["verification"].Requests; n != 0 {
			t.Errorf("%s: %d challenges, and there are none in this system", l.Name, n)
		}
		refreshes := l.Overhead.Causes["refresh"].Requests
		if refreshes == 0 || figureOf(t, l, "grants") > float64(int64(l.Subscriptions)+refreshes) {
			t.Errorf("%s: %v grants in %d subscriptions and %d refreshes", l.Name, l.Figures["grants"], l.Subscriptions, refreshes)
		}
	}
	triggers, variant := laneOf(t, r, "triggers"), laneOf(t, r, "variant")
	positive(t, triggers, "rotations", "verifiedByBoth")
	none(t, triggers, "rejectedInRace")
	if triggers.Duplicates.Requested != 0 || variant.Duplicates.Requested == 0 || variant.Duplicates.Requested > variant.Delivered {
		t.Errorf("redelivered on request: %d and %d", triggers.Duplicates.Requested, variant.Duplicates.Requested)
	}
}

// checkChatGPT: each monitor is subscribed, challenged and ended once, half of
// them without a word, and what is assumed of the client is said.
func checkChatGPT(t *testing.T, r *results.Result) {
	l := laneOf(t, r, "monitors")
	none(t, l, "refusedUnfit")
	left := int64(figureOf(t, l, "leftSilently"))
	for cause, want := range map[string]int64{"subscribe": 200, "verification": 200, "unsubscribe": 200 - left} {
		if n := l.Overhead.Causes[cause].Requests; n != want {
			t.Errorf("%d requests of %s, want %d", n, cause, want)
		}
	}
	if left < 60 || left > 140 {
		t.Errorf("%d of 200 left silently, want about half", left)
	}
	said := 0
	for _, w := range r.Warnings {
		if w.Code == "assumption" && w.Lane == "monitors" {
			said++
		}
	}
	if said != 4 {
		t.Errorf("%d assumptions are in the result, want 4", said)
	}
}

func checkSEP1803(t *testing.T, r *results.Result) {
	for name, sessions := range map[string]float64{"sessions": 20, "shared": 2, "resumed": 20, "forgetful": 20} {
		l := laneOf(t, r, name)
		if got := figureOf(t, l, "sessions"); got != sessions {
			t.Errorf("%s: %v sessions, want %v", name, got, sessions)
		}
		none(t, l, "unrouted", "earlier", "updatesObserved", "updatesIdentified")
	}
	resumed, forgetful := laneOf(t, r, "resumed"), laneOf(t, r, "forgetful")
	positive(t, resumed, "cuts", "resumes", "redelivered")
	positive(t, forgetful, "cuts")
	none(t, resumed, "resumesRefused")
	none(t, forgetful, "resumes", "redelivered")
	if forgetful.LostSilent == 0 || forgetful.Gaps.Incidents == 0 || forgetful.Gaps.Longest == 0 {
		t.Errorf("forgetful lost %d in %+v", forgetful.LostSilent, forgetful.Gaps)
	}
	for name, kind := range map[string]string{"standard": "secretsStandard", "raw": "secretsRaw", "unsigned": "secretsNone"} {
		l := laneOf(t, r, name)
		sum(t, l, "registrations", kind)
		sum(t, l, "registrations", "secretsRaw", "secretsStandard", "secretsNone")
		if n := l.Timings["secretWindow"].Count; float64(n) != figureOf(t, l, "registrations") {
			t.Errorf("%s: %d windows of %v registrations", name, n, l.Figures["registrations"])
		}
		if n := l.Timings["secretLate"].Count; float64(n) != figureOf(t, l, "registrationsRaced") ||
			figureOf(t, l, "beforeSecret") < float64(n) {
			t.Errorf(
				"%s: %d late secrets, %v raced, %v deliveries before",
				name,
				n,
				l.Figures["registrationsRaced"],
				l.Figures["beforeSecret"],
			)
		}
		if l.Overhead.Causes["verification"].Requests != 0 {
			t.Errorf("%s: challenged", name)
		}
	}
	if n := figureOf(t, laneOf(t, r, "standard"), "registrations"); n <= 20 {
		t.Errorf("churn left %v registrations", n)
	}
	if laneOf(t, r, "raw").Duplicates.Requested == 0 {
		t.Error("nothing was redelivered on request")
	}
}

// requestsAddUp holds a lane of SEP-975 to its sums.
func requestsAddUp(t *testing.T, l results.Lane) {
	t.Helper()
	positive(t, l, "requestsBegun", "messagesDelivered")
	sum(t, l, "messagesExpected", "messagesDelivered", "messagesLost", "messagesExcused")
	sum(
		t,
		l,
		"requestsBegun",
		"requestsCompleted",
		"requestsExpired",
		"requestsOverslept",
		"requestsFailed",
		"requestsUnfinished",
		"requestsAbandoned",
	)
	none(
		t,
		l,
		"unbalanced",
		"messagesLost",
		"messagesUnexpected",
		"resultsWrong",
		"requestsFailed",
		"requestsUnfinished",
		"policiesMissing",
	)
	if n := l.Timings["request"].Count; float64(n) != figureOf(t, l, "requestsCompleted") {
		t.Errorf("%s: %d times of %v requests", l.Name, n, l.Figures["requestsCompleted"])
	}
}

func checkSEP975(t *testing.T, r *results.Result) {
	for _, l := range r.Lanes {
		requestsAddUp(t, l)
		if l.Name != "hang-up" {
			positive(t, l, "cuts", "resumes")
		}
		if l.Name != "limit" {
			none(t, l, "requestsExpired")
		}
	}
	cut := laneOf(t, r, "cut")
	positive(t, cut, "statusPolls", "statusBytes", "wrongTried")
	none(t, cut, "wrongAccepted", "statusFailed")
	limit := laneOf(t, r, "limit")
	positive(t, limit, "requestsExpired")
	none(t, limit, "policiesEarly", "policiesLeaked")
	double := laneOf(t, r, "double")
	positive(t, double, "doubles")
	sum(t, double, "doubles", "doublesOneRefused", "doublesBothAnswered", "doublesBothRefused", "doublesUntold", "doublesInterrupted")
	positive(t, laneOf(t, r, "hang-up"), "hangUps")
}

// checkResume compares the two ways to resume: the same requests, cut alike, and
// everything came. Only the token does not say what was read.
func checkResume(t *testing.T, r *results.Result) {
	for _, name := range []string{"token", "event-id"} {
		l := laneOf(t, r, name)
		requestsAddUp(t, l)
		for figure, want := range map[string]float64{
			"requestsBegun": 20, "requestsCompleted": 20, "messagesExpected": 20 * 25, "messagesDelivered": 20 * 25, "cuts": 20, "resumes": 20,
		} {
			if got := figureOf(t, l, figure); got != want {
				t.Errorf("%s: %s is %v, want %v", name, figure, got, want)
			}
		}
		none(t, l, "hangUps", "policiesEarly", "wrongAccepted", "wrongUnclear", "messagesOutOfOrder")
		if n := l.Timings["resumeToFirst"].Count; n != 20 {
			t.Errorf("%s: %d resumes were timed", name, n)
		}
	}
	none(t, laneOf(t, r, "event-id"), "messagesRepeated", "bytesRepeated")
	positive(t, laneOf(t, r, "token"), "messagesRepeated")
}

// TestAnswersWithoutEventIDs has nothing to resume by: the run says so in a line.
func TestAnswersWithoutEventIDs(t *testing.T) {
	t.Parallel()
	_, stderr, code := execute(
		t,
		"run",
		"--profile",
		"resume",
		"--quiet",
		"--out",
		filepath.Join(t.TempDir(), "out"),
		"--set",
		"lanes.*.subscriptions=2",
		"--set",
		"lanes.*.sep975.steps=2",
		"--set",
		"target.embedded.faults=noids(every=1)",
	)
	want := "tools/call: the target does not offer this: the events of the answer have no ids, so Last-Event-ID cannot " +
		"resume it: does the server have an event store?"
	if code != exitTarget || !strings.HasSuffix(strings.TrimSpace(stderr), want) ||
		!strings.Contains(stderr, "lane event-id: 0 of 2 subscriptions were active") {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
}

// listsAddUp holds a lane of SEP-2549 to its sums, and to the ledger.
func listsAddUp(t *testing.T, l results.Lane) {
	t.Helper()
	positive(t, l, "uses", "pageReads", "fetches", "changesOwed")
	sum(t, l, "uses", "usesServed", "usesFailed", "usesAbandoned")
	sum(t, l, "fetches", "fetchesFirst", "fetchesExpired", "fetchesChanged", "fetchesUncached", "fetchesBackground")
	sum(t, l, "changesOwed", "changesSeen", "changesSuperseded", "changesNeverSeen")
	none(t, l, "unbalanced", "usesFailed", "regressed", "changesNeverSeen")
	if got := figureOf(t, l, "changesSeen") + figureOf(t, l, "changesSuperseded"); got != float64(l.Delivered) {
		t.Errorf("%s: %v changes were seen, and %d delivered", l.Name, got, l.Delivered)
	}
	if share := figureOf(t, l, "fetchesAvoided") / figureOf(t, l, "pageReads"); share != figureOf(t, l, "avoidedShare") {
		t.Errorf("%s: avoided share %v, want %v", l.Name, l.Figures["avoidedShare"], share)
	}
	if n := l.Timings["staleness"].Count; float64(n) != figureOf(t, l, "changesOwed") {
		t.Errorf("%s: staleness of %d, owed %v", l.Name, n, l.Figures["changesOwed"])
	}
}

func checkSEP2549(t *testing.T, r *results.Result) {
	for _, l := range r.Lanes {
		listsAddUp(t, l)
	}
	ttl, notified, uncached := laneOf(t, r, "ttl"), laneOf(t, r, "notified"), laneOf(t, r, "no-cache")
	positive(t, ttl, "fetchesAvoided", "fetchesExpired")
	none(t, ttl, "changesNotified", "fetchesChanged")
	positive(t, notified, "changesNotified", "fetchesChanged")
	positive(t, uncached, "fetchesUncached")
	none(t, uncached, "fetchesAvoided")
	if notified.Timings["invalidation"].Count == 0 {
		t.Error("no time of an invalidation")
	}
}

// checkToday adds up the figures of the lanes of system updates: each change that was
// owed was learned of, and each read has its reason.
func checkToday(t *testing.T, r *results.Result) {
	for _, name := range []string{"updates", "lists"} {
		l := laneOf(t, r, name)
		positive(t, l, "notifications", "reads", "updatesIdentified")
		none(t, l, "updatesObserved", "readsFailed", "sessionsForgotten", "refused", "unrouted")
		if l.Delivered != l.Expected {
			t.Errorf("%s: %d of %d changes were learned of", name, l.Delivered, l.Expected)
		}
		if f := l.Figures; f["updatesIdentified"] > f["notifications"] || f["reads"] > f["notifications"]+float64(l.Subscriptions) ||
			l.Timings["updateLatency"].Count != l.Timings["updateLatencySent"].Count {
			t.Errorf("%s: the figures do not add up: %v", name, f)
		}
	}
	b := laneOf(t, r, "bystander")
	positive(t, b, "requests", "latencyP95Ms")
	none(t, b, "failed", "failedStatus", "failedInside200", "failedUnanswered", "sessionsForgotten")
	if float64(b.Timings["latency"].Count) != b.Figures["requests"] {
		t.Errorf("%d latencies of %v requests", b.Timings["latency"].Count, b.Figures["requests"])
	}
}

func checkTool(t *testing.T, r *results.Result) {
	for _, name := range []string{"toolErrors", "toolRefusals", "toolUnanswered"} {
		if v, ok := r.Upstream.Figures[name]; !ok || v != 0 {
			t.Errorf("%s is %v", name, v)
		}
	}
}

func checkFeed(t *testing.T, r *results.Result) {
	f := r.Upstream.Figures
	if got := f["feedWithChanges"] + f["feedEmpty"] + f["feedNotModified"] + f["feedGone"] + f["feedBadRequests"]; got != f["feedRequests"] ||
		got == 0 {
		t.Errorf("%v requests, %v", got, f)
	}
	if all := r.Upstream.Accepted + r.Upstream.Warmup; f["feedServed"] != float64(all) || f["feedRepeated"] != 0 ||
		f["feedUnfetched"] != 0 {
		t.Errorf("%d changes: %v", all, f)
	}
	if n := r.Upstream.Timings["feedLag"].Count; n != r.Upstream.Accepted {
		t.Errorf("%d lags of %d changes", n, r.Upstream.Accepted)
	}
}

// checkMixed: every one of the five systems did its work beside the others.
func checkMixed(t *testing.T, r *results.Result) {
	systems := map[string]int{}
	for _, l := range r.Lanes {
		systems[l.System+" "+l.Mode]++
	}
	for _, want := range []string{
		"events push", "events poll", "events webhook", "smithery webhook", "sep-1803 push", "sep-1803 webhook", "sep-975 push", "sep-2549 poll",
	} {
		if systems[want] == 0 {
			t.Errorf("no lane of %s: %v", want, systems)
		}
	}
	requestsAddUp(t, laneOf(t, r, "requests"))
	positive(t, laneOf(t, r, "requests"), "cuts", "resumes")
	listsAddUp(t, laneOf(t, r, "ttl"))
	listsAddUp(t, laneOf(t, r, "notified"))
	positive(t, laneOf(t, r, "webhook"), "rotations")
	none(t, laneOf(t, r, "webhook"), "idsChanged", "rejectedInRace")
	none(t, laneOf(t, r, "smithery"), "idsChanged", "controlEnvelopes")
	if got := figureOf(t, laneOf(t, r, "resources"), "sessions"); got != 4 {
		t.Errorf("%v sessions of 20 subscriptions, five in each", got)
	}
	sum(t, laneOf(t, r, "callbacks"), "registrations", "secretsStandard")
}

// checkReconnect: all streams were cut once and came back within the jitter window, and
// each event that they had missed was timed.
func checkReconnect(t *testing.T, r *results.Result) {
	push := laneOf(t, r, "push")
	if cuts, n := figureOf(t, push, "cuts"), push.Timings["outage"].Count; cuts != 50 || n != 50 || push.Detail.Reconnects != 50 {
		t.Errorf("%v cuts, %d outages and %d reconnects of 50 streams", cuts, n, push.Detail.Reconnects)
	}
	if peak := figureOf(t, push, "reopenedPeak"); peak < 5 || peak > 50 { // of 50 in ten tenths of a second
		t.Errorf("at most %v streams returned together", peak)
	}
	if n := push.Timings["catchUp"].Count; n == 0 || float64(n) != figureOf(t, push, "replayedOnReconnect") {
		t.Errorf("%d times of %v missed events", n, figureOf(t, push, "replayedOnReconnect"))
	}
	if least := push.Timings["outage"].Min; least < results.Nanos(2*time.Second) {
		t.Errorf("a stream was back after %v, before cutFor", least)
	}
}

// checkTTL: each abandoned subscription was opened, and those that are kept were refreshed.
func checkTTL(t *testing.T, r *results.Result) {
	kept, abandoned := laneOf(t, r, "kept"), laneOf(t, r, "abandoned")
	if got, want := kept.Figures["grants"], float64(kept.Overhead.Opened+kept.Overhead.Causes["refresh"].Requests); got != want {
		t.Errorf("%g grants, want %g: subscribes and refreshes", got, want)
	}
	if left := abandoned.Figures["leftSilently"]; left == 0 || left >= float64(abandoned.Overhead.Opened) {
		t.Errorf("%g of %d left silently", left, abandoned.Overhead.Opened)
	}
}

// checkSlowHost: the lane that hangs takes nothing from the other.
func checkSlowHost(t *testing.T, r *results.Result) {
	if healthy := laneOf(t, r, "healthy"); healthy.Delivered != healthy.Expected || healthy.Expected == 0 {
		t.Errorf("%d of %d delivered to the healthy lane", healthy.Delivered, healthy.Expected)
	}
	if slow := laneOf(t, r, "slow"); slow.Delivered == slow.Expected {
		t.Errorf("all %d delivered to the lane that hangs", slow.Expected)
	}
}

// checkRaces: secrets changed, and what was refused in the race is part of what was rejected.
func checkRaces(t *testing.T, r *results.Result) {
	for _, name := range []string{"both", "early", "late"} {
		positive(t, laneOf(t, r, name), "rotations")
	}
	for _, name := range []string{"early", "late"} {
		if lane := laneOf(t, r, name); float64(lane.Detail.Rejected) < lane.Figures["rejectedInRace"] {
			t.Errorf("%s: %d rejected, %g of them in the race", name, lane.Detail.Rejected, lane.Figures["rejectedInRace"])
		}
	}
	positive(t, laneOf(t, r, "server-secret"), "registrations")
}
