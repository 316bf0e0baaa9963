package breach_test

import (
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/conform"
	"github.com/eventmeter/eventmeter/internal/refserver/breach"
)

// unbreakable are the rows that no server can break, or that nobody could tell, and why.
var unbreakable = map[string]string{
	"capability-client-declaration":           "a rule for clients",
	"poll-one-subscription-per-request":       "a rule for clients",
	"poll-next-poll-ms-ignored-when-has-more": "a rule for clients",
	"removal-additive-no-terminate":           "the server has no additive change of a schema",
	"occurrence-meta-ungoverned":              "nobody compares events with the payload schema",
	"server-identity-key-discovery":           "the draft leaves open where the key is found",
}

// TestTable: the table has every row that a server can break, and no other, in lanes that
// have it.
func TestTable(t *testing.T) {
	rows := map[string]bool{}
	for _, r := range conform.Rows {
		rows[r.Name] = true
		b, has := breach.Table[r.Name]
		if why := unbreakable[r.Name]; has == (why != "") {
			t.Errorf("%s: in the table: %v; unbreakable: %q", r.Name, has, why)
		}
		for _, mode := range b.Modes {
			if !strings.Contains(r.Lanes, string(mode)) {
				t.Errorf("%s: lanes by %s do not have it", r.Name, mode)
			}
		}
	}
	for row, b := range breach.Table {
		if !rows[row] {
			t.Errorf("%s is no row", row)
		}
		if b.Does == "" || (len(b.Follows) > 0) != (b.Why != "") {
			t.Errorf("%s: %q, %q follow because %q", row, b.Does, b.Follows, b.Why)
		}
		for _, f := range b.Follows {
			if !rows[f] {
				t.Errorf("%s: %s, which follows, is no row", row, f)
			}
		}
	}
}

// TestPageListsRows: docs/faults.md has the table.
func TestPageListsRows(t *testing.T) {
	const page, begin, end = "../../../docs/faults.md", "<!-- broken rows -->\n", "<!-- end of broken rows -->"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s has no %s", page, begin)
	}
	var b strings.Builder
	b.WriteString("\n| row | the server … | modes | rows that follow |\n|---|---|---|---|\n")
	for _, r := range conform.Rows {
		of, has := breach.Table[r.Name]
		if !has {
			continue
		}
		modes := r.Lanes
		if of.Modes != nil {
			var names []string
			for _, m := range of.Modes {
				names = append(names, string(m))
			}
			modes = strings.Join(names, ", ")
		}
		b.WriteString("| `" + r.Name + "` | " + of.Does + " | " + modes + " | ")
		for i, f := range of.Follows {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString("`" + f + "`")
		}
		if of.Why != "" {
			b.WriteString(": " + of.Why)
		}
		b.WriteString(" |\n")
	}
	want := before + begin + b.String() + "\n" + end + after
	if want == string(text) {
		return
	}
	if os.Getenv("UPDATE") == "" {
		t.Fatalf("%s differs from the table: run UPDATE=1 go test ./internal/refserver/breach", page)
	}
	if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestSelection(t *testing.T) {
	open := int64(0)
	s := breach.New(
		[]breach.Plan{
			{Row: "stream-implemented", Every: 3, Above: 10, Mode: eventmeter.Push},
			{Row: "list-changed-notification", At: time.Nanosecond},
		},
		func() int64 { return open },
	)
	broken := func(n int) (all int) {
		for range n {
			if s.Breaks("stream-implemented", eventmeter.Push) {
				all++
			}
		}
		return all
	}
	if n := broken(9); n != 0 {
		t.Errorf("%d of 9 occasions at rest", n)
	}
	open = 11
	if n := broken(9); n != 3 {
		t.Errorf("%d of 9 occasions, want each third", n)
	}
	if s.Breaks("stream-implemented", eventmeter.Poll) || s.Breaks("stream-error-before-open", eventmeter.Push) {
		t.Error("another mode or row is broken")
	}
	if s.Breaks("list-changed-notification", "") {
		t.Error("broken before the first event")
	}
	s.Begin(time.Now().Add(-time.Second))
	if !s.Breaks("list-changed-notification", "") {
		t.Error("not broken a second after the first event")
	}
	if got := s.Broken(); got["stream-implemented"] != 3 || got["list-changed-notification"] != 1 || len(got) != 2 {
		t.Errorf("broken: %v", got)
	}
	if none := breach.New(nil, nil); none != nil || none.Breaks("stream-implemented", eventmeter.Push) {
		t.Error("a set of no rows breaks one")
	}
}

// TestMessages: an edit changes the messages of its kind, and leaves every byte of others.
func TestMessages(t *testing.T) {
	set := func(row string) *breach.Set {
		return breach.New([]breach.Plan{{Row: row}}, func() int64 { return 0 })
	}
	const event, beat = `data: {"jsonrpc":"2.0","method":"notifications/events/event","params":{"eventId":"e",` +
		`"data":{"n":12345678901234567890}}}` + "\n\n",
		`data: {"jsonrpc": "2.0","method":"notifications/events/heartbeat","params":{"cursor":"c"}}` + "\n\n"
	const comment = ": still here\n\n"
	if got, want := string(
		set("occurrence-event-id").Frames([]byte(beat+event+comment)),
	), beat+`data: {"jsonrpc":"2.0","method":"notifications/events/event",`+
		`"params":{"data":{"n":12345678901234567890}}}`+"\n\n"+comment; got != want {
		t.Errorf("frames:\n%s\nwant\n%s", got, want)
	}
	status, body := set(
		"unsubscribe-unknown-not-found",
	).Answer("events/unsubscribe", nil, 200, []byte(`{"id":1,"error":{"code":-32023}}`), http.Header{})
	if string(body) != `{"id":1,"result":{"resultType":"complete"}}` || status != 200 {
		t.Errorf("answer: %d %s", status, body)
	}
	h := http.Header{"X-MCP-Subscription-Id": {"s"}, "webhook-id": {"e"}, "webhook-timestamp": {"1"}, "webhook-signature": {"v1,a"}}
	retries := set("delivery-retry-regenerates-signature")
	if got := retries.Sent(
		h,
		[]byte(`{"eventId":"e","cursor":"1"}`),
	); string(got) != `{"eventId":"e","cursor":"1"}` ||
		h["webhook-timestamp"][0] != "1" {
		t.Errorf("first attempt: %s %v", got, h)
	}
	h["webhook-timestamp"], h["webhook-signature"] = []string{"2"}, []string{"v1,b"}
	if got := retries.Sent(
		h,
		[]byte(`{"eventId":"e","cursor":"2"}`),
	); string(got) != `{"eventId":"e","cursor":"1"}` || h["webhook-timestamp"][0] != "1" ||
		h["webhook-signature"][0] != "v1,a" {
		t.Errorf("second attempt: %s %v", got, h)
	}
}
