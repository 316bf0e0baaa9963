package mcpevents_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// rate is one in a query. The run is shorter than two of the extension's
// reports, which are a second apart: there is a last value, and no rate.
var rate = regexp.MustCompile(`rate\((.*?)\[\$__rate_interval\]\)`)

// checkFleet asks what the dashboard of the fleet asks of k6, of a Prometheus
// that k6 wrote into. Every query must have an answer, and the names that the
// dashboards know are those that there are.
func checkFleet(t *testing.T, base string) {
	t.Helper()
	text := readFile(t, "../dashboards/grafana/fleet.json")
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	must(t, json.Unmarshal(text, &board))
	fill := strings.NewReplacer("$testid", ".*", "$instance", ".*", "$__range", "1h")
	asked := 0
	for _, p := range board.Panels {
		for _, q := range p.Targets {
			if !strings.Contains(q.Expr, "k6_mcp_") {
				continue
			}
			asked++
			if n, err := ask(base, "count(("+fill.Replace(rate.ReplaceAllString(q.Expr, "$1"))+") >= 0)"); err != nil || n == 0 {
				t.Errorf("%s has no data: %s (%v)", p.Title, q.Expr, err)
			}
		}
	}
	if asked < 8 {
		t.Errorf("%d queries of the dashboard are about k6", asked)
	}
	checkNames(t, base)
}

// checkNames holds the recorded names to those that k6 wrote.
func checkNames(t *testing.T, base string) {
	t.Helper()
	text := readFile(t, "../dashboards/boards/testdata/k6.names")
	recorded := strings.Fields(string(text))
	answer, err := http.Get(base + "/api/v1/label/__name__/values")
	must(t, err)
	defer answer.Body.Close()
	var got struct{ Data []string }
	must(t, json.NewDecoder(answer.Body).Decode(&got))
	found := 0
	for _, name := range got.Data {
		if !strings.HasPrefix(name, "k6_mcp_") {
			continue
		}
		found++
		if !slices.Contains(recorded, name) {
			t.Errorf("k6 wrote %s, which the dashboards do not know", name)
		}
	}
	if found == 0 {
		t.Error("k6 wrote nothing of the extension")
	}
}
