package profiles

import (
	"strings"
)

// A key that is read and then does nothing is a trap: whoever wrote it believes
// that it did. Where another key switches it on, that one must be there; it may
// be 0, so that an override can switch off what a file has.

// needs reports a key that has no effect without another one beside it.
func (c *checker) needs(path, other, why string) {
	if c.given(path) && !c.given(other) {
		c.bad(path, "does nothing without "+other[strings.LastIndexByte(other, '.')+1:]+": "+why, "remove it, or give "+other[strings.LastIndexByte(other, '.')+1:]+" too")
	}
}

// idleLane finds keys of a lane that do nothing.
func (c *checker) idleLane(path string, l *Lane) {
	const noCuts = "no stream is cut"
	c.needs(path+".churn.pause", path+".churn.rate", "no subscription churns")
	if l.Events.Resume && !c.given(path+".churn.rate") {
		c.bad(path+".events.resume", "does nothing without churn.rate: nothing ends subscriptions", "remove it, or give churn.rate too")
	}
	c.needs(path+".events.cutFor", path+".events.cutEvery", noCuts)
	c.needs(path+".sep1803.cutFor", path+".sep1803.cutEvery", noCuts)
	const noRotation = "the secret does not change"
	c.needs(path+".webhook.oldSecret", path+".webhook.rotateEvery", noRotation)
	c.needs(path+".webhook.secrets", path+".webhook.rotateEvery", noRotation)
	if l.System == SystemSEP2549 && !l.SEP2549.Cache {
		c.reject(path+".sep2549", []string{"jitter", "staleOnError"}, "means nothing without a cache", "remove it, or cache: true")
	}
}

// settle takes out of lanes what was switched off by a 0 that was written, which
// is not written again.
func (p *Profile) settle() {
	for i := range p.Lanes {
		l := &p.Lanes[i]
		plain := defaultLaneOf(l.Mode, l.System)
		if l.Churn.Rate == 0 {
			l.Churn.Pause, l.Events.Resume = 0, false
		}
		if l.Events.CutEvery == 0 {
			l.Events.CutFor = 0
		}
		if l.SEP1803.CutEvery == 0 {
			l.SEP1803.CutFor = 0
		}
		if l.Webhook.RotateEvery == 0 {
			l.Webhook.OldSecret, l.Webhook.Secrets = plain.Webhook.OldSecret, plain.Webhook.Secrets
		}
	}
}

// idle finds keys outside of lanes that do nothing.
func (c *checker) idle() {
	p := c.p
	if len(p.Cases) > 0 && len(p.Thresholds) > 0 {
		c.bad("thresholds", "are not judged where there are cases, whose plans are", "remove one of them")
	}
	if p.Upstream.Kind == "feed" && c.given("upstream.timeout") {
		c.bad("upstream.timeout", "means nothing to kind feed, which the target polls", "remove it")
	}
	if p.Upstream.Kind == "replay" && p.Upstream.Replay.URL != "" && c.given("upstream.event") {
		c.bad("upstream.event", "is not used, since upstream.replay.url is given", "remove one of them")
	}
	if p.Target.CAFile != "" && !p.overTLS() {
		c.bad("target.caFile", "nothing is met by an https address", "remove it, or give an address with https")
	}
	e := &p.Target.Embedded
	if c.given("target.embedded.feedEvery") && p.Upstream.Kind != "feed" {
		c.bad("target.embedded.feedEvery", "there is no feed to poll", "remove it, or set upstream.kind: feed")
	}
	for _, over := range []struct {
		key string
		on  bool
	}{{"proxiesMayBuffer", e.ProxiesMayBuffer}, {"sseAnswers", e.SSEAnswers}} {
		if over.on && e.Transport == "stdio" {
			c.bad("target.embedded."+over.key, "means nothing over standard input and output", "remove it")
		}
	}
	if e.Lists.Entries == 0 {
		c.reject("target.embedded.lists", []string{"page", "ttl", "private", "older", "strict"}, "there are no lists: there is neither entries nor a lane of system "+SystemSEP2549, "give entries too")
	}
}

// overTLS tells whether an address of the profile is https.
func (p *Profile) overTLS() bool {
	u := &p.Upstream
	for _, address := range []string{p.Target.URL, u.Admin, u.HTTP.URL, u.GitHub.URL, u.Slack.URL, u.Stripe.URL, u.Replay.URL} {
		if strings.HasPrefix(address, "https:") {
			return true
		}
	}
	return false
}
