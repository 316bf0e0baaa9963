package profiles

import (
	"fmt"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eventmeter/eventmeter/internal/settings"
)

// checker checks a decoded profile against the rules. It does not report a key again that could not
// be decoded.
type checker struct {
	*decoder
	p       *Profile
	ignored map[string]bool // groups that are not checked
}

// bad reports a problem with a key, or with the nearest group above it that was
// given.
func (c *checker) bad(path, what, fix string) {
	if c.tainted[path] {
		return
	}
	at, ok := c.at[path]
	for near := path; !ok && near != ""; {
		near = parent(near)
		at, ok = c.at[near]
	}
	c.report(at, path, what, fix)
}

// missing reports nothing if the group has an unknown key, which is probably the missing key,
// misspelt.
func (c *checker) missing(path, fix string) {
	for up := parent(path); ; up = parent(up) {
		if c.tainted[up] {
			return
		}
		if up == "" || c.given(up) {
			break
		}
	}
	c.bad(path, "is missing", fix)
}

func (c *checker) given(path string) bool {
	_, ok := c.at[path]
	return ok
}

func parent(path string) string {
	if i := strings.LastIndexByte(path, '.'); i >= 0 {
		return path[:i]
	}
	return ""
}

// bounds checks the given keys against the check tags of their fields. A tag is a list of words
// (a|b|c, or |a|b if the text may be empty), or a range of numbers or durations (1ms..1h, 5..
// without an end, 0|5.. for 0 or at least 5).
func (c *checker) bounds(path string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Slice:
		for i := range v.Len() {
			c.bounds(join(path, strconv.Itoa(i)), v.Index(i))
		}
	case reflect.Struct:
		for _, f := range fieldsOf(c.systems, v) {
			here := join(path, f.key)
			if check := f.check; !c.given(here) || c.ignored[here] {
				continue
			} else if check != "" {
				c.bound(here, f.value, check)
			} else {
				c.bounds(here, f.value)
			}
		}
	}
}

func (c *checker) bound(path string, v reflect.Value, check string) {
	if words := settings.Words(check); words != nil {
		c.enum(path, v.String(), words...)
		return
	}
	c.outside(path)(settings.Outside(v, check))
}

// outside reports what is wrong with a value, if anything.
func (c *checker) outside(path string) func(what, fix string) {
	return func(what, fix string) {
		if what != "" {
			c.bad(path, what, fix)
		}
	}
}

// filled reports the empty texts of a list.
func (c *checker) filled(path string, texts []string, fix string) {
	for i, text := range texts {
		if strings.TrimSpace(text) == "" {
			c.bad(join(path, strconv.Itoa(i)), "is empty", fix)
		}
	}
}

// reject reports each of the keys that is given.
func (c *checker) reject(group string, keys []string, what, fix string) {
	for _, key := range keys {
		if path := join(group, key); c.given(path) {
			c.bad(path, what, fix)
		}
	}
}

func (c *checker) enum(path, value string, known ...string) {
	if slices.Contains(known, value) {
		return
	}
	known = slices.DeleteFunc(known, func(k string) bool { return k == "" })
	if value == "" {
		c.missing(path, "give one of "+strings.Join(known, ", "))
		return
	}
	c.bad(path, "no such "+path[strings.LastIndexByte(path, '.')+1:]+" "+settings.Quote(value), advise(value, known))
}

func (c *checker) name(path, value string) {
	switch {
	case value == "":
		c.missing(path, "give a short name of a-z, 0-9 and hyphens")
	case !ValidName(value):
		c.bad(path, settings.Quote(value)+" is not a name", "use a-z, 0-9 and hyphens, a letter first, at most 63")
	}
}

// span checks a duration.
func (c *checker) span(path string, value, least, most time.Duration) {
	c.outside(path)(settings.Span(value, least, most))
}

// web checks an address. It returns nil if the address is invalid.
func (c *checker) web(path, value string, schemes ...string) *url.URL {
	u, what, fix := settings.Address(value, schemes...)
	c.outside(path)(what, fix)
	return u
}

func (c *checker) profile() {
	p := c.p
	for i := range p.Lanes {
		c.foreign(fmt.Sprintf("lanes.%d", i), &p.Lanes[i])
	}
	c.bounds("", reflect.ValueOf(p).Elem())
	c.name("name", p.Name)
	c.target()
	if len(p.Lanes) == 0 {
		c.missing("lanes", "give at least one, with name, mode, subscriptions and event")
	}
	if n := len(p.Lanes); n > maxLanes {
		c.bad("lanes", fmt.Sprintf("%d are too many", n), fmt.Sprintf("give at most %d", maxLanes))
		return
	}
	if n := len(p.Thresholds); n > maxThresholds {
		c.bad("thresholds", fmt.Sprintf("%d are too many", n), fmt.Sprintf("give at most %d", maxThresholds))
	}
	seen := map[string]bool{}
	for i := range p.Lanes {
		l := &p.Lanes[i]
		path := fmt.Sprintf("lanes.%d", i)
		if seen[l.Name] && l.Name != "" {
			c.bad(path+".name", settings.Quote(l.Name)+" is given twice", "give each lane its own name")
		}
		seen[l.Name] = true
		c.lane(path, l)
	}
	c.upstream()
	if p.Upstream.Kind != "none" {
		c.schedule()
	}
	c.filled("thresholds", p.Thresholds, "write one like push.lostSilent == 0")
	c.until()
	c.limits()
	c.idle()
	c.capacity()
}

var nameRule = regexp.MustCompile(`^[a-z][a-z0-9-]{0,62}$`)

// ValidName reports whether a profile or a lane may have that name: a-z, 0-9 and hyphens, a letter
// first, at most 63 characters. Files are named after lanes, so names from elsewhere must be
// checked, too.
func ValidName(name string) bool { return nameRule.MatchString(name) }

// A key without effect is an error, because its author expects an effect. If another key enables
// it, that key must be given; it may be 0, so that an override can switch off what a file sets.

// idle finds keys outside of lanes without effect.
func (c *checker) idle() {
	p := c.p
	if len(p.Cases) > 0 && len(p.Thresholds) > 0 {
		c.bad("thresholds", "are not judged if there are cases, which have expected figures", "remove one of them")
	}
	if p.Upstream.Kind == "feed" && c.given("upstream.timeout") {
		c.bad("upstream.timeout", "has no effect with kind feed, which the target polls", "remove it")
	}
	if p.Upstream.Kind == "replay" && p.Upstream.Replay.URL != "" && c.given("upstream.event") {
		c.bad("upstream.event", "is not used, since upstream.replay.url is given", "remove one of them")
	}
	if p.Target.CAFile != "" && !p.overTLS() {
		c.bad("target.caFile", "there is no https address", "remove it, or give an address with https")
	}
	e := &p.Target.Embedded
	if c.given("target.embedded.feedEvery") && p.Upstream.Kind != "feed" {
		c.bad("target.embedded.feedEvery", "there is no feed to poll", "remove it, or set upstream.kind: feed")
	}
	for _, over := range []struct {
		key string
		on  bool
	}{{"proxiesMayBuffer", e.ProxiesMayBuffer}, {"sseAnswers", e.SSEAnswers}, {"sendBuffer", e.SendBuffer > 0}} {
		if over.on && e.Transport == "stdio" {
			c.bad("target.embedded."+over.key, "has no effect over standard input and output", "remove it")
		}
	}
	if e.Lists.Entries == 0 {
		c.reject(
			"target.embedded.lists",
			[]string{"page", "ttl", "private", "older", "strict", "uneven", "noHints"},
			"there are no lists: there is neither entries nor a lane of system "+strings.Join(c.p.listSystems(), " or "),
			"give entries too",
		)
	}
}

// overTLS reports whether an address of the profile is https.
func (p *Profile) overTLS() bool {
	u := &p.Upstream
	for _, address := range []string{p.Target.URL, u.Admin, u.HTTP.URL, u.GitHub.URL, u.Slack.URL, u.Stripe.URL, u.Replay.URL} {
		if strings.HasPrefix(address, "https:") {
			return true
		}
	}
	return false
}

// fail2 reports an error of the form key: key: what; fix.
func (c *checker) fail2(path string, err error) {
	text := err.Error()
	for {
		key, rest, ok := strings.Cut(text, ": ")
		if !ok || !c.given(join(path, key)) {
			break
		}
		path, text = join(path, key), rest
	}
	what, fix, _ := strings.Cut(text, "; ")
	c.bad(path, what, fix)
}
