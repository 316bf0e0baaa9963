package profiles

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/eventmeter/eventmeter/internal/settings"
)

// kinds are the kinds of upstreams, with the keys that only some kinds have.
var kinds = []struct{ name, keys string }{
	{"inject", "event admin payload"},
	{"http", "http payload"},
	{"github", "github"},
	{"slack", "slack"},
	{"stripe", "stripe"},
	{"feed", "feed event payload"},
	{"tool", "tool payload"},
	{"exec", "exec payload"},
	{"replay", "replay event admin"},
	{"none", ""},
}

func (c *checker) upstream() {
	u := &c.p.Upstream
	var names []string
	for _, kind := range kinds {
		names = append(names, kind.name)
	}
	c.enum("upstream.kind", u.Kind, names...)
	if i := slices.Index(names, u.Kind); i >= 0 {
		c.misplaced(strings.Fields(kinds[i].keys))
	}
	c.kind(u)
}

// misplaced finds keys that belong to other kinds. A key of several is said to be the first's.
func (c *checker) misplaced(own []string) {
	for _, kind := range kinds {
		for key := range strings.FieldsSeq(kind.keys) {
			if c.given("upstream."+key) && !slices.Contains(own, key) {
				c.bad("upstream."+key, "belongs to kind "+kind.name, "remove it, or set upstream.kind: "+kind.name)
			}
		}
	}
}

// kind checks the keys of the upstream's kind.
func (c *checker) kind(u *Upstream) {
	switch u.Kind {
	case "inject":
		c.inject(u)
	case "http":
		if u.HTTP.Body != "" && u.Payload != nil {
			c.bad("upstream.payload", "is not sent, since upstream.http.body is given", "remove one of them")
		}
		c.request(u)
	case "github":
		g := &u.GitHub
		c.product("github", g.URL, g.Text)
		c.perSource("upstream.github.repository", g.Repository)
		if name := c.render(g.Repository, "upstream.github.repository"); g.Repository != "" && strings.Count(name, "/") != 1 {
			c.bad("upstream.github.repository", settings.Quote(name)+" is not a repository", "write it like owner/name-{{.Source}}")
		}
	case "slack":
		c.product("slack", u.Slack.URL, u.Slack.Text)
		c.secret("slack", u.Slack.Secret, "the app's signing secret")
		c.perSource("upstream.slack.channel", u.Slack.Channel)
	case "stripe":
		c.product("stripe", u.Stripe.URL, u.Stripe.Text)
		c.secret("stripe", u.Stripe.Secret, "the endpoint's secret (whsec_…)")
	case "feed":
		c.feed(u)
	case "tool":
		if u.Tool.Name == "" {
			c.missing("upstream.tool.name", "name the tool to call")
		}
		c.payload(u, "the tool's arguments")
	case "exec":
		if len(u.Exec.Command) == 0 || u.Exec.Command[0] == "" {
			c.missing("upstream.exec.command", "give the program and its arguments, as a list")
		}
		c.payload(u, "what a line holds")
	case "replay":
		c.replay(u)
	case "none":
		c.none()
	}
}

// adminListener checks the address of a reference server's admin listener.
func (c *checker) adminListener(u *Upstream) {
	target, embedded := c.p.Target.URL, c.p.Target.IsEmbedded()
	switch {
	case target != "" && u.Admin == "" && u.Kind == "replay":
		c.missing("upstream.admin", "with target.url, give the address of the target's admin listener, or any other as upstream.replay.url")
	case target != "" && u.Admin == "":
		c.missing("upstream.admin", "with target.url, give the address of the target's admin listener, or use upstream.kind: http")
	case embedded && u.Admin != "":
		c.bad("upstream.admin", "the run starts its own target", "remove it, or give target.url too")
	case u.Admin != "":
		c.web("upstream.admin", u.Admin, "http", "https")
	}
}

func (c *checker) inject(u *Upstream) {
	c.adminListener(u)
	if u.Event == "" {
		c.missing("upstream.event", "the lanes subscribe to different events: name the one to publish")
	}
	c.payload(u, "the event's data")
}

func (c *checker) request(u *Upstream) {
	r := &u.HTTP
	c.headers("upstream.http.headers", r.Headers)
	if r.URL == "" {
		c.missing("upstream.http.url", "give the address of what makes the target emit")
		return
	}
	if strings.ContainsFunc(r.Method, func(r rune) bool { return r < 'A' || r > 'Z' }) {
		c.bad("upstream.http.method", settings.Quote(r.Method)+" is not a method", "write it in capitals, as in POST")
	}
	compiled, err := CompileHTTP(*u)
	if err != nil {
		c.fail2("upstream", err)
		return
	}
	address, header, body := compiled(0, 1, sampleProbe)
	c.web("upstream.http.url", address, "http", "https")
	found := strings.Contains(address, sampleProbe) || bytes.Contains(body, []byte(sampleProbe))
	for _, values := range header {
		found = found || strings.Contains(values[0], sampleProbe)
	}
	if !found {
		c.bad(
			"upstream.http",
			"neither url, headers nor body holds {{.Probe}}",
			"add it where it reaches the event's data: deliveries are recognised by it",
		)
	}
}

// product checks the keys that all kinds of fake products have.
func (c *checker) product(kind, url, text string) {
	if c.p.Target.IsEmbedded() {
		c.bad("upstream.kind", "the embedded target takes no webhooks of "+kind, "give target.url, or use kind inject")
	}
	path := "upstream." + kind
	if url == "" {
		c.missing(path+".url", "give the address that the target has for these webhooks")
	} else {
		c.web(path+".url", url, "http", "https")
	}
	if text != "" && !strings.Contains(c.render(text, path+".text"), sampleProbe) {
		c.bad(path+".text", "does not hold {{.Probe}}", "add it: deliveries are recognised by it")
	}
}

func (c *checker) secret(kind, secret, what string) {
	if secret == "" {
		c.missing("upstream."+kind+".secret", "give "+what+": the target checks the signatures with it")
	}
}

// compiled returns a text of emissions. After an error, which it reports, the text is "".
func (c *checker) compiled(text, path string) func(source int, seq uint32, probe string) string {
	f, err := CompileText(text)
	if err != nil {
		what, fix, _ := strings.Cut(err.Error(), "; ")
		c.bad(path, what, fix)
		return func(int, uint32, string) string { return "" }
	}
	return f
}

// render renders the text for one event, to check it. It returns "" after an error.
func (c *checker) render(text, path string) string { return c.compiled(text, path)(0, 1, sampleProbe) }

// perSource reports a text that differs between the emissions of a source.
func (c *checker) perSource(path, text string) {
	if f := c.compiled(text, path); f(0, 1, sampleProbe) != f(0, 2, "") {
		c.bad(path, "differs between the events of a source", "use .Source only")
	}
}

func (c *checker) feed(u *Upstream) {
	f := &u.Feed
	switch {
	case f.Listen != "" && !settings.Listenable(f.Listen):
		c.bad("upstream.feed.listen", settings.Quote(f.Listen)+" is not an address to listen on", "write it like 127.0.0.1:9000")
	case f.Listen == "" && !c.p.Target.IsEmbedded():
		c.missing("upstream.feed.listen", "with target.url, give the address under which the target polls, like 127.0.0.1:9000")
	}
	if u.Event == "" {
		c.missing("upstream.event", "the lanes subscribe to different events: name the one that the changes stand for")
	}
	c.payload(u, "a change's data")
}

func (c *checker) replay(u *Upstream) {
	r := &u.Replay
	if r.File == "" {
		c.missing("upstream.replay.file", "give the file of the trace, as eventmeter record writes it")
	}
	if strings.HasPrefix(r.Probe, ".") || strings.HasSuffix(r.Probe, ".") || strings.Contains(r.Probe, "..") {
		c.bad("upstream.replay.probe", settings.Quote(r.Probe)+" is not a path", "write keys with dots between them, like message.text")
	}
	c.headers("upstream.replay.headers", r.Headers)
	switch {
	case r.URL != "":
		c.web("upstream.replay.url", r.URL, "http", "https")
		if u.Admin != "" {
			c.bad("upstream.admin", "is not used, since upstream.replay.url is given", "remove one of them")
		}
	case len(r.Headers) > 0:
		c.missing("upstream.replay.url", "headers go with it")
	default:
		c.adminListener(u)
	}
}

func (c *checker) none() {
	if c.p.Target.IsEmbedded() && slices.ContainsFunc(c.p.Lanes, func(l Lane) bool { return !l.HasNoSources() }) {
		c.bad("upstream.kind", "the embedded target emits nothing by itself", "give target.url")
	}
	c.reject(
		"",
		[]string{"upstream.sources", "upstream.timeout", "upstream.workers", "schedule"},
		"has no effect with upstream.kind none, which publishes nothing",
		"remove it",
	)
}

// payload checks the payload of a kind that has one.
func (c *checker) payload(u *Upstream, what string) {
	payload, err := CompilePayload(*u)
	if err != nil {
		c.fail2("upstream", err)
		return
	}
	if u.Payload == nil {
		c.missing("upstream.payload", fmt.Sprintf(`give %s, with "{{.Probe}}" in one of its texts`, what))
	} else if !bytes.Contains(payload(nil, 0, 1, sampleProbe), []byte(sampleProbe)) {
		c.bad("upstream.payload", "no text holds {{.Probe}}", `add one, like text: "{{.Probe}}": deliveries are recognised by it`)
	}
}
