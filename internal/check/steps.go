package check

import (
	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/conform"
)

type rows = []conform.ID

// Steps are all steps.
var Steps = []Step{
	{Name: "list of event types", do: list, Rows: rows{
		conform.ListImplemented, conform.ListPagination, conform.DescriptorName, conform.DescriptorDescription,
		conform.DescriptorDeliverySubset, conform.DescriptorInputSchema, conform.DescriptorPayloadSchema, conform.DescriptorMeta}},
	{Name: "unknown event by poll", Mode: eventmeter.Poll, do: unknownPoll,
		Rows: rows{conform.RemovalPollNotFound, conform.ErrorNotFound, conform.PollErrorsAreJSONRPC}},
	{Name: "unknown event by stream", Mode: eventmeter.Push, do: unknownStream,
		Rows: rows{conform.StreamErrorBeforeOpen}},
	{Name: "invalid arguments", Mode: eventmeter.Poll, do: invalidArguments,
		Rows: rows{conform.PollInvalidArguments, conform.ErrorInvalidParams}},
	{Name: "mode that a type lacks", do: unsupportedMode,
		Rows: rows{conform.PollModeUnsupported, conform.ErrorUnsupported}},
	{Name: "no cursor by poll", Mode: eventmeter.Poll, do: absentCursorPoll,
		Rows: rows{conform.CursorAbsentEqualsNull, conform.CursorNullStartsFromNow}},
	{Name: "no cursor by webhook", Mode: eventmeter.Webhook, do: absentCursorWebhook,
		Rows: rows{conform.CursorAbsentEqualsNull}},
	{Name: "stale cursor", Mode: eventmeter.Poll, do: staleCursor,
		Rows: rows{conform.TruncatedPollNeverAnError, conform.TruncatedReturnsFreshCursor}},
	{Name: "replay", Mode: eventmeter.Poll, Events: true, do: replay,
		Rows: rows{conform.PollBootstrapsSubscription, conform.PollStatelessRequest, conform.PollMaxEventsCap, conform.PollHasMore,
			conform.CursorAbsentEqualsNull, conform.CursorNullStartsFromNow}},
	{Name: "maxAgeMs", Mode: eventmeter.Poll, Events: true, do: maxAge,
		Rows: rows{conform.MaxAgeMsFloor, conform.MaxAgeMsSetsTruncated, conform.MaxAgeMsIgnoredWhenCursorNull}},
	{Name: "quiet stream", Mode: eventmeter.Push, AtRest: true, do: quietStream,
		Rows: rows{conform.StreamHeartbeatRequired}},
	{Name: "many streams", Mode: eventmeter.Push, do: manyStreams,
		Rows: rows{conform.StreamExemptFromConcurrencyCap}},
	{Name: "what is not permitted", do: denied,
		Rows: rows{conform.AuthzSubscribeTime, conform.ErrorForbidden}},

	{Name: "no token", Mode: eventmeter.Webhook, do: noToken,
		Rows: rows{conform.SubscribeAuthRequired}},
	{Name: "another mode", Mode: eventmeter.Webhook, do: anotherMode,
		Rows: rows{conform.SubscribeWebhookOnly}},
	{
		Name: "bad secrets",
		Mode: eventmeter.Webhook,
		do:   badSecrets,
		Rows: rows{
			conform.SubscribeSecretRequired,
			conform.SubscribeSecretFormat,
			conform.SubscribeSecretRejected,
			conform.ErrorInvalidParams,
		},
	},
	{Name: "http callback", Mode: eventmeter.Webhook, do: httpCallback,
		Rows: rows{conform.SubscribeURLHTTPSRequired, conform.SubscribeURLNonHTTPSRejected, conform.ErrorInvalidParams}},
	{Name: "callbacks that are no URLs", Mode: eventmeter.Webhook, do: malformedCallbacks,
		Rows: rows{conform.SSRFValidateCallbackURL}},
	{Name: "callbacks at private addresses", Mode: eventmeter.Webhook, Hostile: true, do: privateCallbacks,
		Rows: rows{conform.SSRFRejectNonRoutable}},
	{
		Name: "same key again",
		Mode: eventmeter.Webhook,
		do:   sameKey,
		Rows: rows{
			conform.SubscribeIdempotentUpsert,
			conform.SubscribeKeyComposition,
			conform.SubscribeIDDerived,
			conform.SubscribeIDNotAnInput,
			conform.UnsubscribeByKey,
			conform.UnsubscribeUnknownNotFound,
		},
	},
	{Name: "another key", Mode: eventmeter.Webhook, do: anotherKey,
		Rows: rows{conform.SubscribeKeyImmutable}},
	{Name: "two principals", Mode: eventmeter.Webhook, do: twoPrincipals,
		Rows: rows{conform.SubscribeCrossTenantIsolation}},
	{
		Name: "times to live",
		Mode: eventmeter.Webhook,
		do:   timesToLive,
		Rows: rows{
			conform.TTLNoRejectionPath,
			conform.TTLNullOnlyWhenRequested,
			conform.TTLOmittedMeansDefault,
			conform.TTLRefreshBeforeLteSuggestion,
		},
	},

	{
		Name:    "wrong echo",
		Mode:    eventmeter.Webhook,
		Hostile: true,
		do:      wrongEcho,
		Rows: rows{
			conform.VerificationChallengeEcho,
			conform.VerificationFailureError,
			conform.ErrorCallbackEndpointError,
			conform.VerificationRequiredBeforeDelivery,
		},
	},
	{Name: "redirected challenge", Mode: eventmeter.Webhook, Hostile: true, do: redirectedChallenge,
		Rows: rows{conform.VerificationUsesSSRFHardenedPath}},
	{Name: "failed challenge", Mode: eventmeter.Webhook, Hostile: true, do: failedChallenge,
		Rows: rows{conform.VerificationNoRawEndpointResponses}},
	{Name: "refresh", Mode: eventmeter.Webhook, do: refresh,
		Rows: rows{conform.VerificationCachedPerPrincipalURL}},
	{Name: "another secret", Mode: eventmeter.Webhook, Events: true, do: anotherSecret,
		Rows: rows{conform.SubscribeRefreshReplacesSecret, conform.DeliveryDualSignOnRotation}},
	{Name: "answer 410", Mode: eventmeter.Webhook, Events: true, do: answer410,
		Rows: rows{conform.Delivery410NonRetryable}},
	{Name: "answer 413", Mode: eventmeter.Webhook, Events: true, do: answer413,
		Rows: rows{conform.Delivery413NonRetryable}},
	{Name: "redirected delivery", Mode: eventmeter.Webhook, Events: true, Hostile: true, do: redirectedDelivery,
		Rows: rows{conform.SSRFNoRedirects}},
	{Name: "failed delivery", Mode: eventmeter.Webhook, Events: true, do: failedDelivery,
		Rows: rows{
			conform.DeliveryRetryRegeneratesSignature, conform.DeliveryStandardWebhooksHeaders, conform.DeliveryStatusLastErrorCategory}},
}
