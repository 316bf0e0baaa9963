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

// soon is how quickly a sender gives a connection up that it does not want. One
// that it opened in reserve lives longer.
const soon = 2 * time.Second

// Why a connection failed before it carried a request, where the far side did
// not say it in an alert.
const (
	plainHTTP     = "the sender spoke plain HTTP to a listener with TLS"
	notTLS        = "the sender did not speak TLS"
	gaveUp        = "the sender closed the connection during the TLS handshake"
	gaveUpAfter   = "the sender closed the connection after the TLS handshake, before a request: it may not trust the certificate"
	handshakeSlow = "the TLS handshake took too long"
)

// TooManyConnections begins the reason of a connection that was closed because
// the listener had its most connections open.
const TooManyConnections = "too many connections at once"

// DefaultMaxConnections is the MaxConnections of zero options.
const DefaultMaxConnections = 4096

// ConnectionMemory is what an open connection takes at most, in bytes, with what
// TLS holds of a record that is not complete.
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
		c.Close() // its own goroutine finds out, and ends with StateClosed
	}
	if s == http.StateClosed && fresh && l.failed != nil {
		reason := l.failure(c, conn)
		if reason == gaveUpAfter && served {
			// A sender that has made a request trusts the certificate. Go's client
			// closes a connection that it turns out not to need.
			reason = ""
		}
		if reason != "" {
			l.failed(reason)
		}
	}
}

// failure says why a connection that the server has closed carried no request;
// empty if it may just not have been needed.
func (l *Listener) failure(c net.Conn, conn newConn) string {
	if conn.refused {
		return TooManyConnections + ": more than " + strconv.Itoa(l.most)
	}
	age := time.Since(conn.since)
	t, ok := c.(*tls.Conn)
	if !ok {
		return ""
	}
	// The server has made the handshake; a Conn remembers how it ended.
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

// looksLikeHTTP tells whether five bytes begin a request of HTTP/1.1.
func looksLikeHTTP(b [5]byte) bool {
	switch string(b[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "OPTIO":
		return true
	}
	return false
}
