package events

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/sinks"
)

// diary is a Recorder that keeps the notices about received requests.
type diary struct {
	deaf
	delivered []eventmeter.Delivery
	noticed   []eventmeter.Notice
	called    []eventmeter.Call
}

func (d *diary) Delivered(v eventmeter.Delivery) { d.delivered = append(d.delivered, v) }

func (d *diary) Noticed(n eventmeter.Notice) { d.noticed = append(d.noticed, n) }

func (d *diary) Called(c eventmeter.Call) {
	if c.Method != "events/subscribe" && c.Method != "events/unsubscribe" {
		d.called = append(d.called, c)
	}
}

// expectation is what has to be reported of one request to a hook.
type expectation struct {
	status    int
	delivered bool
	kinds     []eventmeter.NoticeKind
	messageID bool // the webhook-id is not the event's
}

// expectedOf is the rule, told from the request by encoding/json alone.
func expectedOf(body []byte, header string, signed bool) (want expectation, answer any) {
	if !signed {
		return expectation{status: http.StatusUnauthorized, kinds: []eventmeter.NoticeKind{eventmeter.Rejected}}, nil
	}
	var o map[string]json.RawMessage
	if json.Unmarshal(body, &o) != nil || o == nil {
		return expectation{status: http.StatusBadRequest, kinds: []eventmeter.NoticeKind{eventmeter.Malformed}}, nil
	}
	text := func(key string) string {
		var s *string
		if json.Unmarshal(o[key], &s) != nil || s == nil {
			return ""
		}
		return *s
	}
	id, kind := text("eventId"), text("type")
	if kind == "" || id != "" {
		want = expectation{status: http.StatusOK, delivered: true}
		if id == "" {
			want.kinds = append(want.kinds, eventmeter.Malformed)
		}
		want.messageID = id != "" && id != header
		return want, nil
	}
	want.status = http.StatusOK
	switch kind {
	case "verification":
		if o["challenge"] == nil {
			return expectation{status: http.StatusBadRequest, kinds: []eventmeter.NoticeKind{eventmeter.Malformed}}, nil
		}
		var challenge any
		_ = json.Unmarshal(o["challenge"], &challenge) // it was read already
		return want, map[string]any{"challenge": challenge}
	case "gap":
		want.kinds = []eventmeter.NoticeKind{eventmeter.Truncated}
	case "terminated":
		want.kinds = []eventmeter.NoticeKind{eventmeter.Terminated}
	default:
		want.kinds = []eventmeter.NoticeKind{eventmeter.Malformed}
	}
	return want, nil
}

// FuzzWebhookBody: whatever is posted to a callback is answered and reported as
// encoding/json and the rules above say: once, with nothing delivered that was
// not signed, and nothing lost that was.
func FuzzWebhookBody(f *testing.F) {
	for _, body := range []string{
		"{" + occurrence + "}", "", "{}", "null", "[]", `"x"`, "{", "{}{}", `{"eventId":"e-1"}`, `{"eventId":""}`,
		`{"eventId":7,"type":"gap"}`, `{"eventId":null}`,
		`{"type":"verification","challenge":"n-7"}`, `{"type":"verification"}`,
		`{"type":"verification","challenge":{"a":[1]}}`, `{"type":"gap","cursor":"c7"}`,
		`{"type":"terminated"}`, `{"type":"terminated","error":{"code":-32012,"message":"gone"}}`,
		`{"type":"terminated","error":{"code":-32603}}`, `{"type":"else"}`,
		`{"eventId":"e-90","data":"evtm-00000001-0000-00000001-26"}`, `{"data":"evtm-00000001-0000-00000001-26"}`,
		strings.Repeat(`{"a":`, 600) + strings.Repeat("}", 600),
		strings.Repeat(" ", 300_000), "{\"eventId\":\"\xff\"}", `{"eventId":"a","eventId":"b"}`,
		`{"type":"gap","type":"terminated","eventId":""}`,
	} {
		f.Add([]byte(body), "e-90", uint8(0))
	}
	f.Add([]byte("{"+occurrence+"}"), "e-91", uint8(0))
	f.Add([]byte("{"+occurrence+"}"), "e-90", uint8(1))
	f.Add([]byte("{"+occurrence+"}"), "e-90", uint8(2))
	f.Add([]byte("{"+occurrence+"}"), "e-90", uint8(3))
	f.Fuzz(func(t *testing.T, body []byte, id string, how uint8) {
		if id == "" || strings.ContainsFunc(id, func(r rune) bool { return r < ' ' || r > '~' }) {
			return // no header field can hold it
		}
		_, r, _ := idle(t, eventmeter.Webhook, false)
		rec := &diary{}
		k := r.hook
		k.d.Recorder = rec
		cur, _ := k.valid(1)
		now := time.Now()
		req := httptest.NewRequest(http.MethodPost, k.Path, bytes.NewReader(body))
		signed := how%4 == 0
		req.Header.Set(wire.HeaderWebhookID, id)
		req.Header.Set(wire.HeaderSubscriptionID, "s-1") // any will do before the grant
		req.Header.Set(wire.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
		switch how % 4 {
		case 1: // by another secret
			req.Header.Set(wire.HeaderWebhookSignature, wire.NewKey([]byte("another secret")).Sign(id, now, body))
		case 2: // not at all
		case 3: // of another body
			req.Header.Set(wire.HeaderWebhookSignature, cur.Sign(id, now, append(slices.Clone(body), ' ')))
		default:
			req.Header.Set(wire.HeaderWebhookSignature, cur.Sign(id, now, body))
		}
		answered := httptest.NewRecorder()
		k.d.Receiver.ServeHTTP(answered, req)

		if len(rec.called) != 1 || rec.called[0].Down < int64(len(body)) {
			t.Fatalf("%q: %d requests were counted, with %+v", body, len(rec.called), rec.called)
		}
		if int64(len(body)) > sinks.DefaultBodyLimit {
			if answered.Code != http.StatusRequestEntityTooLarge || len(rec.delivered) > 0 {
				t.Errorf("a body of %d bytes was answered %d, with %d deliveries", len(body), answered.Code, len(rec.delivered))
			}
			if len(rec.noticed) != 2 || rec.noticed[0].Kind != eventmeter.Oversized || rec.noticed[1].Kind != eventmeter.Malformed {
				t.Errorf("a body of %d bytes: %+v", len(body), rec.noticed)
			}
			return
		}
		if len(rec.delivered) > 0 && (!signed || len(rec.delivered) > 1) {
			t.Fatalf("%q: %d deliveries, signed %t", body, len(rec.delivered), signed)
		}
		if bytes.Count(body, []byte("["))+bytes.Count(body, []byte("{")) > 512 {
			return // nested deeper than is read
		}
		if signed && (!utf8.Valid(body) || bytes.Contains(body, []byte(`\ud`)) || bytes.Contains(body, []byte(`\uD`))) {
			return // what becomes of broken text is not compared
		}
		want, challenge := expectedOf(body, id, signed)
		var kinds []eventmeter.NoticeKind
		for _, n := range rec.noticed {
			if n.Kind == eventmeter.TransientError && slices.Contains(want.kinds, eventmeter.Terminated) {
				n.Kind = eventmeter.Terminated // which of the two, its code says
			}
			if kinds = append(kinds, n.Kind); len(n.Detail) > 210 || strings.Contains(n.Detail, "\n") {
				t.Errorf("%q: a notice of %d bytes: %.300q", body, len(n.Detail), n.Detail)
			}
		}
		if answered.Code != want.status || len(rec.delivered) == 1 != want.delivered || !slices.Equal(kinds, want.kinds) {
			t.Errorf("%q: answered %d, %d deliveries, notices %v; want %+v", body, answered.Code, len(rec.delivered), rec.noticed, want)
		}
		if counted := k.d.Figures().Values["messageIDs"] == 1; counted != want.messageID {
			t.Errorf("%q with the id %q: counted as an id of the message: %t", body, id, counted)
		}
		answer := 0
		if want.status > 299 {
			answer = want.status
		}
		// A verification is counted before it is looked into.
		if c := rec.called[0]; c.Answered != answer && c.Cause != eventmeter.Verification {
			t.Errorf("%q: answered %d, and counted as %d", body, want.status, c.Answered)
		}
		stamp, probed := eventmeter.FindStamp(body)
		if want.status > 299 && !want.delivered && rec.called[0].Cause == eventmeter.Events && len(rec.noticed) == 1 {
			if n := rec.noticed[0]; n.Refused != probed || probed && n.Stamp != stamp {
				t.Errorf("%q: refused with %+v, and its probe is %+v, %t", body, n, stamp, probed)
			}
		}
		if challenge != nil {
			var got any
			if err := json.Unmarshal(answered.Body.Bytes(), &got); err != nil || !reflect.DeepEqual(got, challenge) {
				t.Errorf("%q: answered %s, want %v", body, answered.Body, challenge)
			}
		}
		if want.delivered && len(rec.delivered) == 1 {
			v := rec.delivered[0]
			if v.Probed != probed || v.Stamp != stamp || v.EventID == 0 || v.Bytes < len(body) {
				t.Errorf("%q: delivered as %+v", body, v)
			}
		}
	})
}
