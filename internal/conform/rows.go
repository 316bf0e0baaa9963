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
		},
		CapabilityListChangedFlag: {
			Name:     "capability-list-changed-flag",
			Requires: "listChanged says whether list_changed is sent",
			At:       []Occasion{Handshake},
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
		},
		FallbackMethodNotFound: {
			Name:     "fallback-method-not-found",
			Requires: "events/* gives -32601 where the extension is not offered",
			At:       []Occasion{ListUnoffered},
		},
	}},
	{name: "events/list", lanes: "poll, push, webhook", rows: map[ID]Row{
		ListImplemented: {
			Name:     "list-implemented",
			Requires: "events/list returns events array and nextCursor",
			At:       []Occasion{ListPage},
		},
		ListPagination: {
			Name:     "list-pagination",
			Requires: "nextCursor works as in tools/list",
			At:       []Occasion{ListPage},
		},
		DescriptorName: {
			Name:     "descriptor-name",
			Requires: "every descriptor has a name",
			At:       []Occasion{Descriptor},
		},
		DescriptorDescription: {
			Name:     "descriptor-description",
			Requires: "every descriptor has a description",
			At:       []Occasion{Descriptor},
		},
		DescriptorDeliverySubset: {
			Name:     "descriptor-delivery-subset",
			Requires: "delivery is a non-empty subset of three modes",
			At:       []Occasion{Descriptor},
		},
		DescriptorInputSchema: {
			Name:     "descriptor-input-schema",
			Requires: "inputSchema is a JSON Schema for arguments",
			At:       []Occasion{Descriptor},
		},
		DescriptorPayloadSchema: {
			Name:     "descriptor-payload-schema",
			Requires: "payloadSchema describes data",
			At:       []Occasion{Descriptor},
		},
		DescriptorMeta: {
			Name:     "descriptor-meta",
			Requires: "_meta optional, usual meaning",
			At:       []Occasion{Descriptor},
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
		},
		RemovalErrorSchemaChanged: {
			Name:     "removal-error-schema-changed",
			Requires: "in-place change error is Unsupported schema_changed",
			At:       []Occasion{EndedUnsupported},
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
		},
	}},
	{name: "Errors", lanes: "poll, push, webhook", rows: map[ID]Row{
		ErrorInvalidParams: {
			Name:     "error-invalid-params",
			Requires: "-32602 for bad arguments, url, secret",
			Unseen:   deliberate + "invalid arguments",
		},
		ErrorNotFound: {
			Name:     "error-not-found",
			Requires: "NotFound for unknown event or subscription",
			At:       []Occasion{RefusedNotFound},
		},
		ErrorForbidden: {
			Name:     "error-forbidden",
			Requires: "Forbidden for a principal without permission",
			At:       []Occasion{RefusedForbidden},
		},
		ErrorResourceExhausted: {
			Name:     "error-resource-exhausted",
			Requires: "ResourceExhausted names its limit",
			At:       []Occasion{RefusedExhausted},
		},
		ErrorUnsupported: {
			Name:     "error-unsupported",
			Requires: "Unsupported names feature and value",
			At:       []Occasion{RefusedUnsupported},
		},
		ErrorCallbackEndpointError: {
			Name:     "error-callback-endpoint-error",
			Requires: "CallbackEndpointError carries a category reason",
			Lanes:    "webhook",
			At:       []Occasion{RefusedCallback},
		},
		ErrorServerRange: {
			Name:     "error-server-range",
			Requires: "codes lie within -32000…-32099",
			At:       []Occasion{Refused},
		},
	}},
	{name: "Poll", lanes: "poll", rows: map[ID]Row{
		PollImplemented: {
			Name:     "poll-implemented",
			Requires: "events/poll answers with events, cursor, pacing",
			At:       []Occasion{PollAnswer},
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
		},
		PollEventsArray: {
			Name:     "poll-events-array",
			Requires: "events is an array, also when empty",
			At:       []Occasion{PollAnswer},
		},
		PollResponseCursor: {
			Name:     "poll-response-cursor",
			Requires: "cursor sits on the poll result",
			At:       []Occasion{PollAnswer},
		},
		PollNextPollMs: {
			Name:     "poll-next-poll-ms",
			Requires: "nextPollMs advises the polling pace",
			At:       []Occasion{PollAnswer},
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
		},
		PollMaxEventsCap: {
			Name:     "poll-max-events-cap",
			Requires: "maxEvents caps, rest follows with hasMore",
			At:       []Occasion{PollCapped},
		},
		PollStatelessRequest: {
			Name:     "poll-stateless-request",
			Requires: "each poll stands alone",
			Unseen:   deliberate + "the same poll twice, over two connections",
		},
		PollErrorsAreJSONRPC: {
			Name:     "poll-errors-are-jsonrpc",
			Requires: "errors are plain JSON-RPC errors",
			At:       []Occasion{PollRefused},
		},
		PollInvalidArguments: {
			Name:     "poll-invalid-arguments",
			Requires: "arguments against schema give -32602",
			Unseen:   deliberate + "arguments against the schema",
		},
		PollModeUnsupported: {
			Name:     "poll-mode-unsupported",
			Requires: "poll on a type without poll gives Unsupported",
			Unseen:   deliberate + "a poll of a type without polls",
		},
	}},
	{name: "Occurrence", lanes: "poll, push, webhook", rows: map[ID]Row{
		OccurrenceEventID: {
			Name:     "occurrence-event-id",
			Requires: "eventId string on every occurrence",
			At:       occurrences,
		},
		OccurrenceName: {
			Name:     "occurrence-name",
			Requires: "name string on every occurrence",
			At:       occurrences,
		},
		OccurrenceTimestamp: {
			Name:     "occurrence-timestamp",
			Requires: "timestamp ISO 8601 on every occurrence",
			At:       occurrences,
		},
		OccurrenceData: {
			Name:     "occurrence-data",
			Requires: "data object fits payloadSchema",
			At:       occurrences,
		},
		OccurrenceCursorOptional: {
			Name:     "occurrence-cursor-optional",
			Requires: "cursor on an occurrence is optional",
			At:       occurrences,
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
		},
	}},
	{name: "Cursors", lanes: "poll, push, webhook", rows: map[ID]Row{
		CursorOpaque: {
			Name:     "cursor-opaque",
			Requires: "cursor is an opaque server string",
			At:       withACursor,
		},
		CursorNullStartsFromNow: {
			Name:     "cursor-null-starts-from-now",
			Requires: "null cursor: from now, no history",
			Lanes:    "poll",
			At:       []Occasion{PollFromNow},
		},
		CursorAbsentEqualsNull: {
			Name:     "cursor-absent-equals-null",
			Level:    Must,
			Requires: "absent cursor is the same as null",
			Unseen:   deliberate + "a request without cursor beside one with null",
		},
		CursorConsistency: {
			Name:     "cursor-consistency",
			Level:    Should,
			Requires: "a type always or never gives cursors",
			At:       withACursor,
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
		},
		MaxAgeMsSetsTruncated: {
			Name:     "max-age-ms-sets-truncated",
			Level:    Should,
			Requires: "floor beyond cursor sets truncated",
			Unseen:   deliberate + "a cursor older than maxAgeMs",
		},
		MaxAgeMsIgnoredWhenCursorNull: {
			Name:     "max-age-ms-ignored-when-cursor-null",
			Requires: "maxAgeMs ignored with null cursor",
			Lanes:    "poll",
			At:       []Occasion{PollFromNowAged},
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
		},
		TruncatedPollNeverAnError: {
			Name:     "truncated-poll-never-an-error",
			Requires: "stale cursor in poll is never an error",
			Lanes:    "poll",
			Unseen:   deliberate + "a stale cursor",
		},
		TruncatedFalseWhenNoReplay: {
			Name:     "truncated-false-when-no-replay",
			Level:    Should,
			Requires: "no-replay types keep truncated false",
			At:       []Occasion{NoCursor},
		},
	}},
	{name: "Push", lanes: "push", rows: map[ID]Row{
		StreamImplemented: {
			Name:     "stream-implemented",
			Requires: "events/stream opens one push subscription",
			At:       []Occasion{StreamOpened},
		},
		StreamErrorBeforeOpen: {
			Name:     "stream-error-before-open",
			Requires: "invalid subscription: JSON-RPC error, no stream",
			At:       []Occasion{StreamRefused},
		},
		StreamActiveConfirmation: {
			Name:     "stream-active-confirmation",
			Requires: "active is first, with cursor and truncated",
			At:       []Occasion{StreamActive},
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
		},
		StreamEventNotification: {
			Name:     "stream-event-notification",
			Requires: "events come as notifications/events/event",
			At:       []Occasion{StreamEvent},
		},
		StreamErrorIsRecoverable: {
			Name:     "stream-error-is-recoverable",
			Requires: "…/error leaves the stream open",
			At:       []Occasion{StreamTrouble},
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
		},
		StreamHeartbeatRequired: {
			Name:     "stream-heartbeat-required",
			Level:    Must,
			Requires: "periodic heartbeats exist",
			At:       []Occasion{StreamHeartbeat},
		},
		StreamHeartbeatCarriesCursor: {
			Name:     "stream-heartbeat-carries-cursor",
			Requires: "heartbeat carries the checked position",
			At:       []Occasion{StreamHeartbeat},
		},
		StreamHeartbeatInterval: {
			Name:     "stream-heartbeat-interval",
			Level:    Should,
			Requires: "heartbeat at least every 30 s",
			At:       []Occasion{StreamHeartbeat},
		},
		StreamHeartbeatNotSSEComment: {
			Name:     "stream-heartbeat-not-sse-comment",
			Requires: "heartbeat is a data frame",
			At:       []Occasion{StreamHeartbeat},
		},
		StreamFinalResultShape: {
			Name:     "stream-final-result-shape",
			Requires: "final result is empty typed result",
			At:       []Occasion{StreamResult},
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
		},
		StreamCarriesOnlyEventNotifications: {
			Name:     "stream-carries-only-event-notifications",
			Requires: "nothing but event notifications on the stream",
			At:       []Occasion{StreamActive, StreamEvent, StreamHeartbeat},
		},
	}},
	{name: "Subscribe", lanes: "webhook", rows: map[ID]Row{
		SubscribeWebhookOnly: {
			Name:     "subscribe-webhook-only",
			Requires: "subscribe serves webhook only",
			Unseen:   deliberate + "a subscribe with another mode",
		},
		SubscribeSecretRequired: {
			Name:     "subscribe-secret-required",
			Level:    Must,
			Requires: "delivery.secret is required",
			Unseen:   deliberate + "a subscribe without a secret",
		},
		SubscribeSecretFormat: {
			Name:     "subscribe-secret-format",
			Level:    Must,
			Requires: "whsec_ plus base64 of 24–64 bytes",
			Unseen:   deliberate + "a bad secret",
		},
		SubscribeSecretRejected: {
			Name:     "subscribe-secret-rejected",
			Level:    Must,
			Requires: "bad secret gives InvalidParams",
			Unseen:   deliberate + "a bad secret",
		},
		SubscribeURLHTTPSRequired: {
			Name:     "subscribe-url-https-required",
			Level:    Must,
			Requires: "callback must be https",
			Unseen:   deliberate + "an http callback",
		},
		SubscribeURLNonHTTPSRejected: {
			Name:     "subscribe-url-non-https-rejected",
			Level:    Must,
			Requires: "http callback gives -32602",
			Unseen:   deliberate + "an http callback",
		},
		SubscribeAuthRequired: {
			Name:     "subscribe-auth-required",
			Level:    Must,
			Requires: "no principal gives Forbidden",
			At:       []Occasion{Anonymous},
		},
		SubscribeKeyComposition: {
			Name:     "subscribe-key-composition",
			Requires: "key is principal, url, name, canonical arguments",
			Unseen:   deliberate + "the same key in another spelling",
		},
		SubscribeKeyImmutable: {
			Name:     "subscribe-key-immutable",
			Requires: "other value = other subscription",
			Unseen:   deliberate + "a second key beside the first",
		},
		SubscribeIdempotentUpsert: {
			Name:     "subscribe-idempotent-upsert",
			Requires: "same key refreshes in place",
			Unseen:   deliberate + "the same key twice; copies under one callback would be duplicates",
		},
		SubscribeIDDerived: {
			Name:     "subscribe-id-derived",
			Requires: "id deterministic, stable over restart",
			At:       []Occasion{Granted},
		},
		SubscribeIDNotAnInput: {
			Name:     "subscribe-id-not-an-input",
			Requires: "id is not accepted as input",
			Unseen:   deliberate + "a subscribe with an id",
		},
		SubscribeRefreshReplacesSecret: {
			Name:     "subscribe-refresh-replaces-secret",
			Requires: "refresh replaces the secret",
			At:       []Occasion{Rotated},
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
		},
		SubscribeResponseTruncated: {
			Name:     "subscribe-response-truncated",
			Requires: "answer says whether events were skipped",
			At:       []Occasion{Granted},
		},
		SubscribeCrossTenantIsolation: {
			Name:     "subscribe-cross-tenant-isolation",
			Requires: "two principals get two subscriptions",
			Unseen:   deliberate + "two principals with one callback",
		},
		TTLRefreshBeforeLteSuggestion: {
			Name:     "ttl-refresh-before-lte-suggestion",
			Level:    Should,
			Requires: "grant not above the requested lifetime",
			At:       []Occasion{GrantWished},
		},
		TTLNoRejectionPath: {
			Name:     "ttl-no-rejection-path",
			Requires: "TTL values are clamped, never refused",
			Unseen:   deliberate + "extreme values of ttlMs",
		},
		TTLNullOnlyWhenRequested: {
			Name:     "ttl-null-only-when-requested",
			Level:    Must,
			Requires: "null grant only for null wish",
			At:       []Occasion{Granted},
		},
		TTLOmittedMeansDefault: {
			Name:     "ttl-omitted-means-default",
			Requires: "omitted = default; null = no expiry wish",
			At:       []Occasion{GrantUnwished},
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
		},
		UnsubscribeUnknownNotFound: {
			Name:     "unsubscribe-unknown-not-found",
			Requires: "unknown key gives NotFound",
			Unseen:   deliberate + "unsubscribe of nothing",
		},
	}},
	{name: "Delivery", lanes: "webhook", rows: map[ID]Row{
		DeliveryStatusLastErrorCategory: {
			Name:     "delivery-status-last-error-category",
			Level:    Must,
			Requires: "lastError is one of six words",
			At:       []Occasion{StatusError},
		},
		DeliveryPostJSON: {
			Name:     "delivery-post-json",
			Requires: "POST with application/json",
			At:       []Occasion{Delivery},
		},
		DeliveryStandardWebhooksHeaders: {
			Name:     "delivery-standard-webhooks-headers",
			Level:    Must,
			Requires: "three Standard Webhooks headers; id rule",
			At:       []Occasion{Delivery},
		},
		DeliverySubscriptionIDHeader: {
			Name:     "delivery-subscription-id-header",
			Level:    Must,
			Requires: "X-MCP-Subscription-Id on each post",
			At:       []Occasion{Delivery, Envelope},
		},
		DeliverySignatureFormula: {
			Name:     "delivery-signature-formula",
			Requires: "v1 HMAC-SHA256 over id.ts.raw body, decoded key",
			At:       []Occasion{Delivery},
		},
		DeliveryRetryRegeneratesSignature: {
			Name:     "delivery-retry-regenerates-signature",
			Level:    Must,
			Requires: "each retry has new timestamp and signature",
			At:       []Occasion{DeliveryRetry},
		},
		DeliveryDualSignOnRotation: {
			Name:     "delivery-dual-sign-on-rotation",
			Level:    Should,
			Requires: "old and new secret sign for a grace time",
			At:       []Occasion{RotatedJust},
		},
		DeliveryBodySize: {
			Name:     "delivery-body-size",
			Level:    Should,
			Requires: "body at most 256 KiB",
			At:       []Occasion{Delivery},
		},
		Delivery413NonRetryable: {
			Name:     "delivery-413-non-retryable",
			Level:    Must,
			Requires: "413 is not retried",
			At:       []Occasion{Refused413},
		},
		Delivery410NonRetryable: {
			Name:     "delivery-410-non-retryable",
			Level:    Must,
			Requires: "410 is not retried",
			At:       []Occasion{Refused410},
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
		},
		SSRFRejectNonRoutable: {
			Name:     "ssrf-reject-non-routable",
			Level:    Should,
			Requires: "non-global addresses refused",
			Unseen:   deliberate + "callbacks that must be refused",
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
		},
	}},
	{name: "Verification", lanes: "webhook", rows: map[ID]Row{
		VerificationRequiredBeforeDelivery: {
			Name:     "verification-required-before-delivery",
			Level:    Must,
			Requires: "no delivery before proof of intent",
			At:       []Occasion{Challenged},
		},
		VerificationChallengeEcho: {
			Name:     "verification-challenge-echo",
			Requires: "nonce echoed in 2xx, constant-time compare",
			At:       []Occasion{Misechoed},
		},
		VerificationFailureError: {
			Name:     "verification-failure-error",
			Requires: "failure gives CallbackEndpointError with category",
			At:       []Occasion{MisechoedRefused},
		},
		VerificationCachedPerPrincipalURL: {
			Name:     "verification-cached-per-principal-url",
			Requires: "cached per principal and url",
			At:       []Occasion{Refreshed},
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
		},
		VerificationNoRawEndpointResponses: {
			Name:     "verification-no-raw-endpoint-responses",
			Requires: "no raw endpoint answers leak",
			Unseen:   deliberate + "an endpoint that answers with a secret",
		},
	}},
	{name: "Control envelopes", lanes: "webhook", rows: map[ID]Row{
		EnvelopeTypeDiscriminator: {
			Name:     "envelope-type-discriminator",
			Requires: "top-level type marks control bodies",
			At:       []Occasion{Delivery, Envelope},
		},
		EnvelopeSignedLikeDeliveries: {
			Name:     "envelope-signed-like-deliveries",
			Requires: "control bodies signed and headed alike",
			At:       []Occasion{Envelope},
		},
		EnvelopeWebhookIDFormat: {
			Name:     "envelope-webhook-id-format",
			Requires: "control webhook-id is msg_type_random",
			At:       []Occasion{Envelope},
		},
		EnvelopeGapRow: {
			Name:     "envelope-gap",
			Requires: "gap envelope with fresh cursor",
			At:       []Occasion{EnvelopeGap},
		},
		EnvelopeTerminated: {
			Name:     "envelope-terminated",
			Requires: "terminated envelope with error",
			At:       []Occasion{EnvelopeEnd},
		},
	}},
	{name: "Authorization", lanes: "poll, push, webhook", rows: map[ID]Row{
		AuthzSubscribeTime: {
			Name:     "authz-subscribe-time",
			Level:    Must,
			Requires: "permission checked for type and arguments",
			Unseen:   deliberate + "a principal without permission",
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
