package profiles

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"
)

func (c *checker) lane(path string, l *Lane) {
	c.name(path+".name", l.Name)
	c.enum(path+".system", l.System, systemNames()...)
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
	switch {
	case l.System == SystemSEP975: // hears no event
	case l.Event == "":
		c.missing(path+".event", "name the event to subscribe to")
	case (u.Kind == "inject" || u.Kind == "feed") && u.Event != "" && l.Event != u.Event:
		c.bad(path+".event", fmt.Sprintf("the upstream publishes %s, which this lane would never hear", quote(u.Event)), "subscribe to the same, or change upstream.event")
	}
	c.foreign(path, l)
	for _, s := range systems() {
		if s.name == l.System {
			c.laneMode(path, l, s.modes)
			s.check(c, path, l)
		}
	}
	switch l.Mode {
	case "push":
		c.span(path+".push.backoff.max", l.Push.Backoff.Max, l.Push.Backoff.Min, longest)
	case "webhook":
		c.webhook(path+".webhook", &l.Webhook)
	}
	c.idleLane(path, l)
	c.templates(path, l)
}

// laneMode checks that the lane's system has its mode.
func (c *checker) laneMode(path string, l *Lane, modes []string) {
	if slices.Contains([]string{"poll", "push", "webhook"}, l.Mode) && !slices.Contains(modes, l.Mode) {
		c.bad(path+".mode", fmt.Sprintf("system %s has no %s", l.System, l.Mode), "set mode: "+strings.Join(modes, ", or "))
	}
}

// foreign finds blocks of a mode or of a system that the lane does not have.
func (c *checker) foreign(path string, l *Lane) {
	for _, s := range systems() {
		if s.name != l.System && s.block != "" && c.given(path+"."+s.block) {
			c.bad(path+"."+s.block, "means nothing to a lane of system "+l.System, "remove it, or set system: "+s.name)
		}
	}
	for _, mode := range []string{"poll", "push", "webhook"} {
		if l.Mode != mode && c.given(path+"."+mode) {
			c.bad(path+"."+mode, fmt.Sprintf("means nothing to a lane of mode %s", l.Mode), "remove it, or set mode: "+mode)
		}
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
	if w.Callback != "" {
		if u := c.web(path+".callback", w.Callback, "https", "http"); u != nil && u.Scheme == "http" {
			c.plainCallback(path, w, u)
		}
	}
	if (w.CertFile == "") != (w.KeyFile == "") {
		c.bad(path+".certFile", "a certificate is of no use without its key", "give certFile and keyFile, or neither")
	}
	if w.Listen != "" && !listenable(w.Listen) {
		c.bad(path+".listen", quote(w.Listen)+" is no address to listen on", "write it like 127.0.0.1:8443")
	}
}

// plainCallback checks a callback that is called without TLS.
func (c *checker) plainCallback(path string, w *WebhookLane, u *url.URL) {
	host, _, _ := net.SplitHostPort(w.Listen)
	switch {
	case !loopback(u.Hostname()) || w.Listen != "" && !loopback(host):
		c.bad(path+".callback", "plain http is for loopback only, on both ends", "use https, or http://127.0.0.1:0 and no other listen address")
	case w.CertFile != "":
		c.bad(path+".certFile", "means nothing to a callback over http", "remove it, or use https")
	}
}

func (c *checker) templates(path string, l *Lane) {
	if c.p.Upstream.Kind == "none" && c.given(path+".sources") {
		c.bad(path+".sources", "means nothing to upstream.kind none, which publishes nothing", "remove it")
		return
	}
	checked := *l
	// More than the limits allow is reported there, and not tried out here.
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
			c.bad(path+".sources", fmt.Sprintf("subscription %d hears source %d, and there are %d", i, heard[n-1], c.p.Upstream.Sources),
				fmt.Sprintf("stay below %d, or raise upstream.sources", c.p.Upstream.Sources))
			return
		}
		if t.same != nil || t.all {
			return
		}
	}
}

// loopback tells whether a host is this machine's loopback, by its name.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
