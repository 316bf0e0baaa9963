package profiles

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/eventmeter/eventmeter/internal/settings"
)

func (c *checker) target() {
	t := &c.p.Target
	if t.URL != "" {
		c.web("target.url", t.URL, "http", "https")
	}
	c.command()
	c.version()
	c.headers("target.headers", t.Headers)
	c.embedded()
	c.oauth()
	if len(t.Tokens) > 0 && t.TokenFile != "" {
		c.bad("target.tokenFile", "there are tokens as well", "give one of the two")
	}
	for i, token := range t.Tokens {
		if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
			c.bad(fmt.Sprintf("target.tokens.%d", i), "is not a bearer token", "give printable ASCII without spaces")
		}
	}
	for i, host := range t.Allow {
		if host == "" || strings.ContainsAny(host, "/ \t\n") {
			c.bad(fmt.Sprintf("target.allow.%d", i), settings.Quote(host)+" is not a host", "give a name or an address, without http://")
		}
	}
}

// version checks the form of the version, and that the era is its own.
func (c *checker) version() {
	t := &c.p.Target
	if t.Version == "" {
		return
	}
	era := "legacy"
	if t.Version >= "2026-07-28" {
		era = "modern"
	}
	if _, err := time.Parse(time.DateOnly, t.Version); err != nil {
		c.bad("target.version", settings.Quote(t.Version)+" is not a protocol version", "use the form YYYY-MM-DD")
	} else if t.Era != "auto" && t.Era != era {
		c.bad("target.version", t.Version+" is of era "+era+", and target.era is "+t.Era, "remove target.era")
	}
}

func (c *checker) headers(path string, headers map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		value := headers[name]
		if name == "" || strings.ContainsFunc(name, func(r rune) bool {
			return r <= ' ' || r > '~' || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
		}) {
			c.bad(join(path, name), settings.Quote(name)+" cannot be a header", "use letters, digits and hyphens")
		}
		if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 127 }) {
			c.bad(join(path, name), "holds a line break or another control character", "write it on one line")
		}
	}
}

// embedded checks the settings of the embedded target, which would otherwise fail only when it
// starts.
func (c *checker) embedded() {
	e := &c.p.Target.Embedded
	const here = "target.embedded."
	if lists := &e.Lists; lists.Older && lists.TTL%time.Second != 0 {
		c.bad(here+"lists.ttl", "the earlier draft has whole seconds only", "give whole seconds, or older: false")
	}
	if lists := &e.Lists; lists.NoHints && (lists.Older || lists.Uneven || lists.Private) {
		c.bad(here+"lists.noHints", "leaves out what older, uneven and private are about", "give it alone")
	}
	if e.SingleSign && e.DualSignGrace != 0 {
		c.bad(here+"dualSign", "there is singleSign as well", "give one of the two")
	}
	if (e.Proof == "allow-list") != (len(e.CallbackHosts) > 0) {
		c.bad(here+"callbackHosts", "belongs to proof: allow-list", "give both or none")
	}
	if e.TokenEndsStreams && e.TokenLife == 0 {
		c.bad(here+"tokenEndsStreams", "there is no tokenLife", "give tokenLife too")
	}
	if e.ResumeOnce && e.ResumeOverlap != 0 {
		c.bad(here+"resumeOverlap", "there is resumeOnce as well", "give one of the two")
	}
	switch {
	case e.CapacityBurst != 0 && e.Capacity == 0:
		c.bad(here+"capacityBurst", "there is no capacity", "give capacity too")
	case e.CapacityBurst < 0:
		c.bad(here+"capacityBurst", fmt.Sprintf("%d is too small", e.CapacityBurst), "give at least 1")
	}
	least := cmp.Or(e.TTLMin, 5*time.Minute)
	granted := cmp.Or(e.TTLDefault, max(30*time.Minute, least))
	if granted < least {
		c.bad(here+"ttlDefault", fmt.Sprintf("%v is below ttlMin, which is %v", granted, least), "raise it, or lower ttlMin")
	}
	if most := cmp.Or(e.TTLMax, max(24*time.Hour, granted)); most < granted {
		c.bad(here+"ttlMax", fmt.Sprintf("%v is below ttlDefault, which is %v", most, granted), "raise it, or lower ttlDefault")
	}
}

// command checks a target that is a program: keys that only an address has are errors.
func (c *checker) command() {
	t := &c.p.Target
	if c.given("target.command") && (len(t.Command) == 0 || t.Command[0] == "") {
		c.bad("target.command", "names no program", "write the program and its arguments, as in command: my-server --flag value")
		return
	}
	if len(t.Command) > 0 && t.URL != "" {
		c.bad("target.command", "there is a url as well", "give one of the two")
		return
	}
	if !t.IsEmbedded() && c.given("target.embedded") {
		c.bad(
			"target.embedded",
			"belongs to the embedded target, and this profile names another target",
			"remove it, or the url or command",
		)
	}
	if len(t.Command) == 0 {
		c.reject("target", []string{"env", "dir"}, "belongs to a program that the run starts", "remove it, or give target.command")
	}
	for _, name := range slices.Sorted(maps.Keys(t.Env)) {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(t.Env[name], 0) {
			c.bad(join("target.env", name), settings.Quote(name)+" cannot be a variable", "write NAME: value")
		}
	}
	if !t.OverStdio() {
		return
	}
	c.reject(
		"target",
		[]string{"headers", "tokens", "tokenFile", "caFile", "allow"},
		"has no effect over standard input and output, which has one principal",
		"remove it, or pass it to the program in target.env",
	)
	for i := range c.p.Lanes {
		c.reject(fmt.Sprintf("lanes.%d", i), []string{"http"}, "has no effect over standard input and output", "remove it")
	}
}
