package sinks

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// soon is how quickly a sender abandons a connection that it rejects. A connection
// opened in reserve lives longer.
const soon = 2 * time.Second

// The reasons of connections that failed before a request and without a TLS alert
// from the far side.
const (
	plainHTTP     = "the sender spoke plain HTTP to a listener with TLS"
	notTLS        = "the sender did not speak TLS"
	gaveUp        = "the sender closed the connection during the TLS handshake"
	gaveUpAfter   = "the sender closed the connection after the TLS handshake, before a request: it may not trust the certificate"
	handshakeSlow = "the TLS handshake took too long"
)

// TooManyConnections begins the reason of a connection that was closed because
// MaxConnections were open.
const TooManyConnections = "too many connections at once"

// DefaultMaxConnections is the MaxConnections of zero options.
const DefaultMaxConnections = 4096

// ConnectionMemory is the most memory that an open connection takes, in bytes,
// including an incomplete TLS record.
const ConnectionMemory = 64 << 10

// newConn is a connection that has not sent a request.
type newConn struct {
	since   time.Time
	refused bool // closed here, because there were too many
}

// state follows a connection.
func (l *Listener) state(c net.Conn, s http.ConnState) {
	if s == http.StateNew {
		l.accepted.Add(1)
	}
	l.mu.Lock()
	conn, fresh := l.fresh[c]
	switch s {
	case http.StateNew:
		l.open++
		conn = newConn{since: time.Now(), refused: l.open > l.most}
	case http.StateClosed, http.StateHijacked:
		l.open--
	}
	switch {
	case s == http.StateNew && !l.closing:
		l.fresh[c] = conn
	case fresh:
		delete(l.fresh, c)
		l.served = l.served || s == http.StateActive
	}
	served := l.served
	l.mu.Unlock()
	if s == http.StateNew && conn.refused {
		c.Close() // its own goroutine notices, and ends with StateClosed
	}
	if s == http.StateClosed && fresh && l.failed != nil {
		reason := l.failure(c, conn)
		if reason == gaveUpAfter && served {
			// A sender that has made a request trusts the certificate. Go's client
			// closes connections that it no longer needs.
			reason = ""
		}
		if reason != "" {
			l.failed(reason)
		}
	}
}

// failure returns why a connection closed by the server carried no request; empty if
// the sender may just not have needed it.
func (l *Listener) failure(c net.Conn, conn newConn) string {
	if conn.refused {
		return TooManyConnections + ": more than " + strconv.Itoa(l.most)
	}
	age := time.Since(conn.since)
	t, ok := c.(*tls.Conn)
	if !ok {
		return ""
	}
	// The server has made the handshake already; Handshake returns its stored result.
	err := t.Handshake()
	var record tls.RecordHeaderError
	var timeout net.Error
	switch {
	case err == nil && age < soon:
		return gaveUpAfter
	case err == nil:
		return ""
	case errors.As(err, &record):
		if looksLikeHTTP(record.RecordHeader) {
			return plainHTTP
		}
		return notTLS
	case errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return handshakeSlow
	}
	if text := err.Error(); strings.Contains(text, "tls: ") {
		return "TLS handshake: " + text
	}
	return gaveUp // EOF, or a reset
}

// looksLikeHTTP reports whether five bytes begin a request of HTTP/1.1.
func looksLikeHTTP(b [5]byte) bool {
	switch string(b[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "OPTIO":
		return true
	}
	return false
}
