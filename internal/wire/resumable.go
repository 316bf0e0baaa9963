package wire

import "time"

// Resumable is what a scan found in one message of a request that can be
// resumed (SEP-975): its notifications, its response, and the answers to
// requests/getStatus. Its slices alias the message, except for strings that
// had to be unescaped.
type Resumable struct {
	// Method of a notification, unescaped.
	Method []byte
	// ID is the raw JSON token of the id; nil if there is none.
	ID []byte
	// HasResult and HasError are true for the two kinds of response.
	HasResult, HasError bool
	// Error of a response.
	Error RPCError
	// ResumeToken, unescaped, and RequestID, raw, are those of a resume policy.
	ResumeToken, RequestID []byte
	// MaxWait is how long the policy keeps the request after a disconnect, never
	// negative; HasMaxWait is true if the policy says so.
	MaxWait    time.Duration
	HasMaxWait bool
	// ProgressToken is the raw token of the request that progress belongs to.
	// Progress is its number; HasProgress is false unless that is a whole number.
	ProgressToken []byte
	Progress      int64
	HasProgress   bool
	// LogSeq is the member seq of a log message's data; HasLogSeq is false
	// unless that is a whole number.
	LogSeq    int64
	HasLogSeq bool
	// Status, unescaped, is that of an answer to getStatus, whose hasPendingMessage is
	// false if NonePending is true.
	Status      []byte
	NonePending bool
}

// ScanResumable parses a JSON-RPC message into m, which is overwritten, as
// [ScanMessage] does. It returns false if and only if b is not a JSON object, or is
// nested more than 512 levels deep.
func ScanResumable(b []byte, m *Resumable) bool {
	*m = Resumable{}
	s := scanner{b: b}
	if !s.open('{') {
		return false
	}
	for s.next('}') {
		switch string(s.key()) {
		case "method":
			m.Method = s.text()
		case "id":
			m.ID = s.raw()
		case "result":
			m.HasResult = true
			s.resumable(m)
		case "params":
			s.resumable(m)
		case "error":
			m.HasError = s.rpcError(&m.Error)
		default:
			s.skip()
		}
	}
	return s.finish()
}

// resumable reads params or a result.
func (s *scanner) resumable(m *Resumable) {
	if s.peek() != '{' {
		s.skip()
		return
	}
	s.enter('{')
	for s.next('}') {
		switch string(s.key()) {
		case "requestId":
			m.RequestID = s.raw()
		case "resumeToken":
			m.ResumeToken = s.text()
		case "maxWait":
			m.MaxWait, m.HasMaxWait = s.duration(time.Second)
		case "progressToken":
			m.ProgressToken = s.raw()
		case "progress":
			m.Progress, m.HasProgress = integer(s.raw())
		case "status":
			m.Status = s.text()
		case "hasPendingMessage":
			m.NonePending = string(s.raw()) == "false"
		case "data":
			s.logData(m)
		default:
			s.skip()
		}
	}
}

// logData reads the data of a log message.
func (s *scanner) logData(m *Resumable) {
	if s.peek() != '{' {
		s.skip()
		return
	}
	s.enter('{')
	for s.next('}') {
		if string(s.key()) == "seq" {
			m.LogSeq, m.HasLogSeq = integer(s.raw())
		} else {
			s.skip()
		}
	}
}
