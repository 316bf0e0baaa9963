package breach

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eventmeter/eventmeter"
)

// Breach is how a row is broken.
type Breach struct {
	// Does is what the server does.
	Does string
	// Modes are those in which it does it; nil = all.
	Modes []eventmeter.Mode
	// Follows are the rows that break with it, and Why.
	Follows []Row
	Why     string

	edits []edit // none: the server asks for the row
}

var (
	onPoll    = []eventmeter.Mode{eventmeter.Poll}
	onPush    = []eventmeter.Mode{eventmeter.Push}
	onWebhook = []eventmeter.Mode{eventmeter.Webhook}
	notPoll   = []eventmeter.Mode{eventmeter.Push, eventmeter.Webhook}
)

// Has reports whether a row can be broken.
func Has(row string) bool { _, ok := Table[Row(row)]; return ok }

// In reports whether a row can be broken in a mode.
func In(row string, mode eventmeter.Mode) bool {
	modes := Table[Row(row)].Modes
	return modes == nil || slices.Contains(modes, mode)
}

// The rows that are broken by what the server does, not by an edit of a message.
const (
	CursorAbsentEqualsNull           Row = "cursor-absent-equals-null"
	CursorNullStartsFromNow          Row = "cursor-null-starts-from-now"
	FallbackMethodNotFound           Row = "fallback-method-not-found"
	ListChangedNotification          Row = "list-changed-notification"
	MaxAgeMsFloor                    Row = "max-age-ms-floor"
	MaxAgeMsIgnoredWhenCursorNull    Row = "max-age-ms-ignored-when-cursor-null"
	OccurrenceEventIDFromUpstream    Row = "occurrence-event-id-from-upstream"
	PollMaxEventsCap                 Row = "poll-max-events-cap"
	RemovalTerminatesSubscriptions   Row = "removal-terminates-subscriptions"
	StreamActiveConfirmation         Row = "stream-active-confirmation"
	StreamCancelStopsDelivery        Row = "stream-cancel-stops-delivery"
	StreamErrorBeforeOpen            Row = "stream-error-before-open"
	StreamErrorIsRecoverable         Row = "stream-error-is-recoverable"
	StreamExemptFromConcurrencyCap   Row = "stream-exempt-from-concurrency-cap"
	StreamFinalResultTiming          Row = "stream-final-result-timing"
	StreamHeartbeatInterval          Row = "stream-heartbeat-interval"
	StreamHeartbeatNotSSEComment     Row = "stream-heartbeat-not-sse-comment"
	StreamHeartbeatRequired          Row = "stream-heartbeat-required"
	StreamImplemented                Row = "stream-implemented"
	StreamTerminatedEndsSubscription Row = "stream-terminated-ends-subscription"

	AuthzDeliveryTimeReverify          Row = "authz-delivery-time-reverify"
	AuthzSubscribeTime                 Row = "authz-subscribe-time"
	Delivery410NonRetryable            Row = "delivery-410-non-retryable"
	Delivery413NonRetryable            Row = "delivery-413-non-retryable"
	DeliveryDualSignOnRotation         Row = "delivery-dual-sign-on-rotation"
	DeliveryRetriesBounded             Row = "delivery-retries-bounded"
	SSRFNoRedirects                    Row = "ssrf-no-redirects"
	SSRFRejectNonRoutable              Row = "ssrf-reject-non-routable"
	SSRFValidateAtDeliveryTime         Row = "ssrf-validate-at-delivery-time"
	SSRFValidateCallbackURL            Row = "ssrf-validate-callback-url"
	SubscribeAuthRequired              Row = "subscribe-auth-required"
	SubscribeCrossTenantIsolation      Row = "subscribe-cross-tenant-isolation"
	SubscribeIDNotAnInput              Row = "subscribe-id-not-an-input"
	SubscribeIdempotentUpsert          Row = "subscribe-idempotent-upsert"
	SubscribeKeyComposition            Row = "subscribe-key-composition"
	SubscribeKeyImmutable              Row = "subscribe-key-immutable"
	SubscribeRefreshReactivates        Row = "subscribe-refresh-reactivates"
	SubscribeRefreshReplacesSecret     Row = "subscribe-refresh-replaces-secret"
	SubscribeSecretFormat              Row = "subscribe-secret-format"
	SubscribeSecretRequired            Row = "subscribe-secret-required"
	SubscribeURLHTTPSRequired          Row = "subscribe-url-https-required"
	SubscribeWebhookOnly               Row = "subscribe-webhook-only"
	TTLLongGrantRetained               Row = "ttl-long-grant-retained"
	TTLNoExpiryGCTerminated            Row = "ttl-no-expiry-gc-terminated"
	TTLNoExpiryPersisted               Row = "ttl-no-expiry-persisted"
	TTLNoRejectionPath                 Row = "ttl-no-rejection-path"
	VerificationCachedPerPrincipalURL  Row = "verification-cached-per-principal-url"
	VerificationChallengeEcho          Row = "verification-challenge-echo"
	VerificationNoRawEndpointResponses Row = "verification-no-raw-endpoint-responses"
	VerificationPersistedForNoExpiry   Row = "verification-persisted-for-no-expiry"
	VerificationRequiredBeforeDelivery Row = "verification-required-before-delivery"
	VerificationUsesSSRFHardenedPath   Row = "verification-uses-ssrf-hardened-path"
)

// Table is how each row is broken that a server can break.
var Table = table()

func table() map[Row]Breach {
	all := map[Row]Breach{}
	for _, g := range groups {
		for row, b := range g.rows {
			if g.modes != nil {
				b.Modes = g.modes
			}
			all[row] = b
		}
	}
	return all
}

// groups are the rows by the modes that have all of a group; nil = each row has its own.
var groups = []struct {
	modes []eventmeter.Mode
	rows  map[Row]Breach
}{
	{nil, map[Row]Breach{
		// Capability.
		"capability-events-object": {
			Does:  "advertises no events capability",
			edits: settings(func(in map[string]any, name string) { delete(in, name) }),
		},
		"capability-list-changed-flag": {
			Does:  `says listChanged: "yes"`,
			edits: settings(func(in map[string]any, name string) { in[name] = map[string]any{"listChanged": "yes"} }),
		},
		"capability-empty-settings": {
			Does:    "advertises {}, and sends list_changed",
			edits:   settings(func(in map[string]any, name string) { in[name] = map[string]any{} }),
			Follows: []Row{"capability-list-changed-gated"},
			Why:     "it is the same promise",
		},
		"capability-list-changed-gated": {
			Does:  "says listChanged: false, and sends list_changed",
			edits: settings(func(in map[string]any, name string) { in[name] = map[string]any{"listChanged": false} }),
		},
		FallbackMethodNotFound: {
			Does:    "advertises no events capability, and answers its methods with -32603",
			edits:   settings(func(in map[string]any, name string) { delete(in, name) }),
			Follows: []Row{"capability-events-object"},
			Why:     "the row is about a server without the capability",
		},

		// events/list.
		"list-implemented": {Does: "answers events/list with events: {}", edits: put(List, "", "events", map[string]any{})},
		"list-pagination":  {Does: "answers events/list with nextCursor: 7", edits: put(List, "", "nextCursor", 7)},
		"descriptor-name": {
			Does:  "leaves the name of each event type out",
			edits: types(func(_ *Message, t map[string]any) { delete(t, "name") }),
		},
		"descriptor-description": {
			Does:  "leaves description out",
			edits: types(func(_ *Message, t map[string]any) { delete(t, "description") }),
		},
		"descriptor-delivery-subset": {Does: "adds the delivery pigeon", edits: types(func(_ *Message, t map[string]any) {
			modes, _ := t["delivery"].([]any)
			t["delivery"] = append(modes, "pigeon")
		})},
		"descriptor-input-schema": {
			Does:  "leaves inputSchema out",
			edits: types(func(_ *Message, t map[string]any) { delete(t, "inputSchema") }),
		},
		"descriptor-payload-schema": {
			Does:  `says payloadSchema: "any"`,
			edits: types(func(_ *Message, t map[string]any) { t["payloadSchema"] = "any" }),
		},
		"descriptor-meta":           {Does: `says _meta: "none"`, edits: types(func(_ *Message, t map[string]any) { t["_meta"] = "none" })},
		"schema-evolution-additive": {Does: "requires another member of the payload in each list", edits: types(renew)},
		"breaking-change-new-name": {Does: "requires another member of the payload in each list", edits: types(renew),
			Follows: []Row{"schema-evolution-additive"}, Why: "the change is not additive"},
		ListChangedNotification: {Does: "sends no list_changed"},

		// Termination.
		RemovalTerminatesSubscriptions: {Does: "keeps the subscriptions of a removed type", Modes: notPoll},
		"removal-error-not-found": {
			Does:  "ends subscriptions of a removed type with data.kind: subscription",
			Modes: notPoll,
			edits: ended(notFound, func(m *Message) { m.faultData()["kind"] = "subscription" }),
		},
		"removal-error-schema-changed": {
			Does:  "ends subscriptions of a changed type with another data.reason",
			Modes: notPoll,
			edits: ended(unsupported, func(m *Message) { m.faultData()["reason"] = "gone" }),
		},
		"removal-poll-not-found": {
			Does:  "answers a poll of an unknown type with -32602",
			Modes: onPoll,
			edits: recode(notFound, "poll", -32602),
		},

		// Errors.
		"error-invalid-params": {
			Does:  "answers invalid params with -32603",
			edits: recode(invalidParams, "", -32603),
			Follows: []Row{
				"poll-invalid-arguments",
				"subscribe-secret-rejected",
				"subscribe-url-non-https-rejected",
			},
			Why: "they are the same error",
		},
		"error-not-found": {
			Does:  "says data.kind: thing",
			edits: faulty(notFound, "", func(m *Message) { m.faultData()["kind"] = "thing" }),
		},
		"error-forbidden": {
			Does:  "says data.reason: 7",
			edits: faulty(forbidden, "", func(m *Message) { m.faultData()["reason"] = 7 }),
		},
		"error-resource-exhausted": {
			Does:  "leaves data.limit out",
			edits: faulty(exhausted, "", func(m *Message) { delete(m.faultData(), "limit") }),
		},
		"error-unsupported": {
			Does:  "leaves data.feature out",
			edits: faulty(unsupported, "", func(m *Message) { delete(m.faultData(), "feature") }),
		},
		"error-callback-endpoint-error": {
			Does:  "says data.reason: bad_luck",
			Modes: onWebhook,
			edits: faulty(callbackRefused, "subscribe", func(m *Message) { m.faultData()["reason"] = "bad_luck" }),
		},
		"error-server-range": {Does: "refuses what is forbidden with the code -31000", edits: recode(forbidden, "", -31000),
			Follows: []Row{AuthzSubscribeTime, SubscribeAuthRequired}, Why: "they want the code of Forbidden"},

		// Occurrences.
		"occurrence-event-id": {Does: "leaves eventId out", edits: events(func(e map[string]any) { delete(e, "eventId") })},
		"occurrence-name":     {Does: "leaves name out", edits: events(func(e map[string]any) { delete(e, "name") })},
		"occurrence-timestamp": {
			Does:  "says timestamp: yesterday",
			edits: events(func(e map[string]any) { e["timestamp"] = "yesterday" }),
		},
		"occurrence-data": {
			Does:  "puts data into a string",
			edits: events(func(e map[string]any) { e["data"] = string(encode(e["data"])) }),
		},
		"occurrence-cursor-optional":  {Does: "says cursor: 7 on an occurrence", edits: events(func(e map[string]any) { e["cursor"] = 7 })},
		OccurrenceEventIDFromUpstream: {Does: "delivers each event again under another id"},

		// Cursors.
		"cursor-opaque": {
			Does:    "says cursor: 7 where a subscription stands",
			edits:   position(func(on Kind, of string) []edit { return put(on, of, "cursor", 7) }),
			Follows: []Row{"subscribe-response-cursor"},
			Why:     "the answer to subscribe is one of these places",
		},
		CursorNullStartsFromNow: {Does: "begins with the oldest event where the cursor is null", Modes: onPoll},
		CursorAbsentEqualsNull:  {Does: "begins with the oldest event where there is no cursor", Modes: onPoll},
		"cursor-consistency": {
			Does:  "says cursor: null where a subscription begins",
			edits: start(func(on Kind, of string) []edit { return put(on, of, "cursor", nil) }),
		},
		"cursor-advances-when-quiet": {
			Does:  "repeats the cursor of a poll that brought nothing",
			Modes: onPoll,
			edits: when(both(quiet, not(has("truncated", true))), one(Poll, "", func(m *Message) { repeatCursor(m) })),
		},
		MaxAgeMsFloor: {Does: "ignores maxAgeMs"},
		"max-age-ms-sets-truncated": {
			Does:  "says truncated: false where maxAgeMs left events out",
			edits: when(both(has("truncated", true), aged), start(func(on Kind, of string) []edit { return put(on, of, "truncated", false) })),
		},
		MaxAgeMsIgnoredWhenCursorNull: {Does: "replays events where the cursor is null and maxAgeMs is given", Modes: onPoll},
		"replay-ceiling-sets-truncated": {
			Does: "says truncated: false where events are gone",
			edits: when(
				both(has("truncated", true), anyAge),
				start(func(on Kind, of string) []edit { return put(on, of, "truncated", false) }),
			),
			Follows: []Row{"stream-gap-resends-active"},
			Why:     "an active without truncated is no gap",
		},
		"truncated-returns-fresh-cursor": {
			Does:    "leaves the cursor out where it says truncated",
			edits:   when(has("truncated", true), start(func(on Kind, of string) []edit { return cut(on, of, "cursor") })),
			Follows: []Row{"cursor-consistency"},
			Why:     "other answers have a cursor",
		},
		"truncated-poll-never-an-error": {
			Does:  "answers a poll from a cursor that is too old with -32602",
			Modes: onPoll,
			edits: when(both(has("truncated", true), anyAge), one(Poll, "", func(m *Message) {
				delete(m.Body, "result")
				m.Body["error"] = map[string]any{"code": -32602, "message": "Cursor expired"}
			})),
		},
		"truncated-false-when-no-replay": {
			Does:  "says truncated: true for a type without replay",
			edits: when(has("cursor", nil), start(func(on Kind, of string) []edit { return put(on, of, "truncated", true) })),
		},

		// Authorization.
		AuthzSubscribeTime:        {Does: "gives everybody the notes of every principal"},
		AuthzDeliveryTimeReverify: {Does: "still delivers to a principal that lost its access", Modes: notPoll},
	}},
	{onPoll, map[Row]Breach{
		// Poll.
		"poll-implemented": {
			Does:  `answers a poll with "ok"`,
			edits: one(Poll, "", func(m *Message) { m.Raw = []byte(`"ok"`) }),
		},
		"poll-bootstraps-subscription": {Does: "gives the first poll a cursor that it does not know",
			edits: when(func(m *Message) bool { c := m.asked("cursor"); return c == "" || c == "null" }, put(Poll, "", "cursor", "cnone-0"))},
		"poll-events-array": {Does: "leaves events out where there are none", edits: when(quiet, cut(Poll, "", "events"))},
		"poll-response-cursor": {
			Does: "puts the cursor on the occurrences, and none on the result",
			edits: when(busy, one(Poll, "", func(m *Message) {
				for _, e := range m.occurrences() {
					e["cursor"] = m.result()["cursor"]
				}
				delete(m.result(), "cursor")
			})),
			Follows: []Row{"cursor-consistency"},
			Why:     "the answers without events have a cursor",
		},
		"poll-next-poll-ms": {Does: "leaves nextPollMs out", edits: cut(Poll, "", "nextPollMs")},
		"poll-has-more": {
			Does: "says hasMore where nothing came, and repeats the cursor",
			edits: when(both(quiet, not(has("truncated", true))), one(Poll, "", func(m *Message) {
				if repeatCursor(m) {
					m.result()["hasMore"] = true
				}
			})),
		},
		PollMaxEventsCap: {Does: "ignores maxEvents"},
		"poll-stateless-request": {
			Does:  "leaves out the events after a cursor every second time",
			edits: when(answeredBefore, put(Poll, "", "events", []any{})),
		},
		"poll-errors-are-jsonrpc": {Does: "answers a poll with HTTP 503 and a page", edits: one(Poll, "", func(m *Message) {
			m.Status, m.Raw = 503, []byte("<html>busy</html>")
			m.Header.Set("Content-Type", "text/html")
		})},
		"poll-invalid-arguments": {
			Does:    "answers a poll with arguments against the schema with -32603",
			edits:   recode(invalidParams, "poll", -32603),
			Follows: []Row{"error-invalid-params"},
			Why:     "it is the same error",
		},
		"poll-mode-unsupported": {
			Does:  "answers a poll of a type without polls with -32602",
			edits: recode(unsupported, "poll", -32602),
		},
	}},
	{onPush, map[Row]Breach{
		// Push.
		StreamImplemented:        {Does: "answers events/stream with an empty result"},
		StreamErrorBeforeOpen:    {Does: "refuses a stream with HTTP 400 and a line of text"},
		StreamActiveConfirmation: {Does: "sends no active"},
		"stream-subscription-id-meta": {
			Does: "names another subscription in the messages of a stream",
			edits: when(func(m *Message) bool { return m.object("params", "_meta") != nil }, one(Frame, "", func(m *Message) {
				m.object("params", "_meta")["io.modelcontextprotocol/subscriptionId"] = "another"
			})),
		},
		"stream-event-notification": {
			Does:  "leaves jsonrpc out of events",
			edits: one(Frame, "event", func(m *Message) { delete(m.Body, "jsonrpc") }),
		},
		StreamErrorIsRecoverable:         {Does: "closes a stream after a recoverable error"},
		StreamTerminatedEndsSubscription: {Does: "ends a stream without terminated"},
		"stream-gap-resends-active": {
			Does:  "says truncated: false in the active of a gap",
			edits: when(has("truncated", true), put(Frame, "active", "truncated", false)),
		},
		StreamHeartbeatRequired: {Does: "sends no heartbeats"},
		"stream-heartbeat-carries-cursor": {
			Does:  "leaves the cursor of heartbeats out",
			edits: cut(Frame, "heartbeat", "cursor"),
		},
		StreamHeartbeatInterval:      {Does: "sends a heartbeat after 32 s of silence"},
		StreamHeartbeatNotSSEComment: {Does: "sends comments in place of heartbeats"},
		"stream-final-result-shape": {
			Does:  "adds events to the final result",
			edits: put(Frame, "result", "events", []any{}),
		},
		StreamFinalResultTiming:        {Does: "closes streams without the final result"},
		StreamCancelStopsDelivery:      {Does: "keeps the place of a stream that was cancelled"},
		StreamExemptFromConcurrencyCap: {Does: "refuses a stream with HTTP 503"},
		"stream-carries-only-event-notifications": {
			Does: "sends a log message beside each event",
			edits: one(Frame, "event", func(m *Message) {
				m.Beside = []byte(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"hello"}}`)
			}),
		},
	}},
	{onWebhook, map[Row]Breach{
		// Subscribe.
		SubscribeWebhookOnly: {Does: "accepts every mode in subscribe"},
		SubscribeSecretRequired: {
			Does:    "accepts a missing secret, and an empty one",
			Follows: []Row{"subscribe-secret-rejected", "error-invalid-params"},
			Why:     "nothing is refused",
		},
		SubscribeSecretFormat: {
			Does:    "accepts every secret that is not empty",
			Follows: []Row{"subscribe-secret-rejected", "error-invalid-params"},
			Why:     "nothing is refused",
		},
		"subscribe-secret-rejected": {
			Does:    "refuses subscribe for its params with -32603",
			edits:   recode(invalidParams, "subscribe", -32603),
			Follows: []Row{"error-invalid-params", "subscribe-url-non-https-rejected"},
			Why:     "they are the same error",
		},
		SubscribeURLHTTPSRequired: {
			Does:    "accepts a callback over http",
			Follows: []Row{"subscribe-url-non-https-rejected", "error-invalid-params"},
			Why:     "nothing is refused",
		},
		"subscribe-url-non-https-rejected": {
			Does:    "refuses subscribe for its params with -32600",
			edits:   recode(invalidParams, "subscribe", -32600),
			Follows: []Row{"error-invalid-params", "subscribe-secret-rejected"},
			Why:     "they are the same error",
		},
		SubscribeAuthRequired: {Does: "accepts a subscription without a token"},
		SubscribeKeyComposition: {
			Does:    "treats other spellings of the same arguments as other arguments",
			Follows: []Row{"unsubscribe-by-key"},
			Why:     "an earlier subscription has another key",
		},
		SubscribeKeyImmutable: {
			Does:    "treats subscriptions with other arguments as the same",
			Follows: []Row{"unsubscribe-by-key"},
			Why:     "an earlier subscription has another key",
		},
		SubscribeIdempotentUpsert: {
			Does:    "makes another subscription at each subscribe",
			Follows: []Row{"unsubscribe-by-key", "subscribe-id-derived", SubscribeRefreshReplacesSecret, DeliveryDualSignOnRotation},
			Why:     "none of them has the key, and each has an id and a secret of its own",
		},
		"subscribe-id-derived":         {Does: "leaves the id out", edits: cut(Grant, "", "id")},
		SubscribeIDNotAnInput:          {Does: "takes the client's id"},
		SubscribeRefreshReplacesSecret: {Does: "keeps the first secret"},
		SubscribeRefreshReactivates:    {Does: "keeps deliveries suspended over a refresh"},
		"subscribe-response-cursor": {
			Does:    "answers subscribe with cursor: 7",
			edits:   put(Grant, "", "cursor", 7),
			Follows: []Row{"cursor-opaque"},
			Why:     "a number is no string",
		},
		"subscribe-response-truncated": {Does: "leaves truncated out", edits: cut(Grant, "", "truncated")},
		SubscribeCrossTenantIsolation: {
			Does:    "treats subscriptions of other principals as the same",
			Follows: []Row{"unsubscribe-by-key"},
			Why:     "an earlier subscription has another key",
		},
		"ttl-refresh-before-lte-suggestion": {
			Does:  "says a grant is an hour longer than it is",
			edits: one(Grant, "", postpone),
		},
		TTLNoRejectionPath:             {Does: "refuses each ttlMs that it would have to clamp, and null"},
		"ttl-null-only-when-requested": {Does: "says refreshBefore: null", edits: put(Grant, "", "refreshBefore", nil)},
		"ttl-omitted-means-default": {
			Does:  "says refreshBefore: soon",
			edits: put(Grant, "", "refreshBefore", "soon"),
		},
		TTLLongGrantRetained:    {Does: "forgets subscriptions that expire over a restart"},
		TTLNoExpiryPersisted:    {Does: "forgets subscriptions without expiry over a restart"},
		TTLNoExpiryGCTerminated: {Does: "drops a subscription without expiry and sends no envelope"},
		"unsubscribe-by-key": {Does: "answers unsubscribe with NotFound", edits: one(Unsubscribed, "", func(m *Message) {
			delete(m.Body, "result")
			m.Body["error"] = map[string]any{"code": notFound[0], "message": "Not found", "data": map[string]any{"kind": "subscription"}}
		})},
		"unsubscribe-unknown-not-found": {
			Does: "answers unsubscribe of nothing with success",
			edits: []edit{{Refusal, "unsubscribe", coded(notFound), func(m *Message) {
				delete(m.Body, "error")
				m.Body["result"] = map[string]any{"resultType": "complete"}
			}}},
		},

		// Delivery.
		"delivery-status-last-error-category": {
			Does: "says lastError: sad",
			edits: when(func(m *Message) bool { return m.object("result", "deliveryStatus") != nil }, one(Grant, "", func(m *Message) {
				m.object("result", "deliveryStatus")["lastError"] = "sad"
			})),
		},
		"delivery-post-json": {
			Does:  "posts events as text/plain",
			edits: one(Sent, "event", func(m *Message) { m.Header["Content-Type"] = []string{"text/plain"} }),
		},
		"delivery-standard-webhooks-headers": {
			Does:  "posts events without webhook-id",
			edits: one(Sent, "event", func(m *Message) { delete(m.Header, "webhook-id") }),
		},
		"delivery-subscription-id-header": {
			Does:  "posts events without X-MCP-Subscription-Id",
			edits: one(Sent, "event", func(m *Message) { delete(m.Header, "X-MCP-Subscription-Id") }),
		},
		"delivery-signature-formula": {Does: "signs events wrongly", edits: one(Sent, "event", missign)},
		"delivery-retry-regenerates-signature": {
			Does:  "sends retries with the first timestamp and signature",
			edits: []edit{{Sent, "event", repeated, repeat}},
		},
		DeliveryDualSignOnRotation: {Does: "signs with the new secret only"},
		"delivery-body-size": {
			Does:  "adds 300 KiB to events",
			edits: one(Post, "event", func(m *Message) { m.Body["padding"] = strings.Repeat("x", 300<<10) }),
		},
		Delivery413NonRetryable: {Does: "tries again after 413"},
		Delivery410NonRetryable: {Does: "tries again after 410"},
		DeliveryRetriesBounded:  {Does: "tries again for ever"},
		"payload-minimality": {
			Does:  "adds 30 KiB to events",
			edits: one(Post, "event", func(m *Message) { m.Body["padding"] = strings.Repeat("x", 30<<10) }),
		},

		// Callback security.
		SSRFValidateCallbackURL: {
			Does: "accepts, without a challenge, a callback that is neither an https URL with a host nor an http URL",
		},
		SSRFRejectNonRoutable: {
			Does:    "posts to every address",
			Follows: []Row{SSRFValidateAtDeliveryTime, VerificationUsesSSRFHardenedPath},
			Why:     "no address is checked",
		},
		SSRFValidateAtDeliveryTime: {Does: "checks the address of the challenge only"},
		SSRFNoRedirects:            {Does: "follows a redirect"},

		// Verification.
		VerificationRequiredBeforeDelivery: {Does: "posts an event before the challenge"},
		VerificationChallengeEcho:          {Does: "accepts every answer to the challenge"},
		"verification-failure-error": {
			Does:  "refuses a callback that fails with -32602",
			edits: recode(callbackRefused, "subscribe", -32602),
		},
		VerificationCachedPerPrincipalURL: {Does: "sends a challenge at each refresh"},
		VerificationPersistedForNoExpiry:  {Does: "forgets over a restart that callbacks are verified"},
		VerificationUsesSSRFHardenedPath: {
			Does: "checks the address of deliveries only, and follows redirects of challenges",
		},
		VerificationNoRawEndpointResponses: {Does: "repeats what a callback answers in its error"},

		// Control envelopes.
		"envelope-type-discriminator": {
			Does:  "gives events a type",
			edits: one(Post, "event", func(m *Message) { m.Body["type"] = "event" }),
		},
		"envelope-signed-like-deliveries": {Does: "signs gap and terminated wrongly", edits: control(Sent, missign)},
		"envelope-webhook-id-format": {
			Does:  "gives envelopes the webhook-id of an event",
			edits: control(Post, func(m *Message) { m.ID = "evt_" + m.ID }),
		},
		"envelope-gap": {Does: "leaves the cursor out of gap", edits: cut(Post, "gap", "cursor")},
		"envelope-terminated": {
			Does:  "leaves the error out of terminated",
			edits: cut(Post, "terminated", "error"),
		},
	}},
}

// LongSilence is longer than a stream may be silent.
const LongSilence = 32 * time.Second

// renew demands a member of the payload that no list before had.
func renew(m *Message, t map[string]any) {
	schema, _ := t["payloadSchema"].(map[string]any)
	if schema != nil {
		schema["required"] = []any{"since" + strconv.FormatInt(m.row.broken.Load(), 10)}
	}
}

func quiet(m *Message) bool { return m.result() != nil && len(m.occurrences()) == 0 }
func busy(m *Message) bool  { return len(m.occurrences()) > 0 }

// repeatCursor gives a poll's answer the cursor that was asked with, if there was one.
func repeatCursor(m *Message) bool {
	asked := m.asked("cursor")
	if asked == "" || asked == "null" {
		return false
	}
	m.result()["cursor"] = strings.Trim(asked, `"`)
	return true
}

// anyAge reports whether a call had no maxAgeMs, as far as that is known.
func anyAge(m *Message) bool { return m.asked("maxAgeMs") == "" }

// aged reports whether a call had maxAgeMs. What a stream was asked with is not known.
func aged(m *Message) bool { return m.Kind == Frame || m.asked("maxAgeMs") != "" }
