package refserver

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
)

// The methods of SEP-1803, and of the base protocol where it builds on them.
const (
	methodResourceSubscribe   = "resources/subscribe"
	methodResourceUnsubscribe = "resources/unsubscribe"
	methodRegister            = "resources/subscriptions/register"
	methodDeregister          = "resources/subscriptions/deregister"
)

// resources is SEP-1803: events as resources, delivered in band on a session's
// stream or to a webhook whose secret this server makes. It publishes nothing
// of its own: it reads the same topics as events/*.
type resources struct {
	server *Server
	pool   *pool[*resourceHook]

	mu       sync.Mutex
	sessions map[string]*resourceSession // by session id
	hooks    map[string]*resourceHook    // by subscription URI
	order    []*resourceHook             // of hooks, the oldest first
}

func newResources(s *Server) *resources {
	rs := &resources{server: s, sessions: make(map[string]*resourceSession), hooks: make(map[string]*resourceHook)}
	rs.pool = newPool(s.opts.Senders, rs.attempt)
	return rs
}

// takes looks whether a request is one of this system's. Subscribing to other
// resources is not.
func (rs *resources) takes(body []byte) (envelope, bool) {
	var e envelope
	if !bytes.Contains(body, []byte(`subscri`)) || json.Unmarshal(body, &e) != nil {
		return e, false
	}
	switch e.Method {
	case methodRegister, methodDeregister:
		return e, true
	case methodResourceSubscribe, methodResourceUnsubscribe:
		var p uriParams
		return e, json.Unmarshal(e.Params, &p) == nil && strings.HasPrefix(p.URI, eventScheme)
	case methodListen:
		var p listenParams
		if json.Unmarshal(e.Params, &p) != nil {
			return e, false
		}
		for _, uri := range p.Notifications.ResourceSubscriptions {
			if strings.HasPrefix(uri, eventScheme) {
				return e, true
			}
		}
	}
	return e, false
}

type uriParams struct {
	URI string `json:"uri"`
}

type listenParams struct {
	Notifications struct {
		ResourceSubscriptions []string `json:"resourceSubscriptions"`
	} `json:"notifications"`
}

// do answers one call; false means that it is none of this system.
func (rs *resources) do(w http.ResponseWriter, r *http.Request, c *call) bool {
	switch {
	case c.method == methodRegister:
		rs.register(w, c)
	case c.method == methodDeregister:
		rs.deregister(w, c)
	case c.method == methodListen && c.modern:
		rs.listen(w, r, c)
	case c.method == methodResourceSubscribe && !c.modern:
		rs.subscribe(w, r, c)
	case c.method == methodResourceUnsubscribe && !c.modern:
		rs.unsubscribe(w, r, c)
	default:
		return false
	}
	return true
}

// revoke ends what a principal has, without a word: the draft has no word for it.
// Streams of listeners notice by themselves.
func (rs *resources) revoke(principal string) {
	rs.mu.Lock()
	var sessions []*resourceSession
	for _, s := range rs.sessions {
		if s.principal == principal {
			sessions = append(sessions, s)
		}
	}
	var hooks []*resourceHook
	for _, h := range rs.hooks {
		if h.principal == principal {
			hooks = append(hooks, h)
		}
	}
	rs.mu.Unlock()
	for _, s := range sessions {
		s.clear()
	}
	for _, h := range hooks {
		rs.remove(h.uri, principal)
	}
}

// close stops deliveries and waits for those under way; the context of their
// requests is over by then.
func (rs *resources) close() { rs.pool.close(func() {}) }

// advertise completes the capabilities in the answer to a handshake: the SDK's
// type has no member for what SEP-1803 adds to "resources". done writes the
// answer and must be called when the handler has returned.
func advertise(w http.ResponseWriter, body []byte) (_ http.ResponseWriter, done func()) {
	if !bytes.Contains(body, []byte(`"initialize"`)) && !bytes.Contains(body, []byte(`"server/discover"`)) {
		return w, func() {}
	}
	a := &advertiser{ResponseWriter: w, status: http.StatusOK}
	return a, a.finish
}

// advertiser keeps an answer back until it is whole.
type advertiser struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

// WriteHeader implements [http.ResponseWriter].
func (a *advertiser) WriteHeader(status int) { a.status = status }

// Write implements [http.ResponseWriter].
func (a *advertiser) Write(b []byte) (int, error) { return a.body.Write(b) }

// Flush implements [http.Flusher]: there is nothing to flush before the end.
func (a *advertiser) Flush() {}

func (a *advertiser) finish() {
	body := a.body.Bytes()
	if a.status == http.StatusOK {
		body = withEvents(body)
		a.Header().Del("Content-Length")
	}
	a.ResponseWriter.WriteHeader(a.status)
	_, _ = a.ResponseWriter.Write(body) // the client may be gone
}

// withEvents adds the capability to the result of initialize or
// server/discover, and leaves the rest of it as it is to the byte. What is
// something else stays as it is.
func withEvents(body []byte) []byte {
	var answer struct {
		Result struct {
			Capabilities json.RawMessage `json:"capabilities"`
		} `json:"result"`
	}
	var caps, res map[string]json.RawMessage
	if json.Unmarshal(body, &answer) != nil || json.Unmarshal(answer.Result.Capabilities, &caps) != nil ||
		json.Unmarshal(caps["resources"], &res) != nil || res == nil { // the SDK always has resources here
		return body
	}
	res["events"], res["subscribe"] = json.RawMessage("true"), json.RawMessage("true")
	res["subscription"] = json.RawMessage(`["notification","webhook"]`)
	b, err := json.Marshal(res)
	if err != nil {
		return body
	}
	const member = `"resources":`
	fresh := bytes.Replace(answer.Result.Capabilities, append([]byte(member), caps["resources"]...), append([]byte(member), b...), 1)
	return bytes.Replace(body, answer.Result.Capabilities, fresh, 1)
}
