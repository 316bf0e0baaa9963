package updates

import (
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
)

// TestStarter: a number that tells resources apart becomes the variable of a template, if a
// template can write it.
func TestStarter(t *testing.T) {
	for _, c := range []struct {
		uris, lane, resource string
		sources              int
	}{
		{"a://n/0 a://n/1 a://n/2", `{resource: "a://n/{n}"}`, "a://n/{{.Source}}", 3},
		{"a://3/n.mp4 a://4/n.mp4 b://x", `{n: "{{add 3 (mod .Index 2)}}"}`, "a://{{add 3 .Source}}/n.mp4", 2},
		{"a://5 a://9 a://6", `{n: "{{add 5 (mod .Index 2)}}"}`, "a://{{add 5 .Source}}", 2},
		{"a://01 a://02", `{resource: "a://01"}`, "a://01", 1},
		{"a://{x} a://b", `{resource: "a://b"}`, "a://b", 1},
		{"a://{x}", "", "", 0},
		{"", "", "", 0},
	} {
		a := mcpclient.Abilities{Subscribe: true, Resources: strings.Fields(c.uris)}
		got := Starter(a)
		if !strings.Contains(got.Lane, c.lane) || (got.Lane == "") != (c.lane == "") || got.Resource != c.resource || got.Sources != c.sources {
			t.Errorf("%s: %+v", c.uris, got)
		}
		if a.Subscribe = false; Starter(a).Lane != "" || Describe(a) != nil {
			t.Errorf("%s: without resources.subscribe there is a lane", c.uris)
		}
	}
}
