package refserver

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	resumableCapability = "resumableRequests"
	capabilitiesKey     = "io.modelcontextprotocol/clientCapabilities"
	headerName          = "Mcp-Name"
	codeSuperseded      = -32000 // from the range that JSON-RPC leaves to servers
)

// serveResumable answers requests that can be resumed: calls of the slow tool, and
// requests/getStatus and requests/resume of SEP-975. It returns false for all other
// requests, and has done nothing then.
func (s *Server) serveResumable(w http.ResponseWriter, r *http.Request, e envelope, body []byte, principal string) bool {
	var do func(*call) *rpcError
	switch e.Method {
	case "":
		return s.resumables.answered(w, body, principal)
	case "initialize":
		return s.initialize(w, r, e, principal)
	case "tools/call":
		do = s.workOf(r, e)
	case "requests/getStatus":
		do = s.requestStatus
	case "requests/resume":
		do = s.resumeRequest
	}
	named := do != nil
	if do == nil {
		do = s.anyOf(r, e, body)
	}
	if do == nil {
		return false
	}
	c := s.check(w, r, e, principal)
	switch {
	case c == nil:
	case c.modern && named && e.Method == "tools/call" && nameOf(r.Header) != workTool:
		writeRPCError(w, http.StatusBadRequest, e.ID, headerMismatch(headerName+" does not name the tool"))
	default:
		c.serve(w, r, do)
	}
	return true
}

// workOf says how a call of the slow tool by a client that can resume it is
// answered: by SEP-975 to those that declare it, else with ids of events in
// sessions, which know Last-Event-ID; nil for every other call.
func (s *Server) workOf(r *http.Request, e envelope) func(*call) *rpcError {
	var p struct {
		Name string `json:"name"`
	}
	if json.Unmarshal(e.Params, &p) != nil || p.Name != workTool {
		return nil
	}
	session := r.Header.Get(headerSession)
	switch {
	case s.abilitiesOf(r, e.Params).resume:
		return func(c *call) *rpcError { return s.callWork(c, "") }
	case session != "" && r.Header.Get(headerVersion) < modernVersion && strings.Contains(r.Header.Get("Accept"), "text/event-stream"):
		return func(c *call) *rpcError { return s.callWork(c, session) }
	}
	return nil
}

// anyOf says how a request of a client that can resume it is answered with
// [Options.ResumeAny]; nil for one that is not resumable.
func (s *Server) anyOf(r *http.Request, e envelope, body []byte) func(*call) *rpcError {
	switch {
	case s.opts.ResumeAny == 0, !validID(e.ID), e.Method == methodListen, e.Method == "server/discover", e.Method == "ping",
		strings.HasPrefix(e.Method, "requests/"), isServedHere(e.Method), !s.abilitiesOf(r, e.Params).resume:
		return nil
	}
	return func(c *call) *rpcError { return s.callAny(c, body) }
}

// callAny serves a request whose response is made at once and sent later. What is
// no JSON-RPC response is passed on.
func (s *Server) callAny(c *call, body []byte) *rpcError {
	buffered := holding(c.w)
	s.route(buffered, c.r, envelope{ID: c.id, Method: c.method, Params: c.params}, body, c.principal)
	var response struct {
		ID    json.RawMessage `json:"id"`
		Error json.RawMessage `json:"error"`
	}
	var compact bytes.Buffer
	text := buffered.body.Bytes() // of an error, too, whose status is another
	if json.Unmarshal(text, &response) != nil || string(response.ID) != string(c.id) || json.Compact(&compact, text) != nil {
		buffered.send(text)
		return nil
	}
	c.w.Header().Del("Content-Length")
	work := workArguments{Steps: 1, StepMs: s.opts.ResumeAny.Seconds() * 1000, Fail: response.Error != nil, answer: compact.Bytes()}
	j, conn, rpcErr := s.resumables.begin(c, "", work)
	if rpcErr != nil {
		return rpcErr
	}
	s.serveJob(c, j, conn, j.policyFrame())
	return nil
}

// abilitiesOf are what the client of a request has declared with it, or for its
// session.
func (s *Server) abilitiesOf(r *http.Request, params json.RawMessage) abilities {
	var p struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	var can abilities
	if bytes.Contains(params, []byte(capabilitiesKey)) && json.Unmarshal(params, &p) == nil {
		can = readAbilities(p.Meta[capabilitiesKey])
	}
	session, _ := s.base.sessions.find(r.Header.Get(headerSession))
	return abilities{resume: can.resume || session.can.resume, elicit: can.elicit || session.can.elicit}
}

// readAbilities reads a client's capabilities.
func readAbilities(capabilities json.RawMessage) abilities {
	var c map[string]json.RawMessage
	if json.Unmarshal(capabilities, &c) != nil {
		return abilities{}
	}
	has := func(name string) bool {
		value := string(c[name])
		return value != "" && value != "null" && value != "false"
	}
	return abilities{resume: has(resumableCapability), elicit: has("elicitation")}
}

// initialize passes on a handshake whose client declares abilities, and records
// the session. Otherwise it returns false.
func (s *Server) initialize(w http.ResponseWriter, r *http.Request, e envelope, principal string) bool {
	var p struct {
		Capabilities json.RawMessage `json:"capabilities"`
	}
	if json.Unmarshal(e.Params, &p) != nil {
		return false
	}
	can := readAbilities(p.Capabilities)
	if can == (abilities{}) {
		return false
	}
	s.base.serveSession(w, r, principal, can)
	return true
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

// callWork serves tools/call of the slow tool. Its messages have ids if there is a
// session.
func (s *Server) callWork(c *call, session string) *rpcError {
	var p struct {
		Arguments workArguments `json:"arguments"`
		Meta      struct {
			ProgressToken json.RawMessage `json:"progressToken"`
		} `json:"_meta"`
	}
	rpcErr := c.decode(&p)
	if rpcErr == nil {
		rpcErr = p.Arguments.check()
	}
	if rpcErr == nil && p.Arguments.Ask > 0 && (c.modern || !s.abilitiesOf(c.r, c.params).elicit) {
		rpcErr = invalidParams(
			"ask needs a session, or a request of its era, whose client declares elicitation: servers of %s ask their clients nothing",
			modernVersion,
		)
	}
	if rpcErr != nil {
		return rpcErr
	}
	if validID(p.Meta.ProgressToken) {
		p.Arguments.token = p.Meta.ProgressToken
	}
	j, conn, rpcErr := s.resumables.begin(c, session, p.Arguments)
	if rpcErr != nil {
		return rpcErr
	}
	first := j.policyFrame
	if session != "" {
		first = j.primingFrame
	}
	s.serveJob(c, j, conn, first())
	return nil
}

// resumeParams are the params of both methods.
type resumeParams struct {
	RequestID   json.RawMessage `json:"requestId"`
	ResumeToken string          `json:"resumeToken"`
}

// requestStatus serves requests/getStatus.
func (s *Server) requestStatus(c *call) *rpcError {
	var p resumeParams
	if rpcErr := c.decode(&p); rpcErr != nil {
		return rpcErr
	}
	j, rpcErr := s.resumables.find(c, p.RequestID, p.ResumeToken)
	if rpcErr != nil {
		return rpcErr
	}
	status, pending, asks, ok := j.snapshot()
	if !ok {
		return notResumable
	}
	s.resumables.counts.Polled.Add(1)
	return c.answer(fmt.Appendf(nil, `"status":"%s","hasPendingMessage":%t,"hasInputRequest":%t`, status, pending, asks))
}

// resumeRequest serves requests/resume: the request continues under its own id,
// which the resume repeats.
func (s *Server) resumeRequest(c *call) *rpcError {
	var p resumeParams
	if rpcErr := c.decode(&p); rpcErr != nil {
		return rpcErr
	}
	j, rpcErr := s.resumables.find(c, c.id, p.ResumeToken)
	if rpcErr != nil {
		return rpcErr
	}
	if rpcErr := j.refuseResume(); rpcErr != nil {
		return rpcErr
	}
	conn, ok := j.attach()
	if !ok {
		return notResumable
	}
	s.resumables.counts.Resumed.Add(1)
	s.serveJob(c, j, conn, nil)
	return nil
}

// resumesByID reports whether a GET asks for the rest of an answer's stream.
func resumesByID(r *http.Request) bool {
	return strings.HasPrefix(r.Header.Get(headerLastEventID), workIDPrefix)
}

// resumeByID serves a GET with the id of an event of an answer's stream: the stream
// goes on after that event. A refusal is HTTP 400 and an error with a reason. It
// is never 404, which would say that the session is lost.
func (s *Server) resumeByID(w http.ResponseWriter, r *http.Request, principal string) {
	refuse := func(e *rpcError) {
		s.resumables.counts.Refused.Add(1)
		writeRPCError(w, http.StatusBadRequest, nil, e)
	}
	token, text, _ := strings.Cut(strings.TrimPrefix(r.Header.Get(headerLastEventID), workIDPrefix), ".")
	number, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		refuse(invalidFor("malformedEventId", "Last-Event-ID is none of this server's"))
		return
	}
	unknown := invalidFor("unknownEventId", "no stream of this session has this Last-Event-ID, or it is no longer kept")
	j := s.resumables.inSession(r.Header.Get(headerSession), principal, token, number)
	if j == nil {
		refuse(unknown)
		return
	}
	if rpcErr := j.refuseResume(); rpcErr != nil {
		refuse(rpcErr)
		return
	}
	conn, kept, ok := j.attachAfter(number)
	switch {
	case !ok:
		refuse(unknown)
	case !kept:
		refuse(invalidFor("forgottenEvents", "events after this Last-Event-ID are no longer kept"))
	default:
		s.resumables.counts.Resumed.Add(1)
		s.serveJob(&call{w: w, r: r}, j, conn, nil)
	}
}

// invalidFor is invalidParams with a reason that a client can tell apart.
func invalidFor(reason, what string) *rpcError {
	return &rpcError{Code: codeInvalidParams, Message: "Invalid params: " + what, Data: map[string]string{"reason": reason}}
}

// jobStream is one connection of a job.
type jobStream struct {
	eventStream
	job  *job
	conn *jobConn
	room int // how many messages that were not written before it still takes
	into [][]byte
}

// serveJob writes a job's messages on a connection until the response, or until
// either side ends the connection.
func (s *Server) serveJob(c *call, j *job, conn *jobConn, first []byte) {
	defer j.detach(conn)
	s.streamHeader(c.w.Header())
	st := &jobStream{eventStream: s.newEventStream(c, ""), job: j, conn: conn, room: cmp.Or(j.work.HangUp, math.MaxInt)}
	st.wakeup = conn.wakeup
	// With a state, the next process goes on with a request of SEP-975.
	if st.write(first) && st.run(c.r.Context(), st) && (s.state == nil || j.session != "") {
		st.write(j.errorFrame(internal(": the server is closing")))
	}
}

func (st *jobStream) over(bool) bool { return false }

func (st *jobStream) beat() (again time.Duration, ok bool) { return st.server.opts.Heartbeat, true } // it has none

func (st *jobStream) deliver(context.Context) bool {
	j := st.job
	for {
		b := j.take(st.conn, st.into[:0], streamBatch, st.room)
		st.into = b.frames
		// The draft does not define the fate of the former connection. Here the latest
		// wins, and the former gets an error. By the base protocol an error would be the
		// response.
		if b.superseded && j.session == "" {
			st.write(j.errorFrame(&rpcError{
				Code:    codeSuperseded,
				Message: "Superseded: the request was resumed on another connection",
				Data:    map[string]string{"reason": "superseded"},
			}))
		}
		if b.superseded || len(b.frames) > 0 && !st.write(b.frames...) {
			return false
		}
		if len(b.frames) > 0 {
			j.wrote(st.conn, b)
		}
		if b.final || b.gone {
			return false
		}
		// Messages that are sent again do not count for hanging up: otherwise a server
		// might never reach the new ones.
		if st.room -= b.fresh; st.room == 0 || b.cut {
			st.server.resumables.counts.HungUp.Add(1)
			st.write(j.retryFrame())
			return false
		}
		if len(b.frames) < streamBatch {
			return true
		}
	}
}
