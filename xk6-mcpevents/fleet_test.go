package mcpevents_test

import (
	"encoding/json"
	"net/http"
	"os"
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
	text, err := os.ReadFile("../dashboards/grafana/fleet.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
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
	text, err := os.ReadFile("../dashboards/boards/testdata/k6.names")
	if err != nil {
		t.Fatal(err)
	}
	recorded := strings.Fields(string(text))
	answer, err := http.Get(base + "/api/v1/label/__name__/values")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var got struct{ Data []string }
	if err := json.NewDecoder(answer.Body).Decode(&got); err != nil {
		t.Fatal(err)
	}
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
