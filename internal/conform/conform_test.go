package conform_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/internal/conform"
)

var update = flag.Bool("update", false, "write docs/conformance.md again")

// TestRows holds the table to the list of the suite: 135 rows for servers, each of
// which is judged or says why not.
func TestRows(t *testing.T) {
	if n := len(conform.Rows); n != 135 {
		t.Errorf("%d rows, want 135", n)
	}
	text, err := os.ReadFile("testdata/rows.txt")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Fields(string(text))
	if len(want) != len(conform.Rows) {
		t.Fatalf("%d rows, and %d in the list", len(conform.Rows), len(want))
	}
	seen := map[string]bool{}
	judged := 0
	for i, r := range conform.Rows {
		if r.Name != want[i] || seen[r.Name] {
			t.Errorf("row %d is %q, want %q, once", i, r.Name, want[i])
		}
		seen[r.Name] = true
		if r.Level == "" || r.Requires == "" || r.Section == "" || r.Lanes == "" {
			t.Errorf("%s lacks something: %+v", r.Name, r)
		}
		if (len(r.At) == 0) != (r.Unseen != "") {
			t.Errorf("%s is neither judged nor says why not: %+v", r.Name, r)
		}
		if r.Unseen == "" {
			judged++
		}
	}
	if judged < 40 {
		t.Errorf("%d rows are judged, want 40 or more", judged)
	}
}

// TestDocs holds docs/conformance.md to the table. Run it with -update to write the
// page again. What breaks a row, and what a check does, is written there by people.
func TestDocs(t *testing.T) {
	const page, mark, unjudged = "../../docs/conformance.md", "<!-- rows -->\n", "*not judged:* "
	old, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, table, ok := strings.Cut(string(old), mark)
	if !ok {
		t.Fatalf("%s has no %q", page, mark)
	}
	written := map[string][]string{} // the last two cells of rows, by name
	for line := range strings.Lines(table) {
		if cells := strings.Split(strings.TrimSuffix(line, " |\n"), " | "); len(cells) == 6 {
			written[strings.Trim(cells[0], "| `")] = cells[4:]
		}
	}
	var b strings.Builder
	b.WriteString(head + mark)
	section := ""
	for _, r := range conform.Rows {
		if r.Section != section {
			section = r.Section
			fmt.Fprintf(
				&b,
				"\n### %s\n\n| row | level | promise | lanes | broken in a run by, or why not judged | what a check does "+
					"|\n|---|---|---|---|---|---|\n",
				section,
			)
		}
		how, check := unjudged+r.Unseen, ""
		if cells := written[r.Name]; cells != nil {
			check = cells[1]
			if r.Unseen == "" {
				how = cells[0]
			}
		}
		if r.Unseen == "" && (how == "" || strings.HasPrefix(how, unjudged)) {
			t.Errorf("%s does not say what breaks %s", page, r.Name)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", r.Name, r.Level, r.Requires, r.Lanes, how, check)
	}
	if *update {
		if err := os.WriteFile(page, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if b.String() != string(old) {
		t.Errorf("%s differs from the table; run go test ./internal/conform -run TestDocs -update", page)
	}
}

// TestAccount: seen are all occasions of a row, and what breaks a row shows it; the
// earliest example stands, also over the parts of a run.
func TestAccount(t *testing.T) {
	var a, b conform.Tally
	for sub := range uint32(40) {
		a.See(sub, conform.StreamEvent)
		b.See(sub, conform.Delivery)
	}
	a.Break(7, 50, conform.OccurrenceName, []byte("late"))
	a.Break(9, 40, conform.OccurrenceName, []byte("early \x1b[31m"+strings.Repeat("x", 1000)))
	b.Break(3, 90, conform.OccurrenceName, []byte("later"))
	b.Break(3, 91, conform.StreamHeartbeatRequired, []byte("silence"))
	got := a.Account().Of("push", 4).Plus(b.Account().Of("webhook", 0))
	if c := got["occurrence-name"]; c.Seen != 80 || c.Broken != 3 || c.First == nil || c.First.Subscription != 9 ||
		c.First.At != 40 || c.First.Lane != "push" ||
		!strings.HasPrefix(c.First.Message, "early") ||
		strings.Contains(c.First.Message, "\x1b") ||
		len(c.First.Message) > 210 {
		t.Errorf("occurrence-name is %+v, %+v", c, c.First)
	}
	if c := got["stream-heartbeat-required"]; c.Seen != 1 || c.Broken != 1 {
		t.Errorf("stream-heartbeat-required is %+v", c)
	}
	if _, ok := got["poll-events-array"]; ok {
		t.Error("poll-events-array was not seen")
	}
	if c := got["occurrence-event-id-from-upstream"]; c.Seen != 80 || c.Broken != 4 {
		t.Errorf("occurrence-event-id-from-upstream is %+v", c)
	}
	var none *conform.Tally
	none.See(1, conform.Delivery)
	none.Break(1, 1, conform.OccurrenceName, nil)
	if got := none.Account().Of("", 1).Plus(nil); got != nil {
		t.Errorf("nobody judged, and there is %v", got)
	}
}

func TestSeeingAllocatesNothing(t *testing.T) {
	var tally conform.Tally
	if n := testing.AllocsPerRun(100, func() { tally.See(3, conform.StreamEvent) }); n != 0 {
		t.Errorf("%g allocations", n)
	}
}

// BenchmarkSee is what a message costs that breaks nothing, beside its checks.
func BenchmarkSee(b *testing.B) {
	var tally conform.Tally
	b.ReportAllocs()
	for b.Loop() {
		tally.See(3, conform.StreamEvent)
	}
}
