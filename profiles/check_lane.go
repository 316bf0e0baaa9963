package profiles

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/eventmeter/eventmeter/internal/settings"
)

// modes are the modes of lanes.
var modes = []string{"poll", "push", "webhook"}

func (c *checker) lane(path string, l *Lane) {
	c.name(path+".name", l.Name)
	c.enum(path+".system", l.System, c.p.systems.Names()...)
	c.enum(path+".mode", l.Mode, modes...)
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
	of, known := c.p.systems.Find(l.System)
	switch {
	case of.NoEvents:
	case l.Event == "":
		c.missing(path+".event", "name the event to subscribe to")
	case (u.Kind == "inject" || u.Kind == "feed") && u.Event != "" && l.Event != u.Event:
		c.bad(
			path+".event",
			fmt.Sprintf("the upstream publishes %s, which this lane would never receive", settings.Quote(u.Event)),
			"subscribe to the same, or change upstream.event",
		)
	}
	if len(of.Modes) > 0 && !slices.Contains(of.Modes, l.Mode) && slices.Contains(modes, l.Mode) {
		c.bad(path+".mode", fmt.Sprintf("system %s has no %s", l.System, l.Mode), "set mode: "+strings.Join(of.Modes, ", or "))
	}
	shown := c.settings(path, l)
	if l.Settings != nil {
		l.Settings.Check(shown)
	}
	switch l.Mode {
	case "push":
		l.Push.Check(shown)
	case "webhook":
		l.Webhook.Check(shown)
	}
	if known {
		l.Webhook.CheckClient(shown, l.Client, of)
	}
	c.idleLane(path, l)
	c.templates(path, l)
}

// settings returns the lane as its system's settings need it for their checks.
func (c *checker) settings(path string, l *Lane) settings.Lane {
	return settings.Lane{
		Mode:      l.Mode,
		HTTP:      l.HTTP,
		TTL:       l.Webhook.TTL,
		LongPoll:  l.Poll.Timeout,
		MaxAge:    l.MaxAge,
		Revision:  c.p.Target.Revision,
		NoSources: l.HasNoSources(),
		OverStdio: c.p.Target.OverStdio(),
		Drain:     c.p.Phases.Drain,
		Given:     func(key string) bool { return c.given(join(path, key)) },
		Bad:       func(key, what, fix string) { c.bad(join(path, key), what, fix) },
		Missing:   func(key, fix string) { c.missing(join(path, key), fix) },
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
	for _, mode := range modes {
		bad(mode, "mode", l.Mode, mode)
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
	for i := 0; i < checked.Subscriptions && int(t.highest) >= c.p.Upstream.Sources; i++ {
		owed := t.Sources(i)
		if n := len(owed); n > 0 && int(owed[n-1]) >= c.p.Upstream.Sources {
			c.bad(path+".sources", fmt.Sprintf("subscription %d has source %d, and there are %d", i, owed[n-1], c.p.Upstream.Sources),
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
		enabled := slices.ContainsFunc(d.others, func(other string) bool { return c.given(join(path, other)) })
		if asked && !c.ignored[parent(key)] && !enabled {
			c.bad(key, "does nothing without "+d.name+": "+d.why, "remove it, or give "+d.name+" too")
		}
	}
}
