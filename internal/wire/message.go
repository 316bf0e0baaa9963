package wire

import "time"

// Message is what a scan found in one JSON-RPC message. Its slices alias the
// message, except for strings that had to be unescaped.
type Message struct {
	// Versioned is true if the message has "jsonrpc":"2.0".
	Versioned bool
	// Method of a request or notification, unescaped.
	Method []byte
	// ID is the raw JSON token of the id; nil if there is none.
	ID []byte
	// HasResult and HasError are true for the two kinds of response. An error that
	// is null does not count.
	HasResult, HasError bool
	// Error of a response.
	Error RPCError
	// Fields of params or result, whichever came last.
	Fields
}

// MessageLimit bounds the text of an error, which is kept and shown.
const MessageLimit = 1 << 10

// RPCError is a JSON-RPC error object.
type RPCError struct {
	Code int64
	// Message has at most [MessageLimit] bytes.
	Message []byte
	// Data is the raw JSON token; nil when there was none.
	Data []byte
}

// Fields are the members of params, of a result, or of a bare object, that a
// sink may need. Members with the wrong type are left out, those with a name
// that occurs twice have the last value.
type Fields struct {
	EventID   []byte // unescaped
	Name      []byte // unescaped
	Timestamp []byte // unescaped; the event's own
	Type      []byte // unescaped; of a webhook's control envelope
	URI       []byte // unescaped; of a resource
	// HasPayload is true if there is a payload that is not null.
	HasPayload bool
	Challenge  []byte // raw JSON token; of a verification envelope
	// Cursor is the raw JSON token, null included; nil if there is none. It is
	// sent back unchanged.
	Cursor    []byte
	Truncated bool
	HasMore   bool
	// NextPoll is the requested wait before the next poll, never negative;
	// HasNextPoll is true if there is one. nextPollMs precedes nextPollSeconds.
	NextPoll    time.Duration
	HasNextPoll bool
	// Events is the raw array of events of a poll; nil if there is none. [Elements]
	// iterates over it.
	Events []byte
	// SubscriptionID is the raw token of the newer stream correlation,
	// RequestID that of the older one.
	SubscriptionID []byte
	RequestID      []byte
	// HasFault is true if there is an object "error", and Fault is its content.
	HasFault bool
	Fault    RPCError

	nextExact, nextWhole time.Duration
	hasMs, hasSeconds    bool
}

// SubscriptionKey is the _meta key of the newer stream correlation.
const SubscriptionKey = "io.modelcontextprotocol/subscriptionId"

// ScanMessage reads a JSON-RPC message into m, which is overwritten. It looks
// at every byte once, decodes nothing that is not needed, allocates only to
// unescape strings that it keeps, and returns false exactly if b is not a
// JSON object (or nests deeper than 512).
func ScanMessage(b []byte, m *Message) bool {
	*m = Message{}
	s := scanner{b: b}
	if !s.open('{') {
		return false
	}
	filled := false // m.Fields; it is large, so it is emptied only where it has to be
	for s.next('}') {
		key := s.key()
		switch string(key) {
		case "jsonrpc":
			m.Versioned = string(s.raw()) == `"2.0"`
		case "method":
			m.Method = s.text()
		case "id":
			m.ID = s.raw()
		case "result":
			m.HasResult = true
			s.fieldsAnew(&m.Fields, &filled)
		case "params":
			s.fieldsAnew(&m.Fields, &filled)
		case "error":
			m.HasError = s.rpcError(&m.Error)
		default:
			s.skip()
		}
	}
	return s.finish()
}

// ScanFields reads a bare object, a webhook's body or an element of a poll's
// events, into f, which is overwritten. It returns false exactly if b is not a
// JSON object (or nests deeper than 512).
func ScanFields(b []byte, f *Fields) bool {
	*f = Fields{}
	s := scanner{b: b}
	s.space()
	if s.peek() != '{' {
		return false
	}
	s.fields(f)
	return s.finish()
}

// Elements calls each for every element of a JSON array, as raw tokens, until
// it returns false. It returns false if b is not a JSON array.
func Elements(b []byte, each func(element []byte) bool) bool {
	s := scanner{b: b}
	if !s.open('[') {
		return false
	}
	for s.next(']') {
		if e := s.raw(); !s.bad && !each(e) {
			return true
		}
	}
	return s.finish()
}

// ListLength counts the members of an answer's result and the elements of its
// array member, which is what decoding it allocates for; 0 where there is no
// result. It stops at what is no JSON.
func ListLength(b []byte, member string) (n int) {
	s := scanner{b: b}
	if !s.open('{') {
		return 0
	}
	for s.next('}') {
		if string(s.key()) != "result" || s.peek() != '{' {
			s.skip()
			continue
		}
		for s.enter('{'); s.next('}'); n++ {
			if string(s.key()) != member || s.peek() != '[' {
				s.skip()
				continue
			}
			for s.enter('['); s.next(']'); n++ {
				s.skip()
			}
		}
	}
	return n
}

// fields reads the value at hand. If it is not an object it is skipped.
func (s *scanner) fields(f *Fields) {
	if s.peek() != '{' {
		s.skip()
		return
	}
	s.enter('{')
	for s.next('}') {
		key := s.key()
		if !s.field(key, f) {
			s.skip()
		}
	}
	switch {
	case f.hasMs:
		f.NextPoll, f.HasNextPoll = f.nextExact, true
	case f.hasSeconds:
		f.NextPoll, f.HasNextPoll = f.nextWhole, true
	}
}

// fieldsAnew is fields for an f that may hold those of another value.
func (s *scanner) fieldsAnew(f *Fields, filled *bool) {
	if *filled {
		*f = Fields{}
	}
	*filled = true
	s.fields(f)
}

// field reads the value of one known key; false if the key is not known, and
// then nothing was read.
func (s *scanner) field(key []byte, f *Fields) bool {
	switch string(key) {
	case "eventId":
		f.EventID = s.text()
	case "name":
		f.Name = s.text()
	case "timestamp":
		f.Timestamp = s.text()
	case "type":
		f.Type = s.text()
	case "uri":
		f.URI = s.text()
	case "payload":
		f.HasPayload = string(s.raw()) != "null"
	case "challenge":
		f.Challenge = s.raw()
	case "cursor":
		f.Cursor = s.raw()
	case "truncated":
		f.Truncated = string(s.raw()) == "true"
	case "hasMore":
		f.HasMore = string(s.raw()) == "true"
	case "nextPollMs":
		f.nextExact, f.hasMs = s.duration(time.Millisecond)
	case "nextPollSeconds":
		f.nextWhole, f.hasSeconds = s.duration(time.Second)
	case "events":
		f.Events = nil
		if s.peek() == '[' {
			f.Events = s.raw()
		} else {
			s.skip()
		}
	case "_meta":
		f.SubscriptionID = nil
		s.meta(f)
	case "requestId":
		f.RequestID = s.raw()
	case "error":
		f.HasFault = s.rpcError(&f.Fault)
	default:
		return false
	}
	return true
}

func (s *scanner) meta(f *Fields) {
	if s.peek() != '{' {
		s.skip()
		return
	}
	s.enter('{')
	for s.next('}') {
		if string(s.key()) == SubscriptionKey {
			f.SubscriptionID = s.raw()
		} else {
			s.skip()
		}
	}
}

// rpcError reads an error object; false if the value is something else.
func (s *scanner) rpcError(e *RPCError) bool {
	*e = RPCError{}
	if s.peek() != '{' {
		s.skip()
		return false
	}
	s.enter('{')
	for s.next('}') {
		switch string(s.key()) {
		case "code":
			e.Code, _ = integer(s.raw())
		case "message":
			e.Message = s.text()
			e.Message = e.Message[:min(len(e.Message), MessageLimit)]
		case "data":
			e.Data = s.raw()
		default:
			s.skip()
		}
	}
	return true
}
