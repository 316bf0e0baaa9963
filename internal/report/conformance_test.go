package report

import (
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/internal/conform"
	"github.com/eventmeter/eventmeter/results"
)

// TestConformanceInReports: each report names the rows that are broken, with the
// first message that did it.
func TestConformanceInReports(t *testing.T) {
	r := &results.Result{Conformance: results.NewConformance(conform.Account{
		"delivery-410-non-retryable": {
			Seen:   8,
			Broken: 2,
			First:  &conform.Example{Lane: "hooks", Subscription: 4, At: 7e6, Message: "{<b>}"},
		},
		"occurrence-name": {Seen: 9},
	})}
	var text, markdown, junit, page strings.Builder
	for _, err := range []error{Text(&text, r), Markdown(&markdown, r), JUnit(&junit, r), HTML(&page, []Page{{Result: r}})} {
		must(t, err)
	}
	for _, c := range []struct {
		name, in string
		want     []string
	}{
		{"text", text.String(), []string{"conformance: 1 row held, 1 broken, 133 not seen in this run\n",
			"BROKEN     delivery-410-non-retryable: 410 is not retried (must): 2 of 8 (25 %)", "hooks 4 at 7.00ms: {<b>}"}},
		{"markdown", markdown.String(), []string{"1 row held, 1 broken, 133 not seen in this run",
			"delivery-410-non-retryable | must", "{&lt;b&gt;}"}},
		{"junit", junit.String(), []string{`classname="eventmeter.conformance" name="occurrence-name"`,
			`name="delivery-410-non-retryable"`, "{&lt;b&gt;}"}},
		{"page", page.String(), []string{"1 row held, 1 broken, 133 not seen in this run",
			"<code>delivery-410-non-retryable</code>", "{&lt;b&gt;}", "no occasion in this run"}},
	} {
		for _, want := range c.want {
			if !strings.Contains(
				strings.ReplaceAll(strings.ReplaceAll(c.in, "\\", ""), "\n           ", " "),
				strings.ReplaceAll(want, "\\", ""),
			) {
				t.Errorf("the %s lacks %q:\n%.3000s", c.name, want, c.in)
			}
		}
	}
	if n := strings.Count(junit.String(), `classname="eventmeter.conformance"`); n != 2 {
		t.Errorf("JUnit has %d rows, want the two that were seen", n)
	}
}
