package breach

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// events changes every event, wherever it is carried.
func events(do func(event map[string]any)) []edit {
	change := func(m *Message) {
		for _, e := range m.occurrences() {
			do(e)
		}
	}
	some := func(m *Message) bool { return len(m.occurrences()) > 0 }
	return []edit{{Poll, "", some, change}, {Frame, "event", nil, change}, {Post, "event", nil, change}}
}

// types changes every event type of a list.
func types(do func(m *Message, descriptor map[string]any)) []edit {
	return one(List, "", func(m *Message) {
		list, _ := m.object("result")["events"].([]any)
		for _, e := range list {
			if o, ok := e.(map[string]any); ok {
				do(m, o)
			}
		}
	})
}

func one(on Kind, of string, do func(*Message)) []edit { return []edit{{on: on, of: of, do: do}} }

func when(is func(*Message) bool, edits ...[]edit) []edit {
	all := slices.Concat(edits...)
	for i := range all {
		all[i].when = is
	}
	return all
}

// put sets a member of messages that have one, to the same as in every other.
func put(on Kind, of, name string, value any) []edit {
	return []edit{{on, of, func(m *Message) bool { return m.result() != nil }, func(m *Message) { m.result()[name] = value }}}
}

// cut removes a member from messages that have it.
func cut(on Kind, of, name string) []edit {
	has := func(m *Message) bool { _, ok := m.result()[name]; return ok }
	return []edit{{on, of, has, func(m *Message) { delete(m.result(), name) }}}
}

func has(name string, value any) func(*Message) bool {
	return func(m *Message) bool { return m.result()[name] == value }
}

func not(is func(*Message) bool) func(*Message) bool {
	return func(m *Message) bool { return !is(m) }
}

func both(a, b func(*Message) bool) func(*Message) bool {
	return func(m *Message) bool { return a(m) && b(m) }
}

// position are the messages that say where a subscription stands, by name.
func position(edits func(on Kind, of string) []edit) []edit {
	return slices.Concat(edits(Poll, ""), edits(Frame, "active"), edits(Frame, "heartbeat"), edits(Grant, ""))
}

// start is position without heartbeats.
func start(edits func(on Kind, of string) []edit) []edit {
	return slices.Concat(edits(Poll, ""), edits(Frame, "active"), edits(Grant, ""))
}

// The codes of errors that have a name, in the revisions.
var (
	notFound        = []int{-32023, -32011}
	forbidden       = []int{-32024, -32012}
	exhausted       = []int{-32025, -32013}
	unsupported     = []int{-32026, -32014}
	callbackRefused = []int{-32027, -32015}
	invalidParams   = []int{-32602}
)

// fault is the error of a message; nil if it has none.
func (m *Message) fault() map[string]any {
	if m.Kind == Refusal {
		return m.object("error")
	}
	o, _ := m.result()["error"].(map[string]any)
	return o
}

// faultData is the data of the error, which it gets if it has none.
func (m *Message) faultData() map[string]any {
	f := m.fault()
	data, _ := f["data"].(map[string]any)
	if data == nil {
		data = map[string]any{}
		f["data"] = data
	}
	return data
}

// coded reports whether a message is an error with one of some codes.
func coded(codes []int) func(*Message) bool {
	return func(m *Message) bool {
		n, ok := m.fault()["code"].(json.Number)
		code, err := strconv.Atoi(string(n))
		return ok && err == nil && slices.Contains(codes, code)
	}
}

// faulty changes errors with one of some codes, as answers to a method ("" = any) and as
// what ends a subscription.
func faulty(codes []int, method string, do func(m *Message)) []edit {
	all := []edit{{Refusal, method, coded(codes), do}}
	if method == "" {
		all = append(all, edit{Frame, "terminated", coded(codes), do}, edit{Post, "terminated", coded(codes), do})
	}
	return all
}

// recode gives errors of a method another code.
func recode(codes []int, method string, code int) []edit {
	return []edit{{Refusal, method, coded(codes), func(m *Message) { m.fault()["code"] = code }}}
}

// ended are the errors that end a subscription that stood.
func ended(codes []int, do func(*Message)) []edit {
	return []edit{{Frame, "terminated", coded(codes), do}, {Post, "terminated", coded(codes), do}}
}

// settings are the places of the capability in a handshake.
func settings(do func(in map[string]any, name string)) []edit {
	return one(Handshake, "", func(m *Message) {
		do(m.object("result", "capabilities"), "events")
		if in := m.object("result", "capabilities", "extensions"); in != nil {
			do(in, "io.modelcontextprotocol/events")
		}
	})
}

// control are the envelopes other than the challenge, without which nothing would follow.
func control(on Kind, do func(*Message)) []edit {
	return slices.Concat(one(on, "gap", do), one(on, "terminated", do))
}

// missign makes the signature of a message wrong.
func missign(m *Message) {
	m.Header["webhook-signature"] = []string{"v1,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}
}

// sentBefore is what the first attempt of a delivery was sent with.
type sentBefore struct {
	header http.Header
	body   []byte
}

// repeated reports whether the delivery was tried before.
func repeated(m *Message) bool {
	key := strings.Join(append(m.Header["X-MCP-Subscription-Id"], m.Header["webhook-id"]...), " ")
	_, again := m.row.memory.LoadOrStore(key, sentBefore{m.Header.Clone(), m.Raw})
	m.ID = key
	return again
}

// repeat sends what was sent at the first attempt.
func repeat(m *Message) {
	before, _ := m.row.memory.Load(m.ID)
	was := before.(sentBefore)
	for _, name := range []string{"webhook-timestamp", "webhook-signature"} {
		m.Header[name] = was.header[name]
	}
	m.Raw = was.body
}

// answeredBefore reports whether the same poll was answered with events an odd number of
// times before: others may poll from the same cursor.
func answeredBefore(m *Message) bool {
	if len(m.occurrences()) == 0 || m.asked("cursor") == "" || m.asked("cursor") == "null" {
		return false
	}
	times, _ := m.row.memory.LoadOrStore(m.asked("name")+m.asked("arguments")+m.asked("cursor"), new(atomic.Int64))
	return times.(*atomic.Int64).Add(1)%2 == 0
}

// postpone moves the end of a grant.
func postpone(m *Message) {
	text, _ := m.result()["refreshBefore"].(string)
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		m.result()["refreshBefore"] = at.Add(time.Hour).Format(time.RFC3339)
	}
}
