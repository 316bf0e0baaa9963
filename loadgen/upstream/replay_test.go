package upstream_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/loadgen/upstream"
)

var (
	_ upstream.Upstream   = (*upstream.Replay)(nil)
	_ upstream.Sourcer    = (*upstream.Replay)(nil)
	_ eventmeter.Recorder = (*upstream.TraceRecorder)(nil)
	_ eventmeter.Observer = (*upstream.TraceRecorder)(nil)
)

const oldProbe = "evtm-00000005-0001-00000007-" // completed by old

func old() string { return eventmeter.Stamp{Run: 5, Source: 1, Seq: 7}.String() }

func TestReadTrace(t *testing.T) {
	text := "\ufeff# a comment\n\n" + `{"t":0.5,"source":2,"event":"chat.message","payload":{"text": "a b"}}` + "\n" +
		`{"t":1.000000001,"payload":{}}` + "\n" + `{"t":1.000000001,"payload":{"n":1.50}}`
	got, err := upstream.ReadTrace(strings.NewReader(text))
	must(t, err)
	want := []upstream.TraceEntry{
		{At: 500 * time.Millisecond, Source: 2, Event: "chat.message", Payload: json.RawMessage(`{"text":"a b"}`)},
		{At: time.Second + 1, Payload: json.RawMessage(`{}`)},
		{At: time.Second + 1, Payload: json.RawMessage(`{"n":1.50}`)},
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v\nwant %v", got, want)
	}
	// What is written is read again as it was.
	var again []byte
	for _, e := range got {
		if again, err = e.Append(again); err != nil {
			t.Fatal(err)
		}
	}
	if twice, err := upstream.ReadTrace(bytes.NewReader(again)); err != nil || fmt.Sprint(twice) != fmt.Sprint(want) {
		t.Errorf("%v, %v\n%s", twice, err, again)
	}
	walls := `{"time":"2026-01-02T03:04:05.5Z","payload":{}}` + "\n" + `{"time":"2026-01-02T04:04:07Z","payload":{}}`
	if got, err := upstream.ReadTrace(
		strings.NewReader(walls),
	); err != nil || got[0].At != 0 ||
		got[1].At != time.Hour+1500*time.Millisecond {
		t.Errorf("%v, %v", got, err)
	}
	for text, want := range map[string]string{
		"":                             "it has no entries",
		"# nothing":                    "it has no entries",
		`{"t":1}`:                      "line 1: its payload is not a JSON object",
		`{"t":1,"payload":[]}`:         "line 1: its payload is not a JSON object",
		`{"payload":{}}`:               "line 1: give either t, in seconds, or time",
		`{"t":-1,"payload":{}}`:        "line 1: t -1 is out of range",
		`{"t":1,"x":2,"payload":{}}`:   `line 1: json: unknown field "x"; write it like`,
		`{"t":1,"payload":{}} {"t":2}`: "line 1: there is more than one object",
		"{\"t\":2,\"payload\":{}}\n\n{\"t\":1,\"payload\":{}}":                         "line 3: it is earlier than the line before",
		"{\"t\":2,\"payload\":{}}\n{\"time\":\"2026-01-02T03:04:05Z\",\"payload\":{}}": "line 2: some lines have t and some have time",
		"{\"time\":\"2026-01-02T03:04:05Z\",\"payload\":{}}\n{\"t\":2,\"payload\":{}}": "line 2: some lines have t and some have time",
		`{"t":1,"source":70000,"payload":{}}`:                                          "line 1: ",
		"nonsense":                                                                     "line 1: ",
	} {
		if _, err := upstream.ReadTrace(
			strings.NewReader(text),
		); err == nil || !strings.HasPrefix(err.Error(), "bad trace: ") ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func FuzzReadTrace(f *testing.F) {
	f.Add([]byte(`{"t":0.5,"source":2,"event":"e","payload":{"text":"a"}}` + "\n" + `{"t":7,"payload":{}}`))
	f.Add([]byte(`{"time":"2026-01-02T03:04:05.5Z","payload":{"x":[1,2]}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := upstream.ReadTrace(bytes.NewReader(text))
		if err != nil {
			return
		}
		var again []byte
		for i, e := range got {
			if e.At < 0 || i > 0 && e.At < got[i-1].At || !json.Valid(e.Payload) {
				t.Fatalf("entry %d: %+v", i, e)
			}
			if again, err = e.Append(again); err != nil {
				t.Fatal(err)
			}
		}
		twice, err := upstream.ReadTrace(bytes.NewReader(again))
		if err != nil || len(twice) != len(got) {
			t.Fatalf("%d entries become %d: %v\n%s", len(got), len(twice), err, again)
		}
		for i := range got {
			a, b := got[i], twice[i]
			if a.Source != b.Source || a.Event != b.Event || (a.At-b.At).Abs() > time.Microsecond {
				t.Fatalf("%+v became %+v", a, b)
			}
		}
	})
}

func TestReplay(t *testing.T) {
	p := newProduct(t)
	trace := []upstream.TraceEntry{
		{Source: 1, Event: "a.b", Payload: json.RawMessage(`{"text":"one ` + old() + ` two ` + old() + `","n":1.50}`)},
		{Source: 4, Payload: json.RawMessage(`{"text":"hello","deep":{"note":7}}`)},
		{Payload: json.RawMessage(`{"text":"evtm-looks like one ` + oldProbe + `zz"}`)},
	}
	r, err := upstream.NewReplay(upstream.ReplayOptions{Trace: trace, Probe: "text", Admin: p.URL, Event: "other"})
	must(t, err)
	if r.Source(0) != 1 || r.Source(1) != 4 || r.Source(4) != 4 || r.Sources() != 5 {
		t.Errorf("sources %d %d %d of %d", r.Source(0), r.Source(1), r.Source(4), r.Sources())
	}
	stamp := eventmeter.Stamp{Run: 9, Source: 1, Seq: 3}
	n := stamp.String()
	want := []string{
		`{"name":"a.b","data":{"text":"one ` + n + ` two ` + n + `","n":1.50}}`,
		`{"name":"other","data":{"deep":{"note":7},"text":"hello ` + n + `"}}`,
		`{"name":"other","data":{"text":"evtm-looks like one ` + oldProbe + `zz ` + n + `"}}`,
		`{"name":"a.b","data":{"text":"one ` + n + ` two ` + n + `","n":1.50}}`,
	}
	for i, w := range want {
		fired(t, r, eventmeter.Accepted, upstream.Emission{Stamp: stamp, Number: uint64(i)})
		if got := p.got[i].body; got != w {
			t.Errorf("event %d: %s\nwant %s", i, got, w)
		}
	}
	if event, text := r.Content(
		upstream.Emission{Stamp: stamp},
	); event != "a.b" ||
		string(text) != `{"text":"one `+n+` two `+n+`","n":1.50}` {
		t.Errorf("%s %s", event, text)
	}
	posted, err := upstream.NewReplay(
		upstream.ReplayOptions{Trace: trace[:1], URL: p.URL + "/in", Headers: map[string]string{"x-key": "k"}},
	)
	must(t, err)
	fired(t, posted, eventmeter.Accepted, upstream.Emission{Stamp: stamp})
	if got := p.got[4]; got.body != `{"text":"one `+n+` two `+n+`","n":1.50}` || got.header.Get("X-Key") != "k" {
		t.Errorf("%+v", got)
	}
}

func TestReplayPlacesProbes(t *testing.T) {
	stamp := eventmeter.Stamp{Run: 9, Seq: 3}
	for _, c := range []struct{ payload, path, want string }{
		{`{}`, "a.b", `{"a":{"b":"PROBE"}}`},
		{`{"a":{"b":"x","c":12345678901234567890}}`, "a.b", `{"a":{"b":"x PROBE","c":12345678901234567890}}`},
		{`{"a":""}`, "a", `{"a":"PROBE"}`},
		{`{"a":"<&>"}`, "a", `{"a":"<&> PROBE"}`},
		{`{"a":1}`, "a", `"a" is not a text`},
		{`{"a":1}`, "a.b", `"a" is not an object`},
		{`{"a":1}`, "", "holds no probe id; set upstream.replay.probe"},
	} {
		r, err := upstream.NewReplay(
			upstream.ReplayOptions{
				URL:   "http://127.0.0.1:1/",
				Probe: c.path,
				Trace: []upstream.TraceEntry{{Payload: json.RawMessage(c.payload)}},
			},
		)
		if err != nil {
			if !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "entry 1: ") {
				t.Errorf("%s at %s: %v", c.payload, c.path, err)
			}
			continue
		}
		_, text := r.Content(upstream.Emission{Stamp: stamp})
		if want := strings.ReplaceAll(c.want, "PROBE", stamp.String()); string(text) != want {
			t.Errorf("%s at %s: %s, want %s", c.payload, c.path, text, want)
		}
		_ = r.Close()
	}
	ok := []upstream.TraceEntry{{Payload: json.RawMessage(`{"a":"` + old() + `"}`)}}
	for name, o := range map[string]upstream.ReplayOptions{
		"no event":                    {Trace: ok, Admin: "http://127.0.0.1:1"},
		"is empty":                    {URL: "http://127.0.0.1:1"},
		"want a URL":                  {Trace: ok},
		"either of an admin listener": {Trace: ok, Admin: "http://127.0.0.1:1", URL: "http://127.0.0.1:1"},
	} {
		if _, err := upstream.NewReplay(o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTraceOfWhatIsFired(t *testing.T) {
	var out bytes.Buffer
	r := upstream.NewTraceRecorder(&out, func(s upstream.Emission) (string, []byte) {
		return "e", payload(nil, int(s.Source), s.Seq, s.Stamp.String())
	})
	early := emissionOf(1, false)
	early.Fired = 900
	r.Start(1000)
	r.Fired(early)
	for i, fired := range []eventmeter.Instant{1000, 1_000_001_000, 1_000_000_000} { // the last two have changed places
		s := emissionOf(uint32(i+2), true)
		s.Source, s.Fired = uint16(i), fired
		r.Fired(s)
	}
	r.Observed(eventmeter.Observation{At: 5000, Message: []byte(`{"data":{}}`)})
	if n, err := r.Close(); n != 3 || err != nil {
		t.Fatal(n, err)
	}
	want := ""
	for i, at := range []string{"0.000000000", "1.000000000", "1.000000000"} {
		source := ""
		if i > 0 {
			source = fmt.Sprintf(`,"source":%d`, i)
		}
		stamp := eventmeter.Stamp{Run: 1, Source: uint16(i), Seq: uint32(i + 2)}
		want += `{"t":` + at + source + `,"event":"e","payload":` + string(payload(nil, i, stamp.Seq, stamp.String())) + "}\n"
	}
	if out.String() != want {
		t.Errorf("%s\nwant\n%s", out.String(), want)
	}
}

func TestTraceOfWhatArrives(t *testing.T) {
	var out bytes.Buffer
	r := upstream.NewTraceRecorder(&out, nil)
	see := func(sub eventmeter.Sub, at eventmeter.Instant, id uint64, message string) {
		r.Observed(eventmeter.Observation{Sub: sub, At: at, EventID: id, Message: []byte(message)})
	}
	first, second := eventmeter.Sub{}, eventmeter.Sub{Index: 1}
	see(first, 10, 1, `{"name":"early","data":{}}`)
	r.Start(1000)
	see(first, 999, 2, `{"name":"early","data":{}}`)
	see(second, 1000, 3, `{"jsonrpc":"2.0","method":"m","params":{"eventId":"x","name":"a","data":{"n":1}}}`)
	see(first, 1001, 3, `{"jsonrpc":"2.0","method":"m","params":{"eventId":"x","name":"a","data":{"n":1}}}`)
	see(second, 1002, 0, `{"name":"no id, and not the first"}`)
	see(first, 1003, 0, `{"name":"b","data":{"n":2}}`)
	see(first, 1004, 4, `{"kind":"foreign"}`)
	see(first, 1005, 5, `not JSON`)
	r.Fired(emissionOf(1, true))
	if n, err := r.Close(); n != 3 || err != nil {
		t.Fatal(n, err)
	}
	want := `{"t":0.000000000,"event":"a","payload":{"n":1}}
{"t":0.000000003,"event":"b","payload":{"n":2}}
{"t":0.000000004,"payload":{"kind":"foreign"}}
`
	if out.String() != want {
		t.Errorf("%s\nwant\n%s", out.String(), want)
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("the disk is full") }

func TestTraceThatCannotBeWritten(t *testing.T) {
	r := upstream.NewTraceRecorder(brokenWriter{}, nil)
	r.Start(1)
	r.Observed(eventmeter.Observation{At: 2, EventID: 1, Message: []byte(`{"data":{}}`)})
	if _, err := r.Close(); err == nil || !strings.Contains(err.Error(), "the disk is full") {
		t.Error(err)
	}
}
