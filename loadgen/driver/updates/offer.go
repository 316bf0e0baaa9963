package updates

import (
	"cmp"
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
	before, after, first, n := numbered(uris)
	out := driver.Starter{Sources: max(1, n), Resource: uris[0]}
	uri, arguments := uris[0], ""
	if n > 1 {
		of := func(number string) string {
			if first > 0 {
				return fmt.Sprintf("{{add %d %s}}", first, number)
			}
			return "{{" + strings.Trim(number, "()") + "}}"
		}
		uri, out.Resource = before+"{n}"+after, before+of(".Source")+after
		arguments = fmt.Sprintf("    arguments: {n: %q}\n", of(fmt.Sprintf("(mod .Index %d)", n)))
	}
	out.Lane = fmt.Sprintf(`  # Clients that subscribe to a resource, and read it again after each notification.
  - name: updates
    system: updates
    mode: push
    subscriptions: 10
%s    updates: {resource: %q}
`, arguments, uri)
	return out
}

var digits = regexp.MustCompile(`[0-9]+`)

// numbered finds the largest group of URIs that differ in one number only. It returns what
// is before and after the number, the lowest number, and how many, up to ten, follow one another
// from there.
func numbered(uris []string) (before, after string, first, n int) {
	type group struct{ before, after string }
	numbers := map[group][]int{}
	var most group
	for _, uri := range uris {
		for _, at := range digits.FindAllStringIndex(uri, -1) {
			number, err := strconv.Atoi(uri[at[0]:at[1]])
			if err != nil || strconv.Itoa(number) != uri[at[0]:at[1]] {
				continue // a template could not write it
			}
			g := group{uri[:at[0]], uri[at[1]:]}
			numbers[g] = append(numbers[g], number)
			if len(numbers[g]) > len(numbers[most]) {
				most = g
			}
		}
	}
	of := numbers[most]
	if len(of) == 0 {
		return "", "", 0, 0
	}
	slices.SortFunc(of, cmp.Compare[int])
	for n = 1; n < min(len(of), 10) && of[n] == of[0]+n; n++ {
	}
	return most.before, most.after, of[0], n
}
