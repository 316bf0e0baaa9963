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
	Follows []string
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
func Has(row string) bool { _, ok := Table[row]; return ok }

// In reports whether a row can be broken in a mode.
func In(row string, mode eventmeter.Mode) bool {
	modes := Table[row].Modes
	return modes == nil || slices.Contains(modes, mode)
}

// Table is how each row is broken that a server can break.
var Table = table()

func table() map[string]Breach {
	all := map[string]Breach{}
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
	rows  map[string]Breach
}{
	{nil, map[string]Breach{
		// Capability.
		"capability-events-object": {
			Does:  "advertises no events capability",
			edits: settings(nil),
		},
		"capability-list-changed-flag": {
			Does:  `says listChanged: "yes"`,
			edits: settings(map[string]any{"listChanged": "yes"}),
		},
		"capability-empty-settings": {
			Does:    "advertises {}, and sends list_changed",
			edits:   settings(map[string]any{}),
			Follows: []string{"capability-list-changed-gated"},
			Why:     "it is the same promise",
		},
		"capability-list-changed-gated": {
			Does:  "says listChanged: false, and sends list_changed",
			edits: settings(map[string]any{"listChanged": false}),
		},
		"fallback-method-not-found": {
			Does:    "advertises no events capability, and answers its methods with -32603",
			edits:   settings(nil),
			Follows: []string{"capability-events-object"},
			Why:     "the row is about a server without the capability",
		},

		// events/list.
		"list-implemented": {Does: "answers events/list with events: {}", edits: at(List, "", put("events", map[string]any{}))},
		"list-pagination":  {Does: "answers events/list with nextCursor: 7", edits: at(List, "", put("nextCursor", 7))},
		"descriptor-name": {
			Does:  "leaves the name of each event type out",
			edits: types(without("name")),
		},
		"descriptor-description": {
			Does:  "leaves description out",
			edits: types(without("description")),
		},
		"descriptor-delivery-subset": {Does: "adds the delivery pigeon", edits: types(func(t map[string]any) {
			modes, _ := t["delivery"].([]any)
			t["delivery"] = append(modes, "pigeon")
		})},
		"descriptor-input-schema": {
			Does:  "leaves inputSchema out",
			edits: types(without("inputSchema")),
		},
		"descriptor-payload-schema": {
			Does:  `says payloadSchema: "any"`,
			edits: types(with("payloadSchema", "any")),
		},
		"descriptor-meta":           {Does: `says _meta: "none"`, edits: types(with("_meta", "none"))},
		"schema-evolution-additive": {Does: "requires another member of the payload in each list", edits: one(List, "", renew)},
		"breaking-change-new-name": {Does: "requires another member of the payload in each list", edits: one(List, "", renew),
			Follows: []string{"schema-evolution-additive"}, Why: "the change is not additive"},
		"list-changed-notification": {Does: "sends no list_changed"},

		// Termination.
		"removal-terminates-subscriptions": {Does: "keeps the subscriptions of a removed type", Modes: notPoll},
		"removal-error-not-found": {
			Does:  "ends subscriptions of a removed type with data.kind: subscription",
			Modes: notPoll,
			edits: ended(notFound, with("kind", "subscription")),
		},
		"removal-error-schema-changed": {
			Does:  "ends subscriptions of a changed type with another data.reason",
			Modes: notPoll,
			edits: ended(unsupported, with("reason", "gone")),
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
			Follows: []string{
				"poll-invalid-arguments",
				"subscribe-secret-rejected",
				"subscribe-url-non-https-rejected",
			},
			Why: "they are the same error",
		},
		"error-not-found": {
			Does:  "says data.kind: thing",
			edits: faulty(notFound, "", with("kind", "thing")),
		},
		"error-forbidden": {
			Does:  "says data.reason: 7",
			edits: faulty(forbidden, "", with("reason", 7)),
		},
		"error-resource-exhausted": {
			Does:  "leaves data.limit out",
			edits: faulty(exhausted, "", without("limit")),
		},
		"error-unsupported": {
			Does:  "leaves data.feature out",
			edits: faulty(unsupported, "", without("feature")),
		},
		"error-callback-endpoint-error": {
			Does:  "says data.reason: bad_luck",
			Modes: onWebhook,
			edits: faulty(callbackRefused, "subscribe", with("reason", "bad_luck")),
		},
		"error-server-range": {Does: "refuses what is forbidden with the code -31000", edits: recode(forbidden, "", -31000),
			Follows: []string{"authz-subscribe-time", "subscribe-auth-required"}, Why: "they want the code of Forbidden"},

		// Occurrences.
		"occurrence-event-id": {Does: "leaves eventId out", edits: events(without("eventId"))},
		"occurrence-name":     {Does: "leaves name out", edits: events(without("name"))},
		"occurrence-timestamp": {
			Does:  "says timestamp: yesterday",
			edits: events(with("timestamp", "yesterday")),
		},
		"occurrence-data": {
			Does:  "puts data into a string",
			edits: events(func(e map[string]any) { e["data"] = string(encode(e["data"])) }),
		},
		"occurrence-cursor-optional":        {Does: "says cursor: 7 on an occurrence", edits: events(with("cursor", 7))},
		"occurrence-event-id-from-upstream": {Does: "delivers each event again under another id"},

		// Cursors.
		"cursor-opaque": {
			Does:    "says cursor: 7 where a subscription stands",
			edits:   position(put("cursor", 7)),
			Follows: []string{"subscribe-response-cursor"},
			Why:     "the answer to subscribe is one of these places",
		},
		"cursor-null-starts-from-now": {Does: "begins with the oldest event where the cursor is null", Modes: onPoll},
		"cursor-absent-equals-null":   {Does: "begins with the oldest event where there is no cursor", Modes: onPoll},
		"cursor-consistency": {
			Does:  "says cursor: null where a subscription begins",
			edits: start(put("cursor", nil)),
		},
		"cursor-advances-when-quiet": {
			Does:  "repeats the cursor of a poll that brought nothing",
			Modes: onPoll,
			edits: when(both(quiet, not(has("truncated", true))), one(Poll, "", func(m *Message) { repeatCursor(m) })),
		},
		"max-age-ms-floor": {Does: "ignores maxAgeMs"},
		"max-age-ms-sets-truncated": {
			Does:  "says truncated: false where maxAgeMs left events out",
			edits: when(both(has("truncated", true), aged), start(put("truncated", false))),
		},
		"max-age-ms-ignored-when-cursor-null": {Does: "replays events where the cursor is null and maxAgeMs is given", Modes: onPoll},
		"replay-ceiling-sets-truncated": {
			Does: "says truncated: false where events are gone",
			edits: when(
				both(has("truncated", true), anyAge),
				start(put("truncated", false)),
			),
			Follows: []string{"stream-gap-resends-active"},
			Why:     "an active without truncated is no gap",
		},
		"truncated-returns-fresh-cursor": {
			Does:    "leaves the cursor out where it says truncated",
			edits:   when(has("truncated", true), start(cut("cursor"))),
			Follows: []string{"cursor-consistency"},
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
			edits: when(has("cursor", nil), start(put("truncated", true))),
		},

		// Authorization.
		"authz-subscribe-time":         {Does: "gives everybody the notes of every principal"},
		"authz-delivery-time-reverify": {Does: "still delivers to a principal that lost its access", Modes: notPoll},
	}},
	{onPoll, map[string]Breach{
		// Poll.
		"poll-implemented": {
			Does:  `answers a poll with "ok"`,
			edits: one(Poll, "", func(m *Message) { m.Raw = []byte(`"ok"`) }),
		},
		"poll-bootstraps-subscription": {Does: "gives the first poll a cursor that it does not know",
			edits: when(func(m *Message) bool { c := m.asked("cursor"); return c == "" || c == "null" }, at(Poll, "", put("cursor", "cnone-0")))},
		"poll-events-array": {Does: "leaves events out where there are none", edits: when(quiet, at(Poll, "", cut("events")))},
		"poll-response-cursor": {
			Does: "puts the cursor on the occurrences, and none on the result",
			edits: when(busy, one(Poll, "", func(m *Message) {
				for _, e := range m.occurrences() {
					e["cursor"] = m.result()["cursor"]
				}
				delete(m.result(), "cursor")
			})),
			Follows: []string{"cursor-consistency"},
			Why:     "the answers without events have a cursor",
		},
		"poll-next-poll-ms": {Does: "leaves nextPollMs out", edits: at(Poll, "", cut("nextPollMs"))},
		"poll-has-more": {
			Does: "says hasMore where nothing came, and repeats the cursor",
			edits: when(both(quiet, not(has("truncated", true))), one(Poll, "", func(m *Message) {
				if repeatCursor(m) {
					m.result()["hasMore"] = true
				}
			})),
		},
		"poll-max-events-cap": {Does: "ignores maxEvents"},
		"poll-stateless-request": {
			Does:  "leaves out the events after a cursor every second time",
			edits: when(answeredBefore, at(Poll, "", put("events", []any{}))),
		},
		"poll-errors-are-jsonrpc": {Does: "answers a poll with HTTP 503 and a page", edits: one(Poll, "", func(m *Message) {
			m.Status, m.Raw = 503, []byte("<html>busy</html>")
			m.Header.Set("Content-Type", "text/html")
		})},
		"poll-invalid-arguments": {
			Does:    "answers a poll with arguments against the schema with -32603",
			edits:   recode(invalidParams, "poll", -32603),
			Follows: []string{"error-invalid-params"},
			Why:     "it is the same error",
		},
		"poll-mode-unsupported": {
			Does:  "answers a poll of a type without polls with -32602",
			edits: recode(unsupported, "poll", -32602),
		},
	}},
	{onPush, map[string]Breach{
		// Push.
		"stream-implemented":         {Does: "answers events/stream with an empty result"},
		"stream-error-before-open":   {Does: "refuses a stream with HTTP 400 and a line of text"},
		"stream-active-confirmation": {Does: "sends no active"},
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
		"stream-error-is-recoverable":         {Does: "closes a stream after a recoverable error"},
		"stream-terminated-ends-subscription": {Does: "ends a stream without terminated"},
		"stream-gap-resends-active": {
			Does:  "says truncated: false in the active of a gap",
			edits: when(has("truncated", true), at(Frame, "active", put("truncated", false))),
		},
		"stream-heartbeat-required": {Does: "sends no heartbeats"},
		"stream-heartbeat-carries-cursor": {
			Does:  "leaves the cursor of heartbeats out",
			edits: at(Frame, "heartbeat", cut("cursor")),
		},
		"stream-heartbeat-interval":        {Does: "sends a heartbeat after 32 s of silence"},
		"stream-heartbeat-not-sse-comment": {Does: "sends comments in place of heartbeats"},
		"stream-final-result-shape": {
			Does:  "adds events to the final result",
			edits: at(Frame, "result", put("events", []any{})),
		},
		"stream-final-result-timing":         {Does: "closes streams without the final result"},
		"stream-cancel-stops-delivery":       {Does: "keeps the place of a stream that was cancelled"},
		"stream-exempt-from-concurrency-cap": {Does: "refuses a stream with HTTP 503"},
		"stream-carries-only-event-notifications": {
			Does: "sends a log message beside each event",
			edits: one(Frame, "event", func(m *Message) {
				m.Beside = []byte(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"hello"}}`)
			}),
		},
	}},
	{onWebhook, map[string]Breach{
		// Subscribe.
		"subscribe-webhook-only": {Does: "accepts every mode in subscribe"},
		"subscribe-secret-required": {
			Does:    "accepts a missing secret, and an empty one",
			Follows: []string{"subscribe-secret-rejected", "error-invalid-params"},
			Why:     "nothing is refused",
		},
		"subscribe-secret-format": {
			Does:    "accepts every secret that is not empty",
			Follows: []string{"subscribe-secret-rejected", "error-invalid-params"},
			Why:     "nothing is refused",
		},
		"subscribe-secret-rejected": {
			Does:    "refuses subscribe for its params with -32603",
			edits:   recode(invalidParams, "subscribe", -32603),
			Follows: []string{"error-invalid-params", "subscribe-url-non-https-rejected"},
			Why:     "they are the same error",
		},
		"subscribe-url-https-required": {
			Does:    "accepts a callback over http",
			Follows: []string{"subscribe-url-non-https-rejected", "error-invalid-params"},
			Why:     "nothing is refused",
		},
		"subscribe-url-non-https-rejected": {
			Does:    "refuses subscribe for its params with -32600",
			edits:   recode(invalidParams, "subscribe", -32600),
			Follows: []string{"error-invalid-params", "subscribe-secret-rejected"},
			Why:     "they are the same error",
		},
		"subscribe-auth-required": {Does: "accepts a subscription without a token"},
		"subscribe-key-composition": {
			Does:    "treats other spellings of the same arguments as other arguments",
			Follows: []string{"unsubscribe-by-key"},
			Why:     "an earlier subscription has another key",
		},
		"subscribe-key-immutable": {
			Does:    "treats subscriptions with other arguments as the same",
			Follows: []string{"unsubscribe-by-key"},
			Why:     "an earlier subscription has another key",
		},
		"subscribe-idempotent-upsert": {
			Does:    "makes another subscription at each subscribe",
			Follows: []string{"unsubscribe-by-key", "subscribe-id-derived", "subscribe-refresh-replaces-secret", "delivery-dual-sign-on-rotation"},
			Why:     "none of them has the key, and each has an id and a secret of its own",
		},
		"subscribe-id-derived":              {Does: "leaves the id out", edits: at(Grant, "", cut("id"))},
		"subscribe-id-not-an-input":         {Does: "takes the client's id"},
		"subscribe-refresh-replaces-secret": {Does: "keeps the first secret"},
		"subscribe-refresh-reactivates":     {Does: "keeps deliveries suspended over a refresh"},
		"subscribe-response-cursor": {
			Does:    "answers subscribe with cursor: 7",
			edits:   at(Grant, "", put("cursor", 7)),
			Follows: []string{"cursor-opaque"},
			Why:     "a number is no string",
		},
		"subscribe-response-truncated": {Does: "leaves truncated out", edits: at(Grant, "", cut("truncated"))},
		"subscribe-cross-tenant-isolation": {
			Does:    "treats subscriptions of other principals as the same",
			Follows: []string{"unsubscribe-by-key"},
			Why:     "an earlier subscription has another key",
		},
		"ttl-refresh-before-lte-suggestion": {
			Does:  "says a grant is an hour longer than it is",
			edits: one(Grant, "", postpone),
		},
		"ttl-no-rejection-path":        {Does: "refuses each ttlMs that it would have to clamp, and null"},
		"ttl-null-only-when-requested": {Does: "says refreshBefore: null", edits: at(Grant, "", put("refreshBefore", nil))},
		"ttl-omitted-means-default": {
			Does:  "says refreshBefore: soon",
			edits: at(Grant, "", put("refreshBefore", "soon")),
		},
		"ttl-long-grant-retained":     {Does: "forgets subscriptions that expire over a restart"},
		"ttl-no-expiry-persisted":     {Does: "forgets subscriptions without expiry over a restart"},
		"ttl-no-expiry-gc-terminated": {Does: "drops a subscription without expiry and sends no envelope"},
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
		"delivery-dual-sign-on-rotation": {Does: "signs with the new secret only"},
		"delivery-body-size": {
			Does:  "adds 300 KiB to events",
			edits: one(Post, "event", func(m *Message) { m.Body["padding"] = strings.Repeat("x", 300<<10) }),
		},
		"delivery-413-non-retryable": {Does: "tries again after 413"},
		"delivery-410-non-retryable": {Does: "tries again after 410"},
		"delivery-retries-bounded":   {Does: "tries again for ever"},
		"payload-minimality": {
			Does:  "adds 30 KiB to events",
			edits: one(Post, "event", func(m *Message) { m.Body["padding"] = strings.Repeat("x", 30<<10) }),
		},

		// Callback security.
		"ssrf-validate-callback-url": {
			Does: "accepts, without a challenge, a callback that is neither an https URL with a host nor an http URL",
		},
		"ssrf-reject-non-routable": {
			Does:    "posts to every address",
			Follows: []string{"ssrf-validate-at-delivery-time", "verification-uses-ssrf-hardened-path"},
			Why:     "no address is checked",
		},
		"ssrf-validate-at-delivery-time": {Does: "checks the address of the challenge only"},
		"ssrf-no-redirects":              {Does: "follows a redirect"},

		// Verification.
		"verification-required-before-delivery": {Does: "posts an event before the challenge"},
		"verification-challenge-echo":           {Does: "accepts every answer to the challenge"},
		"verification-failure-error": {
			Does:  "refuses a callback that fails with -32602",
			edits: recode(callbackRefused, "subscribe", -32602),
		},
		"verification-cached-per-principal-url": {Does: "sends a challenge at each refresh"},
		"verification-persisted-for-no-expiry":  {Does: "forgets over a restart that callbacks are verified"},
		"verification-uses-ssrf-hardened-path": {
			Does: "checks the address of deliveries only, and follows redirects of challenges",
		},
		"verification-no-raw-endpoint-responses": {Does: "repeats what a callback answers in its error"},

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
		"envelope-gap": {Does: "leaves the cursor out of gap", edits: at(Post, "gap", cut("cursor"))},
		"envelope-terminated": {
			Does:  "leaves the error out of terminated",
			edits: at(Post, "terminated", cut("error")),
		},
	}},
}

// LongSilence is longer than a stream may be silent.
const LongSilence = 32 * time.Second

// renew demands a member of every payload that no list before had.
func renew(m *Message) {
	for _, t := range m.occurrences() {
		if schema, _ := t["payloadSchema"].(map[string]any); schema != nil {
			schema["required"] = []any{"since" + strconv.FormatInt(m.row.broken.Load(), 10)}
		}
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
