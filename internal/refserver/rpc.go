package refserver

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/eventmeter/eventmeter/internal/refserver/breach"
)

// Keys of the base protocol's _meta.
const (
	subscriptionIDKey  = "io.modelcontextprotocol/subscriptionId"
	protocolVersionKey = "io.modelcontextprotocol/protocolVersion"
)

// call is one request of an event system with the facts about its sender.
type call struct {
	w         http.ResponseWriter
	r         *http.Request
	method    string
	id        json.RawMessage
	params    json.RawMessage
	modern    bool
	principal string // the bearer token; "" = anonymous
	rules     *rules // nil for systems other than MCP Events
	breach    *breach.Set
}

// envelope is the part of a JSON-RPC request that decides where it goes.
type envelope struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// requestMeta returns the protocol version that a body's params claim; "" =
// none.
func requestMeta(params json.RawMessage) string {
	if !bytes.Contains(params, []byte(protocolVersionKey)) {
		return ""
	}
	var p struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	var version string
	if json.Unmarshal(params, &p) != nil || json.Unmarshal(p.Meta[protocolVersionKey], &version) != nil {
		return ""
	}
	return version
}

// validID reports whether id is a string or a number, as MCP requires.
func validID(id json.RawMessage) bool {
	return len(id) > 0 && (id[0] == '"' || id[0] == '-' || (id[0] >= '0' && id[0] <= '9'))
}

// resultOpen appends the start of a response up to the members of the result.
// Every member starts without a comma. The base protocol wants a result type in
// the modern era, SEP-3415 in both, and the revisions before it in none.
func (c *call) resultOpen(dst []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = append(dst, c.id...)
	dst = append(dst, `,"result":{`...)
	if d := c.rules; d == nil && c.modern || d != nil && d.complete {
		dst = append(dst, `"resultType":"complete",`...)
	}
	return dst
}

// serve answers a call by do, or with the error that do returns.
func (c *call) serve(w http.ResponseWriter, r *http.Request, do func(*call) *rpcError) {
	c.w, c.r = w, r
	if rpcErr := do(c); rpcErr != nil {
		c.fail(rpcErr)
	}
}

// decode decodes the params, see decodeParams.
func (c *call) decode(into any) *rpcError { return decodeParams(c.params, into) }

// answer writes a result, given as the members of its object. It returns nil.
func (c *call) answer(members []byte) *rpcError {
	b := c.resultOpen(make([]byte, 0, len(members)+len(c.id)+80))
	b = append(b, members...)
	b = append(b, "}}"...)
	if len(members) == 0 {
		b = bytes.Replace(b, []byte(`",}}`), []byte(`"}}`), 1)
	}
	c.send(http.StatusOK, b)
	return nil
}

// fail writes an error response. The modern era maps two codes to HTTP statuses
// of their own, as the base protocol's implementations do.
func (c *call) fail(e *rpcError) {
	e = c.rules.spell(e)
	status := http.StatusOK
	if c.modern {
		switch e.Code {
		case codeInvalidParams:
			status = http.StatusBadRequest
		case codeMethodNotFound:
			status = http.StatusNotFound
		}
	}
	c.send(status, encodeRPCError(c.id, e))
}

// send writes an answer.
func (c *call) send(status int, body []byte) {
	if c.breach != nil {
		h := http.Header{}
		status, body = c.breach.Answer(c.method, c.params, status, body, h)
		if media := h.Get("Content-Type"); media != "" {
			c.w.Header().Set("Content-Type", media)
			c.w.WriteHeader(status)
			_, _ = c.w.Write(body) // the client may be gone
			return
		}
	}
	writeJSON(c.w, status, body)
}

// writeRPCError writes an error response, see encodeRPCError.
func writeRPCError(w http.ResponseWriter, status int, id json.RawMessage, e *rpcError) {
	writeJSON(w, status, encodeRPCError(id, e))
}

// encodeRPCError returns an error response; a nil id is written as null.
func encodeRPCError(id json.RawMessage, e *rpcError) []byte {
	if !validID(id) {
		id = json.RawMessage("null")
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,%s}`, id, errorMember(e))
}

func writeJSON(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client may be gone
}

// quote appends s as a JSON string.
func quote(dst []byte, s string) []byte {
	b, err := json.Marshal(s)
	if err != nil { // a string always encodes
		return append(dst, `""`...)
	}
	return append(dst, b...)
}

func bearer(r *http.Request) string {
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// isJSON reports whether the content type of a request is JSON.
func isJSON(r *http.Request) bool {
	media, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	return strings.EqualFold(strings.TrimSpace(media), "application/json")
}

// response is an [http.ResponseWriter] between a handler and the client.
type response struct {
	http.ResponseWriter
	// begin is called once, before the header goes out. If it returns true, the
	// answer is held back for send.
	begin  func(status int) (hold bool)
	status int // 0 = no header yet
	held   bool
	body   bytes.Buffer // what was held back
}

// holding returns a response that holds every answer back.
func holding(w http.ResponseWriter) *response {
	return &response{ResponseWriter: w, begin: func(int) bool { return true }, held: true}
}

// WriteHeader implements [http.ResponseWriter].
func (w *response) WriteHeader(status int) {
	if w.status != 0 {
		return
	}
	if status >= http.StatusOK {
		w.status, w.held = status, w.begin(status)
	}
	if !w.held {
		w.ResponseWriter.WriteHeader(status)
	}
}

// Write implements [http.ResponseWriter].
func (w *response) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.held {
		return w.body.Write(b)
	}
	return w.ResponseWriter.Write(b)
}

// Flush implements [http.Flusher].
func (w *response) Flush() {
	w.WriteHeader(http.StatusOK)
	if !w.held {
		_ = http.NewResponseController(w.ResponseWriter).Flush() // the handler notices a client that is gone
	}
}

// Unwrap lets [http.ResponseController] reach the wrapped writer.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// send sends body in place of what was held back.
func (w *response) send(body []byte) {
	w.ResponseWriter.WriteHeader(cmp.Or(w.status, http.StatusOK))
	_, _ = w.ResponseWriter.Write(body) // the client may be gone
}

const (
	// eventsExtension is the identifier of MCP Events, eventsPrefix what the
	// names of its methods begin with.
	eventsExtension = "io.modelcontextprotocol/events"
	eventsPrefix    = "events/"

	modernVersion = "2026-07-28"
	maxBody       = 1 << 20 // bytes of a request body

	headerVersion = "MCP-Protocol-Version"
	headerMethod  = "Mcp-Method"
	headerSession = "Mcp-Session-Id"
)
