package refserver

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"math"
	"net/http"
	"strings"
)

const (
	resumableCapability = "resumableRequests"
	capabilitiesKey     = "io.modelcontextprotocol/clientCapabilities"
	headerName          = "Mcp-Name"
	codeSuperseded      = -32000 // from the range that JSON-RPC leaves to servers
)

// serveResumable answers the requests of SEP-975: calls of the slow tool by
// clients that can resume, requests/getStatus and requests/resume. It returns
// false for all other requests, and has done nothing then.
func (f *mcpHandler) serveResumable(w http.ResponseWriter, r *http.Request, body []byte, principal string) bool {
	// A cheap test of the body first, as for events.
	work := bytes.Contains(body, []byte(`"`+workTool+`"`)) && bytes.Contains(body, []byte(`"tools/call"`))
	if !work && !bytes.Contains(body, []byte(`"requests/`)) && !bytes.Contains(body, []byte(`"initialize"`)) {
		return false
	}
	var e envelope
	if json.Unmarshal(body, &e) != nil {
		return false
	}
	var do func(w http.ResponseWriter, r *http.Request, c *call)
	switch e.Method {
	case "initialize":
		return f.initialize(w, r, e, principal)
	case "tools/call":
		if !f.isWork(r, e) {
			return false
		}
		do = f.server.callWork
	case "requests/getStatus":
		do = f.server.requestStatus
	case "requests/resume":
		do = f.server.resumeRequest
	default:
		return false
	}
	c := f.check(w, r, e, principal)
	switch {
	case c == nil:
	case c.modern && e.Method == "tools/call" && nameOf(r.Header) != workTool:
		writeRPCError(w, http.StatusBadRequest, e.ID, &rpcError{Code: codeHeaderMismatch, Message: "Header mismatch: " + headerName + " does not name the tool"})
	default:
		do(w, r, c)
	}
	return true
}

// isWork reports whether a call is for the slow tool, by a client that can
// resume it.
func (f *mcpHandler) isWork(r *http.Request, e envelope) bool {
	var p struct {
		Name string                     `json:"name"`
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	if json.Unmarshal(e.Params, &p) != nil || p.Name != workTool {
		return false
	}
	return canResume(p.Meta[capabilitiesKey]) || f.base.sessions.canResume(r.Header.Get(headerSession))
}

// canResume reports whether a client's capabilities include resumable requests.
func canResume(capabilities json.RawMessage) bool {
	var c map[string]json.RawMessage
	if json.Unmarshal(capabilities, &c) != nil {
		return false
	}
	value := string(c[resumableCapability])
	return value != "" && value != "null" && value != "false"
}

// initialize passes on a handshake whose client can resume, and records the
// session. Otherwise it returns false.
func (f *mcpHandler) initialize(w http.ResponseWriter, r *http.Request, e envelope, principal string) bool {
	var p struct {
		Capabilities json.RawMessage `json:"capabilities"`
	}
	if json.Unmarshal(e.Params, &p) != nil || !canResume(p.Capabilities) {
		return false
	}
	f.base.serveSession(w, r, principal, true)
	return true
}

func (s *sessions) canResume(id string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.resumable[id]
}

// nameOf decodes the header that mirrors a tool's name.
func nameOf(h http.Header) string {
	name := h.Get(headerName)
	if inner, ok := strings.CutPrefix(name, "=?base64?"); ok {
		text, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(inner, "?="))
		if err != nil {
			return ""
		}
		return string(text)
	}
	return name
}

// callWork serves tools/call of the slow tool.
func (s *Server) callWork(w http.ResponseWriter, r *http.Request, c *call) {
	var p struct {
		Arguments workArguments `json:"arguments"`
		Meta      struct {
			ProgressToken json.RawMessage `json:"progressToken"`
		} `json:"_meta"`
	}
	rpcErr := decodeParams(c.params, &p)
	if rpcErr == nil {
		rpcErr = p.Arguments.check()
	}
	if rpcErr != nil {
		c.fail(w, rpcErr)
		return
	}
	if validID(p.Meta.ProgressToken) {
		p.Arguments.token = p.Meta.ProgressToken
	}
	j, conn, rpcErr := s.resumables.begin(c, p.Arguments)
	if rpcErr != nil {
		c.fail(w, rpcErr)
		return
	}
	s.serveJob(w, r, j, conn, j.policyFrame())
}

// resumeParams are the params of both methods.
type resumeParams struct {
	RequestID   json.RawMessage `json:"requestId"`
	ResumeToken string          `json:"resumeToken"`
}

// requestStatus serves requests/getStatus.
func (s *Server) requestStatus(w http.ResponseWriter, _ *http.Request, c *call) {
	var p resumeParams
	if rpcErr := decodeParams(c.params, &p); rpcErr != nil {
		c.fail(w, rpcErr)
		return
	}
	j, rpcErr := s.resumables.find(c, p.RequestID, p.ResumeToken)
	if rpcErr != nil {
		c.fail(w, rpcErr)
		return
	}
	status, pending, ok := j.snapshot()
	if !ok {
		c.fail(w, notResumable())
		return
	}
	s.resumables.counts.polled.Add(1)
	b := append(make([]byte, 0, 80), `"status":"`...)
	b = append(b, status...)
	b = append(b, `","hasPendingMessage":`...)
	b = append(b, map[bool]string{true: "true", false: "false"}[pending]...)
	c.answer(w, append(b, `,"hasInputRequest":false`...))
}

// resumeRequest serves requests/resume: the request continues under its own id,
// which the resume repeats.
func (s *Server) resumeRequest(w http.ResponseWriter, r *http.Request, c *call) {
	var p resumeParams
	if rpcErr := decodeParams(c.params, &p); rpcErr != nil {
		c.fail(w, rpcErr)
		return
	}
	j, rpcErr := s.resumables.find(c, c.id, p.ResumeToken)
	if rpcErr != nil {
		c.fail(w, rpcErr)
		return
	}
	if rpcErr := j.refuseResume(); rpcErr != nil {
		c.fail(w, rpcErr)
		return
	}
	conn, ok := j.attach()
	if !ok {
		c.fail(w, notResumable())
		return
	}
	s.resumables.counts.resumed.Add(1)
	s.serveJob(w, r, j, conn, nil)
}

// serveJob writes a job's messages on a connection until the response, or until
// either side ends the connection.
func (s *Server) serveJob(w http.ResponseWriter, r *http.Request, j *job, conn *jobConn, first []byte) {
	defer j.detach(conn)
	s.streamHeader(w.Header())
	flush := http.NewResponseController(w).Flush
	if _, err := w.Write(first); err != nil || flush() != nil {
		return
	}
	var frames [][]byte
	// Messages that are sent again do not count for hanging up: otherwise a
	// server might never reach the new ones.
	room := cmp.Or(j.work.HangUp, math.MaxInt)
	for {
		b := j.take(conn, frames[:0], streamBatch, room)
		frames = b.frames
		for _, frame := range frames {
			if _, err := w.Write(frame); err != nil {
				return
			}
		}
		if len(frames) > 0 {
			if flush() != nil {
				return
			}
			j.wrote(conn, b)
		}
		if b.final {
			return
		}
		if room -= b.fresh; room == 0 || b.cut {
			s.resumables.counts.hungUp.Add(1)
			return
		}
		if len(frames) == streamBatch {
			continue
		}
		select {
		case <-conn.wakeup:
		case <-conn.superseded:
			// The draft does not define the fate of the former connection. Here
			// the latest wins, and the former gets an error.
			_, _ = w.Write(j.errorFrame(&rpcError{Code: codeSuperseded, Message: "Superseded: the request was resumed on another connection", Data: map[string]string{"reason": "superseded"}}))
			return
		case <-s.closing:
			_, _ = w.Write(j.errorFrame(&rpcError{Code: codeInternal, Message: "Internal error: the server is closing"}))
			return
		case <-r.Context().Done():
			return
		}
	}
}
