package boards

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/variants"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/heatmap"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/statetimeline"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
	"github.com/grafana/grafana-foundation-sdk/go/xychart"
)

const committed = "../grafana"

// TestCommitted holds the files that Grafana loads to the code.
func TestCommitted(t *testing.T) {
	found, err := filepath.Glob(filepath.Join(committed, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != len(All()) {
		t.Errorf("%s has %d files, and there are %d dashboards", committed, len(found), len(All()))
	}
	for _, b := range All() {
		want, err := b.JSON()
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(committed, b.File))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not what the code makes of it: go run ./dashboards/cmd/boards", b.File)
		}
	}
}

// editorKeys are what Prometheus' own editor of annotations sets, and the type
// of the SDK does not have.
var editorKeys = []string{"titleFormat", "tagKeys", "useValueForTime"}

// register tells the SDK the types of panels and queries that the dashboards
// have. All that the SDK offers would take longer to compile than the tests.
func register() {
	known := cog.NewRuntime()
	for _, panel := range []variants.PanelcfgConfig{
		heatmap.VariantConfig(), stat.VariantConfig(), statetimeline.VariantConfig(), table.VariantConfig(),
		timeseries.VariantConfig(), xychart.VariantConfig(),
	} {
		known.RegisterPanelcfgVariant(panel)
	}
	known.RegisterDataqueryVariant(prometheus.VariantConfig())
}

// strict reads a committed dashboard with the SDK's types: a key that they do
// not have, or a value of another type, is an error. So is a panel of a type
// that is not registered, of which the SDK would accept anything.
func strict(t *testing.T, file string) dashboard.Dashboard {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(committed, file))
	if err != nil {
		t.Fatal(err)
	}
	var tree map[string]any
	if err := json.Unmarshal(text, &tree); err != nil {
		t.Fatal(err)
	}
	section, _ := tree["annotations"].(map[string]any)
	list, _ := section["list"].([]any)
	for _, one := range list {
		for _, key := range editorKeys {
			delete(one.(map[string]any), key)
		}
	}
	if text, err = json.Marshal(tree); err != nil {
		t.Fatal(err)
	}
	register()
	var d dashboard.Dashboard
	if err := d.UnmarshalJSONStrict(text); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if err := d.Validate(); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	for _, p := range panels(&d) {
		if _, known := cog.ConfigForPanelcfgVariant(p.Type); !known {
			t.Errorf("%s: a panel of type %s, which register lacks", file, p.Type)
		}
	}
	return d
}

// panels are all of a dashboard but rows.
func panels(d *dashboard.Dashboard) []*dashboard.Panel {
	var out []*dashboard.Panel
	for i := range d.Panels {
		if p := d.Panels[i].Panel; p != nil {
			out = append(out, p)
		}
	}
	return out
}

func expressions(t *testing.T, p *dashboard.Panel) []prometheus.Dataquery {
	t.Helper()
	out := make([]prometheus.Dataquery, len(p.Targets))
	for i, q := range p.Targets {
		switch q := q.(type) {
		case prometheus.Dataquery:
			out[i] = q
		case *prometheus.Dataquery:
			out[i] = *q
		default:
			t.Fatalf("%s: a query of type %T", *p.Title, q)
		}
	}
	return out
}

func TestStrict(t *testing.T) {
	if len(annotations) != 2 {
		t.Fatalf("%d annotations", len(annotations))
	}
	for _, b := range All() {
		d := strict(t, b.File)
		if len(panels(&d)) == 0 || *d.Uid == "" {
			t.Errorf("%s: uid %q, %d panels", b.File, *d.Uid, len(panels(&d)))
		}
		checkLayout(t, b.File, &d)
		for _, p := range panels(&d) {
			if len(p.Targets) == 0 {
				t.Errorf("%s: %s asks nothing", b.File, *p.Title)
			}
			refs := map[string]bool{}
			for _, q := range expressions(t, p) {
				if refs[*q.RefId] {
					t.Errorf("%s: %s has two queries %s", b.File, *p.Title, *q.RefId)
				}
				refs[*q.RefId] = true
				if *q.Datasource.Uid != "${datasource}" {
					t.Errorf("%s: %s asks %s, and not the chosen data source", b.File, *p.Title, *q.Datasource.Uid)
				}
			}
		}
	}
}

// checkLayout finds panels that lie over each other or beside the page.
func checkLayout(t *testing.T, file string, d *dashboard.Dashboard) {
	t.Helper()
	taken := map[[2]uint32]string{}
	for _, p := range panels(d) {
		g := p.GridPos
		if g.X+g.W > 24 {
			t.Errorf("%s: %s ends at column %d of 24", file, *p.Title, g.X+g.W)
		}
		for x := g.X; x < g.X+g.W; x++ {
			for y := g.Y; y < g.Y+g.H; y++ {
				if other, ok := taken[[2]uint32{x, y}]; ok {
					t.Fatalf("%s: %s lies over %s", file, *p.Title, other)
				}
				taken[[2]uint32{x, y}] = *p.Title
			}
		}
	}
}

// TestColours: the series of one panel have colours that differ.
func TestColours(t *testing.T) {
	for _, list := range [][]colour{modes, listLanes, processes, verdicts} {
		for i := range list {
			if slices.ContainsFunc(list[:i], func(c colour) bool { return strings.EqualFold(c.colour, list[i].colour) }) {
				t.Errorf("%s has the colour of another", list[i].name)
			}
		}
	}
}

// TestModesKeepTheirColour looks at every query that names its series by their
// mode first.
func TestModesKeepTheirColour(t *testing.T) {
	for _, b := range All() {
		d := strict(t, b.File)
		for _, p := range panels(&d) {
			byMode := slices.ContainsFunc(expressions(t, p), func(q prometheus.Dataquery) bool {
				return q.LegendFormat != nil && strings.HasPrefix(*q.LegendFormat, "{{mode}}")
			})
			if !byMode {
				continue
			}
			for _, m := range modes {
				if !slices.ContainsFunc(p.FieldConfig.Overrides, func(o dashboard.DashboardFieldConfigSourceOverrides) bool {
					text, _ := json.Marshal(o)
					return strings.Contains(string(text), `/^`+m.name+`\\b/`) && strings.Contains(string(text), m.colour)
				}) {
					t.Errorf("%s: %s does not paint %s", b.File, *p.Title, m.name)
				}
			}
		}
	}
}

// TestOverridesMatch holds the expressions of overrides to legends as readers
// see them.
func TestOverridesMatch(t *testing.T) {
	for _, c := range []struct {
		o       override
		legend  string
		matched bool
	}{
		{dashed, "push (other run)", true},
		{dashed, "push", false},
		{fixed(modes)[0], "push (other run)", true},
		{fixed(modes)[0], "push 0:1/2", true},
		{fixed(modes)[0], "pushed", false},
		{fixed(modes)[1], "push", false},
		{fixed(processes)[0], "target (other run)", true},
	} {
		if got := regexp.MustCompile(strings.Trim(c.o.expression, "/")).MatchString(c.legend); got != c.matched {
			t.Errorf("%s matches %q: %v", c.o.expression, c.legend, got)
		}
	}
}
