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
func events(change func(event map[string]any)) []edit {
	do := each(change)
	some := func(m *Message) bool { return len(m.occurrences()) > 0 }
	return []edit{{Poll, "", some, do}, {Frame, "event", nil, do}, {Post, "event", nil, do}}
}

// types changes every event type of a list.
func types(change func(descriptor map[string]any)) []edit { return one(List, "", each(change)) }

func each(change func(map[string]any)) func(*Message) {
	return func(m *Message) {
		for _, o := range m.occurrences() {
			change(o)
		}
	}
}

// with sets a member of an object.
func with(name string, value any) func(map[string]any) {
	return func(o map[string]any) { o[name] = value }
}

// without removes a member of an object.
func without(name string) func(map[string]any) {
	return func(o map[string]any) { delete(o, name) }
}

// at makes an edit of messages of a kind and a name ("" = any).
func at(on Kind, of string, e edit) []edit {
	e.on, e.of = on, of
	return []edit{e}
}

func one(on Kind, of string, do func(*Message)) []edit { return at(on, of, edit{do: do}) }

func when(is func(*Message) bool, edits ...[]edit) []edit {
	all := slices.Concat(edits...)
	for i := range all {
		all[i].when = is
	}
	return all
}

// put sets a member of messages that have one, to the same as in every other.
func put(name string, value any) edit {
	has := func(m *Message) bool { return m.result() != nil }
	return edit{when: has, do: func(m *Message) { m.result()[name] = value }}
}

// cut removes a member from messages that have it.
func cut(name string) edit {
	has := func(m *Message) bool { _, ok := m.result()[name]; return ok }
	return edit{when: has, do: func(m *Message) { delete(m.result(), name) }}
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

// position edits the messages that say where a subscription stands.
func position(e edit) []edit { return append(start(e), at(Frame, "heartbeat", e)...) }

// start is position without heartbeats.
func start(e edit) []edit {
	return slices.Concat(at(Poll, "", e), at(Frame, "active", e), at(Grant, "", e))
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

// faulty changes the data of errors with one of some codes, as answers to a method ("" = any)
// and as what ends a subscription.
func faulty(codes []int, method string, change func(data map[string]any)) []edit {
	all := []edit{{Refusal, method, coded(codes), func(m *Message) { change(m.faultData()) }}}
	if method == "" {
		all = append(all, ended(codes, change)...)
	}
	return all
}

// recode gives errors of a method another code.
func recode(codes []int, method string, code int) []edit {
	return []edit{{Refusal, method, coded(codes), func(m *Message) { m.fault()["code"] = code }}}
}

// ended changes the data of errors that end a subscription that stood.
func ended(codes []int, change func(data map[string]any)) []edit {
	do := func(m *Message) { change(m.faultData()) }
	return []edit{{Frame, "terminated", coded(codes), do}, {Post, "terminated", coded(codes), do}}
}

// settings gives the capability other settings in a handshake; nil removes it.
func settings(to map[string]any) []edit {
	return one(Handshake, "", func(m *Message) {
		set := func(in map[string]any, name string) {
			if to == nil {
				delete(in, name)
			} else {
				in[name] = to
			}
		}
		set(m.object("result", "capabilities"), "events")
		if in := m.object("result", "capabilities", "extensions"); in != nil {
			set(in, "io.modelcontextprotocol/events")
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
