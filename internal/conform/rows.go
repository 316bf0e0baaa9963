package conform

import "cmp"

// The rows, in the order of the suite.
const (
	CapabilityEventsObject ID = iota
	CapabilityListChangedFlag
	CapabilityEmptySettings
	CapabilityClientDeclaration
	CapabilityListChangedGated
	FallbackMethodNotFound
	ListImplemented
	ListPagination
	DescriptorName
	DescriptorDescription
	DescriptorDeliverySubset
	DescriptorInputSchema
	DescriptorPayloadSchema
	DescriptorMeta
	SchemaEvolutionAdditive
	BreakingChangeNewName
	ListChangedNotification
	RemovalTerminatesSubscriptions
	RemovalErrorNotFound
	RemovalErrorSchemaChanged
	RemovalAdditiveNoTerminate
	RemovalPollNotFound
	ErrorInvalidParams
	ErrorNotFound
	ErrorForbidden
	ErrorResourceExhausted
	ErrorUnsupported
	ErrorCallbackEndpointError
	ErrorServerRange
	PollImplemented
	PollOneSubscriptionPerRequest
	PollBootstrapsSubscription
	PollEventsArray
	PollResponseCursor
	PollNextPollMs
	PollNextPollMsIgnoredWhenHasMore
	PollHasMore
	PollMaxEventsCap
	PollStatelessRequest
	PollErrorsAreJSONRPC
	PollInvalidArguments
	PollModeUnsupported
	OccurrenceEventID
	OccurrenceName
	OccurrenceTimestamp
	OccurrenceData
	OccurrenceCursorOptional
	OccurrenceMetaUngoverned
	OccurrenceEventIDFromUpstream
	CursorOpaque
	CursorNullStartsFromNow
	CursorAbsentEqualsNull
	CursorConsistency
	CursorAdvancesWhenQuiet
	MaxAgeMsFloor
	MaxAgeMsSetsTruncated
	MaxAgeMsIgnoredWhenCursorNull
	ReplayCeilingSetsTruncated
	TruncatedReturnsFreshCursor
	TruncatedPollNeverAnError
	TruncatedFalseWhenNoReplay
	StreamImplemented
	StreamErrorBeforeOpen
	StreamActiveConfirmation
	StreamSubscriptionIDMeta
	StreamEventNotification
	StreamErrorIsRecoverable
	StreamTerminatedEndsSubscription
	StreamGapResendsActive
	StreamHeartbeatRequired
	StreamHeartbeatCarriesCursor
	StreamHeartbeatInterval
	StreamHeartbeatNotSSEComment
	StreamFinalResultShape
	StreamFinalResultTiming
	StreamCancelStopsDelivery
	StreamExemptFromConcurrencyCap
	StreamCarriesOnlyEventNotifications
	SubscribeWebhookOnly
	SubscribeSecretRequired
	SubscribeSecretFormat
	SubscribeSecretRejected
	SubscribeURLHTTPSRequired
	SubscribeURLNonHTTPSRejected
	SubscribeAuthRequired
	SubscribeKeyComposition
	SubscribeKeyImmutable
	SubscribeIdempotentUpsert
	SubscribeIDDerived
	SubscribeIDNotAnInput
	SubscribeRefreshReplacesSecret
	SubscribeRefreshReactivates
	SubscribeResponseCursor
	SubscribeResponseTruncated
	SubscribeCrossTenantIsolation
	TTLRefreshBeforeLteSuggestion
	TTLNoRejectionPath
	TTLNullOnlyWhenRequested
	TTLOmittedMeansDefault
	TTLLongGrantRetained
	TTLNoExpiryPersisted
	TTLNoExpiryGCTerminated
	UnsubscribeByKey
	UnsubscribeUnknownNotFound
	DeliveryStatusLastErrorCategory
	DeliveryPostJSON
	DeliveryStandardWebhooksHeaders
	DeliverySubscriptionIDHeader
	DeliverySignatureFormula
	DeliveryRetryRegeneratesSignature
	DeliveryDualSignOnRotation
	DeliveryBodySize
	Delivery413NonRetryable
	Delivery410NonRetryable
	DeliveryRetriesBounded
	SSRFValidateCallbackURL
	SSRFRejectNonRoutable
	SSRFValidateAtDeliveryTime
	SSRFNoRedirects
	VerificationRequiredBeforeDelivery
	VerificationChallengeEcho
	VerificationFailureError
	VerificationCachedPerPrincipalURL
	VerificationPersistedForNoExpiry
	VerificationUsesSSRFHardenedPath
	VerificationNoRawEndpointResponses
	ServerIdentityKeyDiscovery
	EnvelopeTypeDiscriminator
	EnvelopeSignedLikeDeliveries
	EnvelopeWebhookIDFormat
	EnvelopeGapRow
	EnvelopeTerminated
	AuthzSubscribeTime
	AuthzDeliveryTimeReverify
	PayloadMinimality
	count // of the rows
)

// Rows are the rows for servers, by their ID.
var Rows = rows()

func rows() (all [count]Row) {
	for _, s := range sections {
		for id, r := range s.rows {
			r.Section, r.Lanes, r.Level = s.name, cmp.Or(r.Lanes, s.lanes), cmp.Or(r.Level, Shape)
			all[id] = r
		}
	}
	return all
}

// What several rows have.
const (
	listsAgain = "lists the event types again, beside the subscriptions"
	deliberate = "needs a deliberate step: "
	control    = "needs control of the server: "
)

var (
	occurrences = []Occasion{PollOccurrence, StreamEvent, Delivery}
	withACursor = []Occasion{PollAnswer, StreamActive, StreamHeartbeat, Granted}
)

// section is a part of the draft.
type section struct {
	name  string
	lanes string
	rows  map[ID]Row
}

// sections are the parts of the draft with their rows. A row is a [Shape] seen by its
// section's lanes, unless it says otherwise.
var sections = []section{
	{name: "Capability", lanes: "poll, push, webhook", rows: map[ID]Row{
		CapabilityEventsObject: {
			Name:     "capability-events-object",
			Requires: "server advertises the events capability",
			At:       []Occasion{Handshake},
			Broken:   "the first handshake of a lane has no events capability in any of its places",
		},
		CapabilityListChangedFlag: {
			Name:     "capability-list-changed-flag",
			Requires: "listChanged says whether list_changed is sent",
			At:       []Occasion{Handshake},
			Broken:   "listChanged is there and is no boolean",
		},
		CapabilityEmptySettings: {
			Name:     "capability-empty-settings",
			Requires: "an empty settings object means no list_changed",
			Unseen:   "absent list_changed proves nothing; capability-list-changed-gated sees the contrary",
		},
		CapabilityClientDeclaration: {
			Name:     "capability-client-declaration",
			Requires: "a client may declare the extension with {}",
			Unseen:   "a rule for clients: every lane declares it in revision sep-3415",
		},
		CapabilityListChangedGated: {
			Name:     "capability-list-changed-gated",
			Requires: "list_changed is sent only where listChanged was advertised",
			At:       []Occasion{ListChanged},
			Broken:   "a list_changed came, and listChanged was not advertised; lanes with events.listen",
		},
		FallbackMethodNotFound: {
			Name:     "fallback-method-not-found",
			Requires: "events/* gives -32601 where the extension is not offered",
			At:       []Occasion{ListUnoffered},
			Broken:   "events/list was refused with another code, and the capability was not advertised",
		},
	}},
	{name: "events/list", lanes: "poll, push, webhook", rows: map[ID]Row{
		ListImplemented: {
			Name:     "list-implemented",
			Requires: "events/list returns events array and nextCursor",
			At:       []Occasion{ListPage},
			Broken:   "a page of events/list has no array of events",
			Check:    listsAgain,
		},
		ListPagination: {
			Name:     "list-pagination",
			Requires: "nextCursor works as in tools/list",
			At:       []Occasion{ListPage},
			Broken:   "nextCursor is no string, or is the cursor that the page was asked with",
			Check:    listsAgain,
		},
		DescriptorName: {
			Name:     "descriptor-name",
			Requires: "every descriptor has a name",
			At:       []Occasion{Descriptor},
			Broken:   "name is missing or no text",
			Check:    listsAgain,
		},
		DescriptorDescription: {
			Name:     "descriptor-description",
			Requires: "every descriptor has a description",
			At:       []Occasion{Descriptor},
			Broken:   "description is missing or no text",
			Check:    listsAgain,
		},
		DescriptorDeliverySubset: {
			Name:     "descriptor-delivery-subset",
			Requires: "delivery is a non-empty subset of three modes",
			At:       []Occasion{Descriptor},
			Broken:   "delivery is not a non-empty array of poll, push and webhook",
			Check:    listsAgain,
		},
		DescriptorInputSchema: {
			Name:     "descriptor-input-schema",
			Requires: "inputSchema is a JSON Schema for arguments",
			At:       []Occasion{Descriptor},
			Broken:   "inputSchema is neither an object nor a boolean",
			Check:    listsAgain,
		},
		DescriptorPayloadSchema: {
			Name:     "descriptor-payload-schema",
			Requires: "payloadSchema describes data",
			At:       []Occasion{Descriptor},
			Broken:   "payloadSchema is neither an object nor a boolean",
			Check:    listsAgain,
		},
		DescriptorMeta: {
			Name:     "descriptor-meta",
			Requires: "_meta optional, usual meaning",
			At:       []Occasion{Descriptor},
			Broken:   "_meta is there and is no object",
			Check:    listsAgain,
		},
		SchemaEvolutionAdditive: {
			Name:     "schema-evolution-additive",
			Level:    Should,
			Requires: "schemas of one name change only additively",
			Unseen:   control + "a schema that changes",
		},
		BreakingChangeNewName: {
			Name:     "breaking-change-new-name",
			Level:    Should,
			Requires: "breaking change gets a new event name",
			Unseen:   control + "a schema that changes",
		},
		ListChangedNotification: {
			Name:     "list-changed-notification",
			Requires: "send list_changed when set or descriptor changes",
			Unseen:   control + "an event type that changes",
		},
	}},
	{name: "Termination", lanes: "poll, push, webhook", rows: map[ID]Row{
		RemovalTerminatesSubscriptions: {
			Name:     "removal-terminates-subscriptions",
			Level:    Should,
			Requires: "removed type ends its push and webhook subscriptions",
			Unseen:   control + "an event type that is removed",
		},
		RemovalErrorNotFound: {
			Name:     "removal-error-not-found",
			Requires: "removal error is NotFound kind event",
			At:       []Occasion{EndedNotFound},
			Broken:   "a subscription ended with NotFound, and data.kind is there and is not event",
		},
		RemovalErrorSchemaChanged: {
			Name:     "removal-error-schema-changed",
			Requires: "in-place change error is Unsupported schema_changed",
			At:       []Occasion{EndedUnsupported},
			Broken:   "a subscription ended with Unsupported, and data.reason is not schema_changed",
		},
		RemovalAdditiveNoTerminate: {
			Name:     "removal-additive-no-terminate",
			Level:    Must,
			Requires: "additive changes never terminate",
			Unseen:   control + "a schema that grows",
		},
		RemovalPollNotFound: {
			Name:     "removal-poll-not-found",
			Requires: "poll of unknown or removed name gives NotFound",
			Lanes:    "poll",
			Unseen:   deliberate + "a poll of an unknown name",
			Check:    "polls an unknown event type: NotFound",
		},
	}},
	{name: "Errors", lanes: "poll, push, webhook", rows: map[ID]Row{
		ErrorInvalidParams: {
			Name:     "error-invalid-params",
			Requires: "-32602 for bad arguments, url, secret",
			Unseen:   deliberate + "invalid arguments",
			Check:    "polls with invalid arguments, subscribes with bad secrets and callbacks: -32602",
		},
		ErrorNotFound: {
			Name:     "error-not-found",
			Requires: "NotFound for unknown event or subscription",
			At:       []Occasion{RefusedNotFound},
			Broken:   "data.kind is there and is neither event nor subscription",
			Check:    "polls an unknown event type: data.kind is event, or absent",
		},
		ErrorForbidden: {
			Name:     "error-forbidden",
			Requires: "Forbidden for a principal without permission",
			At:       []Occasion{RefusedForbidden},
			Broken:   "data.reason is there and is no text",
			Check:    "subscribes to what --denied names: data.reason is text, or absent",
		},
		ErrorResourceExhausted: {
			Name:     "error-resource-exhausted",
			Requires: "ResourceExhausted names its limit",
			At:       []Occasion{RefusedExhausted},
			Broken:   "data.limit is missing or no text",
		},
		ErrorUnsupported: {
			Name:     "error-unsupported",
			Requires: "Unsupported names feature and value",
			At:       []Occasion{RefusedUnsupported},
			Broken:   "data.feature is missing or no text",
			Check:    "polls a type without polls: data.feature is deliveryMode",
		},
		ErrorCallbackEndpointError: {
			Name:     "error-callback-endpoint-error",
			Requires: "CallbackEndpointError carries a category reason",
			Lanes:    "webhook",
			At:       []Occasion{RefusedCallback},
			Broken:   "data.reason is none of the six categories",
			Check:    "echoes a challenge wrongly: data.reason is one of the six categories",
		},
		ErrorServerRange: {
			Name:     "error-server-range",
			Requires: "codes lie within -32000…-32099",
			At:       []Occasion{Refused},
			Broken:   "the code of an error is neither in -32000…-32099 nor one of JSON-RPC",
		},
	}},
	{name: "Poll", lanes: "poll", rows: map[ID]Row{
		PollImplemented: {
			Name:     "poll-implemented",
			Requires: "events/poll answers with events, cursor, pacing",
			At:       []Occasion{PollAnswer},
			Broken:   "a poll was answered with something that is no JSON-RPC response",
		},
		PollOneSubscriptionPerRequest: {
			Name:     "poll-one-subscription-per-request",
			Requires: "one subscription per poll request",
			Unseen:   "a rule for clients: every poll names one subscription",
		},
		PollBootstrapsSubscription: {
			Name:     "poll-bootstraps-subscription",
			Requires: "first null-cursor poll starts the subscription",
			Unseen:   "every event of a poller follows from it: a target without it fails the ledger, not this row",
			Check:    "polls with cursor: null, then from its cursor: no truncated",
		},
		PollEventsArray: {
			Name:     "poll-events-array",
			Requires: "events is an array, also when empty",
			At:       []Occasion{PollAnswer},
			Broken:   "events is no array, or holds something that is no object",
		},
		PollResponseCursor: {
			Name:     "poll-response-cursor",
			Requires: "cursor sits on the poll result",
			At:       []Occasion{PollAnswer},
			Broken:   "an occurrence has a cursor, and the result has none",
		},
		PollNextPollMs: {
			Name:     "poll-next-poll-ms",
			Requires: "nextPollMs advises the polling pace",
			At:       []Occasion{PollAnswer},
			Broken:   "nextPollMs is missing or no number",
		},
		PollNextPollMsIgnoredWhenHasMore: {
			Name:     "poll-next-poll-ms-ignored-when-has-more",
			Requires: "nextPollMs has no meaning with hasMore",
			Unseen:   "a rule for clients: lanes follow hasMore at once",
		},
		PollHasMore: {
			Name:     "poll-has-more",
			Requires: "hasMore marks further events beyond the batch",
			At:       []Occasion{PollAnswer},
			Broken:   "hasMore with neither an event nor a new cursor",
			Check:    "polls with maxEvents 1 and two events waiting: hasMore is true",
		},
		PollMaxEventsCap: {
			Name:     "poll-max-events-cap",
			Requires: "maxEvents caps, rest follows with hasMore",
			At:       []Occasion{PollCapped},
			Broken:   "more events than maxEvents; lanes with poll.maxEvents",
			Check:    "polls with maxEvents 1: one event, and no event is left out or repeated",
		},
		PollStatelessRequest: {
			Name:     "poll-stateless-request",
			Requires: "each poll stands alone",
			Unseen:   deliberate + "the same poll twice, over two connections",
			Check:    "sends the same poll twice: the second answer begins with the events of the first",
		},
		PollErrorsAreJSONRPC: {
			Name:     "poll-errors-are-jsonrpc",
			Requires: "errors are plain JSON-RPC errors",
			At:       []Occasion{PollRefused},
			Broken:   "a poll was refused by HTTP alone (401, 403 and a lost session apart)",
			Check:    "polls an unknown event type: the refusal is a JSON-RPC error",
		},
		PollInvalidArguments: {
			Name:     "poll-invalid-arguments",
			Requires: "arguments against schema give -32602",
			Unseen:   deliberate + "arguments against the schema",
			Check:    "polls with arguments against the inputSchema: -32602",
		},
		PollModeUnsupported: {
			Name:     "poll-mode-unsupported",
			Requires: "poll on a type without poll gives Unsupported",
			Unseen:   deliberate + "a poll of a type without polls",
			Check:    "polls a type without polls: Unsupported",
		},
	}},
	{name: "Occurrence", lanes: "poll, push, webhook", rows: map[ID]Row{
		OccurrenceEventID: {
			Name:     "occurrence-event-id",
			Requires: "eventId string on every occurrence",
			At:       occurrences,
			Broken:   "eventId is missing or no text",
		},
		OccurrenceName: {
			Name:     "occurrence-name",
			Requires: "name string on every occurrence",
			At:       occurrences,
			Broken:   "name is missing or no text",
		},
		OccurrenceTimestamp: {
			Name:     "occurrence-timestamp",
			Requires: "timestamp ISO 8601 on every occurrence",
			At:       occurrences,
			Broken:   "timestamp is not ISO 8601",
		},
		OccurrenceData: {
			Name:     "occurrence-data",
			Requires: "data object fits payloadSchema",
			At:       occurrences,
			Broken:   "data is no object; the payload schema is not compared",
		},
		OccurrenceCursorOptional: {
			Name:     "occurrence-cursor-optional",
			Requires: "cursor on an occurrence is optional",
			At:       occurrences,
			Broken:   "cursor is there and is neither a string nor null",
		},
		OccurrenceMetaUngoverned: {
			Name:     "occurrence-meta-ungoverned",
			Requires: "_meta is outside payloadSchema",
			Unseen:   "needs the payload schema: it is not compared",
		},
		OccurrenceEventIDFromUpstream: {
			Name:     "occurrence-event-id-from-upstream",
			Level:    Should,
			Requires: "eventId is the upstream's stable id",
			At:       occurrences,
			Broken:   "the ledger counted copies of one event under several ids (duplicates.sameEmission)",
		},
	}},
	{name: "Cursors", lanes: "poll, push, webhook", rows: map[ID]Row{
		CursorOpaque: {
			Name:     "cursor-opaque",
			Requires: "cursor is an opaque server string",
			At:       withACursor,
			Broken:   "cursor is neither a string nor null",
		},
		CursorNullStartsFromNow: {
			Name:     "cursor-null-starts-from-now",
			Requires: "null cursor: from now, no history",
			Lanes:    "poll",
			At:       []Occasion{PollFromNow},
			Broken:   "events in the answer to cursor: null",
			Check:    "polls with cursor: null while events wait: no events",
		},
		CursorAbsentEqualsNull: {
			Name:     "cursor-absent-equals-null",
			Level:    Must,
			Requires: "absent cursor is the same as null",
			Unseen:   deliberate + "a request without cursor beside one with null",
			Check:    "polls and subscribes without a cursor: the answer is like that to null",
		},
		CursorConsistency: {
			Name:     "cursor-consistency",
			Level:    Should,
			Requires: "a type always or never gives cursors",
			At:       withACursor,
			Broken:   "a lane was given a cursor here and none there",
		},
		CursorAdvancesWhenQuiet: {
			Name:     "cursor-advances-when-quiet",
			Requires: "cursor moves while nothing matches",
			Unseen:   control + "events that match nobody",
		},
		MaxAgeMsFloor: {
			Name:     "max-age-ms-floor",
			Requires: "start from later of cursor and now minus maxAgeMs",
			Unseen:   deliberate + "a cursor older than maxAgeMs",
			Check:    "polls from a cursor with maxAgeMs 1: no event comes that is more than 3 s old",
		},
		MaxAgeMsSetsTruncated: {
			Name:     "max-age-ms-sets-truncated",
			Level:    Should,
			Requires: "floor beyond cursor sets truncated",
			Unseen:   deliberate + "a cursor older than maxAgeMs",
			Check:    "polls from a cursor that is more than 3 s old with maxAgeMs 1: truncated is true",
		},
		MaxAgeMsIgnoredWhenCursorNull: {
			Name:     "max-age-ms-ignored-when-cursor-null",
			Requires: "maxAgeMs ignored with null cursor",
			Lanes:    "poll",
			At:       []Occasion{PollFromNowAged},
			Broken:   "events in the answer to cursor: null with maxAgeMs; lanes with maxAge",
			Check:    "polls with cursor: null and maxAgeMs: no events, and no truncated",
		},
		ReplayCeilingSetsTruncated: {
			Name:     "replay-ceiling-sets-truncated",
			Level:    Must,
			Requires: "own replay ceiling is shown as truncated",
			Unseen:   deliberate + "a cursor older than the retention; the ledger counts it as silent loss",
		},
		TruncatedReturnsFreshCursor: {
			Name:     "truncated-returns-fresh-cursor",
			Requires: "truncated brings a usable fresh cursor",
			At:       []Occasion{Truncation},
			Broken:   "truncated without a cursor, on a lane that was given cursors before",
			Check:    "polls with an unknown cursor: truncated is true and brings a cursor, and a poll from it no truncated",
		},
		TruncatedPollNeverAnError: {
			Name:     "truncated-poll-never-an-error",
			Requires: "stale cursor in poll is never an error",
			Lanes:    "poll",
			Unseen:   deliberate + "a stale cursor",
			Check:    "polls with a cursor that the server did not give: no error",
		},
		TruncatedFalseWhenNoReplay: {
			Name:     "truncated-false-when-no-replay",
			Level:    Should,
			Requires: "no-replay types keep truncated false",
			At:       []Occasion{NoCursor},
			Broken:   "truncated without a cursor, on a lane that was never given one",
		},
	}},
	{name: "Push", lanes: "push", rows: map[ID]Row{
		StreamImplemented: {
			Name:     "stream-implemented",
			Requires: "events/stream opens one push subscription",
			At:       []Occasion{StreamOpened},
			Broken:   "events/stream was answered 2xx with something that is no stream",
		},
		StreamErrorBeforeOpen: {
			Name:     "stream-error-before-open",
			Requires: "invalid subscription: JSON-RPC error, no stream",
			At:       []Occasion{StreamRefused},
			Broken:   "a stream was refused without a JSON-RPC error (401, 403, 429, 503 and a lost session apart)",
			Check:    "streams an unknown event type: a JSON-RPC error, and no stream",
		},
		StreamActiveConfirmation: {
			Name:     "stream-active-confirmation",
			Requires: "active is first, with cursor and truncated",
			At:       []Occasion{StreamActive},
			Broken:   "an event or a heartbeat came before active",
		},
		StreamSubscriptionIDMeta: {
			Name:     "stream-subscription-id-meta",
			Requires: "every notification carries the request id in _meta",
			At: []Occasion{
				StreamActive,
				StreamEvent,
				StreamHeartbeat,
				StreamTrouble,
				StreamEnded,
			},
			Broken: "subscriptionId is missing in _meta, or is not the id of the request, type included",
		},
		StreamEventNotification: {
			Name:     "stream-event-notification",
			Requires: "events come as notifications/events/event",
			At:       []Occasion{StreamEvent},
			Broken:   "a message on a stream is no JSON object, or lacks jsonrpc 2.0",
		},
		StreamErrorIsRecoverable: {
			Name:     "stream-error-is-recoverable",
			Requires: "…/error leaves the stream open",
			At:       []Occasion{StreamTrouble},
			Broken:   "the target closed the stream right after the error",
		},
		StreamTerminatedEndsSubscription: {
			Name:     "stream-terminated-ends-subscription",
			Requires: "only …/terminated ends it",
			Unseen:   "a stream is not read beyond terminated",
		},
		StreamGapResendsActive: {
			Name:     "stream-gap-resends-active",
			Requires: "gap = new active with truncated",
			At:       []Occasion{StreamGap},
			Broken:   "an active on an open stream does not say truncated",
		},
		StreamHeartbeatRequired: {
			Name:     "stream-heartbeat-required",
			Level:    Must,
			Requires: "periodic heartbeats exist",
			At:       []Occasion{StreamHeartbeat},
			Broken:   "a stream was silent for twice push.heartbeat",
			Check:    "waits at rest on a stream without events: a heartbeat comes within 61 s",
		},
		StreamHeartbeatCarriesCursor: {
			Name:     "stream-heartbeat-carries-cursor",
			Requires: "heartbeat carries the checked position",
			At:       []Occasion{StreamHeartbeat},
			Broken:   "a heartbeat has no cursor, on a lane that was given cursors",
		},
		StreamHeartbeatInterval: {
			Name:     "stream-heartbeat-interval",
			Level:    Should,
			Requires: "heartbeat at least every 30 s",
			At:       []Occasion{StreamHeartbeat},
			Broken:   "more than 31 s between two messages of a stream",
		},
		StreamHeartbeatNotSSEComment: {
			Name:     "stream-heartbeat-not-sse-comment",
			Requires: "heartbeat is a data frame",
			At:       []Occasion{StreamHeartbeat},
			Broken:   "a stream brought only comments for twice push.heartbeat",
		},
		StreamFinalResultShape: {
			Name:     "stream-final-result-shape",
			Requires: "final result is empty typed result",
			At:       []Occasion{StreamResult},
			Broken:   "the final result holds more than _meta and resultType, or names another subscription",
		},
		StreamFinalResultTiming: {
			Name:     "stream-final-result-timing",
			Level:    Must,
			Requires: "final result only on server-side close",
			Unseen:   control + "a close by the server",
		},
		StreamCancelStopsDelivery: {
			Name:     "stream-cancel-stops-delivery",
			Level:    Must,
			Requires: "cancel stops delivery and frees resources",
			Unseen:   "a stream that was cancelled is not read any more",
		},
		StreamExemptFromConcurrencyCap: {
			Name:     "stream-exempt-from-concurrency-cap",
			Level:    Must,
			Requires: "streams do not count in a general cap",
			At:       []Occasion{StreamOpened},
			Broken:   "a stream was refused with HTTP 429 or 503 and no JSON-RPC error",
			Check:    "opens 16 streams at once, and polls meanwhile: none is refused by HTTP alone",
		},
		StreamCarriesOnlyEventNotifications: {
			Name:     "stream-carries-only-event-notifications",
			Requires: "nothing but event notifications on the stream",
			At:       []Occasion{StreamActive, StreamEvent, StreamHeartbeat},
			Broken:   "a stream carried a message that is none of events/*",
		},
	}},
	{name: "Subscribe", lanes: "webhook", rows: map[ID]Row{
		SubscribeWebhookOnly: {
			Name:     "subscribe-webhook-only",
			Requires: "subscribe serves webhook only",
			Unseen:   deliberate + "a subscribe with another mode",
			Check:    "subscribes with delivery.mode push: an error",
		},
		SubscribeSecretRequired: {
			Name:     "subscribe-secret-required",
			Level:    Must,
			Requires: "delivery.secret is required",
			Unseen:   deliberate + "a subscribe without a secret",
			Check:    "subscribes without a secret, and with an empty one: errors",
		},
		SubscribeSecretFormat: {
			Name:     "subscribe-secret-format",
			Level:    Must,
			Requires: "whsec_ plus base64 of 24–64 bytes",
			Unseen:   deliberate + "a bad secret",
			Check:    "subscribes with secrets of another form, 23 and 65 bytes: errors; 24 and 64 bytes: granted",
		},
		SubscribeSecretRejected: {
			Name:     "subscribe-secret-rejected",
			Level:    Must,
			Requires: "bad secret gives InvalidParams",
			Unseen:   deliberate + "a bad secret",
			Check:    "the same: the errors are -32602",
		},
		SubscribeURLHTTPSRequired: {
			Name:     "subscribe-url-https-required",
			Level:    Must,
			Requires: "callback must be https",
			Unseen:   deliberate + "an http callback",
			Check:    "subscribes with an http callback: an error",
		},
		SubscribeURLNonHTTPSRejected: {
			Name:     "subscribe-url-non-https-rejected",
			Level:    Must,
			Requires: "http callback gives -32602",
			Unseen:   deliberate + "an http callback",
			Check:    "the same: the error is -32602",
		},
		SubscribeAuthRequired: {
			Name:     "subscribe-auth-required",
			Level:    Must,
			Requires: "no principal gives Forbidden",
			At:       []Occasion{Anonymous},
			Broken:   "a subscription without a token was accepted; lanes with events.anonymous",
			Check:    "subscribes without a token: Forbidden, 401 or 403",
		},
		SubscribeKeyComposition: {
			Name:     "subscribe-key-composition",
			Requires: "key is principal, url, name, canonical arguments",
			Unseen:   deliberate + "the same key in another spelling",
			Check:    "subscribes again with the arguments in another spelling: the same id",
		},
		SubscribeKeyImmutable: {
			Name:     "subscribe-key-immutable",
			Requires: "other value = other subscription",
			Unseen:   deliberate + "a second key beside the first",
			Check:    "subscribes with another callback, and with other arguments: other ids",
		},
		SubscribeIdempotentUpsert: {
			Name:     "subscribe-idempotent-upsert",
			Requires: "same key refreshes in place",
			Unseen:   deliberate + "the same key twice; copies under one callback would be duplicates",
			Check:    "subscribes twice at once: the same id, and one unsubscribe ends it",
		},
		SubscribeIDDerived: {
			Name:     "subscribe-id-derived",
			Requires: "id deterministic, stable over restart",
			At:       []Occasion{Granted},
			Broken:   "id is missing, or a refresh was answered with another",
			Check:    "subscribes, unsubscribes and subscribes: the same id",
		},
		SubscribeIDNotAnInput: {
			Name:     "subscribe-id-not-an-input",
			Requires: "id is not accepted as input",
			Unseen:   deliberate + "a subscribe with an id",
			Check:    "subscribes with an id, new and again: it has no effect",
		},
		SubscribeRefreshReplacesSecret: {
			Name:     "subscribe-refresh-replaces-secret",
			Requires: "refresh replaces the secret",
			At:       []Occasion{Rotated},
			Broken: "a delivery that was signed and received 5 s or more after a rotation is signed with the old secret only; " +
				"lanes with webhook.rotateEvery",
			Check: "refreshes with another secret: 5 s later deliveries are signed with it",
		},
		SubscribeRefreshReactivates: {
			Name:     "subscribe-refresh-reactivates",
			Requires: "refresh resumes suspended delivery",
			Unseen:   control + "a suspended subscription",
		},
		SubscribeResponseCursor: {
			Name:     "subscribe-response-cursor",
			Requires: "answer carries the safe watermark",
			At:       []Occasion{Granted},
			Broken:   "cursor is neither a string nor null",
		},
		SubscribeResponseTruncated: {
			Name:     "subscribe-response-truncated",
			Requires: "answer says whether events were skipped",
			At:       []Occasion{Granted},
			Broken:   "truncated is missing",
		},
		SubscribeCrossTenantIsolation: {
			Name:     "subscribe-cross-tenant-isolation",
			Requires: "two principals get two subscriptions",
			Unseen:   deliberate + "two principals with one callback",
			Check:    "subscribes as two principals with one callback: two ids; needs two tokens",
		},
		TTLRefreshBeforeLteSuggestion: {
			Name:     "ttl-refresh-before-lte-suggestion",
			Level:    Should,
			Requires: "grant not above the requested lifetime",
			At:       []Occasion{GrantWished},
			Broken: "the grant is more than a tenth longer than requested; for requests of 10 minutes and more, because a target " +
				"may have a minimum below that",
			Check: "requests 15 minutes: the grant is at most a tenth longer",
		},
		TTLNoRejectionPath: {
			Name:     "ttl-no-rejection-path",
			Requires: "TTL values are clamped, never refused",
			Unseen:   deliberate + "extreme values of ttlMs",
			Check:    "requests 0, 1 ms, 10,000 years and no end: all are granted",
		},
		TTLNullOnlyWhenRequested: {
			Name:     "ttl-null-only-when-requested",
			Level:    Must,
			Requires: "null grant only for null wish",
			At:       []Occasion{Granted},
			Broken:   "refreshBefore is null, and ttlMs was not",
			Check:    "the same: refreshBefore is null at most for no end",
		},
		TTLOmittedMeansDefault: {
			Name:     "ttl-omitted-means-default",
			Requires: "omitted = default; null = no expiry wish",
			At:       []Occasion{GrantUnwished},
			Broken:   "refreshBefore is there and is no time; lanes that request no lifetime",
			Check:    "subscribes without ttlMs: refreshBefore is a time",
		},
		TTLLongGrantRetained: {
			Name:     "ttl-long-grant-retained",
			Level:    Must,
			Requires: "long grants survive restarts",
			Unseen:   control + "a restart",
		},
		TTLNoExpiryPersisted: {
			Name:     "ttl-no-expiry-persisted",
			Level:    Must,
			Requires: "no-expiry subscriptions persist",
			Unseen:   control + "a restart",
		},
		TTLNoExpiryGCTerminated: {
			Name:     "ttl-no-expiry-gc-terminated",
			Level:    Should,
			Requires: "dropped no-expiry gets a terminated envelope",
			Unseen:   control + "a dropped subscription",
		},
		UnsubscribeByKey: {
			Name:     "unsubscribe-by-key",
			Requires: "unsubscribe uses the same key",
			At:       []Occasion{Unsubscribed},
			Broken: "NotFound for a subscription whose grant was not over, and whose type is not gone; " +
				"a delivery of an event that was published after success",
			Check: "unsubscribes with the key in another spelling: success",
		},
		UnsubscribeUnknownNotFound: {
			Name:     "unsubscribe-unknown-not-found",
			Requires: "unknown key gives NotFound",
			Unseen:   deliberate + "unsubscribe of nothing",
			Check:    "unsubscribes what is not there: NotFound",
		},
	}},
	{name: "Delivery", lanes: "webhook", rows: map[ID]Row{
		DeliveryStatusLastErrorCategory: {
			Name:     "delivery-status-last-error-category",
			Level:    Must,
			Requires: "lastError is one of six words",
			At:       []Occasion{StatusError},
			Broken:   "lastError is none of the six categories",
			Check:    "refreshes after a failed delivery: lastError is one of the six categories",
		},
		DeliveryPostJSON: {
			Name:     "delivery-post-json",
			Requires: "POST with application/json",
			At:       []Occasion{Delivery},
			Broken:   "another method than POST, another Content-Type, or a body that is no JSON object",
		},
		DeliveryStandardWebhooksHeaders: {
			Name:     "delivery-standard-webhooks-headers",
			Level:    Must,
			Requires: "three Standard Webhooks headers; id rule",
			At:       []Occasion{Delivery},
			Broken: "one of the three headers is missing, webhook-timestamp is more than 5 minutes off, or a copy after a refused " +
				"one has another webhook-id",
			Check: "fails deliveries until a copy comes 4 s later: it has the same webhook-id",
		},
		DeliverySubscriptionIDHeader: {
			Name:     "delivery-subscription-id-header",
			Level:    Must,
			Requires: "X-MCP-Subscription-Id on each post",
			At:       []Occasion{Delivery, Envelope},
			Broken:   "X-MCP-Subscription-Id is missing, or names another subscription",
		},
		DeliverySignatureFormula: {
			Name:     "delivery-signature-formula",
			Requires: "v1 HMAC-SHA256 over id.ts.raw body, decoded key",
			At:       []Occasion{Delivery},
			Broken:   "no signature fits the secret",
		},
		DeliveryRetryRegeneratesSignature: {
			Name:     "delivery-retry-regenerates-signature",
			Level:    Must,
			Requires: "each retry has new timestamp and signature",
			At:       []Occasion{DeliveryRetry},
			Broken:   "a copy came 2 s or more after a refused one with the same webhook-timestamp; lanes with webhook.answer",
			Check:    "fails deliveries until a copy comes 4 s later: it has another webhook-timestamp",
		},
		DeliveryDualSignOnRotation: {
			Name:     "delivery-dual-sign-on-rotation",
			Level:    Should,
			Requires: "old and new secret sign for a grace time",
			At:       []Occasion{RotatedJust},
			Broken: "a delivery after the answer to a rotation, and within 1 s of its request, is signed with the new secret " +
				"alone; lanes with webhook.rotateEvery",
			Check: "refreshes with another secret: no delivery of the next second is signed with it alone",
		},
		DeliveryBodySize: {
			Name:     "delivery-body-size",
			Level:    Should,
			Requires: "body at most 256 KiB",
			At:       []Occasion{Delivery}, Broken: "a body above 256 KiB",
		},
		Delivery413NonRetryable: {
			Name:     "delivery-413-non-retryable",
			Level:    Must,
			Requires: "413 is not retried",
			At:       []Occasion{Refused413},
			Broken:   "a copy of an event that was answered 413; lanes with webhook.answer",
			Check:    "answers an event 413: no copy comes in the next 5 s",
		},
		Delivery410NonRetryable: {
			Name:     "delivery-410-non-retryable",
			Level:    Must,
			Requires: "410 is not retried",
			At:       []Occasion{Refused410},
			Broken:   "a copy of an event that was answered 410; lanes with webhook.answer",
			Check:    "answers an event 410: no copy comes in the next 5 s",
		},
		DeliveryRetriesBounded: {
			Name:     "delivery-retries-bounded",
			Level:    Should,
			Requires: "attempts and time bounded",
			Unseen:   deliberate + "an endpoint that fails for a quarter of an hour",
		},
		ServerIdentityKeyDiscovery: {
			Name:     "server-identity-key-discovery",
			Level:    Must,
			Requires: "v1a key only from a trusted origin",
			Unseen:   "not defined: where the key is found is open",
		},
	}},
	{name: "Callback security", lanes: "webhook", rows: map[ID]Row{
		SSRFValidateCallbackURL: {
			Name:     "ssrf-validate-callback-url",
			Level:    Must,
			Requires: "callback URL validated",
			Unseen:   deliberate + "callbacks that must be refused",
			Check:    "subscribes with callbacks that are no URLs: errors",
		},
		SSRFRejectNonRoutable: {
			Name:     "ssrf-reject-non-routable",
			Level:    Should,
			Requires: "non-global addresses refused",
			Unseen:   deliberate + "callbacks that must be refused",
			Check:    "subscribes with callbacks at private and link-local addresses: errors",
		},
		SSRFValidateAtDeliveryTime: {
			Name:     "ssrf-validate-at-delivery-time",
			Level:    Must,
			Requires: "address checked at delivery and pinned",
			Unseen:   deliberate + "a name whose address changes",
		},
		SSRFNoRedirects: {
			Name:     "ssrf-no-redirects",
			Level:    Must,
			Requires: "redirects not followed",
			At:       []Occasion{Redirected},
			Broken:   "a redirect was followed; lanes with webhook.answer",
			Check:    "redirects a challenge and a delivery: neither is followed",
		},
	}},
	{name: "Verification", lanes: "webhook", rows: map[ID]Row{
		VerificationRequiredBeforeDelivery: {
			Name:     "verification-required-before-delivery",
			Level:    Must,
			Requires: "no delivery before proof of intent",
			At:       []Occasion{Challenged},
			Broken:   "an event came before the first challenge, or after none, the receiver document not read; not with webhook.proven",
			Check:    "echoes a challenge wrongly: no event comes",
		},
		VerificationChallengeEcho: {
			Name:     "verification-challenge-echo",
			Requires: "nonce echoed in 2xx, constant-time compare",
			At:       []Occasion{Misechoed},
			Broken:   "a subscription was granted after a wrong echo alone; lanes with webhook.answer",
			Check:    "echoes a challenge wrongly: no grant",
		},
		VerificationFailureError: {
			Name:     "verification-failure-error",
			Requires: "failure gives CallbackEndpointError with category",
			At:       []Occasion{MisechoedRefused},
			Broken:   "the refusal after a wrong echo is not CallbackEndpointError; lanes with webhook.answer",
			Check:    "echoes a challenge wrongly: CallbackEndpointError",
		},
		VerificationCachedPerPrincipalURL: {
			Name:     "verification-cached-per-principal-url",
			Requires: "cached per principal and url",
			At:       []Occasion{Refreshed},
			Broken:   "a challenge for a subscription whose grant was not over, and whose secret had not changed",
			Check:    "refreshes: no second challenge",
		},
		VerificationPersistedForNoExpiry: {
			Name:     "verification-persisted-for-no-expiry",
			Level:    Must,
			Requires: "status persists with no-expiry subscriptions",
			Unseen:   control + "a restart",
		},
		VerificationUsesSSRFHardenedPath: {
			Name:     "verification-uses-ssrf-hardened-path",
			Level:    Must,
			Requires: "challenge goes the hardened way",
			Unseen:   deliberate + "callbacks that must be refused",
			Check:    "redirects a challenge: it is not followed",
		},
		VerificationNoRawEndpointResponses: {
			Name:     "verification-no-raw-endpoint-responses",
			Requires: "no raw endpoint answers leak",
			Unseen:   deliberate + "an endpoint that answers with a secret",
			Check:    "answers challenges 500 and 200 with a marked text: the errors do not hold it",
		},
	}},
	{name: "Control envelopes", lanes: "webhook", rows: map[ID]Row{
		EnvelopeTypeDiscriminator: {
			Name:     "envelope-type-discriminator",
			Requires: "top-level type marks control bodies",
			At:       []Occasion{Delivery, Envelope},
			Broken:   "an envelope of an unknown type, or an event with a top-level type",
		},
		EnvelopeSignedLikeDeliveries: {
			Name:     "envelope-signed-like-deliveries",
			Requires: "control bodies signed and headed alike",
			At:       []Occasion{Envelope},
			Broken:   "an envelope whose signature does not verify",
		},
		EnvelopeWebhookIDFormat: {
			Name:     "envelope-webhook-id-format",
			Requires: "control webhook-id is msg_type_random",
			At:       []Occasion{Envelope},
			Broken:   "webhook-id does not begin with msg_, the type and _",
		},
		EnvelopeGapRow: {
			Name:     "envelope-gap",
			Requires: "gap envelope with fresh cursor",
			At:       []Occasion{EnvelopeGap},
			Broken:   "a gap without a cursor",
		},
		EnvelopeTerminated: {
			Name:     "envelope-terminated",
			Requires: "terminated envelope with error",
			At:       []Occasion{EnvelopeEnd},
			Broken:   "terminated without an error that has a code",
		},
	}},
	{name: "Authorization", lanes: "poll, push, webhook", rows: map[ID]Row{
		AuthzSubscribeTime: {
			Name:     "authz-subscribe-time",
			Level:    Must,
			Requires: "permission checked for type and arguments",
			Unseen:   deliberate + "a principal without permission",
			Check:    "subscribes to what --denied names: Forbidden",
		},
		AuthzDeliveryTimeReverify: {
			Name:     "authz-delivery-time-reverify",
			Level:    Should,
			Requires: "permission re-checked from time to time",
			Unseen:   control + "a permission that is revoked",
		},
		PayloadMinimality: {
			Name:     "payload-minimality",
			Level:    Should,
			Requires: "payloads small, ids and triage only",
			Unseen:   "a judgement for people",
		},
	}},
}
