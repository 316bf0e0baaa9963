package refserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// The revisions of MCP Events that a server can speak, see [Options.Revision].
// Requests are read in every spelling, whatever the revision.
const (
	// RevisionSEP3415 is the SEP's draft of 2026-10-08, the newest text whose
	// wording is known.
	RevisionSEP3415 = "sep-3415"
	// RevisionSketch is the design sketch of September 2026, which many servers
	// and clients speak.
	RevisionSketch = "sketch"
	// RevisionLongPoll is the sketch with the long polls of a side branch that
	// was not merged.
	RevisionLongPoll = "longpoll"
	// RevisionOlder is the sketch as it was before May 2026.
	RevisionOlder = "older"
)

// What the webhook-id of an event names, see [Options.WebhookID].
const (
	// WebhookIDEvent: the event, so that it equals the eventId.
	WebhookIDEvent = "event"
	// WebhookIDMessage: the message, one for all of its attempts.
	WebhookIDMessage = "message"
)

// rules are what distinguishes one revision of MCP Events from the others. A
// nil *rules belongs to a system other than MCP Events.
type rules struct {
	// codes are the numbers of the named errors.
	codes map[errorName]int
	// extension says that the capability stands among the extensions, beside
	// its older place.
	extension bool
	// complete says that results have a result type, and that the final result
	// of a stream names its subscription.
	complete bool
	// optIn says that changes of the event types are sent only where a client
	// asked for them (eventsListChanged).
	optIn bool
	// longPoll says that a poll may wait (timeoutMs).
	longPoll bool
	// older says that the spellings of the older sketch are sent: deliveryModes,
	// nextPollSeconds, requestId, X-MCP-Signature. A cursor that is too old is an
	// error (CursorExpired) and no gap, the server grants its own time to live,
	// no callback is challenged, and an id that the client made is the
	// subscription's.
	older bool
}

// The errors that have a name in MCP Events. Their numbers differ between
// revisions.
type errorName uint8

const (
	unnamed errorName = iota
	eventNotFound
	subscriptionNotFound
	accessForbidden
	resourceExhausted
	notSupported
	callbackFailed
	cursorExpired // of the older revision only
)

var (
	sketchCodes = map[errorName]int{
		eventNotFound: -32011, subscriptionNotFound: -32011, accessForbidden: -32012, resourceExhausted: -32013,
		notSupported: -32014, callbackFailed: -32015,
	}
	rulesByRevision = map[string]*rules{
		RevisionSEP3415: {
			codes: map[errorName]int{
				eventNotFound: -32023, subscriptionNotFound: -32023, accessForbidden: -32024, resourceExhausted: -32025,
				notSupported: -32026, callbackFailed: -32027,
			},
			extension: true, complete: true, optIn: true,
		},
		RevisionSketch:   {codes: sketchCodes},
		RevisionLongPoll: {codes: sketchCodes, longPoll: true},
		// The list of these numbers that is known has none for a delivery mode:
		// it gets the last of their range.
		RevisionOlder: {
			codes: map[errorName]int{
				eventNotFound: -32011, accessForbidden: -32012, resourceExhausted: -32013, callbackFailed: -32015,
				subscriptionNotFound: -32016, notSupported: -32017, cursorExpired: -32014,
			},
			older: true,
		},
	}
)

// rulesOf returns the rules of a method, nil if it does not belong to MCP
// Events.
func (s *Server) rulesOf(method string) *rules {
	if strings.HasPrefix(method, eventsPrefix) {
		return s.rules
	}
	return nil
}

// spellsOlder reports whether the older spellings are sent.
func (d *rules) spellsOlder() bool { return d != nil && d.older }

// spell returns an error with the number that the rules give it.
func (d *rules) spell(e *rpcError) *rpcError {
	if d == nil || e.name == unnamed {
		return e
	}
	spelled := *e
	spelled.Code = d.codes[e.name]
	return &spelled
}

// JSON-RPC error codes: the standard ones and those of the base protocol.
const (
	codeParse              = -32700
	codeInvalidRequest     = -32600
	codeMethodNotFound     = -32601
	codeInvalidParams      = -32602
	codeInternal           = -32603
	codeHeaderMismatch     = -32020
	codeUnsupportedVersion = -32022
)

// rpcError is a JSON-RPC error object.
type rpcError struct {
	Code    int    `json:"code"` // of a named error: the sketch's, which systems other than MCP Events share
	Message string `json:"message"`
	Data    any    `json:"data,omitempty"`

	name errorName
}

// Error implements error.
func (e *rpcError) Error() string { return fmt.Sprintf("%d %s", e.Code, e.Message) }

func named(name errorName, message string, data any) *rpcError {
	return &rpcError{name: name, Code: sketchCodes[name], Message: message, Data: data}
}

func invalidParams(format string, args ...any) *rpcError {
	return &rpcError{Code: codeInvalidParams, Message: "Invalid params: " + fmt.Sprintf(format, args...)}
}

// internal is an internal error; what follows the standard words, if it is not "".
func internal(what string) *rpcError {
	return &rpcError{Code: codeInternal, Message: "Internal error" + what}
}

func headerMismatch(what string) *rpcError {
	return &rpcError{Code: codeHeaderMismatch, Message: "Header mismatch: " + what}
}

func methodNotFound(method string) *rpcError {
	return &rpcError{Code: codeMethodNotFound, Message: "Method not found: " + method}
}

func noSuchEvent() *rpcError {
	return named(eventNotFound, "Not found", map[string]string{"kind": "event"})
}

func noSuchSubscription() *rpcError {
	return named(subscriptionNotFound, "Not found", map[string]string{"kind": "subscription"})
}

func forbidden(reason string) *rpcError {
	return named(accessForbidden, "Forbidden", map[string]string{"reason": reason})
}

func exhausted(limit string, most int) *rpcError {
	return named(resourceExhausted, "Resource exhausted", map[string]any{"limit": limit, "max": most})
}

func unsupported(feature string, value any) *rpcError {
	return named(notSupported, "Unsupported", map[string]any{"feature": feature, "value": value})
}

// schemaChanged is how a subscription ends whose type was changed in place.
func schemaChanged() *rpcError {
	return named(notSupported, "Unsupported", map[string]any{"feature": "payloadSchema", "reason": "schema_changed"})
}

// expiredCursor is what the older revision answers to a cursor that cannot be
// continued, in place of truncated.
func expiredCursor() *rpcError {
	return &rpcError{name: cursorExpired, Message: "Cursor expired"}
}

func callbackError(reason string) *rpcError {
	return named(callbackFailed, "Callback endpoint error", map[string]string{"reason": reason})
}

// decodeParams decodes params strictly enough to report wrong types. Unknown
// members pass, as JSON-RPC extensions use them.
func decodeParams(params json.RawMessage, into any) *rpcError {
	if len(params) == 0 {
		return invalidParams("params are missing")
	}
	if err := json.Unmarshal(params, into); err != nil {
		if what, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && what.Field != "" {
			// The embedded struct's name is internal, not the wire's.
			return invalidParams("%s is not of type %s", strings.TrimPrefix(what.Field, "eventParams."), what.Type)
		}
		return invalidParams("not an object of the expected shape")
	}
	return nil
}
