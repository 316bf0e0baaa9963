package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestScanMessage(t *testing.T) {
	var m Message
	if !ScanMessage([]byte(sampleFrame), &m) {
		t.Fatal("not read")
	}
	if string(m.Method) != "notifications/events/event" || string(m.EventID) != "e-90" || string(m.Cursor) != `"c42"` ||
		string(m.SubscriptionID) != "7" {
		t.Errorf("%+v", m)
	}
	for _, c := range []struct {
		in    string
		check func(m *Message) bool
	}{
		{`{"method":"a\u002fb","params":null}`, func(m *Message) bool { return string(m.Method) == "a/b" }},
		{`{"meth\u006fd":"x"}`, func(m *Message) bool { return string(m.Method) == "x" }},
		{`{"params":{"data":{"eventId":"in","cursor":"in","truncated":true},"eventId":"\u00e9","requestId":"r"}}`,
			func(m *Message) bool {
				return string(m.EventID) == "é" && m.Cursor == nil && !m.Truncated && string(m.RequestID) == `"r"`
			}},
		{`{"id":1,"error":{"data":{"code":5},"message":"no","code":-32013}}`,
			func(m *Message) bool {
				return m.HasError && m.Error.Code == -32013 && string(m.Error.Message) == "no" && string(m.Error.Data) == `{"code":5}`
			}},
		{`{"id":"x","result":{"nextPollSeconds":2,"nextPollMs":1500,"hasMore":true,"events":[1,[2]]},"error":null}`,
			func(m *Message) bool {
				return m.HasResult && !m.HasError && m.NextPoll == 1500*time.Millisecond && m.HasMore && string(m.Events) == "[1,[2]]"
			}},
		{`{"result":{"nextPollSeconds":1.5}}`, func(m *Message) bool { return m.NextPoll == 1500*time.Millisecond && m.HasNextPoll }},
		{`{"result":{"nextPollMs":-5}}`, func(m *Message) bool { return m.NextPoll == 0 && m.HasNextPoll }},
		{`{"result":{"nextPollMs":1e300}}`, func(m *Message) bool { return m.NextPoll > 0 && m.HasNextPoll }},
		{`{"result":{"nextPollMs":"9"}}`, func(m *Message) bool { return !m.HasNextPoll }},
		{`{"result":7}`, func(m *Message) bool { return m.HasResult }},
		{`{"params":{"eventId":"a"},"params":{"cursor":null}}`, func(m *Message) bool { return m.EventID == nil && string(m.Cursor) == "null" }},
		{`{"params":{"error":{"code":-32012,"message":"gone"}}}`, func(m *Message) bool {
			return m.HasFault &&
				m.Fault.Code == -32012 && !m.HasError
		}},
	} {
		if !ScanMessage([]byte(c.in), &m) || !c.check(&m) {
			t.Errorf("%s: %+v", c.in, m)
		}
	}
	for _, bad := range []string{"", "[]", "{", `{"a":1,}`, `{"a" 1}`, `{"a":01}`, `{"a":"` + "\n" + `"}`, `{"a":"\x"}`,
		`{"a":tru}`, `{} {}`, `{"a":"\u12g4"}`,
		`{"a":` + strings.Repeat("[", 600) + strings.Repeat("]", 600) + `}`} {
		if ScanMessage([]byte(bad), &m) {
			t.Errorf("%.40q was taken", bad)
		}
	}
}

func TestElements(t *testing.T) {
	var got []string
	if !Elements([]byte(` [1, "a,]" ,{"b":[]} ]`), func(e []byte) bool { got = append(got, string(e)); return true }) {
		t.Error("not read")
	}
	if fmt.Sprint(got) != `[1 "a,]" {"b":[]}]` {
		t.Errorf("got %q", got)
	}
	n := 0
	if !Elements([]byte(`[1,2,3]`), func([]byte) bool { n++; return false }) || n != 1 {
		t.Errorf("did not stop: %d", n)
	}
	if Elements([]byte(`[1,2`), func([]byte) bool { return true }) || Elements([]byte(`{}`), nil) {
		t.Error("took what is no array")
	}
}

// slowFields reads fields with encoding/json, exact names only.
func slowFields(raw json.RawMessage) (f Fields) {
	var o map[string]json.RawMessage
	if json.Unmarshal(raw, &o) != nil {
		return f
	}
	text := func(k string) []byte {
		var v *string
		if json.Unmarshal(o[k], &v) != nil || v == nil {
			return nil
		}
		return []byte(*v)
	}
	f.EventID, f.Name, f.Type, f.URI = text("eventId"), text("name"), text("type"), text("uri")
	f.Cursor, f.Challenge, f.RequestID = o["cursor"], o["challenge"], o["requestId"]
	f.HasPayload = o["payload"] != nil && string(o["payload"]) != "null"
	f.Truncated, f.HasMore = string(o["truncated"]) == "true", string(o["hasMore"]) == "true"
	if e := o["events"]; len(e) > 0 && e[0] == '[' {
		f.Events = e
	}
	var meta map[string]json.RawMessage
	json.Unmarshal(o["_meta"], &meta)
	f.SubscriptionID = meta[SubscriptionKey]
	f.HasFault, f.Fault = slowError(o["error"])
	return f
}

func slowError(raw json.RawMessage) (bool, RPCError) {
	var o map[string]json.RawMessage
	if json.Unmarshal(raw, &o) != nil || o == nil {
		return false, RPCError{}
	}
	var e RPCError
	json.Unmarshal(o["code"], &e.Code)
	if len(bytes.TrimPrefix(o["code"], []byte("-"))) > 15 {
		e.Code = 0
	}
	var text *string
	if json.Unmarshal(o["message"], &text) == nil && text != nil {
		e.Message = []byte(*text)
	}
	e.Data = o["data"]
	return true, e
}

func (f Fields) text() string {
	return fmt.Sprintf(
		"%q %q %q %q %q %t %t %q %q %q %t %d %q %q",
		f.EventID,
		f.Name,
		f.Type,
		f.Challenge,
		f.Cursor,
		f.Truncated,
		f.HasMore,
		f.Events,
		f.SubscriptionID,
		f.RequestID,
		f.HasFault,
		f.Fault.Code,
		f.Fault.Message,
		f.Fault.Data,
	)
}

func FuzzScanMessage(f *testing.F) {
	f.Add([]byte(sampleFrame))
	f.Add(
		[]byte(
			`{"jsonrpc":"2.0","id":7,"result":{"resultType":"complete","events":[],"cursor":"c41","truncated":false,` +
				`"hasMore":false,"nextPollMs":1500}}`,
		),
	)
	f.Add(
		[]byte(
			`{"id":1,"error":{"code":-32013,"message":"\ud83d\ude00","data":{"max":1}},` +
				`"params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"a"},"requestId":1}}`,
		),
	)
	f.Add([]byte(`{"type":"verification","challenge":"n-7","error":{"code":1.5}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var m Message
		var fields Fields
		ok := ScanMessage(b, &m)
		ok2 := ScanFields(b, &fields)
		var o map[string]json.RawMessage
		want := json.Unmarshal(b, &o) == nil && o != nil
		if deep(b) {
			return
		}
		if ok != want || ok2 != want {
			t.Fatalf("%q: read %t and %t, encoding/json says %t", b, ok, ok2, want)
		}
		if !ok || !utf8.Valid(b) || bytes.Contains(b, []byte(`\ud`)) || bytes.Contains(b, []byte(`\uD`)) {
			return // what becomes of broken text is not compared
		}
		if got, want := fields.text(), slowFields(b).text(); got != want {
			t.Errorf("%q: fields\n%s, want\n%s", b, got, want)
		}
		var method *string
		json.Unmarshal(o["method"], &method)
		if method != nil && *method != string(m.Method) || method == nil && m.Method != nil {
			t.Errorf("%q: method %q", b, m.Method)
		}
		if !bytes.Equal(m.ID, o["id"]) {
			t.Errorf("%q: id %q", b, m.ID)
		}
		has, e := slowError(o["error"])
		if m.HasError != has || m.Error.Code != e.Code || !bytes.Equal(m.Error.Message, e.Message) || !bytes.Equal(m.Error.Data, e.Data) {
			t.Errorf("%q: error %+v, want %+v", b, m.Error, e)
		}
		_, hasResult := o["result"]
		if m.HasResult != hasResult {
			t.Errorf("%q: result %t", b, m.HasResult)
		}
		body, both := o["params"], o["params"] != nil && hasResult
		if hasResult {
			body = o["result"]
		}
		if got, want := m.Fields.text(), slowFields(body).text(); got != want && !both {
			t.Errorf("%q: fields of the body\n%s, want\n%s", b, got, want)
		}
	})
}

func deep(b []byte) bool { return bytes.Count(b, []byte("["))+bytes.Count(b, []byte("{")) > maxDepth }

func FuzzAppendString(f *testing.F) {
	f.Add("a\"\\\n\x00é\xff")
	f.Fuzz(func(t *testing.T, s string) {
		var got string
		if err := json.Unmarshal(AppendString(nil, s), &got); err != nil {
			t.Fatal(err)
		}
		if want := strings.ToValidUTF8(s, "\ufffd"); utf8.ValidString(s) && got != want {
			t.Errorf("%q became %q", s, got)
		}
	})
}

func TestRequest(t *testing.T) {
	o := BeginObject(nil)
	o.String("name", `a"b`)
	o.Raw("cursor", nil)
	o.Int("maxEvents", 5)
	got := string(Request(7, "events/poll", o.End()))
	if want := `{"jsonrpc":"2.0","id":7,"method":"events/poll","params":{"name":"a\"b","cursor":null,"maxEvents":5}}`; got != want {
		t.Errorf("got %s", got)
	}
	e := BeginObject(nil)
	if got := string(Notification("n", e.End())); got != `{"jsonrpc":"2.0","method":"n","params":{}}` {
		t.Errorf("got %s", got)
	}
}

func TestScanAllocatesNothing(t *testing.T) {
	b := []byte(sampleFrame)
	var m Message
	if n := testing.AllocsPerRun(100, func() { ScanMessage(b, &m) }); n != 0 {
		t.Errorf("%g allocations", n)
	}
}

func BenchmarkScanMessage(b *testing.B) {
	frame := []byte(sampleFrame)
	var m Message
	b.ReportAllocs()
	b.SetBytes(int64(len(frame)))
	for b.Loop() {
		ScanMessage(frame, &m)
	}
}

// TestSpecial holds eight bytes at once to one at a time.
func TestSpecial(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	odd := []byte{0, 1, 0x1f, ' ', '!', '"', '#', '[', '\\', ']', 0x7f, 0x80, 0xa2, 0xdc, 0xff}
	for range 200_000 {
		var b [8]byte
		for i := range b {
			if b[i] = byte(r.Uint32()); r.IntN(2) == 0 {
				b[i] = odd[r.IntN(len(odd))]
			}
		}
		want := 0
		for want < 8 && plain[b[want]] {
			want++
		}
		if got := bits.TrailingZeros64(special(binary.LittleEndian.Uint64(b[:]))) / 8; got != want {
			t.Fatalf("%q: %d, want %d", b, got, want)
		}
	}
}
