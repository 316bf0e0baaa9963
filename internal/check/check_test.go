package check

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/internal/conform"
)

// TestSteps: docs/conformance.md says what a check does for a row if and only if a step judges it.
func TestSteps(t *testing.T) {
	page, err := os.ReadFile("../../docs/conformance.md")
	if err != nil {
		t.Fatal(err)
	}
	judged, names := map[conform.ID]bool{}, map[string]bool{}
	for _, s := range Steps {
		if s.Name == "" || names[s.Name] || len(s.Rows) == 0 || s.do == nil {
			t.Errorf("step %+v lacks something, or its name is taken", s)
		}
		names[s.Name] = true
		for _, row := range s.Rows {
			judged[row] = true
		}
	}
	for id, row := range conform.Rows {
		_, line, known := strings.Cut(string(page), "\n| `"+row.Name+"` | ")
		line, _, _ = strings.Cut(line, "\n")
		if says := !strings.HasSuffix(line, "|  |"); judged[conform.ID(id)] != says || !known {
			t.Errorf("%s: a step judges it: %v; the page says %q", row.Name, judged[conform.ID(id)], line)
		}
	}
}

func TestInvalidArgument(t *testing.T) {
	for schema, want := range map[string]string{
		`{"type":"object","properties":{"a":{"type":"string"}}}`:               `{"a":17}`,
		`{"type":"object","properties":{"n":{"type":"integer"}}}`:              `{"n":"seventeen"}`,
		`{"type":"object","properties":{},"additionalProperties":false}`:       `{"eventmeterUnknown":true}`,
		`{"type":"object","properties":{"a":{"enum":["x"]}},"required":["a"]}`: `{}`,
		`{"type":"object","properties":{"a":{"type":["string","number"]}}}`:    "",
		`{"type":"object"}`: "", `true`: "", ``: "",
	} {
		if got := string(invalidArgument(json.RawMessage(schema))); got != want {
			t.Errorf("%s: %s, want %s", schema, got, want)
		}
	}
}

// TestAnother: another spelling has the same members, in the same JSON.
func TestAnother(t *testing.T) {
	for args, want := range map[string]string{
		`{"channel":"a"}`:      `{"\u0063hannel":"a"}`,
		`{"a":1,"b":{"c":[]}}`: `{"\u0062":{"c":[]},"\u0061":1}`,
		`{"é":1}`:              `{"é":1}`,
		`{}`:                   "", `[1]`: "",
	} {
		if got := string(another(json.RawMessage(args))); got != want {
			t.Errorf("%s: %s, want %s", args, got, want)
		}
	}
}
