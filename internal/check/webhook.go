package check

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter/internal/conform"
	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
)

// noToken subscribes without a token.
func noToken(ctx context.Context, p *probe) {
	if p.Endpoint.IsProgram() {
		p.skipAll("over standard input and output there are no tokens")
		return
	}
	nobody := p.Endpoint.Anonymous()
	defer nobody.End()
	k := p.hook()
	switch _, err := nobody.Session(ctx, nil); {
	case errors.Is(err, mcpclient.ErrAuth): // nobody is let in at all
		p.judge(conform.SubscribeAuthRequired, true, "")
		return
	case err != nil:
		p.skipAll(errtext.Line(err.Error()))
		return
	}
	a := p.call(ctx, nobody, "events/subscribe", p.subscription(k))
	if a.granted() {
		_ = p.call(ctx, nobody, "events/unsubscribe", p.key(k))
	}
	if p.unanswered(a) {
		return
	}
	p.held(conform.SubscribeAuthRequired, a.forbids(), a)
}

func anotherMode(ctx context.Context, p *probe) {
	k := p.hook()
	of := k.delivery()
	of["mode"] = "push"
	a := p.subscribe(ctx, k, params{"delivery": of})
	if a.silent == "" {
		p.held(conform.SubscribeWebhookOnly, !a.granted(), a)
	}
	p.skipAll(a.silent)
}

func badSecrets(ctx context.Context, p *probe) {
	for _, bad := range []any{nil, "", "not-a-secret", "whsec_%%%", newSecret(23).text, newSecret(65).text} {
		k := p.hook()
		of := k.delivery().with(params{"secret": bad})
		a := p.subscribe(ctx, k, params{"delivery": of})
		if a.silent != "" {
			continue
		}
		row := conform.SubscribeSecretFormat
		if bad == nil || bad == "" {
			row = conform.SubscribeSecretRequired
		}
		p.judge(row, !a.granted(), "secret %v: %s", bad, a.text)
		p.judge(conform.SubscribeSecretRejected, a.is("InvalidParams"), "secret %v: %s", bad, a.text)
		p.judge(conform.ErrorInvalidParams, a.is("InvalidParams"), "secret %v: %s", bad, a.text)
	}
	for _, size := range []int{24, 64} {
		k := p.hook()
		k.secrets = []secret{newSecret(size)}
		if a := p.subscribe(ctx, k, nil); a.silent == "" {
			p.judge(conform.SubscribeSecretFormat, a.granted(), "a secret of %d bytes: %s", size, a.text)
		}
	}
}

// refused subscribes with another callback, and says whether it was refused. A
// callback that fails for want of an answer may have been tried.
func (p *probe) refused(ctx context.Context, url string) (a answer, ok bool) {
	k := p.hook()
	a = p.subscribe(ctx, k, params{"delivery": k.delivery().with(params{"url": url})})
	if a.granted() {
		_ = p.unsubscribe(ctx, k, params{"delivery": params{"mode": "webhook", "url": url}})
	}
	k.read(func() { k.arguments = nil })
	if a.silent != "" {
		p.skipAll(a.silent)
	}
	return a, a.silent == ""
}

// httpCallback subscribes with the callback's address over http, where nobody speaks
// plain http: a server that asks there has taken the callback.
func httpCallback(ctx context.Context, p *probe) {
	if a, ok := p.refused(ctx, "http"+strings.TrimPrefix(p.hook().url, "https")); ok {
		if a.is("CallbackEndpointError") && !a.reached() {
			p.skip("the refusal does not tell whether the callback was asked", conform.SubscribeURLHTTPSRequired)
		} else {
			p.held(conform.SubscribeURLHTTPSRequired, !a.granted() && !a.reached(), a)
		}
		p.held(conform.SubscribeURLNonHTTPSRejected, a.is("InvalidParams"), a)
		p.held(conform.ErrorInvalidParams, a.is("InvalidParams"), a)
	}
}

func malformedCallbacks(ctx context.Context, p *probe) {
	for _, url := range []string{"", "eventmeter", "https://", "https:///h", "ftp://eventmeter.invalid/h"} {
		if a, ok := p.refused(ctx, url); ok {
			p.judge(conform.SSRFValidateCallbackURL, !a.granted(), "callback %q: %s", url, a.text)
		}
	}
}

func privateCallbacks(ctx context.Context, p *probe) {
	for _, at := range []string{"https://10.255.255.1/h", "https://169.254.169.254/h", "https://[fd00::1]/h"} {
		a, ok := p.refused(ctx, at)
		switch {
		case !ok:
		case a.is("CallbackEndpointError") && !a.reached() && a.reason() != "":
			p.skip("the refusal does not tell whether the address was tried", conform.SSRFRejectNonRoutable)
		case a.granted() || a.reached():
			if isLocal(p.hook().url) {
				p.skip(
					"the callbacks of this check are at such an address, too, and the server accepts them",
					conform.SSRFRejectNonRoutable,
				)
				return
			}
			p.judge(conform.SSRFRejectNonRoutable, false, "callback %s: %s", at, a.text)
		default:
			p.judge(conform.SSRFRejectNonRoutable, true, "callback %s: %s", at, a.text)
		}
	}
}

// reason is the member of that name in the data of an error.
func (a *answer) reason() string {
	var m struct {
		Reason string `json:"reason"`
	}
	_ = json.Unmarshal([]byte(a.data), &m) // what is odd counts as absent
	return m.Reason
}

// isLocal reports whether a callback is at an address that is not public.
func isLocal(callback string) bool {
	u, err := url.Parse(callback)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && (ip.IsLoopback() || ip.IsPrivate() || ip.IsLinkLocalUnicast())
}

// reached reports whether an error tells that something answered at the callback.
func (a *answer) reached() bool {
	return a.is("CallbackEndpointError") && slices.Contains([]string{"tls_error", "http_4xx", "http_5xx"}, a.reason())
}

// another returns arguments in another spelling: members in the opposite order, and
// the first letter of each as an escape; nil if there are no members.
func another(args json.RawMessage) json.RawMessage {
	var m map[string]json.RawMessage
	if json.Unmarshal(args, &m) != nil || len(m) == 0 {
		return nil
	}
	out := []byte{'{'}
	names := slices.Sorted(maps.Keys(m))
	slices.Reverse(names)
	for i, name := range names {
		if i > 0 {
			out = append(out, ',')
		}
		key, _ := json.Marshal(name) // text always encodes
		if key[1] < 0x80 && key[1] != '\\' && key[1] != '"' {
			key = append(fmt.Appendf(nil, `"\u%04x`, key[1]), key[2:]...)
		}
		out = append(append(append(out, key...), ':'), m[name]...)
	}
	return append(out, '}')
}

func sameKey(ctx context.Context, p *probe) {
	k := p.hook()
	var pair [2]answer
	var both sync.WaitGroup
	for i := range pair {
		both.Go(func() {
			defer crash.Guard()
			pair[i] = p.subscribe(ctx, k, nil)
		})
	}
	both.Wait()
	if !pair[0].granted() || !pair[1].granted() {
		if pair[0].silent+pair[1].silent == "" {
			p.judge(conform.SubscribeIdempotentUpsert, false, "two at once: %s and %s", pair[0].text, pair[1].text)
		}
		p.skipAll("it could not subscribe: " + pair[0].text + pair[0].silent)
		return
	}
	id := pair[0].string("id")
	if id == "" || pair[1].string("id") == "" {
		p.skipAll("the answers have no id")
		return
	}
	same := id == pair[1].string("id")
	p.judge(conform.SubscribeIdempotentUpsert, same, "two at once have the ids %q and %q: %s", id, pair[1].string("id"), pair[0].text)
	if !same {
		p.skipAll("the same key has two ids")
		return
	}
	if a := p.subscribe(ctx, p.hook(), params{"id": "eventmeter-made-up"}); a.granted() {
		p.held(conform.SubscribeIDNotAnInput, a.string("id") != "eventmeter-made-up", a)
	}
	if a := p.subscribe(ctx, k, params{"id": "eventmeter-made-up"}); a.granted() {
		p.judge(conform.SubscribeIDNotAnInput, a.string("id") == id, "%s, and %s without an id", a.text, pair[0].text)
	}
	end := params{}
	if other := another(p.Arguments); other == nil {
		p.skip("the arguments have no members to spell in another way; give some with --arguments", conform.SubscribeKeyComposition)
	} else if a := p.subscribe(ctx, k, params{"arguments": other}); a.silent == "" {
		p.judge(conform.SubscribeKeyComposition, a.string("id") == id, "%s: %s, and %s before", other, a.text, pair[0].text)
		if a.granted() && a.string("id") == id {
			end["arguments"] = other
		}
	}
	p.endKey(ctx, k, end, id)
}

// endKey unsubscribes the key of two subscribes, once and again, and subscribes anew.
func (p *probe) endKey(ctx context.Context, k *hook, end params, id string) {
	first := p.unsubscribe(ctx, k, end)
	if p.unanswered(first) {
		return
	}
	p.held(conform.UnsubscribeByKey, first.granted(), first)
	second := p.unsubscribe(ctx, k, nil)
	if second.silent == "" {
		p.held(conform.UnsubscribeUnknownNotFound, second.is("NotFound"), second)
	}
	if anew := p.subscribe(ctx, k, nil); anew.granted() {
		p.judge(conform.SubscribeIDDerived, anew.string("id") == id, "%s, and %s before", anew.text, id)
	}
	p.skipAll("a call of the step was not answered")
}

// differing returns arguments of which one text differs; nil if none is text.
func differing(args json.RawMessage) json.RawMessage {
	var m map[string]any
	_ = json.Unmarshal(args, &m) // what is odd has no text
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if text, ok := m[name].(string); ok {
			m[name] = text + "-eventmeter"
			out, _ := json.Marshal(m) // what was decoded encodes
			return out
		}
	}
	return nil
}

// anotherKey subscribes with another callback, and with other arguments, which a server
// may refuse.
func anotherKey(ctx context.Context, p *probe) {
	k := p.hook()
	a, b := p.subscribe(ctx, k, nil), p.subscribe(ctx, p.hook(), nil)
	if !a.granted() || !b.granted() {
		p.skipAll("it could not subscribe: " + a.text + a.silent + b.silent)
		return
	}
	id := a.string("id")
	if id == "" || b.string("id") == "" {
		p.skipAll("the answers have no id")
		return
	}
	p.judge(conform.SubscribeKeyImmutable, id != b.string("id"), "%s for two callbacks", a.text)
	if of := differing(p.Arguments); of != nil {
		c := p.call(ctx, p.me(), "events/subscribe", p.subscription(k).with(params{"arguments": of}))
		if c.granted() {
			p.judge(conform.SubscribeKeyImmutable, c.string("id") != id, "%s for %s and %s", c.text, p.Arguments, of)
			_ = p.unsubscribe(ctx, k, params{"arguments": of})
		}
	}
}

func twoPrincipals(ctx context.Context, p *probe) {
	other := p.Endpoint.Principal(1)
	if other == p.me() {
		p.skipAll("needs two principals; give another with --token")
		return
	}
	k := p.hook()
	mine, its := p.subscribe(ctx, k, nil), p.call(ctx, other, "events/subscribe", p.subscription(k))
	if !mine.granted() || !its.granted() {
		p.skipAll("it could not subscribe: " + mine.text + " " + its.text + its.silent)
		return
	}
	if mine.string("id") != "" {
		p.judge(conform.SubscribeCrossTenantIsolation, mine.string("id") != its.string("id"), "%s for both", its.text)
	}
	end := p.call(ctx, other, "events/unsubscribe", p.key(k))
	still := p.unsubscribe(ctx, k, nil)
	if end.granted() && still.silent == "" {
		p.judge(conform.SubscribeCrossTenantIsolation, still.granted(), "gone when the other principal unsubscribed: %s", still.text)
	}
}

// aMoment is how far the grants of one wish may differ, and how long a server may
// take to answer.
const aMoment = time.Minute

// wishes are values of ttlMs; nil = the member is left out. The shortest grant that
// they bring is the server's minimum.
var wishes = []any{json.Number("0"), json.Number("1"), json.Number("315360000000000"), null, nil, json.Number("900000")}

func timesToLive(ctx context.Context, p *probe) {
	k := p.hook()
	least := time.Duration(math.MaxInt64)
	for _, ttl := range wishes {
		before := time.Now()
		a := p.subscribe(ctx, k, params{"ttlMs": ttl})
		if a.silent != "" {
			continue
		}
		name := fmt.Sprintf("ttlMs %s", ttl)
		if ttl == nil {
			name = "no ttlMs"
		}
		p.judge(conform.TTLNoRejectionPath, a.granted(), "%s: %s", name, a.text)
		if !a.granted() {
			continue
		}
		asked, _ := ttl.(json.RawMessage)
		unending := string(a.result["refreshBefore"]) == "null"
		p.judge(conform.TTLNullOnlyWhenRequested, !unending || asked != nil, "%s: %s", name, a.text)
		at, err := time.Parse(time.RFC3339, a.string("refreshBefore"))
		if ttl == nil && !unending {
			p.judge(conform.TTLOmittedMeansDefault, err == nil, "%s: %s", name, a.text)
		}
		if err != nil {
			continue
		}
		life := at.Sub(before)
		least = min(least, life)
		if ttl == json.Number("900000") {
			if life > least+aMoment || life <= 15*time.Minute*11/10+aMoment {
				p.judge(conform.TTLRefreshBeforeLteSuggestion, life <= 15*time.Minute*11/10+aMoment, "%s: %s", name, a.text)
			}
			p.skip("the requested lifetime was shorter than the shortest grant of the server", conform.TTLRefreshBeforeLteSuggestion)
		}
	}
	p.skipAll("no answer with a time")
}
