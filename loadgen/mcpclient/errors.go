package mcpclient

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/eventmeter/eventmeter/internal/budget"
	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/internal/wire"
)

// The errors that callers distinguish. Every error of a call wraps one of them.
var (
	// ErrUnreachable: no answer came (connection, TLS, timeout).
	ErrUnreachable = errors.New("the target cannot be reached")
	// ErrAuth: HTTP 401 or 403, or the draft's Forbidden (-32012, -32024).
	ErrAuth = errors.New("the target does not let this principal in")
	// ErrNotOffered: the target has no such method, event type or mode.
	ErrNotOffered = errors.New("the target does not offer this")
	// ErrInvalid: the target refuses the parameters (-32602, or -32015 and -32027
	// for a callback).
	ErrInvalid = errors.New("the target refuses the parameters")
	// ErrThrottled: 429, 503 or the draft's ResourceExhausted (-32013, -32025),
	// until the time to try again was over.
	ErrThrottled = errors.New("the target has no room")
	// ErrProtocol: the answer violates the protocol.
	ErrProtocol = errors.New("the target's answer cannot be understood")
	// ErrServer: the target answered with any other error.
	ErrServer = errors.New("the target answered with an error")
	// ErrState: the call does not fit the subscription's state.
	ErrState = errors.New("the subscription is not in a state for this")
)

// Error codes of JSON-RPC and of the MCP Events draft. Each of the draft's has a second
// number: see meaning.
const (
	codeInvalidRequest = -32600
	codeMethodNotFound = -32601
	codeInvalidParams  = -32602
	codeInternal       = -32603
	codeNotFound       = -32011
	codeForbidden      = -32012
	codeExhausted      = -32013
	codeUnsupported    = -32014
	codeCallback       = -32015
)

// meaning returns the code to compare an error code as. The draft moved its codes from
// -32011…-32015 to -32023…-32027, calls both provisional, and servers send either.
func meaning(code int64) int64 {
	const moved = -32023 - codeNotFound
	if code <= codeNotFound+moved && code >= codeCallback+moved {
		return code - moved
	}
	return code
}

// In makes the error's code mean what it means in revision r, and returns the error.
func (e *CallError) In(r Revision) *CallError {
	if e != nil && r == Older && e.HasCode {
		e.older = true
	}
	return e
}

// In the revision older two codes mean something else: -32014 is a cursor that is too
// old for a replay (CursorExpired), -32016 an unknown subscription, which is NotFound in
// later revisions. Neither ends a subscription: the client subscribes again.
const (
	codeCursorExpired  = -32014
	codeNoSubscription = -32016
)

// meaning returns the code to compare the error's code as; 0 = the code has a meaning
// only in the revision older.
func (e *CallError) meaning() int64 {
	if e.older && (e.code == codeCursorExpired || e.code == codeNoSubscription) {
		return 0
	}
	return meaning(e.code)
}

// Expired reports whether the target cannot go on from the cursor that it was given,
// which only the revision older answers with an error.
func (e *CallError) Expired() bool { return e != nil && e.older && e.code == codeCursorExpired }

// RPCError is the error of a JSON-RPC response that came without a status.
func RPCError(method string, r *wire.RPCError) *CallError {
	e := &CallError{Method: method}
	e.rpc(r)
	return e
}

// rpc sets the fields that come from a JSON-RPC error.
func (e *CallError) rpc(r *wire.RPCError) {
	e.HasCode, e.code, e.Message, e.reason = true, r.Code, errtext.Of(string(r.Message)), reasonOf(r.Data)
	if supported := supportedOf(r.Data); e.code == codeUnsupportedVersion && len(supported) > 0 {
		e.reason = errtext.Of("supported: " + strings.Join(plain(supported), ", "))
	}
	if meaning(e.code) != codeExhausted {
		return
	}
	// The limit that was reached, and the wait that some servers ask for. Data of
	// another form is ignored.
	var data struct {
		Limit        errtext.Said `json:"limit"`
		Max          *int64       `json:"max"`
		RetryAfterMs int64        `json:"retryAfterMs"`
	}
	if json.Unmarshal(r.Data, &data) != nil {
		return
	}
	if data.Limit != "" {
		e.Message += " (limit " + data.Limit
		if data.Max != nil {
			e.Message += ", max " + errtext.Of(strconv.FormatInt(*data.Max, 10))
		}
		e.Message += ")"
	}
	wait := min(max(data.RetryAfterMs, 0), maxPause.Milliseconds())
	e.RetryAfter = max(e.RetryAfter, time.Duration(wait)*time.Millisecond)
}

// CallError is why a call has no result. It is, in this order of precedence, an answer
// that never came or could not be read (Kind), a JSON-RPC error (HasCode), or an HTTP
// status (Status).
type CallError struct {
	Method     string
	Kind       string // "timeout", "connection refused", …; "" if there was an answer
	Cause      error
	HasCode    bool
	older      bool // the code is of the revision older
	code       int64
	Message    errtext.Said
	Status     int
	RetryAfter time.Duration
	reason     errtext.Said // data.reason, if there was one
	// callback is the callback address that the target refused; "" = none.
	callback string
	// oauth is the error code of a token endpoint. denied is true if the token
	// endpoint will give the principal no more tokens.
	oauth  string
	denied bool
	down   int64 // bytes of a refusal that was not reported
}

// of sets the method of an error and returns the error.
func (e *CallError) of(method string) *CallError {
	e.Method = method
	return e
}

// methodToken names a request for a token in reports and errors.
const methodToken = "oauth/token"

// NoToken reports whether no request was made because the principal could get no token.
func (e *CallError) NoToken() bool { return e != nil && e.Method == methodToken }

// Failure returns a short stable text for what went wrong, such as "timeout", "rpc
// -32601" or "http 500"; "" if e is nil.
func (e *CallError) Failure() string {
	switch {
	case e == nil:
		return ""
	case e.Kind != "":
		return e.Kind
	case e.HasCode && e.Status != http.StatusTooManyRequests && e.Status != http.StatusServiceUnavailable:
		return "rpc " + strconv.FormatInt(e.code, 10)
	}
	return strings.TrimSpace("http " + strconv.Itoa(e.Status) + " " + e.oauth)
}

// text returns the method and what went wrong, without a hint how to mend it.
func (e *CallError) text() string {
	what := e.Failure()
	if e.Message != "" {
		what += ": " + errtext.Line(string(e.Message))
	} else if e.Cause != nil {
		what += ": " + errtext.Line(e.Cause.Error())
	}
	if e.reason != "" {
		what += " (" + errtext.Line(string(e.reason)) + ")"
	}
	return e.Method + ": " + what
}

func (e *CallError) Error() string {
	hint := ""
	switch {
	case e.callback != "":
		hint = ": look at webhook.callback (" + e.callback + "), its certificate (webhook.certFile), the target's private-address rule"
	case e.NoToken():
		hint = ": " + cmp.Or(errtext.WayOut(e.Cause), "check target.oauth")
	case errors.Is(e, ErrAuth):
		hint = ": check the token"
	case e.code == codeMethodNotFound:
		hint = ": is this an MCP Events server, and the right URL?"
	case e.meaning() == codeNotFound, e.meaning() == codeUnsupported:
		hint = ": compare with what events/list offers"
	case errors.Is(e.Cause, ErrSilentFromStart): // its text says what to look at
	case e.Kind == KindEnded: // the cause says how
	case e.Kind == KindSession: // the server is up
	case errors.Is(e, ErrUnreachable):
		hint = ": " + wayOut(e.Cause)
	}
	return e.text() + hint
}

// wayOut returns what mends that the target cannot be reached because of err.
func wayOut(err error) string {
	return cmp.Or(errtext.WayOut(err), "is the server up, and the URL right?")
}

// quote adds the first line of an answer that has no JSON-RPC error, without the secrets
// of the URL that the request was sent to.
func (e *CallError) quote(body []byte, asked *url.URL) {
	said := errtext.FirstLine(body)
	if e.HasCode || said == "" || said == "{}" || said == "[]" {
		return
	}
	if e.Message != "" {
		e.Message += ": "
	}
	e.Message += errtext.Of(errtext.Hide(said, asked))
}

// Unwrap returns the sentinel, such as ErrAuth, and the cause, if there is one.
func (e *CallError) Unwrap() []error {
	if e.Cause != nil {
		return []error{e.sentinel(), e.Cause}
	}
	return []error{e.sentinel()}
}

func (e *CallError) sentinel() error {
	switch {
	case e.denied:
		return ErrAuth
	case e.Kind == KindProtocol, e.Kind == KindOversized:
		return ErrProtocol
	case e.Kind != "":
		return ErrUnreachable
	case e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden:
		return ErrAuth
	case e.Status == http.StatusTooManyRequests || e.Status == http.StatusServiceUnavailable:
		return ErrThrottled
	case !e.HasCode && e.Status == http.StatusNotFound:
		return ErrNotOffered
	case !e.HasCode:
		return ErrServer
	}
	switch e.meaning() {
	case codeForbidden:
		return ErrAuth
	case codeMethodNotFound, codeNotFound, codeUnsupported:
		return ErrNotOffered
	case codeInvalidParams, codeCallback:
		return ErrInvalid
	case codeExhausted:
		return ErrThrottled
	}
	return ErrServer
}

// Final reports whether a repeated request would fail in the same way. The subscription
// is then over.
func (e *CallError) Final() bool {
	return e.Kind == KindEnded || errors.Is(e, ErrAuth) || errors.Is(e, ErrNotOffered) || errors.Is(e, ErrInvalid)
}

// Code returns the code of the JSON-RPC error; false if there was none.
func (e *CallError) Code() (code int64, ok bool) { return e.code, e.HasCode }

// Meaning returns the name that MCP Events gives to the code, in either of its two sets
// of numbers; "" if it has none.
func (e *CallError) Meaning() string {
	switch {
	case !e.HasCode:
		return ""
	case e.Expired():
		return "CursorExpired"
	case e.older && e.code == codeNoSubscription:
		return "NotFound"
	}
	return meanings[e.meaning()]
}

var meanings = map[int64]string{
	codeNotFound: "NotFound", codeForbidden: "Forbidden", codeExhausted: "ResourceExhausted",
	codeUnsupported: "Unsupported", codeCallback: "CallbackEndpointError",
}

// Gone reports whether the target says that the subscription does not exist, or not for
// this principal.
func (e *CallError) Gone() bool {
	return e.HasCode && (e.meaning() == codeNotFound || e.meaning() == codeForbidden || e.older && e.code == codeNoSubscription)
}

// Blame adds the callback that the target was given to the error, if the error is about
// the callback.
func (e *CallError) Blame(callback string) {
	if e == nil {
		return
	}
	text := strings.ToLower(string(e.Message + " " + e.reason))
	if e.HasCode &&
		(meaning(e.code) == codeCallback || e.code == codeInvalidParams &&
			(strings.Contains(text, "url") || strings.Contains(text, "callback") || strings.Contains(text, "uri"))) {
		e.callback = callback
	}
}

// Throttled reports whether the request is to be repeated later: the answer is 429, 503
// or ResourceExhausted. The draft has no rule for the last one but its meaning, a limit
// of the server, which may have room again.
func (e *CallError) Throttled() bool {
	return e.HasCode && meaning(e.code) == codeExhausted || e.Status == http.StatusTooManyRequests ||
		e.Status == http.StatusServiceUnavailable
}

// codeNoResource is the base protocol's code for an unknown resource.
const codeNoResource = -32002

// Forgotten reports whether the answer to a request with a session id says that the
// server no longer knows the session: status 404 without a JSON-RPC error, or with a code
// that is not an error of a method. Servers use several codes for a lost session, and 404
// for errors of methods, too.
func (e *CallError) Forgotten() bool {
	if e == nil || e.Status != http.StatusNotFound {
		return false
	}
	if !e.HasCode {
		return true
	}
	switch meaning(e.code) {
	case codeMethodNotFound, codeInvalidParams, codeNoResource,
		codeNotFound, codeForbidden, codeExhausted, codeUnsupported, codeCallback:
		return false
	}
	return true
}

// Passing reports whether the cause of an error code that ended a subscription passes
// with time, so that the client should subscribe again.
func Passing(code int64) bool { return meaning(code) == codeExhausted || code == codeInternal }

// Values of CallError.Kind.
const (
	// KindProtocol: the answer cannot be understood.
	KindProtocol = "malformed"
	// KindSession: the server no longer knows the session.
	KindSession = "session lost"
)

// SessionLost returns the error of a call in a session that the server no longer knows.
func SessionLost(method string) *CallError {
	return &CallError{Method: method, Kind: KindSession}
}

// KindOf returns the CallError.Kind for an error of the transport.
func KindOf(err error) string {
	var timeout interface{ Timeout() bool }
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	var dns *net.DNSError
	switch {
	case oversize(err) != "":
		return KindOversized
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return "timeout"
	case errors.Is(err, context.Canceled):
		return "canceled"
	case isRefused(err):
		return "connection refused"
	case isReset(err):
		return "reset"
	case errors.As(err, &dns):
		return "dns"
	case errors.As(err, &unknown), errors.As(err, &host), errors.As(err, &invalid), errors.As(err, &record), errors.As(err, &alert),
		strings.Contains(err.Error(), "tls: "):
		return "tls"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "eof"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "timeout"
	}
	return "transport"
}

// retryAfter reads a Retry-After header, in seconds or as a date; 0 if there
// is none.
func retryAfter(h http.Header, now time.Time) time.Duration {
	v := strings.TrimSpace(h.Get("Retry-After"))
	if v == "" {
		return 0
	}
	if s, err := strconv.ParseUint(v, 10, 31); err == nil {
		return time.Duration(s) * time.Second
	}
	if t, err := http.ParseTime(v); err == nil {
		return max(t.Sub(now), 0)
	}
	return 0
}

// codeUnsupportedVersion is the base protocol's code for a version that the server does
// not speak.
const codeUnsupportedVersion = -32022

// supportedOf returns the versions that an error's data name.
func supportedOf(data []byte) []errtext.Said {
	var d struct {
		Supported []errtext.Said `json:"supported"`
	}
	_ = json.Unmarshal(data, &d) // anything else gives none
	return d.Supported
}

// reasonOf returns the member reason of an error's data, "" if there is none.
func reasonOf(data []byte) errtext.Said {
	var d struct {
		Reason errtext.Said `json:"reason"`
	}
	_ = json.Unmarshal(data, &d) // anything else gives none
	return d.Reason
}

// ErrSilentFromStart is the cause of a timeout before a stream's first message. A proxy
// that buffers delays even the head of the answer until its buffer is full.
var ErrSilentFromStart = errors.New(
	"nothing came for twice the heartbeat interval: the server does not confirm the stream, or a proxy on the path buffers it",
)

// KindOversized is the CallError.Kind of an answer or a stream that was given up because
// it would have taken too much memory.
const KindOversized = "oversized"

const (
	// MaxCursor bounds cursors and ids that are kept and sent back, in bytes.
	MaxCursor = 8 << 10
	// MaxListBytes and MaxListEntries bound all pages of a list. Entries are bounded,
	// too, because a short one takes more memory than its text.
	MaxListBytes, MaxListEntries = 16 << 20, 50_000
	// MaxPages bounds the pages of a list: a server whose cursor never ends is
	// broken.
	MaxPages = 1000
	// MaxPageStamps bounds the probe ids that are kept of one page.
	MaxPageStamps = 4096
)

// The causes of errors with KindOversized, beside those of packages wire and budget.
var (
	ErrCursor = errors.New("a cursor is larger than 8 KiB")
	ErrID     = errors.New("a subscription id is larger than 8 KiB")
	ErrList   = errors.New("a list has more than 16 MiB or 50,000 entries")
	ErrStamps = errors.New("a page has more than 4,096 probe ids")
)

// oversize returns what was too large, as one of a few stable texts; "" for any other
// error.
func oversize(err error) string {
	for _, e := range []error{
		budget.ErrExceeded, wire.ErrTooLarge, wire.ErrFieldTooLarge, ErrCursor, ErrID, ErrList, ErrStamps, errHandshake,
	} {
		if errors.Is(err, e) {
			return e.Error()
		}
	}
	return ""
}

// KindEnded is the CallError.Kind for a server that is a program and has ended.
const KindEnded = "server ended"

// maxPause bounds the wait that a server can ask for.
const maxPause = time.Hour
