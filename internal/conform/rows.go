package conform

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
var Rows = [count]Row{
	CapabilityEventsObject: {
		Name:     "capability-events-object",
		Level:    Shape,
		Requires: "server advertises the events capability",
		Section:  "Capability",
		Lanes:    "poll, push, webhook",
		At:       []Occasion{Handshake},
		Broken:   "the first handshake of a lane has no events capability in any of its places",
	},
	CapabilityListChangedFlag: {
		Name:     "capability-list-changed-flag",
		Level:    Shape,
		Requires: "listChanged says whether list_changed is sent",
		Section:  "Capability",
		Lanes:    "poll, push, webhook",
		At:       []Occasion{Handshake},
		Broken:   "listChanged is there and is no boolean",
	},
	CapabilityEmptySettings: {
		Name:     "capability-empty-settings",
		Level:    Shape,
		Requires: "an empty settings object means no list_changed",
		Section:  "Capability",
		Lanes:    "poll, push, webhook",
		Unseen:   "absent list_changed proves nothing; capability-list-changed-gated sees the contrary",
	},
	CapabilityClientDeclaration: {
		Name:     "capability-client-declaration",
		Level:    Shape,
		Requires: "a client may declare the extension with {}",
		Section:  "Capability",
		Lanes:    "poll, push, webhook",
		Unseen:   "a rule for clients: every lane declares it in revision sep-3415",
	},
	CapabilityListChangedGated: {
		Name:     "capability-list-changed-gated",
		Level:    Shape,
		Requires: "list_changed is sent only where listChanged was advertised",
		Section:  "Capability",
		Lanes:    "poll, push, webhook",
		At:       []Occasion{ListChanged},
		Broken:   "a list_changed came, and listChanged was not advertised; lanes with events.listen",
	},
	FallbackMethodNotFound: {
		Name:     "fallback-method-not-found",
		Level:    Shape,
		Requires: "events/* gives -32601 where the extension is not offered",
		Section:  "Capability",
		Lanes:    "poll, push, webhook",
		At:       []Occasion{ListUnoffered},
		Broken:   "events/list was refused with another code, and the capability was not advertised",
	},
	ListImplemented: {
		Name:     "list-implemented",
		Level:    Shape,
		Requires: "events/list returns events array and nextCursor",
		Section:  "events/list",
		Lanes:    "poll, push, webhook",
		At:       []Occasion{ListPage},
		Broken:   "a page of events/list has no array of events",
		Check:    "lists the event types again, beside the subscriptions",
	},
	ListPagination: {
		Name:     "list-pagination",
		Level:    Shape,
		Requires: "nextCursor works as in tools/list",
		Section:  "events/list",
		Lanes:    "poll, push, webhook",
		At:       []Occasion{ListPage},
		Broken:   "nextCursor is no string, or is the cursor that the page was asked with",
		Check:    "lists the event types again, beside the subscriptions",
	},
	DescriptorName: {
		Name:     "descriptor-name",
		Level:    Shape,
		Requires: "every descriptor has a name",
		Section:  "events/list",
		Lanes:    "poll, push, webhook",
		At:       []Occasion{Descriptor},
		Broken:   "name is missing or no text",
		Check:    "lists the event types again, beside the subscriptions",
	},
	DescriptorDescription: {
		Name:     "descriptor-description",
		Level:    Shape,
		Requires: "every descriptor has a description",
		Section:  "events/list",
		Lanes:    "poll, push, webhook",
		At:       []Occasion{Descriptor},
		Broken:   "description is missing or no text",
		Check:    "lists the event types again, beside the subscriptions",
	},
	DescriptorDeliverySubset: {
		Name:     "descriptor-delivery-subset",
		Level:    Shape,
		Requires: "delivery is a non-empty subset of three modes",
		Section:  "events/list",
		Lanes:    "poll, push, webhook",
		At:       []Occasion{Descriptor},
		Broken:   "delivery is not a non-empty array of poll, push and webhook",
		Check:    "lists the event types again, beside the subscriptions",
	},
	DescriptorInputSchema: {
		Name:     "descriptor-input-schema",
		Level:    Shape,
		Requires: "inputSchema is a JSON Schema for arguments",
		Section:  "events/list",
		Lanes:    "poll, push, webhook",
		At:       []Occasion{Descriptor},
		Broken:   "inputSchema is neither an object nor a boolean",
		Check:    "lists the event types again, beside the subscriptions",
	},
	DescriptorPayloadSchema: {
		Name:     "descriptor-payload-schema",
		Level:    Shape,
		Requires: "payloadSchema describes data",
		Section:  "events/list",
		Lanes:    "poll, push, webhook",
		At:       []Occasion{Descriptor},
		Broken:   "payloadSchema is neither an object nor a boolean",
		Check:    "lists the event types again, beside the subscriptions",
	},
	DescriptorMeta: {
		Name:     "descriptor-meta",
		Level:    Shape,
		Requires: "_meta optional, usual meaning",
		Section:  "events/list",
		Lanes:    "poll, push, webhook",
		At:       []Occasion{Descriptor},
		Broken:   "_meta is there and is no object",
		Check:    "lists the event types again, beside the subscriptions",
	},
	SchemaEvolutionAdditive: {
		Name:     "schema-evolution-additive",
		Level:    Should,
		Requires: "schemas of one name change only additively",
		Section:  "events/list",
		Lanes:    "poll, push, webhook",
		Unseen:   "needs control of the server: a schema that changes",
	},
	BreakingChangeNewName: {
		Name:     "breaking-change-new-name",
		Level:    Should,
		Requires: "breaking change gets a new event name",
		Section:  "events/list",
		Lanes:    "poll, push, webhook",
		Unseen:   "needs control of the server: a schema that changes",
	},
	ListChangedNotification: {
		Name:     "list-changed-notification",
		Level:    Shape,
		Requires: "send list_changed when set or descriptor changes",
		Section:  "events/list",
		Lanes:    "poll, push, webhook",
		Unseen:   "needs control of the server: an event type that changes",
	},
	RemovalTerminatesSubscriptions: {
		Name:     "removal-terminates-subscriptions",
		Level:    Should,
		Requires: "removed type ends its push and webhook subscriptions",
		Section:  "Termination",
		Lanes:    "poll, push, webhook",
		Unseen:   "needs control of the server: an event type that is removed",
	},
	RemovalErrorNotFound: {
		Name:     "removal-error-not-found",
		Level:    Shape,
		Requires: "removal error is NotFound kind event",
		Section:  "Termination",
		Lanes:    "poll, push, webhook",
		At:       []Occasion{EndedNotFound},
		Broken:   "a subscription ended with NotFound, and data.kind is there and is not event",
	},
	RemovalErrorSchemaChanged: {
		Name:     "removal-error-schema-changed",
		Level:    Shape,
		Requires: "in-place change error is Unsupported schema_changed",
		Section:  "Termination",
		Lanes:    "poll, push, webhook",
		At:       []Occasion{EndedUnsupported},
		Broken:   "a subscription ended with Unsupported, and data.reason is not schema_changed",
	},
	RemovalAdditiveNoTerminate: {
		Name:     "removal-additive-no-terminate",
		Level:    Must,
		Requires: "additive changes never terminate",
		Section:  "Termination",
		Lanes:    "poll, push, webhook",
		Unseen:   "needs control of the server: a schema that grows",
	},
	RemovalPollNotFound: {
		Name:     "removal-poll-not-found",
		Level:    Shape,
		Requires: "poll of unknown or removed name gives NotFound",
		Section:  "Termination",
		Lanes:    "poll",
		Unseen:   "needs a deliberate step: a poll of an unknown name",
		Check:    "polls an unknown event type: NotFound",
	},
	ErrorInvalidParams: {
		Name:     "error-invalid-params",
		Level:    Shape,
		Requires: "-32602 for bad arguments, url, secret",
		Section:  "Errors",
		Lanes:    "poll, push, webhook",
		Unseen:   "needs a deliberate step: invalid arguments",
		Check:    "polls with invalid arguments, subscribes with bad secrets and callbacks: -32602",
	},
	ErrorNotFound: {
		Name:     "error-not-found",
		Level:    Shape,
		Requires: "NotFound for unknown event or subscription",
		Section:  "Errors",
		Lanes:    "poll, push, webhook",
		At:       []Occasion{RefusedNotFound},
		Broken:   "data.kind is there and is neither event nor subscription",
		Check:    "polls an unknown event type: data.kind is event, or absent",
	},
	ErrorForbidden: {
		Name:     "error-forbidden",
		Level:    Shape,
		Requires: "Forbidden for a principal without permission",
		Section:  "Errors",
		Lanes:    "poll, push, webhook",
		At:       []Occasion{RefusedForbidden},
		Broken:   "data.reason is there and is no text",
		Check:    "subscribes to what --denied names: data.reason is text, or absent",
	},
	ErrorResourceExhausted: {
		Name:     "error-resource-exhausted",
		Level:    Shape,
		Requires: "ResourceExhausted names its limit",
		Section:  "Errors",
		Lanes:    "poll, push, webhook",
		At:       []Occasion{RefusedExhausted},
		Broken:   "data.limit is missing or no text",
	},
	ErrorUnsupported: {
		Name:     "error-unsupported",
		Level:    Shape,
		Requires: "Unsupported names feature and value",
		Section:  "Errors",
		Lanes:    "poll, push, webhook",
		At:       []Occasion{RefusedUnsupported},
		Broken:   "data.feature is missing or no text",
		Check:    "polls a type without polls: data.feature is deliveryMode",
	},
	ErrorCallbackEndpointError: {
		Name:     "error-callback-endpoint-error",
		Level:    Shape,
		Requires: "CallbackEndpointError carries a category reason",
		Section:  "Errors",
		Lanes:    "webhook",
		At:       []Occasion{RefusedCallback},
		Broken:   "data.reason is none of the six categories",
		Check:    "echoes a challenge wrongly: data.reason is one of the six categories",
	},
	ErrorServerRange: {
		Name:     "error-server-range",
		Level:    Shape,
		Requires: "codes lie within -32000…-32099",
		Section:  "Errors",
		Lanes:    "poll, push, webhook",
		At:       []Occasion{Refused},
		Broken:   "the code of an error is neither in -32000…-32099 nor one of JSON-RPC",
	},
	PollImplemented: {
		Name:     "poll-implemented",
		Level:    Shape,
		Requires: "events/poll answers with events, cursor, pacing",
		Section:  "Poll",
		Lanes:    "poll",
		At:       []Occasion{PollAnswer},
		Broken:   "a poll was answered with something that is no JSON-RPC response",
	},
	PollOneSubscriptionPerRequest: {
		Name:     "poll-one-subscription-per-request",
		Level:    Shape,
		Requires: "one subscription per poll request",
		Section:  "Poll",
		Lanes:    "poll",
		Unseen:   "a rule for clients: every poll names one subscription",
	},
	PollBootstrapsSubscription: {
		Name:     "poll-bootstraps-subscription",
		Level:    Shape,
		Requires: "first null-cursor poll starts the subscription",
		Section:  "Poll",
		Lanes:    "poll",
		Unseen:   "every event of a poller follows from it: a target without it fails the ledger, not this row",
		Check:    "polls with cursor: null, then from its cursor: no truncated",
	},
	PollEventsArray: {
		Name:     "poll-events-array",
		Level:    Shape,
		Requires: "events is an array, also when empty",
		Section:  "Poll",
		Lanes:    "poll",
		At:       []Occasion{PollAnswer},
		Broken:   "events is no array, or holds something that is no object",
	},
	PollResponseCursor: {
		Name:     "poll-response-cursor",
		Level:    Shape,
		Requires: "cursor sits on the poll result",
		Section:  "Poll",
		Lanes:    "poll",
		At:       []Occasion{PollAnswer},
		Broken:   "an occurrence has a cursor, and the result has none",
	},
	PollNextPollMs: {
		Name:     "poll-next-poll-ms",
		Level:    Shape,
		Requires: "nextPollMs advises the polling pace",
		Section:  "Poll",
		Lanes:    "poll",
		At:       []Occasion{PollAnswer},
		Broken:   "nextPollMs is missing or no number",
	},
	PollNextPollMsIgnoredWhenHasMore: {
		Name:     "poll-next-poll-ms-ignored-when-has-more",
		Level:    Shape,
		Requires: "nextPollMs has no meaning with hasMore",
		Section:  "Poll",
		Lanes:    "poll",
		Unseen:   "a rule for clients: lanes follow hasMore at once",
	},
	PollHasMore: {
		Name:     "poll-has-more",
		Level:    Shape,
		Requires: "hasMore marks further events beyond the batch",
		Section:  "Poll",
		Lanes:    "poll",
		At:       []Occasion{PollAnswer},
		Broken:   "hasMore with neither an event nor a new cursor",
		Check:    "polls with maxEvents 1 and two events waiting: hasMore is true",
	},
	PollMaxEventsCap: {
		Name:     "poll-max-events-cap",
		Level:    Shape,
		Requires: "maxEvents caps, rest follows with hasMore",
		Section:  "Poll",
		Lanes:    "poll",
		At:       []Occasion{PollCapped},
		Broken:   "more events than maxEvents; lanes with poll.maxEvents",
		Check:    "polls with maxEvents 1: one event, and no event is left out or repeated",
	},
	PollStatelessRequest: {Name: "poll-stateless-request", Level: Shape, Requires: "each poll stands alone", Section: "Poll", Lanes: "poll",
		Unseen: "needs a deliberate step: the same poll twice, over two connections",
		Check:  "sends the same poll twice: the second answer begins with the events of the first"},
	PollErrorsAreJSONRPC: {
		Name:     "poll-errors-are-jsonrpc",
		Level:    Shape,
		Requires: "errors are plain JSON-RPC errors",
		Section:  "Poll",
		Lanes:    "poll",
		At:       []Occasion{PollRefused},
		Broken:   "a poll was refused by HTTP alone (401, 403 and a lost session apart)",
		Check:    "polls an unknown event type: the refusal is a JSON-RPC error",
	},
	PollInvalidArguments: {
		Name:     "poll-invalid-arguments",
		Level:    Shape,
		Requires: "arguments against schema give -32602",
		Section:  "Poll",
		Lanes:    "poll",
		Unseen:   "needs a deliberate step: arguments against the schema",
		Check:    "polls with arguments against the inputSchema: -32602",
	},
	PollModeUnsupported: {
		Name:     "poll-mode-unsupported",
		Level:    Shape,
		Requires: "poll on a type without poll gives Unsupported",
		Section:  "Poll",
		Lanes:    "poll",
		Unseen:   "needs a deliberate step: a poll of a type without polls",
		Check:    "polls a type without polls: Unsupported",
	},
	OccurrenceEventID: {
		Name:     "occurrence-event-id",
		Level:    Shape,
		Requires: "eventId string on every occurrence",
		Section:  "Occurrence",
		Lanes:    "poll, push, webhook",
		At:       []Occasion{PollOccurrence, StreamEvent, Delivery},
		Broken:   "eventId is missing or no text",
	},
	OccurrenceName: {
		Name:     "occurrence-name",
		Level:    Shape,
		Requires: "name string on every occurrence",
		Section:  "Occurrence",
		Lanes:    "poll, push, webhook",
		At:       []Occasion{PollOccurrence, StreamEvent, Delivery},
		Broken:   "name is missing or no text",
	},
	OccurrenceTimestamp: {
		Name:     "occurrence-timestamp",
		Level:    Shape,
		Requires: "timestamp ISO 8601 on every occurrence",
		Section:  "Occurrence",
		Lanes:    "poll, push, webhook",
		At:       []Occasion{PollOccurrence, StreamEvent, Delivery},
		Broken:   "timestamp is not ISO 8601",
	},
	OccurrenceData: {
		Name:     "occurrence-data",
		Level:    Shape,
		Requires: "data object fits payloadSchema",
		Section:  "Occurrence",
		Lanes:    "poll, push, webhook",
		At:       []Occasion{PollOccurrence, StreamEvent, Delivery},
		Broken:   "data is no object; the payload schema is not compared",
	},
	OccurrenceCursorOptional: {
		Name:     "occurrence-cursor-optional",
		Level:    Shape,
		Requires: "cursor on an occurrence is optional",
		Section:  "Occurrence",
		Lanes:    "poll, push, webhook",
		At:       []Occasion{PollOccurrence, StreamEvent, Delivery},
		Broken:   "cursor is there and is neither a string nor null",
	},
	OccurrenceMetaUngoverned: {
		Name:     "occurrence-meta-ungoverned",
		Level:    Shape,
		Requires: "_meta is outside payloadSchema",
		Section:  "Occurrence",
		Lanes:    "poll, push, webhook",
		Unseen:   "needs the payload schema: it is not compared",
	},
	OccurrenceEventIDFromUpstream: {
		Name:     "occurrence-event-id-from-upstream",
		Level:    Should,
		Requires: "eventId is the upstream's stable id",
		Section:  "Occurrence",
		Lanes:    "poll, push, webhook",
		At: []Occasion{
			PollOccurrence,
			StreamEvent,
			Delivery,
		},
		Broken: "the ledger counted copies of one event under several ids (duplicates.sameEmission)",
	},
	CursorOpaque: {
		Name:     "cursor-opaque",
		Level:    Shape,
		Requires: "cursor is an opaque server string",
		Section:  "Cursors",
		Lanes:    "poll, push, webhook",
		At:       []Occasion{PollAnswer, StreamActive, StreamHeartbeat, Granted},
		Broken:   "cursor is neither a string nor null",
	},
	CursorNullStartsFromNow: {
		Name:     "cursor-null-starts-from-now",
		Level:    Shape,
		Requires: "null cursor: from now, no history",
		Section:  "Cursors",
		Lanes:    "poll",
		At:       []Occasion{PollFromNow},
		Broken:   "events in the answer to cursor: null",
		Check:    "polls with cursor: null while events wait: no events",
	},
	CursorAbsentEqualsNull: {
		Name:     "cursor-absent-equals-null",
		Level:    Must,
		Requires: "absent cursor is the same as null",
		Section:  "Cursors",
		Lanes:    "poll, push, webhook",
		Unseen:   "needs a deliberate step: a request without cursor beside one with null",
		Check:    "polls and subscribes without a cursor: the answer is like that to null",
	},
	CursorConsistency: {
		Name:     "cursor-consistency",
		Level:    Should,
		Requires: "a type always or never gives cursors",
		Section:  "Cursors",
		Lanes:    "poll, push, webhook",
		At:       []Occasion{PollAnswer, StreamActive, StreamHeartbeat, Granted},
		Broken:   "a lane was given a cursor here and none there",
	},
	CursorAdvancesWhenQuiet: {
		Name:     "cursor-advances-when-quiet",
		Level:    Shape,
		Requires: "cursor moves while nothing matches",
		Section:  "Cursors",
		Lanes:    "poll, push, webhook",
		Unseen:   "needs control of the server: events that match nobody",
	},
	MaxAgeMsFloor: {
		Name:     "max-age-ms-floor",
		Level:    Shape,
		Requires: "start from later of cursor and now minus maxAgeMs",
		Section:  "Cursors",
		Lanes:    "poll, push, webhook",
		Unseen:   "needs a deliberate step: a cursor older than maxAgeMs",
		Check:    "polls from a cursor with maxAgeMs 1: no event comes that is more than 3 s old",
	},
	MaxAgeMsSetsTruncated: {
		Name:     "max-age-ms-sets-truncated",
		Level:    Should,
		Requires: "floor beyond cursor sets truncated",
		Section:  "Cursors",
		Lanes:    "poll, push, webhook",
		Unseen:   "needs a deliberate step: a cursor older than maxAgeMs",
		Check:    "polls from a cursor that is more than 3 s old with maxAgeMs 1: truncated is true",
	},
	MaxAgeMsIgnoredWhenCursorNull: {
		Name:     "max-age-ms-ignored-when-cursor-null",
		Level:    Shape,
		Requires: "maxAgeMs ignored with null cursor",
		Section:  "Cursors",
		Lanes:    "poll",
		At:       []Occasion{PollFromNowAged},
		Broken:   "events in the answer to cursor: null with maxAgeMs; lanes with maxAge",
		Check:    "polls with cursor: null and maxAgeMs: no events, and no truncated",
	},
	ReplayCeilingSetsTruncated: {
		Name:     "replay-ceiling-sets-truncated",
		Level:    Must,
		Requires: "own replay ceiling is shown as truncated",
		Section:  "Cursors",
		Lanes:    "poll, push, webhook",
		Unseen:   "needs a deliberate step: a cursor older than the retention; the ledger counts it as silent loss",
	},
	TruncatedReturnsFreshCursor: {
		Name:     "truncated-returns-fresh-cursor",
		Level:    Shape,
		Requires: "truncated brings a usable fresh cursor",
		Section:  "Cursors",
		Lanes:    "poll, push, webhook",
		At:       []Occasion{Truncation},
		Broken:   "truncated without a cursor, on a lane that was given cursors before",
		Check:    "polls with an unknown cursor: truncated brings a cursor, and a poll from it no truncated",
	},
	TruncatedPollNeverAnError: {
		Name:     "truncated-poll-never-an-error",
		Level:    Shape,
		Requires: "stale cursor in poll is never an error",
		Section:  "Cursors",
		Lanes:    "poll",
		Unseen:   "needs a deliberate step: a stale cursor",
		Check:    "polls with a cursor that the server did not give: no error",
	},
	TruncatedFalseWhenNoReplay: {
		Name:     "truncated-false-when-no-replay",
		Level:    Should,
		Requires: "no-replay types keep truncated false",
		Section:  "Cursors",
		Lanes:    "poll, push, webhook",
		At:       []Occasion{NoCursor},
		Broken:   "truncated without a cursor, on a lane that was never given one",
	},
	StreamImplemented: {
		Name:     "stream-implemented",
		Level:    Shape,
		Requires: "events/stream opens one push subscription",
		Section:  "Push",
		Lanes:    "push",
		At:       []Occasion{StreamOpened},
		Broken:   "events/stream was answered 2xx with something that is no stream",
	},
	StreamErrorBeforeOpen: {
		Name:     "stream-error-before-open",
		Level:    Shape,
		Requires: "invalid subscription: JSON-RPC error, no stream",
		Section:  "Push",
		Lanes:    "push",
		At: []Occasion{
			StreamRefused,
		},
		Broken: "a stream was refused without a JSON-RPC error (401, 403, 429, 503 and a lost session apart)",
		Check:  "streams an unknown event type: a JSON-RPC error, and no stream",
	},
	StreamActiveConfirmation: {
		Name:     "stream-active-confirmation",
		Level:    Shape,
		Requires: "active is first, with cursor and truncated",
		Section:  "Push",
		Lanes:    "push",
		At:       []Occasion{StreamActive},
		Broken:   "an event or a heartbeat came before active",
	},
	StreamSubscriptionIDMeta: {
		Name:     "stream-subscription-id-meta",
		Level:    Shape,
		Requires: "every notification carries the request id in _meta",
		Section:  "Push",
		Lanes:    "push",
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
		Level:    Shape,
		Requires: "events come as notifications/events/event",
		Section:  "Push",
		Lanes:    "push",
		At:       []Occasion{StreamEvent},
		Broken:   "a message on a stream is no JSON object, or lacks jsonrpc 2.0",
	},
	StreamErrorIsRecoverable: {
		Name:     "stream-error-is-recoverable",
		Level:    Shape,
		Requires: "…/error leaves the stream open",
		Section:  "Push",
		Lanes:    "push",
		At:       []Occasion{StreamTrouble},
		Broken:   "the target closed the stream right after the error",
	},
	StreamTerminatedEndsSubscription: {
		Name:     "stream-terminated-ends-subscription",
		Level:    Shape,
		Requires: "only …/terminated ends it",
		Section:  "Push",
		Lanes:    "push",
		Unseen:   "a stream is not read beyond terminated",
	},
	StreamGapResendsActive: {
		Name:     "stream-gap-resends-active",
		Level:    Shape,
		Requires: "gap = new active with truncated",
		Section:  "Push",
		Lanes:    "push",
		At:       []Occasion{StreamGap},
		Broken:   "an active on an open stream does not say truncated",
	},
	StreamHeartbeatRequired: {
		Name:     "stream-heartbeat-required",
		Level:    Must,
		Requires: "periodic heartbeats exist",
		Section:  "Push",
		Lanes:    "push",
		At:       []Occasion{StreamHeartbeat},
		Broken:   "a stream was silent for twice push.heartbeat",
	},
	StreamHeartbeatCarriesCursor: {
		Name:     "stream-heartbeat-carries-cursor",
		Level:    Shape,
		Requires: "heartbeat carries the checked position",
		Section:  "Push",
		Lanes:    "push",
		At:       []Occasion{StreamHeartbeat},
		Broken:   "a heartbeat has no cursor, on a lane that was given cursors",
	},
	StreamHeartbeatInterval: {
		Name:     "stream-heartbeat-interval",
		Level:    Should,
		Requires: "heartbeat at least every 30 s",
		Section:  "Push",
		Lanes:    "push",
		At:       []Occasion{StreamHeartbeat},
		Broken:   "more than 31 s between two messages of a stream",
	},
	StreamHeartbeatNotSSEComment: {
		Name:     "stream-heartbeat-not-sse-comment",
		Level:    Shape,
		Requires: "heartbeat is a data frame",
		Section:  "Push",
		Lanes:    "push",
		At:       []Occasion{StreamHeartbeat},
		Broken:   "a stream brought only comments for twice push.heartbeat",
	},
	StreamFinalResultShape: {
		Name:     "stream-final-result-shape",
		Level:    Shape,
		Requires: "final result is empty typed result",
		Section:  "Push",
		Lanes:    "push",
		At:       []Occasion{StreamResult},
		Broken:   "the final result holds more than _meta and resultType, or names another subscription",
	},
	StreamFinalResultTiming: {
		Name:     "stream-final-result-timing",
		Level:    Must,
		Requires: "final result only on server-side close",
		Section:  "Push",
		Lanes:    "push",
		Unseen:   "needs control of the server: a close by the server",
	},
	StreamCancelStopsDelivery: {
		Name:     "stream-cancel-stops-delivery",
		Level:    Must,
		Requires: "cancel stops delivery and frees resources",
		Section:  "Push",
		Lanes:    "push",
		Unseen:   "a stream that was cancelled is not read any more",
	},
	StreamExemptFromConcurrencyCap: {
		Name:     "stream-exempt-from-concurrency-cap",
		Level:    Must,
		Requires: "streams do not count in a general cap",
		Section:  "Push",
		Lanes:    "push",
		At:       []Occasion{StreamOpened},
		Broken:   "a stream was refused with HTTP 429 or 503 and no JSON-RPC error",
		Check:    "opens 16 streams at once, and polls meanwhile: none is refused by HTTP alone",
	},
	StreamCarriesOnlyEventNotifications: {
		Name:     "stream-carries-only-event-notifications",
		Level:    Shape,
		Requires: "nothing but event notifications on the stream",
		Section:  "Push",
		Lanes:    "push",
		At:       []Occasion{StreamActive, StreamEvent, StreamHeartbeat},
		Broken:   "a stream carried a message that is none of events/*",
	},
	SubscribeWebhookOnly: {
		Name:     "subscribe-webhook-only",
		Level:    Shape,
		Requires: "subscribe serves webhook only",
		Section:  "Subscribe",
		Lanes:    "webhook",
		Unseen:   "needs a deliberate step: a subscribe with another mode",
		Check:    "subscribes with delivery.mode push: an error",
	},
	SubscribeSecretRequired: {
		Name:     "subscribe-secret-required",
		Level:    Must,
		Requires: "delivery.secret is required",
		Section:  "Subscribe",
		Lanes:    "webhook",
		Unseen:   "needs a deliberate step: a subscribe without a secret",
		Check:    "subscribes without a secret, and with an empty one: errors",
	},
	SubscribeSecretFormat: {
		Name:     "subscribe-secret-format",
		Level:    Must,
		Requires: "whsec_ plus base64 of 24–64 bytes",
		Section:  "Subscribe",
		Lanes:    "webhook",
		Unseen:   "needs a deliberate step: a bad secret",
		Check:    "subscribes with secrets of another form, 23 and 65 bytes: errors; 24 and 64 bytes: granted",
	},
	SubscribeSecretRejected: {
		Name:     "subscribe-secret-rejected",
		Level:    Must,
		Requires: "bad secret gives InvalidParams",
		Section:  "Subscribe",
		Lanes:    "webhook",
		Unseen:   "needs a deliberate step: a bad secret",
		Check:    "the same: the errors are -32602",
	},
	SubscribeURLHTTPSRequired: {
		Name:     "subscribe-url-https-required",
		Level:    Must,
		Requires: "callback must be https",
		Section:  "Subscribe",
		Lanes:    "webhook",
		Unseen:   "needs a deliberate step: an http callback",
		Check:    "subscribes with an http callback: an error",
	},
	SubscribeURLNonHTTPSRejected: {
		Name:     "subscribe-url-non-https-rejected",
		Level:    Must,
		Requires: "http callback gives -32602",
		Section:  "Subscribe",
		Lanes:    "webhook",
		Unseen:   "needs a deliberate step: an http callback",
		Check:    "the same: the error is -32602",
	},
	SubscribeAuthRequired: {
		Name:     "subscribe-auth-required",
		Level:    Must,
		Requires: "no principal gives Forbidden",
		Section:  "Subscribe",
		Lanes:    "webhook",
		At:       []Occasion{Anonymous},
		Broken:   "a subscription without a token was accepted; lanes with events.anonymous",
		Check:    "subscribes without a token: Forbidden, 401 or 403",
	},
	SubscribeKeyComposition: {
		Name:     "subscribe-key-composition",
		Level:    Shape,
		Requires: "key is principal, url, name, canonical arguments",
		Section:  "Subscribe",
		Lanes:    "webhook",
		Unseen:   "needs a deliberate step: the same key in another spelling",
		Check:    "subscribes again with the arguments in another spelling: the same id",
	},
	SubscribeKeyImmutable: {
		Name:     "subscribe-key-immutable",
		Level:    Shape,
		Requires: "other value = other subscription",
		Section:  "Subscribe",
		Lanes:    "webhook",
		Unseen:   "needs a deliberate step: a second key beside the first",
		Check:    "subscribes with another callback, and with other arguments: other ids",
	},
	SubscribeIdempotentUpsert: {
		Name:     "subscribe-idempotent-upsert",
		Level:    Shape,
		Requires: "same key refreshes in place",
		Section:  "Subscribe",
		Lanes:    "webhook",
		Unseen:   "needs a deliberate step: the same key twice; copies under one callback would be duplicates",
		Check:    "subscribes twice at once: the same id, and one unsubscribe ends it",
	},
	SubscribeIDDerived: {
		Name:     "subscribe-id-derived",
		Level:    Shape,
		Requires: "id deterministic, stable over restart",
		Section:  "Subscribe",
		Lanes:    "webhook",
		At:       []Occasion{Granted},
		Broken:   "id is missing, or a refresh was answered with another",
		Check:    "subscribes, unsubscribes and subscribes: the same id",
	},
	SubscribeIDNotAnInput: {
		Name:     "subscribe-id-not-an-input",
		Level:    Shape,
		Requires: "id is not accepted as input",
		Section:  "Subscribe",
		Lanes:    "webhook",
		Unseen:   "needs a deliberate step: a subscribe with an id",
		Check:    "subscribes with an id, new and again: it has no effect",
	},
	SubscribeRefreshReplacesSecret: {
		Name:     "subscribe-refresh-replaces-secret",
		Level:    Shape,
		Requires: "refresh replaces the secret",
		Section:  "Subscribe",
		Lanes:    "webhook",
		At: []Occasion{
			Rotated,
		},
		Broken: "a delivery that was signed and received 5 s or more after a rotation is signed with the old secret only; " +
			"lanes with webhook.rotateEvery",
		Check: "refreshes with another secret: 5 s later deliveries are signed with it",
	},
	SubscribeRefreshReactivates: {
		Name:     "subscribe-refresh-reactivates",
		Level:    Shape,
		Requires: "refresh resumes suspended delivery",
		Section:  "Subscribe",
		Lanes:    "webhook",
		Unseen:   "needs control of the server: a suspended subscription",
	},
	SubscribeResponseCursor: {
		Name:     "subscribe-response-cursor",
		Level:    Shape,
		Requires: "answer carries the safe watermark",
		Section:  "Subscribe",
		Lanes:    "webhook",
		At:       []Occasion{Granted},
		Broken:   "cursor is neither a string nor null",
	},
	SubscribeResponseTruncated: {
		Name:     "subscribe-response-truncated",
		Level:    Shape,
		Requires: "answer says whether events were skipped",
		Section:  "Subscribe",
		Lanes:    "webhook",
		At:       []Occasion{Granted},
		Broken:   "truncated is missing",
	},
	SubscribeCrossTenantIsolation: {
		Name:     "subscribe-cross-tenant-isolation",
		Level:    Shape,
		Requires: "two principals get two subscriptions",
		Section:  "Subscribe",
		Lanes:    "webhook",
		Unseen:   "needs a deliberate step: two principals with one callback",
		Check:    "subscribes as two principals with one callback: two ids; needs two tokens",
	},
	TTLRefreshBeforeLteSuggestion: {
		Name:     "ttl-refresh-before-lte-suggestion",
		Level:    Should,
		Requires: "grant not above the requested lifetime",
		Section:  "Subscribe",
		Lanes:    "webhook",
		At: []Occasion{
			GrantWished,
		},
		Broken: "the grant is more than a tenth longer than requested; for requests of 10 minutes and more, because a target " +
			"may have a minimum below that",
		Check: "requests 15 minutes: the grant is at most a tenth longer",
	},
	TTLNoRejectionPath: {
		Name:     "ttl-no-rejection-path",
		Level:    Shape,
		Requires: "TTL values are clamped, never refused",
		Section:  "Subscribe",
		Lanes:    "webhook",
		Unseen:   "needs a deliberate step: extreme values of ttlMs",
		Check:    "requests 0, 1 ms, 10,000 years and no end: all are granted",
	},
	TTLNullOnlyWhenRequested: {
		Name:     "ttl-null-only-when-requested",
		Level:    Must,
		Requires: "null grant only for null wish",
		Section:  "Subscribe",
		Lanes:    "webhook",
		At:       []Occasion{Granted},
		Broken:   "refreshBefore is null, and ttlMs was not",
		Check:    "the same: refreshBefore is null at most for no end",
	},
	TTLOmittedMeansDefault: {
		Name:     "ttl-omitted-means-default",
		Level:    Shape,
		Requires: "omitted = default; null = no expiry wish",
		Section:  "Subscribe",
		Lanes:    "webhook",
		At:       []Occasion{GrantUnwished},
		Broken:   "refreshBefore is there and is no time; lanes that request no lifetime",
		Check:    "subscribes without ttlMs: refreshBefore is a time",
	},
	TTLLongGrantRetained: {
		Name:     "ttl-long-grant-retained",
		Level:    Must,
		Requires: "long grants survive restarts",
		Section:  "Subscribe",
		Lanes:    "webhook",
		Unseen:   "needs control of the server: a restart",
	},
	TTLNoExpiryPersisted: {
		Name:     "ttl-no-expiry-persisted",
		Level:    Must,
		Requires: "no-expiry subscriptions persist",
		Section:  "Subscribe",
		Lanes:    "webhook",
		Unseen:   "needs control of the server: a restart",
	},
	TTLNoExpiryGCTerminated: {
		Name:     "ttl-no-expiry-gc-terminated",
		Level:    Should,
		Requires: "dropped no-expiry gets a terminated envelope",
		Section:  "Subscribe",
		Lanes:    "webhook",
		Unseen:   "needs control of the server: a dropped subscription",
	},
	UnsubscribeByKey: {
		Name:     "unsubscribe-by-key",
		Level:    Shape,
		Requires: "unsubscribe uses the same key",
		Section:  "Subscribe",
		Lanes:    "webhook",
		At:       []Occasion{Unsubscribed},
		Broken:   "NotFound for a subscription whose grant was not over, and whose type is not gone",
		Check:    "unsubscribes with the key in another spelling: success",
	},
	UnsubscribeUnknownNotFound: {
		Name:     "unsubscribe-unknown-not-found",
		Level:    Shape,
		Requires: "unknown key gives NotFound",
		Section:  "Subscribe",
		Lanes:    "webhook",
		Unseen:   "needs a deliberate step: unsubscribe of nothing",
		Check:    "unsubscribes what is not there: NotFound",
	},
	DeliveryStatusLastErrorCategory: {
		Name:     "delivery-status-last-error-category",
		Level:    Must,
		Requires: "lastError is one of six words",
		Section:  "Delivery",
		Lanes:    "webhook",
		At:       []Occasion{StatusError},
		Broken:   "lastError is none of the six categories",
		Check:    "refreshes after a failed delivery: lastError is one of the six categories",
	},
	DeliveryPostJSON: {
		Name:     "delivery-post-json",
		Level:    Shape,
		Requires: "POST with application/json",
		Section:  "Delivery",
		Lanes:    "webhook",
		At:       []Occasion{Delivery},
		Broken:   "another method than POST, another Content-Type, or a body that is no JSON object",
	},
	DeliveryStandardWebhooksHeaders: {
		Name:     "delivery-standard-webhooks-headers",
		Level:    Must,
		Requires: "three Standard Webhooks headers; id rule",
		Section:  "Delivery",
		Lanes:    "webhook",
		At:       []Occasion{Delivery},
		Broken:   "one of the three headers is missing, or webhook-timestamp is more than 5 minutes off",
	},
	DeliverySubscriptionIDHeader: {
		Name:     "delivery-subscription-id-header",
		Level:    Must,
		Requires: "X-MCP-Subscription-Id on each post",
		Section:  "Delivery",
		Lanes:    "webhook",
		At:       []Occasion{Delivery, Envelope},
		Broken:   "X-MCP-Subscription-Id is missing, or names another subscription",
	},
	DeliverySignatureFormula: {
		Name:     "delivery-signature-formula",
		Level:    Shape,
		Requires: "v1 HMAC-SHA256 over id.ts.raw body, decoded key",
		Section:  "Delivery",
		Lanes:    "webhook",
		At:       []Occasion{Delivery},
		Broken:   "no signature fits the secret",
	},
	DeliveryRetryRegeneratesSignature: {
		Name:     "delivery-retry-regenerates-signature",
		Level:    Must,
		Requires: "each retry has new timestamp and signature",
		Section:  "Delivery",
		Lanes:    "webhook",
		At: []Occasion{
			DeliveryRetry,
		},
		Broken: "a copy came 2 s or more after a refused one with the same webhook-timestamp; lanes with webhook.answer",
		Check:  "fails deliveries until a copy comes 4 s later: it has another webhook-timestamp",
	},
	DeliveryDualSignOnRotation: {
		Name:     "delivery-dual-sign-on-rotation",
		Level:    Should,
		Requires: "old and new secret sign for a grace time",
		Section:  "Delivery",
		Lanes:    "webhook",
		At: []Occasion{
			RotatedJust,
		},
		Broken: "a delivery after the answer to a rotation, and within 1 s of its request, is signed with the new secret " +
			"alone; lanes with webhook.rotateEvery",
		Check: "refreshes with another secret: no delivery of the next second is signed with it alone",
	},
	DeliveryBodySize: {Name: "delivery-body-size", Level: Should, Requires: "body at most 256 KiB", Section: "Delivery", Lanes: "webhook",
		At: []Occasion{Delivery}, Broken: "a body above 256 KiB"},
	Delivery413NonRetryable: {
		Name:     "delivery-413-non-retryable",
		Level:    Must,
		Requires: "413 is not retried",
		Section:  "Delivery",
		Lanes:    "webhook",
		At:       []Occasion{Refused413},
		Broken:   "a copy of an event that was answered 413; lanes with webhook.answer",
		Check:    "answers an event 413: no copy comes in the next 5 s",
	},
	Delivery410NonRetryable: {
		Name:     "delivery-410-non-retryable",
		Level:    Must,
		Requires: "410 is not retried",
		Section:  "Delivery",
		Lanes:    "webhook",
		At:       []Occasion{Refused410},
		Broken:   "a copy of an event that was answered 410; lanes with webhook.answer",
		Check:    "answers an event 410: no copy comes in the next 5 s",
	},
	DeliveryRetriesBounded: {
		Name:     "delivery-retries-bounded",
		Level:    Should,
		Requires: "attempts and time bounded",
		Section:  "Delivery",
		Lanes:    "webhook",
		Unseen:   "needs a deliberate step: an endpoint that fails for a quarter of an hour",
	},
	SSRFValidateCallbackURL: {
		Name:     "ssrf-validate-callback-url",
		Level:    Must,
		Requires: "callback URL validated",
		Section:  "Callback security",
		Lanes:    "webhook",
		Unseen:   "needs a deliberate step: callbacks that must be refused",
		Check:    "subscribes with callbacks that are no URLs: errors",
	},
	SSRFRejectNonRoutable: {
		Name:     "ssrf-reject-non-routable",
		Level:    Should,
		Requires: "non-global addresses refused",
		Section:  "Callback security",
		Lanes:    "webhook",
		Unseen:   "needs a deliberate step: callbacks that must be refused",
		Check:    "subscribes with callbacks at private and link-local addresses: errors",
	},
	SSRFValidateAtDeliveryTime: {
		Name:     "ssrf-validate-at-delivery-time",
		Level:    Must,
		Requires: "address checked at delivery and pinned",
		Section:  "Callback security",
		Lanes:    "webhook",
		Unseen:   "needs a deliberate step: a name whose address changes",
	},
	SSRFNoRedirects: {
		Name:     "ssrf-no-redirects",
		Level:    Must,
		Requires: "redirects not followed",
		Section:  "Callback security",
		Lanes:    "webhook",
		At:       []Occasion{Redirected},
		Broken:   "a redirect was followed; lanes with webhook.answer",
		Check:    "redirects a challenge and a delivery: neither is followed",
	},
	VerificationRequiredBeforeDelivery: {
		Name:     "verification-required-before-delivery",
		Level:    Must,
		Requires: "no delivery before proof of intent",
		Section:  "Verification",
		Lanes:    "webhook",
		At:       []Occasion{Challenged},
		Broken:   "an event came before the first challenge",
		Check:    "echoes a challenge wrongly: no event comes",
	},
	VerificationChallengeEcho: {
		Name:     "verification-challenge-echo",
		Level:    Shape,
		Requires: "nonce echoed in 2xx, constant-time compare",
		Section:  "Verification",
		Lanes:    "webhook",
		At:       []Occasion{Misechoed},
		Broken:   "a subscription was granted after a wrong echo alone; lanes with webhook.answer",
		Check:    "echoes a challenge wrongly: no grant",
	},
	VerificationFailureError: {
		Name:     "verification-failure-error",
		Level:    Shape,
		Requires: "failure gives CallbackEndpointError with category",
		Section:  "Verification",
		Lanes:    "webhook",
		At:       []Occasion{MisechoedRefused},
		Broken:   "the refusal after a wrong echo is not CallbackEndpointError; lanes with webhook.answer",
		Check:    "echoes a challenge wrongly: CallbackEndpointError",
	},
	VerificationCachedPerPrincipalURL: {
		Name:     "verification-cached-per-principal-url",
		Level:    Shape,
		Requires: "cached per principal and url",
		Section:  "Verification",
		Lanes:    "webhook",
		At:       []Occasion{Refreshed},
		Broken:   "a challenge for a subscription whose grant was not over, and whose secret had not changed",
		Check:    "refreshes: no second challenge",
	},
	VerificationPersistedForNoExpiry: {
		Name:     "verification-persisted-for-no-expiry",
		Level:    Must,
		Requires: "status persists with no-expiry subscriptions",
		Section:  "Verification",
		Lanes:    "webhook",
		Unseen:   "needs control of the server: a restart",
	},
	VerificationUsesSSRFHardenedPath: {
		Name:     "verification-uses-ssrf-hardened-path",
		Level:    Must,
		Requires: "challenge goes the hardened way",
		Section:  "Verification",
		Lanes:    "webhook",
		Unseen:   "needs a deliberate step: callbacks that must be refused",
		Check:    "redirects a challenge: it is not followed",
	},
	VerificationNoRawEndpointResponses: {
		Name:     "verification-no-raw-endpoint-responses",
		Level:    Shape,
		Requires: "no raw endpoint answers leak",
		Section:  "Verification",
		Lanes:    "webhook",
		Unseen:   "needs a deliberate step: an endpoint that answers with a secret",
		Check:    "answers challenges 500 and 200 with a marked text: the errors do not hold it",
	},
	ServerIdentityKeyDiscovery: {
		Name:     "server-identity-key-discovery",
		Level:    Must,
		Requires: "v1a key only from a trusted origin",
		Section:  "Delivery",
		Lanes:    "webhook",
		Unseen:   "not defined: where the key is found is open",
	},
	EnvelopeTypeDiscriminator: {
		Name:     "envelope-type-discriminator",
		Level:    Shape,
		Requires: "top-level type marks control bodies",
		Section:  "Control envelopes",
		Lanes:    "webhook",
		At:       []Occasion{Delivery, Envelope},
		Broken:   "an envelope of an unknown type, or an event with a top-level type",
	},
	EnvelopeSignedLikeDeliveries: {
		Name:     "envelope-signed-like-deliveries",
		Level:    Shape,
		Requires: "control bodies signed and headed alike",
		Section:  "Control envelopes",
		Lanes:    "webhook",
		At:       []Occasion{Envelope},
		Broken:   "an envelope whose signature does not verify",
	},
	EnvelopeWebhookIDFormat: {
		Name:     "envelope-webhook-id-format",
		Level:    Shape,
		Requires: "control webhook-id is msg_type_random",
		Section:  "Control envelopes",
		Lanes:    "webhook",
		At:       []Occasion{Envelope},
		Broken:   "webhook-id does not begin with msg_, the type and _",
	},
	EnvelopeGapRow: {
		Name:     "envelope-gap",
		Level:    Shape,
		Requires: "gap envelope with fresh cursor",
		Section:  "Control envelopes",
		Lanes:    "webhook",
		At:       []Occasion{EnvelopeGap},
		Broken:   "a gap without a cursor",
	},
	EnvelopeTerminated: {
		Name:     "envelope-terminated",
		Level:    Shape,
		Requires: "terminated envelope with error",
		Section:  "Control envelopes",
		Lanes:    "webhook",
		At:       []Occasion{EnvelopeEnd},
		Broken:   "terminated without an error that has a code",
	},
	AuthzSubscribeTime: {
		Name:     "authz-subscribe-time",
		Level:    Must,
		Requires: "permission checked for type and arguments",
		Section:  "Authorization",
		Lanes:    "poll, push, webhook",
		Unseen:   "needs a deliberate step: a principal without permission",
		Check:    "subscribes to what --denied names: Forbidden",
	},
	AuthzDeliveryTimeReverify: {
		Name:     "authz-delivery-time-reverify",
		Level:    Should,
		Requires: "permission re-checked from time to time",
		Section:  "Authorization",
		Lanes:    "poll, push, webhook",
		Unseen:   "needs control of the server: a permission that is revoked",
	},
	PayloadMinimality: {
		Name:     "payload-minimality",
		Level:    Should,
		Requires: "payloads small, ids and triage only",
		Section:  "Authorization",
		Lanes:    "poll, push, webhook",
		Unseen:   "a judgement for people",
	},
}
