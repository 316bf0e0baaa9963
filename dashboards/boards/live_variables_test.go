package boards

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/grafana/grafana-foundation-sdk/go/dashboard"

	"github.com/eventmeter/eventmeter/internal/promtest"
)

// window is what a reader looks at.
type window struct {
	from, to time.Time
}

func (w window) seconds() string { return fmt.Sprintf("%ds", int(w.to.Sub(w.from).Seconds())+1) }

// settle finds the values of all variables of a dashboard as Grafana does: it
// asks their queries in the order in which they stand. chosen are those that a
// reader has set, which have to be among the values found. values are what is
// filled in, and options all that could be chosen.
func settle(
	t *testing.T,
	s *promtest.Server,
	d *dashboard.Dashboard,
	w window,
	chosen map[string]string,
) (values map[string]string, options map[string][]string) {
	t.Helper()
	// Grafana would look at four scrapes for a rate. On a machine that is busy
	// with other tests scrapes fail, hence all there is.
	values = map[string]string{"datasource": "prometheus", "__range": w.seconds(), "__rate_interval": w.seconds(), "__interval": "1s"}
	options = map[string][]string{}
	for _, v := range d.Templating.List {
		if string(v.Type) != "query" {
			continue
		}
		found := answers(t, s, &v, w, values)
		all := v.AllValue != nil && *v.AllValue != ""
		if len(found) == 0 && !all { // of nothing, Grafana takes all
			t.Fatalf("variable %s of %s has nothing to choose from", v.Name, *d.Title)
		}
		options[v.Name] = found
		switch choice, ok := chosen[v.Name]; {
		case ok && !slices.Contains(found, choice):
			t.Fatalf("variable %s of %s has %v, and not %s", v.Name, *d.Title, found, choice)
		case ok:
			values[v.Name] = choice
		case all:
			values[v.Name] = *v.AllValue
		default:
			values[v.Name] = found[0]
		}
	}
	return values, options
}

// answers are the options of one variable.
func answers(t *testing.T, s *promtest.Server, v *dashboard.VariableModel, w window, values map[string]string) []string {
	t.Helper()
	query := fill(t, *v.Query.String, values)
	if expr, ok := inside(query, "label_values("); ok {
		selector, label, _ := strings.Cut(expr, ", ")
		var out []string
		for _, one := range s.Query(t, fmt.Sprintf(`group by (%s) (last_over_time(%s[%s]))`, label, selector, w.seconds()), w.to) {
			out = append(out, one.Labels[label])
		}
		slices.Sort(out)
		return out
	}
	expr, _ := inside(query, "query_result(")
	regex := ""
	if v.Regex != nil {
		regex = strings.Trim(*v.Regex, "/")
	}
	pattern := regexp.MustCompile(regex)
	value := max(pattern.SubexpIndex("value"), 1)
	var out []string
	for _, one := range s.Query(t, expr, w.to) {
		if m := pattern.FindStringSubmatch(resultText(one)); m != nil {
			out = append(out, m[value])
		}
	}
	return out
}

// resultText is how Grafana writes one element of a query_result, for the
// regular expression to look at.
func resultText(s promtest.Sample) string {
	var labels []string
	for _, name := range slices.Sorted(maps.Keys(s.Labels)) {
		if name != "__name__" {
			quoted, _ := json.Marshal(s.Labels[name])
			labels = append(labels, name+"="+string(quoted))
		}
	}
	return fmt.Sprintf(
		"%s{%s} %s %d",
		s.Labels["__name__"],
		strings.Join(labels, ","),
		strconv.FormatFloat(s.Value, 'f', -1, 64),
		s.At.UnixMilli(),
	)
}
