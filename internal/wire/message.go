package wire

import "time"

// Message is the content of one JSON-RPC message, as [ScanMessage] found it. Its
// slices alias the message, except for strings that had to be unescaped.
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
	// Fields of params or of result, whichever comes last.
	Fields
	// Memo is the reader's: what it derived from the event. See [Repeat].
	Memo Memo
}

// Memo is what a reader derived from an event. A [Repeat] keeps it for the next message, and
// clears it when the event's id changes, or a string that is long enough to matter.
type Memo struct {
	Set     bool
	Probed  bool
	EventID uint64    // hash
	Probe   [3]uint32 // of the probe id
}

// MessageLimit bounds the text of an error, in bytes.
const MessageLimit = 1 << 10

// RPCError is a JSON-RPC error object.
type RPCError struct {
	Code int64
	// Message has at most [MessageLimit] bytes.
	Message []byte
	// Data is the raw JSON token; nil if there is none.
	Data []byte
}

// Fields are the members of params, of a result, or of a bare object, that a sink
// may need. Members of the wrong type are left out. Of members with the same name
// the last one counts.
type Fields struct {
	EventID   []byte // unescaped
	Name      []byte // unescaped
	Timestamp []byte // unescaped; the event's own
	Type      []byte // unescaped; of a webhook's control envelope
	URI       []byte // unescaped; of a resource
	// HasPayload is true if there is a payload that is not null.
	HasPayload bool
	// HasData is true if data is an object.
	HasData   bool
	Challenge []byte // raw JSON token; of a verification envelope
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
	// SubscriptionID is the raw token that names the stream in newer revisions
	// (_meta), RequestID the one in the older revision.
	SubscriptionID []byte
	RequestID      []byte
	// HasFault is true if there is an object "error", and Fault is its content.
	HasFault bool
	Fault    RPCError

	nextExact, nextWhole time.Duration
	hasMs, hasSeconds    bool
}

// SubscriptionKey is the key in _meta of the subscription that a message of a stream
// belongs to.
const SubscriptionKey = "io.modelcontextprotocol/subscriptionId"

// ScanMessage parses a JSON-RPC message into m, which is overwritten. It reads every
// byte once and allocates only to unescape strings that it keeps. It returns false
// if and only if b is not a JSON object, or is nested more than 512 levels deep.
func ScanMessage(b []byte, m *Message) bool {
	*m = Message{}
	s := scanner{b: b}
	if !s.open('{') {
		return false
	}
	filled := false // m.Fields was used; it is large, so it is cleared only if it has to be
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

// ScanFields parses a bare object, the body of a webhook or an element of a poll's
// events, into f, which is overwritten. It returns false if and only if b is not a
// JSON object, or is nested more than 512 levels deep.
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

// IsBatch reports whether a text of JSON-RPC is an array of messages (2025-03-26).
func IsBatch(b []byte) bool {
	s := scanner{b: b}
	s.space()
	return s.peek() == '['
}

// EachMessage calls each for every message of a text of JSON-RPC, which is one message or an
// array of them, until it returns false. size is the number of bytes that the text took;
// each gets its share. It returns false if the text is an array that cannot be read, or is
// empty.
func EachMessage(b []byte, size int, each func(text []byte, size int) bool) bool {
	if !IsBatch(b) {
		each(b, size)
		return true
	}
	more := -1 // what the first message took more than its text; -1 = it has not been seen
	return Elements(b, func(text []byte) bool {
		share := len(text)
		if more < 0 {
			more = size
			Elements(b, func(t []byte) bool {
				more -= len(t)
				return true
			})
			share += more
		}
		return each(text, share)
	}) && more >= 0
}

// ListLength returns the number of members of an answer's result plus the number of
// elements of the array named member, in order to bound what decoding the result
// would allocate. It is 0 if there is no result, and stops at invalid JSON.
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

// fields reads the current value. A value that is not an object is skipped.
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

// fieldsAnew is fields for an f that may hold the fields of another value.
func (s *scanner) fieldsAnew(f *Fields, filled *bool) {
	if *filled {
		*f = Fields{}
	}
	*filled = true
	s.fields(f)
}

// field reads the value of a known key. It reads nothing and returns false if the
// key is not known.
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
	case "data":
		f.HasData = s.peek() == '{'
		s.skip()
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

// rpcError reads an error object; false if the value is not an object.
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
