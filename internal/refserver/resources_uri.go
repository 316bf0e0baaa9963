package refserver

import (
	"net/url"
	"strings"
)

const (
	eventScheme        = "event://"
	subscriptionScheme = "subscription://"
)

// The event resources of a type NAME with a filter FIELD are event://NAME,
// which is every event of it, and event://NAME/{FIELD}, the events with that
// value. The latter are sub-resources of the former.

// eventResource finds what an event URI means to a principal.
func (rs *resources) eventResource(uri, principal string) (*topic, selection, *rpcError) {
	rest, ok := strings.CutPrefix(uri, eventScheme)
	name, value, keyed := strings.Cut(rest, "/")
	t := rs.server.broker.topics[name]
	if !ok || t == nil || t.withdrawn.Load() || keyed && (t.kind.filter == "" || t.kind.owned) {
		return nil, selection{}, noResource(uri)
	}
	if t.kind.owned {
		if principal == "" {
			return nil, selection{}, forbidden("authentication required")
		}
		return t, selection{keyed: true, key: principal}, nil
	}
	if !keyed {
		return t, selection{}, nil
	}
	key, err := url.PathUnescape(value)
	if err != nil || strings.Contains(value, "/") {
		return nil, selection{}, noResource(uri)
	}
	return t, selection{keyed: true, key: key}, nil
}

func noResource(uri string) *rpcError {
	return &rpcError{Code: codeInvalidParams, Message: "Resource not found", Data: map[string]string{"uri": uri}}
}

// appendEventURI appends the URI of the most narrow resource that an event
// belongs to.
func appendEventURI(dst []byte, e *event, kind *eventType) []byte {
	dst = append(dst, eventScheme...)
	dst = append(dst, kind.name...)
	if e.key == "" || kind.owned {
		return dst
	}
	return appendEscaped(append(dst, '/'), e.key)
}

// appendEscaped is the simple expansion of RFC 6570: everything but the
// unreserved characters is percent-encoded. The result is safe in a JSON
// string, too.
func appendEscaped(dst []byte, s string) []byte {
	const hex = "0123456789ABCDEF"
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("-._~", c) >= 0:
			dst = append(dst, c)
		default:
			dst = append(dst, '%', hex[c>>4], hex[c&15])
		}
	}
	return dst
}
