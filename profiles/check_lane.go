package profiles

import (
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"
)

func (c *checker) lane(path string, l *Lane) {
	c.name(path+".name", l.Name)
	c.enum(path+".system", l.System, systemNames()...)
	c.enum(path+".mode", l.Mode, "poll", "push", "webhook")
	c.least(path+".subscriptions", l.Subscriptions, 1)
	c.enum(path+".http", l.HTTP, "1.1", "2", "h2c")
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
	c.span(path+".maxAge", l.MaxAge, 0, longest)
	c.foreign(path, l)
	for _, s := range systems() {
		if s.check != nil {
			s.check(c, path, l)
		}
	}
	switch l.Mode {
	case "poll":
		c.span(path+".poll.minInterval", l.Poll.MinInterval, 0, longest)
		c.span(path+".poll.timeout", l.Poll.Timeout, 0, longest)
		c.least(path+".poll.maxEvents", l.Poll.MaxEvents, 0)
	case "push":
		c.span(path+".push.heartbeat", l.Push.Heartbeat, time.Millisecond, longest)
		c.span(path+".push.backoff.min", l.Push.Backoff.Min, time.Millisecond, longest)
		c.span(path+".push.backoff.max", l.Push.Backoff.Max, l.Push.Backoff.Min, longest)
	case "webhook":
		c.webhook(path+".webhook", &l.Webhook)
	}
	c.idleLane(path, l)
	c.span(path+".churn.pause", l.Churn.Pause, 0, longest)
	c.count(path+".attach.concurrency", l.Attach.Concurrency, 1, maxWorkers)
	c.enum(path+".attach.onFailure", l.Attach.OnFailure, "stop", "continue")
	c.templates(path, l)
}

// foreign finds blocks of a mode that the lane does not have.
func (c *checker) foreign(path string, l *Lane) {
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
		ttl, err := parseDuration(c.textOf(path+".ttl", w.TTL))
		if err != nil {
			what, _, _ := strings.Cut(err.Error(), "; ")
			c.bad(path+".ttl", what, "write a duration like 300s, or default, or none")
			break
		}
		c.span(path+".ttl", ttl, shortest, longest)
	}
	if w.RefreshAt < 0.1 || w.RefreshAt > 0.95 {
		c.bad(path+".refreshAt", fmt.Sprintf("%v is out of bounds", w.RefreshAt), "give a share of the grant from 0.1 to 0.95")
	}
	c.least(path+".rotateEvery", w.RotateEvery, 0)
	c.enum(path+".secrets", w.Secrets, "both", "early", "late")
	c.span(path+".oldSecret", w.OldSecret, time.Millisecond, longest)
	c.enum(path+".verify", w.Verify, "strict", "report")
	if w.Refuse < 0 || w.Refuse > 1 {
		c.bad(path+".refuse", fmt.Sprintf("%v is out of bounds", w.Refuse), "give a share from 0 to 1")
	}
	c.span(path+".ackDelay", w.AckDelay, 0, time.Hour)
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

// textOf is the node of a key, so that 300 without a unit is told apart.
func (c *checker) textOf(path, value string) *node {
	if n := c.at[path]; n != nil {
		return n
	}
	return &node{value: value, text: value}
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
