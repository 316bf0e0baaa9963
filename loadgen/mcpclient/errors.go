package mcpclient

import (
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

// What callers branch on. Every error of this package that came from a call
// wraps one of them.
var (
	// ErrUnreachable: no answer came (connection, TLS, timeout).
	ErrUnreachable = errors.New("the target cannot be reached")
	// ErrAuth: HTTP 401 or 403, or the draft's Forbidden (-32012, -32024).
	ErrAuth = errors.New("the target does not let this principal in")
	// ErrNotOffered: the target has no such method, event type or mode.
	ErrNotOffered = errors.New("the target does not offer this")
	// ErrInvalid: the target will not take these parameters (-32602, or
	// -32015 and -32027 for a callback).
	ErrInvalid = errors.New("the target refuses the parameters")
	// ErrThrottled: 429, 503 or the draft's ResourceExhausted (-32013, -32025)
	// until the time was up.
	ErrThrottled = errors.New("the target has no room")
	// ErrProtocol: the answer is not what the protocol has.
	ErrProtocol = errors.New("the target's answer cannot be understood")
	// ErrServer: any other error that the target answered.
	ErrServer = errors.New("the target answered with an error")
	// ErrState: the call does not fit the subscription's state.
	ErrState = errors.New("the subscription is not in a state for this")
)

// Error codes of JSON-RPC and of the MCP Events draft, which gives its own two
// numbers each: see meaning.
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

// meaning is the number by which an error code is compared. The draft moved its
// codes from -32011…-32015 to -32023…-32027, calls both provisional, and servers
// send either.
func meaning(code int64) int64 {
	const moved = -32023 - codeNotFound
	if code <= codeNotFound+moved && code >= codeCallback+moved {
		return code - moved
	}
	return code
}

// RPCError is the error of a JSON-RPC response that came without a status.
func RPCError(method string, r *wire.RPCError) *CallError {
	e := &CallError{Method: method}
	e.rpc(r)
	return e
}

// rpc makes an error of what a JSON-RPC response said.
func (e *CallError) rpc(r *wire.RPCError) {
	e.HasCode, e.code, e.Message, e.reason = true, r.Code, errtext.Of(string(r.Message)), reasonOf(r.Data)
	if supported := supportedOf(r.Data); e.code == codeUnsupportedVersion && len(supported) > 0 {
		e.reason = errtext.Of("supported: " + strings.Join(plain(supported), ", "))
	}
	if meaning(e.code) != codeExhausted {
		return
	}
	// Which limit was met, and the wait that some servers ask for. What is odd
	// counts as absent.
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

// CallError is why a call brought no result. Exactly one of kind, code and
// status says so first: an answer that never came, a JSON-RPC error, or an
// HTTP status.
type CallError struct {
	Method     string
	Kind       string // "timeout", "connection refused", …; "" if there was an answer
	Cause      error
	HasCode    bool
	code       int64
	Message    errtext.Said
	Status     int
	RetryAfter time.Duration
	reason     errtext.Said // data.reason, where there was one
	// callback is the address that the target was given to call back at, where
	// it refused that.
	callback string
	// oauth is the error code of a token endpoint, denied says that it lets the
	// principal in no more.
	oauth  string
	denied bool
	down   int64 // bytes of a refusal that was not reported
}

// of names the method of an error that has none.
func (e *CallError) of(method string) *CallError {
	e.Method = method
	return e
}

// methodToken names a request for a token in reports and errors.
const methodToken = "oauth/token"

// NoToken tells whether there was no request, because the principal has no token
// and gets none.
func (e *CallError) NoToken() bool { return e != nil && e.Method == methodToken }

// Failure is the short stable word for what went wrong.
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

func (e *CallError) Error() string {
	what := e.Failure()
	if e.Message != "" {
		what += ": " + errtext.Line(string(e.Message))
	} else if e.Cause != nil {
		what += ": " + errtext.Line(e.Cause.Error())
	}
	if e.reason != "" {
		what += " (" + errtext.Line(string(e.reason)) + ")"
	}
	hint := ""
	switch {
	case e.callback != "":
		hint = ": look at webhook.callback (" + e.callback + "), its certificate (webhook.certFile), the target's private-address rule"
	case e.NoToken():
		hint = ": check target.oauth"
	case errors.Is(e, ErrAuth):
		hint = ": check the token"
	case e.code == codeMethodNotFound:
		hint = ": is this an MCP Events server, and the right URL?"
	case meaning(e.code) == codeNotFound, meaning(e.code) == codeUnsupported:
		hint = ": compare with what events/list offers"
	case errors.Is(e.Cause, ErrSilentFromStart): // it says itself what to look at
	case e.Kind == KindEnded: // the cause says how
	case errors.Is(e, ErrUnreachable):
		hint = ": is the server up, and the URL right?"
	}
	return e.Method + ": " + what + hint
}

// quote adds the first line of an answer that holds no JSON-RPC message. The
// secrets of the URL that was asked stay out of it.
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

// Unwrap gives the sentinel and the cause.
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
	switch meaning(e.code) {
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

// Final tells whether asking again would bring the same answer: the
// subscription is over then.
func (e *CallError) Final() bool {
	return e.Kind == KindEnded || errors.Is(e, ErrAuth) || errors.Is(e, ErrNotOffered) || errors.Is(e, ErrInvalid)
}

// Code is the number of the JSON-RPC error; false where there was none.
func (e *CallError) Code() (code int64, ok bool) { return e.code, e.HasCode }

// Meaning is the name that MCP Events gives to the code, in either of its two sets
// of numbers; "" where it has none.
func (e *CallError) Meaning() string {
	if !e.HasCode {
		return ""
	}
	return meanings[meaning(e.code)]
}

var meanings = map[int64]string{
	codeNotFound: "NotFound", codeForbidden: "Forbidden", codeExhausted: "ResourceExhausted",
	codeUnsupported: "Unsupported", codeCallback: "CallbackEndpointError",
}

// Gone tells whether the target says that there is no such subscription any
// more, or none for this principal.
func (e *CallError) Gone() bool {
	return e.HasCode && (meaning(e.code) == codeNotFound || meaning(e.code) == codeForbidden)
}

// Blame notes the callback that the target was given, where the error is about
// that.
func (e *CallError) Blame(callback string) {
	if e == nil {
		return
	}
	text := strings.ToLower(string(e.Message + " " + e.reason))
	if e.HasCode && (meaning(e.code) == codeCallback || e.code == codeInvalidParams && (strings.Contains(text, "url") || strings.Contains(text, "callback") || strings.Contains(text, "uri"))) {
		e.callback = callback
	}
}

// Throttled tells whether the target asked to come back later. The draft has no
// rule for ResourceExhausted but its meaning: a limit of the server, which may
// have room again. So it is asked again after a wait, like 429 and 503.
func (e *CallError) Throttled() bool {
	return e.HasCode && meaning(e.code) == codeExhausted || e.Status == http.StatusTooManyRequests || e.Status == http.StatusServiceUnavailable
}

// codeNoResource is what the base protocol answers where a resource is not known.
const codeNoResource = -32002

// Forgotten tells whether an answer to a request with a session id says that
// the server no longer knows the session: 404, whatever the body. Servers put
// errors of several codes into it, which are none that a method answers with;
// those of methods come with 404, too.
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

// Passing tells whether an error that ended a subscription names a state that
// passes, so that coming back is worth it.
func Passing(code int64) bool { return meaning(code) == codeExhausted || code == codeInternal }

// Failure words: for an answer that cannot be read, and for a session that the
// server has forgotten.
const (
	KindProtocol = "malformed"
	KindSession  = "session lost"
)

// KindOf names an error of the transport.
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

// reasonOf is the member reason of an error's data; empty if there is none.
// codeUnsupportedVersion is what the base protocol answers to a version that the
// server does not have.
const codeUnsupportedVersion = -32022

// supportedOf are the versions that an error names.
func supportedOf(data []byte) []errtext.Said {
	var d struct {
		Supported []errtext.Said `json:"supported"`
	}
	_ = json.Unmarshal(data, &d) // anything else gives none
	return d.Supported
}

func reasonOf(data []byte) errtext.Said {
	var d struct {
		Reason errtext.Said `json:"reason"`
	}
	_ = json.Unmarshal(data, &d) // anything else gives none
	return d.Reason
}

// ErrSilentFromStart is the same before its first message. A proxy that buffers keeps
// even the head of the answer until its buffer is full.
var ErrSilentFromStart = errors.New("nothing came for twice the heartbeat interval: the server does not confirm the stream, or a proxy on the path buffers it")

// KindOversized is the failure word for an answer or a stream that was given up
// because it would have taken too much memory.
const KindOversized = "oversized"

const (
	// MaxCursor bounds cursors and ids that are kept and sent back.
	MaxCursor = 8 << 10
	// MaxListBytes and maxListEntries bound a list, all pages of it. An entry
	// takes more memory than text.
	MaxListBytes, MaxListEntries = 16 << 20, 50_000
	// MaxPages bounds the pages of a list: a server whose cursor never ends is
	// broken.
	MaxPages = 1000
	// MaxPageStamps bounds the probe ids that are kept of one page.
	MaxPageStamps = 4096
)

var (
	ErrCursor = errors.New("a cursor is larger than 8 KiB")
	ErrID     = errors.New("a subscription id is larger than 8 KiB")
	ErrList   = errors.New("a list has more than 16 MiB or 50,000 entries")
	ErrStamps = errors.New("a page has more than 4,096 probe ids")
)

// oversize tells what was too large, in a few stable words; "" for errors of
// other kinds.
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

// KindEnded is the failure word for a server that is gone.
const KindEnded = "server ended"

// maxPause bounds what a server's word can keep a stream away.
const maxPause = time.Hour
