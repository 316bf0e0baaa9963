package profiles

import (
	"fmt"
	"net"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/eventmeter/eventmeter/internal/settings"
)

func (c *checker) lane(path string, l *Lane) {
	c.name(path+".name", l.Name)
	c.enum(path+".system", l.System, c.p.systems.Names()...)
	c.enum(path+".mode", l.Mode, "poll", "push", "webhook")
	if !c.given(path + ".subscriptions") {
		c.missing(path+".subscriptions", "give a number of at least 1")
	}
	switch target := c.p.Target.URL; {
	case l.HTTP == "2" && strings.HasPrefix(target, "http:"):
		c.bad(path+".http", "HTTP/2 needs TLS, and target.url is http", "use h2c, or an https target")
	case l.HTTP == "h2c" && strings.HasPrefix(target, "https:"):
		c.bad(path+".http", "h2c is without TLS, and target.url is https", "use 2")
	}
	u := &c.p.Upstream
	of, _ := c.p.systems.Find(l.System)
	switch {
	case of.NoEvents:
	case l.Event == "":
		c.missing(path+".event", "name the event to subscribe to")
	case (u.Kind == "inject" || u.Kind == "feed") && u.Event != "" && l.Event != u.Event:
		c.bad(path+".event", fmt.Sprintf("the upstream publishes %s, which this lane would never receive", quote(u.Event)), "subscribe to the same, or change upstream.event")
	}
	if len(of.Modes) > 0 {
		c.laneMode(path, l, of.Modes)
	}
	if l.Settings != nil {
		l.Settings.Check(c.settings(path, l))
	}
	switch l.Mode {
	case "push":
		c.span(path+".push.backoff.max", l.Push.Backoff.Max, l.Push.Backoff.Min, settings.Longest)
	case "webhook":
		c.webhook(path+".webhook", &l.Webhook)
	}
	c.client(path, l)
	c.idleLane(path, l)
	c.templates(path, l)
}

// settings is what the lane's system is shown of it.
func (c *checker) settings(path string, l *Lane) settings.Lane {
	return settings.Lane{
		Mode: l.Mode, TTL: l.Webhook.TTL, LongPoll: l.Poll.Timeout, MaxAge: l.MaxAge, Revision: c.p.Target.Revision, NoSources: l.HasNoSources(), OverStdio: c.p.Target.OverStdio(), Drain: c.p.Phases.Drain,
		Given:   func(key string) bool { return c.given(join(path, key)) },
		Bad:     func(key, what, fix string) { c.bad(join(path, key), what, fix) },
		Missing: func(key, fix string) { c.missing(join(path, key), fix) },
	}
}

// laneMode checks that the lane's system has its mode.
func (c *checker) laneMode(path string, l *Lane, modes []string) {
	if slices.Contains([]string{"poll", "push", "webhook"}, l.Mode) && !slices.Contains(modes, l.Mode) {
		c.bad(path+".mode", fmt.Sprintf("system %s has no %s", l.System, l.Mode), "set mode: "+strings.Join(modes, ", or "))
	}
}

// foreign finds blocks of another mode or system than the lane's. Their content is not checked.
func (c *checker) foreign(path string, l *Lane) {
	bad := func(block, kind, own, other string) {
		if path := path + "." + block; own != other && c.given(path) {
			c.bad(path, fmt.Sprintf("has no effect on a lane of %s %s", kind, own), fmt.Sprintf("remove it, or set %s: %s", kind, other))
			c.ignored[path] = true
		}
	}
	for _, s := range c.p.systems {
		bad(s.Settings("").Key(), "system", l.System, s.Name)
	}
	for _, mode := range []string{"poll", "push", "webhook"} {
		bad(mode, "mode", l.Mode, mode)
	}
}

func (c *checker) webhook(path string, w *WebhookLane) {
	const shortest, longest = time.Second, 720 * time.Hour
	switch w.TTL {
	case "default":
	case "none":
		if w.RotateEvery > 0 {
			c.bad(path+".rotateEvery", "secrets change at a refresh, and ttl none has none", "give a ttl")
		}
	default:
		ttl, err := parseDuration(w.TTL)
		if err != nil {
			what, _, _ := strings.Cut(err.Error(), "; ")
			c.bad(path+".ttl", what, "write a duration like 300s, or default, or none")
			break
		}
		c.span(path+".ttl", ttl, shortest, longest)
	}
	c.answers(path+".answer", w.Answer)
	if w.Callback != "" {
		if u := c.web(path+".callback", w.Callback, "https", "http"); u != nil && u.Scheme == "http" {
			c.plainCallback(path, w, u)
		}
	}
	if (w.CertFile == "") != (w.KeyFile == "") {
		c.bad(path+".certFile", "a certificate requires its key", "give certFile and keyFile, or neither")
	}
	if w.Listen != "" && !listenable(w.Listen) {
		c.bad(path+".listen", quote(w.Listen)+" is not an address to listen on", "write it like 127.0.0.1:8443")
	}
}

// answers checks how the sink answers.
func (c *checker) answers(path string, all []WebhookAnswer) {
	sum, rest := map[bool]float64{}, map[bool]int{}
	for i := range all {
		a, here := &all[i], fmt.Sprintf("%s.%d", path, i)
		said := 0
		for _, key := range []string{"status", "hang", "reset"} {
			if c.given(here + "." + key) {
				said++
			}
		}
		switch {
		case said > 1:
			c.bad(here, "says several things at once", "give one of status, hang and reset")
		case a.DelayTo != 0 && a.DelayTo < a.Delay:
			c.bad(here+".delayTo", fmt.Sprintf("%v is below delay, which is %v", a.DelayTo, a.Delay), "raise it")
		case a.Times != 0 && a.accepts():
			c.bad(here+".times", "has no effect on an answer that accepts the event", "remove it")
		case a.Hang && (a.Delay != 0 || a.DelayTo != 0):
			c.bad(here+".delay", "has no effect on an answer that never comes", "remove it")
		}
		if sum[a.Challenge] += a.Share; a.Share == 0 {
			if rest[a.Challenge]++; rest[a.Challenge] == 2 {
				c.bad(here+".share", "is missing here and in another answer", "give one of them a share")
			}
		}
	}
	for _, total := range sum {
		if total > 1+1e-9 {
			c.bad(path, fmt.Sprintf("the shares add up to %g", total), "make them at most 1")
		}
	}
}

// plainCallback checks a callback that is called without TLS.
func (c *checker) plainCallback(path string, w *WebhookLane, u *url.URL) {
	host, _, _ := net.SplitHostPort(w.Listen)
	switch {
	case !loopback(u.Hostname()) || w.Listen != "" && !loopback(host):
		c.bad(path+".callback", "plain http is for loopback only, on both ends", "use https, or http://127.0.0.1:0 and no other listen address")
	case w.CertFile != "":
		c.bad(path+".certFile", "has no effect on a callback over http", "remove it, or use https")
	}
}

func (c *checker) templates(path string, l *Lane) {
	if c.p.Upstream.Kind == "none" && c.given(path+".sources") {
		c.bad(path+".sources", "has no effect with upstream.kind none, which publishes nothing", "remove it")
		return
	}
	checked := *l
	// A lane over the limits is reported there, and not tried here.
	checked.Subscriptions = min(l.Subscriptions, max(1, c.p.Limits.Subscriptions), maxSubscriptions)
	t, err := CompileLane(checked)
	if err != nil {
		_, text, _ := strings.Cut(err.Error(), ": ")
		c.fail2(path, fmt.Errorf("%s", text))
		return
	}
	for i := range checked.Subscriptions {
		heard := t.Sources(i)
		if n := len(heard); n > 0 && int(heard[n-1]) >= c.p.Upstream.Sources {
			c.bad(path+".sources", fmt.Sprintf("subscription %d has source %d, and there are %d", i, heard[n-1], c.p.Upstream.Sources),
				fmt.Sprintf("stay below %d, or raise upstream.sources", c.p.Upstream.Sources))
			return
		}
		if t.same != nil || t.all {
			return
		}
	}
}

// idleLane finds keys of a lane without effect.
func (c *checker) idleLane(path string, l *Lane) {
	for _, d := range dependents(c.systems, l) {
		key := join(path, d.key)
		asked := c.given(key) && !(d.value.Kind() == reflect.Bool && d.value.IsZero())
		if asked && !c.ignored[parent(key)] && !c.given(join(path, d.other)) {
			c.bad(key, "does nothing without "+d.name+": "+d.why, "remove it, or give "+d.name+" too")
		}
	}
}

// loopback reports whether a host name is this machine's loopback.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
