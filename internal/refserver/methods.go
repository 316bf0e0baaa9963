package refserver

import (
	"bytes"
	"net/http"
	"strings"
)

// namespaces are what the names of methods begin with that this server answers
// itself; all others are the SDK's. Those whose methods must be told from the
// SDK's by more than their name (resources, resumable requests, lists) are asked
// before, in [face.ServeHTTP].
var namespaces = []string{"events/", smitheryPrefix}

// methods are the calls in those namespaces. A system adds its own here. They
// come after the checks of the base protocol, and not from a principal whose
// access was revoked.
var methods = map[string]func(*Server, http.ResponseWriter, *http.Request, *call){
	"events/list":                  (*Server).list,
	"events/poll":                  (*Server).poll,
	"events/stream":                (*Server).stream,
	"events/subscribe":             (*Server).subscribe,
	"events/unsubscribe":           (*Server).unsubscribe,
	smitheryPrefix + "list":        (*Server).list,
	smitheryPrefix + "subscribe":   (*Server).subscribe,
	smitheryPrefix + "unsubscribe": (*Server).unsubscribe,
}

// isOurs tells the methods that this server answers from those of the SDK.
func isOurs(method string) bool {
	for _, n := range namespaces {
		if strings.HasPrefix(method, n) {
			return true
		}
	}
	return false
}

// mayBeOurs is a cheap look at a body: nearly every one that is not for this
// server says so. Listening for changes of event types is. The slash is left out:
// JSON may spell it in two ways.
func mayBeOurs(body []byte) bool {
	for _, n := range namespaces {
		word, _, _ := strings.Cut(n, "/")
		if bytes.Contains(body, []byte(word)) {
			return true
		}
	}
	return false
}
