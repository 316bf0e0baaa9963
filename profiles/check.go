package profiles

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"net"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// checker holds a decoded profile against the rules. A key that could not be
// decoded is not reported a second time.
type checker struct {
	*decoder
	p *Profile
}

// bad reports a problem with a key, or with the nearest group above it when it
// was not given.
func (c *checker) bad(path, what, mend string) {
	if c.tainted[path] {
		return
	}
	at, ok := c.at[path]
	for near := path; !ok && near != ""; {
		near = parent(near)
		at, ok = c.at[near]
	}
	c.report(at, path, what, mend)
}

// missing is silent when its group holds a key that does not exist: that one is
// likely the same, misspelt.
func (c *checker) missing(path, mend string) {
	for up := parent(path); ; up = parent(up) {
		if c.tainted[up] {
			return
		}
		if up == "" || c.given(up) {
			break
		}
	}
	c.bad(path, "is missing", mend)
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

// bounds holds the keys that are given to the check tags of their fields: words
// (a|b|c; with nothing before the first |, or none of them), or numbers and
// durations from the first to the last (1ms..1h, 5..) or besides that 0 (0|1ms..).
func (c *checker) bounds(path string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Slice:
		for i := range v.Len() {
			c.bounds(join(path, strconv.Itoa(i)), v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			here := join(path, keyOf(f))
			if check := f.Tag.Get("check"); !c.given(here) {
				continue
			} else if check != "" {
				c.bound(here, v.Field(i), check)
			} else {
				c.bounds(here, v.Field(i))
			}
		}
	}
}

func (c *checker) bound(path string, v reflect.Value, check string) {
	least, most, ok := strings.Cut(check, "..")
	if !ok {
		c.enum(path, v.String(), strings.Split(check, "|")...)
		return
	}
	least, orZero := strings.CutPrefix(least, "0|")
	if orZero && v.IsZero() {
		return
	}
	switch {
	case v.Type() == reflect.TypeFor[time.Duration]():
		c.span(path, time.Duration(v.Int()), end(least, time.ParseDuration, 0), end(most, time.ParseDuration, longest))
	case v.Kind() == reflect.Int:
		c.count(path, int(v.Int()), end(least, strconv.Atoi, 0), end(most, strconv.Atoi, maxCount))
	default:
		float := func(s string) (float64, error) { return strconv.ParseFloat(s, 64) }
		c.between(path, v.Float(), end(least, float, 0), end(most, float, math.MaxFloat64))
	}
}

// end is one end of a range in a tag.
func end[T any](text string, parse func(string) (T, error), otherwise T) T {
	if text == "" {
		return otherwise
	}
	v, err := parse(text)
	if err != nil {
		panic(err)
	}
	return v
}

// reject reports those of the keys of a group that are given.
func (c *checker) reject(group string, keys []string, what, mend string) {
	for _, key := range keys {
		if path := join(group, key); c.given(path) {
			c.bad(path, what, mend)
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
	c.bad(path, "no such "+path[strings.LastIndexByte(path, '.')+1:]+" "+quote(value), advise(value, known))
}

func (c *checker) name(path, value string) {
	switch {
	case value == "":
		c.missing(path, "give a short name of a-z, 0-9 and hyphens")
	case !ValidName(value):
		c.bad(path, quote(value)+" is no name", "use a-z, 0-9 and hyphens, a letter first, at most 63")
	}
}

// The most that keys may ask for. More than that is a slip of the keyboard, and
// would be allocated before anything is measured.
const (
	maxLanes         = 1000
	maxThresholds    = 1000
	maxSubscriptions = 10_000_000
	maxRate          = Rate(10_000_000)
	maxCount         = 1_000_000_000 // of anything
)

// count checks a number of things.
func (c *checker) count(path string, value, least, most int) {
	if value < least {
		c.bad(path, fmt.Sprintf("%d is too small", value), fmt.Sprintf("give at least %d", least))
	}
	if value > most {
		c.bad(path, fmt.Sprintf("%d is too many", value), fmt.Sprintf("give at most %d", most))
	}
}

// span keeps durations so short that a few of them can be added up.
func (c *checker) span(path string, value, least, most time.Duration) {
	switch {
	case value < least:
		c.bad(path, fmt.Sprintf("%v is too short", value), fmt.Sprintf("give at least %v", least))
	case value > most:
		c.bad(path, fmt.Sprintf("%v is too long", value), fmt.Sprintf("give at most %v", most))
	}
}

// longest is the most that any duration may be: 10 years.
const longest = 10 * 365 * 24 * time.Hour

// web checks an address, and that it holds no credentials: addresses are
// printed and stored.
func (c *checker) web(path, value string, schemes ...string) *url.URL {
	u, err := url.Parse(value)
	if err != nil || u.Host == "" || u.Hostname() == "" {
		c.bad(path, quote(value)+" is not an address", fmt.Sprintf("write it like %s://127.0.0.1:8080", schemes[0]))
		return nil
	}
	for _, s := range schemes {
		if u.Scheme != s {
			continue
		}
		if u.User != nil {
			c.bad(path, "holds a user name or a password", "put credentials into headers or tokens, which are not stored")
			return nil
		}
		return u
	}
	c.bad(path, fmt.Sprintf("%s does not fit here", quote(u.Scheme)), "it must be "+strings.Join(schemes, " or "))
	return nil
}

func (c *checker) profile() {
	p := c.p
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
			c.bad(path+".name", quote(l.Name)+" is given twice", "give each lane its own name")
		}
		seen[l.Name] = true
		c.lane(path, l)
	}
	c.upstream()
	if p.Upstream.Kind != "none" {
		c.schedule()
	}
	for i, t := range p.Thresholds {
		if strings.TrimSpace(t) == "" {
			c.bad(fmt.Sprintf("thresholds.%d", i), "is empty", "write one like push.lostSilent == 0")
		}
	}
	c.limits()
	c.idle()
	c.embeddedCapacity()
	c.capacity()
}

func (c *checker) target() {
	t := &c.p.Target
	if t.URL != "" {
		c.web("target.url", t.URL, "http", "https")
	}
	c.command()
	c.headers("target.headers", t.Headers)
	c.embedded()
	if len(t.Tokens) > 0 && t.TokenFile != "" {
		c.bad("target.tokenFile", "there are tokens as well", "give one of the two")
	}
	for i, token := range t.Tokens {
		if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
			c.bad(fmt.Sprintf("target.tokens.%d", i), "is no bearer token", "give printable ASCII without spaces")
		}
	}
	for i, host := range t.Allow {
		if host == "" || strings.ContainsAny(host, "/ \t\n") {
			c.bad(fmt.Sprintf("target.allow.%d", i), quote(host)+" is no host", "give a name or an address, without http://")
		}
	}
}

func (c *checker) headers(path string, headers map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		value := headers[name]
		if name == "" || strings.ContainsFunc(name, func(r rune) bool {
			return r <= ' ' || r > '~' || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
		}) {
			c.bad(join(path, name), quote(name)+" cannot be a header", "use letters, digits and hyphens")
		}
		if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 127 }) {
			c.bad(join(path, name), "holds a line break or another control character", "write it on one line")
		}
	}
}

func (c *checker) upstream() {
	u := &c.p.Upstream
	c.enum("upstream.kind", u.Kind, kindNames()...)
	c.misplaced(u)
	c.kind(u)
}

// adminListener checks the address of a reference target's admin listener.
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

// sampleProbe has the form of a probe id.
const sampleProbe = "evtm-00000001-0000-00000001-00"

func (c *checker) request(u *Upstream) {
	r := &u.HTTP
	c.headers("upstream.http.headers", r.Headers)
	if r.URL == "" {
		c.missing("upstream.http.url", "give the address of what makes the target emit")
		return
	}
	if strings.ContainsFunc(r.Method, func(r rune) bool { return r < 'A' || r > 'Z' }) {
		c.bad("upstream.http.method", quote(r.Method)+" is no method", "write it in capitals, as in POST")
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
		c.bad("upstream.http", "neither url, headers nor body holds {{.Probe}}", "add it where it reaches the event's data: deliveries are recognised by it")
	}
}

// fail2 reports an error of the form key: key: what; mend.
func (c *checker) fail2(path string, err error) {
	text := err.Error()
	for {
		key, rest, ok := strings.Cut(text, ": ")
		if !ok || !c.given(join(path, key)) {
			break
		}
		path, text = join(path, key), rest
	}
	what, mend, _ := strings.Cut(text, "; ")
	c.bad(path, what, mend)
}

func listenable(address string) bool {
	_, port, err := net.SplitHostPort(address)
	return err == nil && port != ""
}
