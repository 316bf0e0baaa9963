package conform_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/internal/conform"
)

// TestClientDocs holds docs/conformance.md to the table of rows for clients. Run it with
// -update to write that part again.
func TestClientDocs(t *testing.T) {
	const page, begin, end = "../../docs/conformance.md", "<!-- client rows -->\n", "<!-- end of client rows -->\n"
	old, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(old), begin)
	_, tail, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s lacks %q or %q", page, begin, end)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s%s\n| row | promise | lanes | broken by | held |\n|---|---|---|---|---|\n", head, begin)
	names := map[string]bool{}
	for _, r := range conform.ClientRows {
		if names[r.Name] || !strings.HasPrefix(r.Name, "client-") || r.Requires == "" || r.Lanes == "" || r.Broken == "" {
			t.Errorf("%s stands twice, or lacks something: %+v", r.Name, r)
		}
		names[r.Name] = true
		held := "yes"
		if r.Deviates != "" {
			held = "*no:* " + r.Deviates
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", r.Name, r.Requires, r.Lanes, r.Broken, held)
	}
	if len(names) != 10 {
		t.Errorf("%d rows, want 10", len(names))
	}
	b.WriteString("\n" + end + tail)
	if *update {
		if err := os.WriteFile(page, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if b.String() != string(old) {
		t.Errorf("%s differs from the table; run go test ./internal/conform -run TestClientDocs -update", page)
	}
}
