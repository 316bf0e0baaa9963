package events

import (
	"github.com/eventmeter/eventmeter/internal/figure"
	"github.com/eventmeter/eventmeter/loadgen/driver"
)

// FigureTable declares the figures of lanes of the MCP Events draft and of Smithery.
var FigureTable = figure.Table{Name: "events", Systems: []string{"events", "smithery"}, Figures: []figure.Figure{
	{Name: "pollsPacedByServer", Help: "polls whose time the target's answer set"},
	{Name: "pollsPacedByMinInterval", Help: "polls whose time poll.minInterval set"},
	{Name: "hasMoreUnmoved", Help: "answers to polls with hasMore, without an event and without a new cursor"},
	figure.Duration("nextPoll", "waits that the target's answers asked for (nextPollMs), of polls whose time they set"),
	figure.Duration("pollInterval", "from one poll of a subscription to the next, as it was sent"),
	{Name: driver.FigureCoalesced, Help: "streams whose events arrived in coalesced reads, as through a buffer"},

	{Name: "cuts", Help: "streams that the lane cut"},
	{
		Name: "replayedOnReconnect",
		Help: "events on a reopened stream that had been acknowledged to the upstream before the stream was confirmed",
	},
	{
		Name: "reopenedPeak",
		Help: "most streams that the lane began to open again within one tenth of a second, after it had cut all of them",
	},
	figure.Duration("catchUp", "from the end of events.cutFor, after all streams were cut, until a missed event was received"),
	figure.Duration("outage", "from the loss of a stream until the next one is confirmed"),
	{Name: "stalled", Help: "streams that stopped reading on purpose"},
	{Name: "heldBack", Help: "deliveries that waited because their stream had stopped reading"},
	{Name: "resumed", Help: "subscriptions that were opened again with a kept cursor"},
	{Name: "resumedTruncated", Help: "subscriptions that were opened again with a kept cursor, and whose answer said truncated"},
	{Name: "started", Help: "subscriptions that were opened with the cursor events.cursor"},
	{
		Name: "startedTruncated",
		Help: "subscriptions that were opened with the cursor events.cursor, and whose answer said truncated; in revision " +
			"older a webhook whose first message was CursorExpired",
	},

	{Name: "listens", Help: "streams of notifications that were opened"},
	{Name: "listensRefused", Help: "targets that have no streams of notifications"},
	{Name: "listensDead", Help: "streams of notifications that fell silent and were opened again"},
	{Name: "listChanged", Help: "notifications that the list of event types changed"},
	{Name: "relists", Help: "lists that were read after a notification"},
	{Name: "relistsFailed", Help: "lists that could not be read after a notification"},
	{Name: "typesAppeared", Help: "event types that a list has and the one before lacks"},
	{Name: "typesVanished", Help: "event types that a list lacks and the one before has"},
	figure.Duration("relist", "from the notification until the new list was read"),

	{Name: "grants", Help: "answers to subscribe and refresh, on lanes with ttl or rotateEvery"},
	{Name: "grantsWithoutEnd", Help: "grants whose refreshBefore is null"},
	{Name: "grantsUnasked", Help: "grants without an end that were not requested"},
	{Name: "grantsShorter", Help: "grants more than a tenth below the requested lifetime, and ends where none was requested"},
	{Name: "grantsLonger", Help: "grants more than a tenth above the requested lifetime"},
	{Name: "idsChanged", Help: "refreshes that came back with another id"},
	{Name: "refreshedLate", Help: "refreshes that were sent after the grant was over"},

	{Name: "anonymousRefused", Help: "subscriptions without a token that were refused, as they must be"},
	{Name: "anonymousAccepted", Help: "subscriptions without a token that were accepted"},
	{Name: "unrouted", Help: "deliveries to a shared callback of which no subscription is known"},
	{Name: "messageIDs", Help: "deliveries whose webhook-id is not the eventId: an id of the message"},
	{Name: "refusedPending", Help: "deliveries that webhook.pending refused: the answer to subscribe was awaited"},
	{Name: "refusedExpired", Help: "deliveries that webhook.expired refused: the grant was over"},
	{Name: "refusedUnfit", Help: "deliveries that webhook.require refused"},
	{Name: driver.FigureNeverRetried, Help: "events that were answered 4xx, other than 410 and 413, and did not come again for 10 s"},
	{Name: "leftSilently", Help: "subscriptions that ended without unsubscribing"},
	{Name: "challengesFailed", Help: "challenges that webhook.answer did not answer as they should be"},
	{Name: "statusRead", Help: "answers with a deliveryStatus"},
	{Name: "statusFailing", Help: "answers whose deliveryStatus has failedSince"},
	{Name: "statusThrottled", Help: "answers whose deliveryStatus says throttled"},
	{Name: "statusSuspended", Help: "answers whose deliveryStatus is not active"},
	figure.Duration("statusRetryAfter", "retryAfter of throttled deliveries"),
	{Name: "lastErrorConnectionRefused", Help: "answers whose lastError is connection_refused"},
	{Name: "lastErrorTimeout", Help: "answers whose lastError is timeout"},
	{Name: "lastErrorTlsError", Help: "answers whose lastError is tls_error"},
	{Name: "lastErrorHttp4xx", Help: "answers whose lastError is http_4xx"},
	{Name: "lastErrorHttp5xx", Help: "answers whose lastError is http_5xx"},
	{Name: "lastErrorChallengeFailed", Help: "answers whose lastError is challenge_failed"},
	{Name: "lastErrorOther", Help: "answers with another lastError"},

	{Name: "rotations", Help: "refreshes with a new secret"},
	{Name: "verifiedByBoth", Help: "deliveries whose signatures fit both secrets"},
	{Name: "verifiedByOld", Help: "deliveries whose signatures fit the old secret only"},
	{Name: "rejectedInRace", Help: "deliveries that one of two secrets fits and webhook.secrets refuses"},
	figure.Duration("rotationRace", "from sending a new secret until the last delivery with the old one only"),
	figure.Duration("rotationDual", "from sending a new secret until the last delivery with both"),
	{Name: "controlEnvelopes", Help: "control messages of the target to a webhook"},
}}
