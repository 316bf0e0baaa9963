package driver

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

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

// rpcError is the error of a JSON-RPC response that came without a status.
func rpcError(method string, r *wire.RPCError) *callError {
	e := &callError{method: method}
	e.rpc(r)
	return e
}

// rpc makes an error of what a JSON-RPC response said.
func (e *callError) rpc(r *wire.RPCError) {
	e.hasCode, e.code, e.message, e.reason = true, r.Code, errtext.Of(string(r.Message)), reasonOf(r.Data)
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
		e.message += " (limit " + data.Limit
		if data.Max != nil {
			e.message += ", max " + errtext.Of(strconv.FormatInt(*data.Max, 10))
		}
		e.message += ")"
	}
	wait := min(max(data.RetryAfterMs, 0), maxPause.Milliseconds())
	e.retryAfter = max(e.retryAfter, time.Duration(wait)*time.Millisecond)
}

// callError is why a call brought no result. Exactly one of kind, code and
// status says so first: an answer that never came, a JSON-RPC error, or an
// HTTP status.
type callError struct {
	method     string
	kind       string // "timeout", "connection refused", …; "" if there was an answer
	cause      error
	hasCode    bool
	code       int64
	message    errtext.Said
	status     int
	retryAfter time.Duration
	reason     errtext.Said // data.reason, where there was one
	// callback is the address that the target was given to call back at, where
	// it refused that.
	callback string
}

// failure is the short stable word for what went wrong.
func (e *callError) failure() string {
	switch {
	case e == nil:
		return ""
	case e.kind != "":
		return e.kind
	case e.hasCode && e.status != http.StatusTooManyRequests && e.status != http.StatusServiceUnavailable:
		return "rpc " + strconv.FormatInt(e.code, 10)
	}
	return "http " + strconv.Itoa(e.status)
}

func (e *callError) Error() string {
	what := e.failure()
	if e.message != "" {
		what += ": " + line(string(e.message))
	} else if e.cause != nil {
		what += ": " + line(e.cause.Error())
	}
	if e.reason != "" {
		what += " (" + line(string(e.reason)) + ")"
	}
	hint := ""
	switch {
	case e.callback != "":
		hint = ": look at webhook.callback (" + e.callback + "), its certificate (webhook.certFile), the target's private-address rule"
	case errors.Is(e, ErrAuth):
		hint = ": check the token"
	case e.code == codeMethodNotFound:
		hint = ": is this an MCP Events server, and the right URL?"
	case meaning(e.code) == codeNotFound, meaning(e.code) == codeUnsupported:
		hint = ": compare with what events/list offers"
	case errors.Is(e.cause, errUnheard): // it says itself what to look at
	case e.kind == kindEnded: // the cause says how
	case errors.Is(e, ErrUnreachable):
		hint = ": is the server up, and the URL right?"
	}
	return e.method + ": " + what + hint
}

// quote adds the first line of an answer that holds no JSON-RPC message. The
// secrets of the URL that was asked stay out of it.
func (e *callError) quote(body []byte, asked *url.URL) {
	said := errtext.FirstLine(body)
	if e.hasCode || said == "" || said == "{}" || said == "[]" {
		return
	}
	if e.message != "" {
		e.message += ": "
	}
	e.message += errtext.Of(errtext.Hide(said, asked))
}

// Unwrap gives the sentinel and the cause.
func (e *callError) Unwrap() []error {
	if e.cause != nil {
		return []error{e.sentinel(), e.cause}
	}
	return []error{e.sentinel()}
}

func (e *callError) sentinel() error {
	switch {
	case e.kind == kindProtocol, e.kind == kindOversized:
		return ErrProtocol
	case e.kind != "":
		return ErrUnreachable
	case e.status == http.StatusUnauthorized || e.status == http.StatusForbidden:
		return ErrAuth
	case e.status == http.StatusTooManyRequests || e.status == http.StatusServiceUnavailable:
		return ErrThrottled
	case !e.hasCode && e.status == http.StatusNotFound:
		return ErrNotOffered
	case !e.hasCode:
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

// final tells whether asking again would bring the same answer: the
// subscription is over then.
func (e *callError) final() bool {
	return e.kind == kindEnded || errors.Is(e, ErrAuth) || errors.Is(e, ErrNotOffered) || errors.Is(e, ErrInvalid)
}

// gone tells whether the target says that there is no such subscription any
// more, or none for this principal.
func (e *callError) gone() bool {
	return e.hasCode && (meaning(e.code) == codeNotFound || meaning(e.code) == codeForbidden)
}

// blame notes the callback that the target was given, where the error is about
// that.
func (e *callError) blame(callback string) {
	if e == nil {
		return
	}
	text := strings.ToLower(string(e.message + " " + e.reason))
	if e.hasCode && (meaning(e.code) == codeCallback || e.code == codeInvalidParams && (strings.Contains(text, "url") || strings.Contains(text, "callback") || strings.Contains(text, "uri"))) {
		e.callback = callback
	}
}

// throttled tells whether the target asked to come back later. The draft has no
// rule for ResourceExhausted but its meaning: a limit of the server, which may
// have room again. So it is asked again after a wait, like 429 and 503.
func (e *callError) throttled() bool {
	return e.hasCode && meaning(e.code) == codeExhausted || e.status == http.StatusTooManyRequests || e.status == http.StatusServiceUnavailable
}

// codeNoResource is what the base protocol answers where a resource is not known.
const codeNoResource = -32002

// forgotten tells whether an answer to a request with a session id says that
// the server no longer knows the session: 404, whatever the body. Servers put
// errors of several codes into it, which are none that a method answers with;
// those of methods come with 404, too.
func (e *callError) forgotten() bool {
	if e == nil || e.status != http.StatusNotFound {
		return false
	}
	if !e.hasCode {
		return true
	}
	switch meaning(e.code) {
	case codeMethodNotFound, codeInvalidParams, codeNoResource,
		codeNotFound, codeForbidden, codeExhausted, codeUnsupported, codeCallback:
		return false
	}
	return true
}

// passing tells whether an error that ended a subscription names a state that
// passes, so that coming back is worth it.
func passing(code int64) bool { return meaning(code) == codeExhausted || code == codeInternal }

// kindProtocol is the failure word for an answer that cannot be read.
const kindProtocol = "malformed"

// kind names an error of the transport.
func kind(err error) string {
	var timeout interface{ Timeout() bool }
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	var dns *net.DNSError
	switch {
	case oversize(err) != "":
		return kindOversized
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

// line makes one short line of what a target or a library said.
func line(s string) string {
	s = s[:min(len(s), 4<<10)]
	s = strings.Join(strings.Fields(errtext.Plain(s)), " ")
	if len(s) > 200 {
		s = strings.ToValidUTF8(s[:200], "") + "…"
	}
	return s
}

// notConfirmed is why an attach failed whose time was up.
func notConfirmed(err *callError, cause error) error {
	if err != nil {
		return fmt.Errorf("%w (and the time was up)", err)
	}
	return fmt.Errorf("no confirmation came in time: %w: raise the ready phase or look at the target: %w", ErrUnreachable, cause)
}

// reasonOf is the member reason of an error's data; empty if there is none.
func reasonOf(data []byte) errtext.Said {
	var d struct {
		Reason errtext.Said `json:"reason"`
	}
	_ = json.Unmarshal(data, &d) // anything else gives none
	return d.Reason
}
