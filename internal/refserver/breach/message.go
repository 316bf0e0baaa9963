package breach

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/eventmeter/eventmeter"
)

// Kind is what a message is.
type Kind uint16

// The kinds of messages. A delivery or an envelope passes twice: as Post before it is
// signed, as Sent with its header after that.
const (
	Handshake Kind = 1 << iota // the result of initialize or server/discover
	List                       // the result of a call
	Poll
	Grant
	Unsubscribed
	Refusal // the error of a call
	Frame   // a message of a stream
	Post
	Sent
)

// modeOf is the mode that a kind belongs to; "" = any.
func modeOf(k Kind, name string) eventmeter.Mode {
	switch {
	case k == Poll || k == Refusal && name == "poll":
		return eventmeter.Poll
	case k == Frame || k == Refusal && name == "stream":
		return eventmeter.Push
	case k&(Grant|Unsubscribed|Post|Sent) != 0 || k == Refusal && strings.HasSuffix(name, "subscribe"):
		return eventmeter.Webhook
	}
	return ""
}

// Message is a message on its way out.
type Message struct {
	Kind Kind
	// Name is the last word of the method of a refused call, of a notification
	// ("result" for the final result), or the type of an envelope ("event" for an event).
	Name   string
	Params json.RawMessage // of the call
	Body   map[string]any
	Raw    []byte // sent in place of Body, if not nil
	Beside []byte // sent after it, on a stream
	Status int    // of an answer
	ID     string // webhook-id, before a message is signed
	Header http.Header
	row    *planted
}

// edit is what breaks a row in messages of some kinds.
type edit struct {
	on   Kind
	of   string              // a message's name; "" = any
	when func(*Message) bool // nil = always
	do   func(*Message)
}

// edit applies all edits to a message. It reports whether there was one. A message that is no
// JSON object has none.
func (s *Set) edit(m *Message) (edited bool) {
	if m.Body == nil {
		return false
	}
	mode := modeOf(m.Kind, m.Name)
	for _, p := range s.all {
		if p.Mode != "" && mode != "" && p.Mode != mode {
			continue
		}
		m.row = p
		for _, e := range p.of.edits {
			if e.on&m.Kind != 0 && (e.of == "" || e.of == m.Name) && (e.when == nil || e.when(m)) && s.strikes(p) {
				e.do(m)
				edited = true
			}
		}
	}
	return edited
}

// bytes is the message's text.
func (m *Message) bytes() []byte {
	if m.Raw != nil {
		return m.Raw
	}
	return encode(m.Body)
}

func decode(text []byte) map[string]any {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var body map[string]any
	if d.Decode(&body) != nil {
		return nil
	}
	return body
}

func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // what was decoded, and constants
	return bytes.TrimRight(b.Bytes(), "\n")
}

// Hello passes the answer to a handshake.
func (s *Set) Hello(body []byte) []byte {
	if s == nil {
		return body
	}
	m := &Message{Kind: Handshake, Body: decode(body)}
	if !s.edit(m) {
		return body
	}
	return m.bytes()
}

// results are the kinds of the results of calls.
var results = map[string]Kind{"list": List, "poll": Poll, "subscribe": Grant, "unsubscribe": Unsubscribed}

// Answer passes the answer to a call, whose media type is that of JSON unless header
// comes back with another.
func (s *Set) Answer(method string, params json.RawMessage, status int, body []byte, header http.Header) (int, []byte) {
	if s == nil {
		return status, body
	}
	name := lastWord(method)
	m := &Message{Kind: results[name], Name: name, Params: params, Body: decode(body), Status: status, Header: header}
	if m.Body["error"] != nil {
		m.Kind = Refusal
	}
	if !s.edit(m) {
		return status, body
	}
	return m.Status, m.bytes()
}

// Frames passes the messages of a stream, each in a block of its own.
func (s *Set) Frames(text []byte) []byte {
	const begin, end = "data: ", "\n\n"
	var out []byte
	for block := range bytes.SplitAfterSeq(text, []byte(end)) {
		data, ok := bytes.CutPrefix(block, []byte(begin))
		m := &Message{Kind: Frame, Name: "result", Body: decode(data)}
		if method, is := m.Body["method"].(string); is {
			m.Name = lastWord(method)
		}
		if !ok || !s.edit(m) {
			out = append(out, block...)
			continue
		}
		out = append(append(append(out, begin...), m.bytes()...), end...)
		if m.Beside != nil {
			out = append(append(append(out, begin...), m.Beside...), end...)
		}
	}
	return out
}

// Post passes a delivery or an envelope that is about to be signed.
func (s *Set) Post(id string, body []byte) (string, []byte) {
	m := posted(Post, body)
	m.ID = id
	if !s.edit(m) {
		return id, body
	}
	return m.ID, m.bytes()
}

// Sent passes a delivery or an envelope that is signed. It may change the header.
func (s *Set) Sent(header http.Header, body []byte) []byte {
	m := posted(Sent, body)
	m.Header, m.Raw = header, body
	if !s.edit(m) {
		return body
	}
	return m.bytes()
}

func posted(kind Kind, body []byte) *Message {
	m := &Message{Kind: kind, Name: "event", Body: decode(body)}
	if envelope, is := m.Body["type"].(string); is && m.Body["eventId"] == nil {
		m.Name = envelope
	}
	return m
}

func lastWord(method string) string { return method[strings.LastIndexByte(method, '/')+1:] }

// object returns the object at a path below the body; nil if there is none.
func (m *Message) object(path ...string) map[string]any {
	o := m.Body
	for _, name := range path {
		o, _ = o[name].(map[string]any)
	}
	return o
}

// occurrences are the events of a message, or the event types of a list.
func (m *Message) occurrences() (all []map[string]any) {
	switch m.Kind {
	case List, Poll:
		list, _ := m.object("result")["events"].([]any)
		for _, e := range list {
			if o, ok := e.(map[string]any); ok {
				all = append(all, o)
			}
		}
	case Frame:
		all = append(all, m.object("params"))
	default:
		all = append(all, m.Body)
	}
	return all
}

// result is the object that holds the members of an answer, of a notification, of an
// envelope or of an event.
func (m *Message) result() map[string]any {
	switch m.Kind {
	case Frame:
		if m.Name != "result" {
			return m.object("params")
		}
		return m.object("result")
	case Post, Sent:
		return m.Body
	}
	return m.object("result")
}

// asked returns a member of the call's params as JSON; "" if it is absent.
func (m *Message) asked(name string) string {
	var p map[string]json.RawMessage
	_ = json.Unmarshal(m.Params, &p) // the server has read them before
	return string(p[name])
}
