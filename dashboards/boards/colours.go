package boards

import (
	_ "embed"
	"regexp"
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// colour is the colour of one kind of series on all panels.
type colour struct {
	name   string // prefix of its legend
	colour string
}

// The colours are those of report.html: blue, orange and green for push, poll and
// webhook. There, the first lane of a mode has its colour, and further lanes of it have
// those that no lane of the run has yet, so the lanes of the built-in profiles have them
// here by their names. Other lanes have the colours of Grafana's palette.
var (
	modes = []colour{{"push", "#2a78d6"}, {"poll", "#d95f26"}, {"webhook", "#12875d"}}

	// The further lanes of the profile mixed.
	lanes = coloursIn(lanesText)

	// The lanes of the profile sep-2549.
	listLanes = []colour{{"ttl", "#d95f26"}, {"notified", "#6a4fc0"}, {"no-cache", "#a87400"}}

	processes = []colour{{"target", "#6a4fc0"}, {"generator", "#a87400"}, {"others", "#37752a"}}

	levels = []colour{{"must", "#c93434"}, {"should", "#a87400"}, {"shape", "#6a4fc0"}}

	verdicts = []colour{{"passed", "#12875d"}, {"failed", "#c93434"}, {"unclear", "#a87400"}, {"aside", "#6a4fc0"}}
)

// lanesText has a lane and its colour on each line.
//
//go:embed lanes.txt
var lanesText string

func coloursIn(text string) (out []colour) {
	fields := strings.Fields(text)
	for i := 0; i+1 < len(fields); i += 2 {
		out = append(out, colour{fields[i], fields[i+1]})
	}
	return out
}

// fixed assigns colours to series by the prefix of their legend.
func fixed(of ...[]colour) []override {
	var out []override
	for _, list := range of {
		for _, c := range list {
			out = append(out, override{"/^" + c.name + "\\b/", paintOf(c.colour)})
		}
	}
	return out
}

func paintOf(colour string) []dashboard.DynamicConfigValue {
	return []dashboard.DynamicConfigValue{{Id: "color", Value: map[string]any{"mode": "fixed", "fixedColor": colour}}}
}

// overlaid are the colours of series, of which those of the other run are dashed.
func overlaid(of []colour) []override { return append(fixed(of), dashed) }

// override sets how the series that match a regular expression are drawn.
type override struct {
	expression string
	properties []dashboard.DynamicConfigValue
}

// dashed is the style of the overlaid run.
var dashed = override{"/" + regexp.QuoteMeta(otherMark) + "$/", []dashboard.DynamicConfigValue{
	{Id: "custom.lineStyle", Value: map[string]any{"fill": "dash", "dash": []int{6, 6}}},
	{Id: "custom.lineWidth", Value: 1},
}}
