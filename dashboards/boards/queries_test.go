package boards

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/eventmeter/eventmeter/internal/metrics"
	"github.com/eventmeter/eventmeter/internal/run"
)

// examples are values of the variables that could be chosen.
var examples = map[string]string{
	"datasource": "x", "run": "0a1b2c3d", "other": "none", "shift": "-12", "system": ".*", "mode": "push|poll", "lane": ".*",
	"search": "s", "fleet": "f", "shard": ".*", "testid": ".*", "instance": ".*",
	"__range": "900s", "__rate_interval": "8s", "__interval": "2s",
}

var variable = regexp.MustCompile(`\$(?:\{(\w+)\}|(\w+))`)

// fill puts values in the places of variables, as Grafana does.
func fill(t *testing.T, text string, values map[string]string) string {
	t.Helper()
	return variable.ReplaceAllStringFunc(text, func(found string) string {
		m := variable.FindStringSubmatch(found)
		name := m[1] + m[2]
		v, ok := values[name]
		if !ok {
			t.Errorf("%s asks for %s, which is no variable", text, found)
		}
		return v
	})
}

// queries are all expressions of a dashboard, by where they stand.
func queries(t *testing.T, d *dashboard.Dashboard) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, p := range panels(d) {
		for _, q := range expressions(t, p) {
			out[*p.Title+" "+*q.RefId] = q.Expr
		}
	}
	for _, a := range d.Annotations.List {
		q, ok := a.Target.(*prometheus.Dataquery)
		if !ok {
			t.Fatalf("annotation %s asks a %T", a.Name, a.Target)
		}
		out["annotation "+a.Name] = q.Expr
	}
	for _, v := range d.Templating.List {
		if v.Query == nil || v.Query.String == nil || string(v.Type) != "query" {
			continue
		}
		expr, ok := inside(*v.Query.String, "query_result(")
		if !ok {
			if expr, ok = inside(*v.Query.String, "label_values("); !ok {
				t.Errorf("variable %s asks %s", v.Name, *v.Query.String)
			}
			expr, _, _ = strings.Cut(expr, ", ")
		}
		out["variable "+v.Name] = expr
	}
	return out
}

func inside(text, before string) (string, bool) {
	rest, ok := strings.CutPrefix(text, before)
	if !ok {
		return "", false
	}
	return strings.CutSuffix(rest, ")")
}

// known are the metrics that there are: those that are registered, and those
// that k6 pushed in a real run.
func known(t *testing.T) map[string]bool {
	t.Helper()
	out := map[string]bool{"ALERTS": true}
	c, err := metrics.New(client.NewRegistry(), metrics.Options{Figures: run.FigureTables})
	if err != nil {
		t.Fatal(err)
	}
	descriptions := make(chan *client.Desc)
	go func() {
		c.Describe(descriptions)
		close(descriptions)
	}()
	name := regexp.MustCompile(`fqName: "([^"]+)"`)
	for d := range descriptions {
		out[name.FindStringSubmatch(d.String())[1]] = true
	}
	for _, n := range k6Names(t) {
		out[n] = true
	}
	return out
}

func k6Names(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("testdata/k6.names")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(text))
}

// TestK6Names holds the names that k6 pushed, which are recorded, to those that
// the extension registers: k6 puts k6_ before them, and after them _total, _rate
// or _seconds, by what they are.
func TestK6Names(t *testing.T) {
	source, err := os.ReadFile("../../xk6-mcpevents/metrics.go")
	if err != nil {
		t.Fatal(err)
	}
	registered := regexp.MustCompile(`"(mcp_\w+)",\s+metrics\.(\w+)`) // the kind; of counters in a table of their own, the unit
	suffix := map[string]string{
		"Trend": "_seconds", "Counter": "_total", "Default": "_total", "Data": "_total", "Rate": "_rate", "Gauge": "",
	}
	var want []string
	for _, m := range registered.FindAllStringSubmatch(string(source), -1) {
		want = append(want, "k6_"+m[1]+suffix[m[2]])
	}
	slices.Sort(want)
	if got := slices.Sorted(slices.Values(k6Names(t))); !slices.Equal(got, want) {
		t.Errorf("recorded %v\nregistered %v", got, want)
	}
}

// checkExpr parses a query and looks up its metrics.
func checkExpr(t *testing.T, where, expr string, known map[string]bool) {
	t.Helper()
	e, err := parser.ParseExpr(expr)
	if err != nil {
		t.Errorf("%s: %v: %s", where, err, expr)
		return
	}
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		s, ok := n.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		if !known[s.Name] {
			t.Errorf("%s: there is no metric %q", where, s.Name)
		}
		for _, m := range s.LabelMatchers {
			if m.Type == labels.MatchEqual && m.Value == "" {
				t.Errorf("%s: %s is held to nothing", where, m.Name)
			}
		}
		return nil
	})
}

func TestQueries(t *testing.T) {
	known := known(t)
	for _, b := range All() {
		d := strict(t, b.File)
		declared := map[string]string{
			"__range":         examples["__range"],
			"__rate_interval": examples["__rate_interval"],
			"__interval":      examples["__interval"],
		}
		for _, v := range d.Templating.List {
			declared[v.Name] = examples[v.Name]
		}
		all := queries(t, &d)
		for _, where := range slices.Sorted(maps.Keys(all)) {
			checkExpr(t, b.File+": "+where, fill(t, all[where], declared), known)
		}
	}
}

// TestAlerts reads the rules as Prometheus does.
func TestAlerts(t *testing.T) {
	groups, errs := rulefmt.ParseFile("../prometheus/alerts.yaml", false, model.UTF8Validation)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	known := known(t)
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			checkExpr(t, r.Alert, r.Expr, known)
			if r.Annotations["summary"] == "" || r.Labels["severity"] == "" {
				t.Errorf("%s says too little", r.Alert)
			}
		}
	}
}
