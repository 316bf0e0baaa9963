package updates

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
)

// Describe returns a line for people if clients can subscribe to the target's resources.
func Describe(a mcpclient.Abilities) []string {
	if !a.Subscribe {
		return nil
	}
	return []string{fmt.Sprintf("clients can subscribe to resources (%d on the first page)", len(a.Resources))}
}

// Starter returns a lane whose clients subscribe to resources of the target: to up to ten whose
// URIs differ in a number only, otherwise all to the first one.
func Starter(a mcpclient.Abilities) driver.Starter {
	uris := slices.DeleteFunc(slices.Clone(a.Resources), func(uri string) bool {
		return uri == "" || strings.ContainsAny(uri, "{}") // would be read as a template
	})
	if !a.Subscribe || len(uris) == 0 {
		return driver.Starter{}
	}
	uris = uris[:min(len(uris), 100)]
	out := driver.Starter{Sources: 1, Resource: uris[0]}
	resource, arguments := uris[0], ""
	for _, uri := range uris {
		for _, at := range digits.FindAllStringIndex(uri, -1) {
			before, after := uri[:at[0]], uri[at[1]:]
			first, _ := strconv.Atoi(uri[at[0]:at[1]]) // a number that is too large is in no other URI
			n := 0
			for n < 10 && slices.Contains(uris, before+strconv.Itoa(first+n)+after) {
				n++
			}
			if n <= out.Sources {
				continue
			}
			source, index := ".Source", fmt.Sprintf("mod .Index %d", n)
			if first > 0 {
				source, index = fmt.Sprintf("add %d .Source", first), fmt.Sprintf("add %d (%s)", first, index)
			}
			out.Sources, out.Resource = n, before+"{{"+source+"}}"+after
			resource, arguments = before+"{n}"+after, fmt.Sprintf("    arguments: {n: \"{{%s}}\"}\n", index)
		}
	}
	out.Lane = fmt.Sprintf(`  # Clients that subscribe to a resource, and read it again after each notification.
  - name: updates
    system: updates
    mode: push
    subscriptions: 10
%s    updates: {resource: %q}
`, arguments, resource)
	return out
}

var digits = regexp.MustCompile(`[0-9]+`)
