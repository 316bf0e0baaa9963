package check

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/eventmeter/eventmeter/internal/conform"
	"github.com/eventmeter/eventmeter/sinks"
)

// unchallenged skips the step if its callback was not challenged.
func (p *probe) unchallenged(k *hook, a answer) bool {
	n := k.count(&k.challenges)
	switch {
	case a.silent != "":
		p.skipAll(a.silent)
	case n == 0:
		p.skipAll("the server sent no challenge; only another proof, such as an allow-list (webhook.proven), permits that: " + a.text)
	}
	return a.silent != "" || n == 0
}

func wrongEcho(ctx context.Context, p *probe) {
	k := p.hook()
	k.challenge = func(json.RawMessage) sinks.Reply { return echo(json.RawMessage(`"eventmeter-wrong"`)) }
	a := p.subscribe(ctx, k, nil)
	if p.unchallenged(k, a) {
		return
	}
	p.held(conform.VerificationChallengeEcho, !a.granted(), a)
	if a.granted() {
		p.skipAll("the callback was accepted")
		return
	}
	p.held(conform.VerificationFailureError, a.is("CallbackEndpointError"), a)
	p.skip("the refusal was not CallbackEndpointError", conform.ErrorCallbackEndpointError)
	early := 0
	k.read(func() { early = len(k.got) })
	p.judge(conform.VerificationRequiredBeforeDelivery, early == 0, "%d events", early)
}

func redirectedChallenge(ctx context.Context, p *probe) {
	k := p.hook()
	k.challenge = func(nonce json.RawMessage) sinks.Reply {
		if k.followed > 0 { // or a server that follows would go round in circles
			return echo(nonce)
		}
		return sinks.Reply{Status: http.StatusTemporaryRedirect, Location: k.url + "?" + sinks.FollowedQuery}
	}
	a := p.subscribe(ctx, k, nil)
	if p.unchallenged(k, a) {
		return
	}
	followed := k.count(&k.followed)
	p.judge(conform.VerificationUsesSSRFHardenedPath, followed == 0 && !a.granted(), "followed %d times: %s", followed, a.text)
}

func failedChallenge(ctx context.Context, p *probe) {
	const mark = "eventmeter-7f3a-mark"
	for _, status := range []int{http.StatusInternalServerError, http.StatusOK} {
		k := p.hook()
		k.challenge = func(json.RawMessage) sinks.Reply {
			return sinks.Reply{Status: status, Body: []byte(`{"detail":"` + mark + `"}`)}
		}
		a := p.subscribe(ctx, k, nil)
		if p.unchallenged(k, a) {
			return
		}
		p.held(conform.VerificationNoRawEndpointResponses, !strings.Contains(a.text+a.data, mark), a)
	}
}

// ready subscribes a hook; false if it could not.
func (p *probe) ready(ctx context.Context, k *hook) bool {
	a := p.subscribe(ctx, k, nil)
	if !a.granted() {
		p.skipAll("it could not subscribe: " + a.text + a.silent)
	}
	return a.granted()
}

func refresh(ctx context.Context, p *probe) {
	k := p.hook()
	if !p.ready(ctx, k) {
		return
	}
	first := k.count(&k.challenges)
	a := p.subscribe(ctx, k, nil)
	second := k.count(&k.challenges)
	switch {
	case first == 0:
		p.skipAll("the server sent no challenge to the callback")
	case a.silent != "":
		p.skipAll(a.silent)
	default:
		p.judge(conform.VerificationCachedPerPrincipalURL, second == first, "%d challenges", second)
	}
}

// noDelivery says why nothing was judged after a wait for deliveries.
func (p *probe) noDelivery(ctx context.Context) {
	why := "too few deliveries came"
	if ctx.Err() != nil {
		why = overTime
	}
	p.skipAll(why)
}

func anotherSecret(ctx context.Context, p *probe) {
	k := p.hook()
	if !p.ready(ctx, k) {
		return
	}
	if !k.until(ctx, patience, func(got []delivery) bool { return len(got) > 0 }) {
		p.noDelivery(ctx)
		return
	}
	k.read(func() { k.secrets = append(k.secrets, newSecret(32)) })
	if !p.ready(ctx, k) {
		return
	}
	taken := p.Clock.Now()
	const just, grace = time.Second, 5 * time.Second
	var late *delivery
	k.until(ctx, patience, func(got []delivery) bool {
		for i := range got {
			if got[i].at.Sub(taken) > grace {
				late = &got[i]
			}
		}
		return late != nil
	})
	k.read(func() {
		for _, d := range k.got {
			// What the old secret alone signs may have been on its way.
			if age := d.at.Sub(taken); age <= just && len(d.signed) == 2 && d.signed[1] {
				p.judge(conform.DeliveryDualSignOnRotation, d.signed[0], "signed by the new secret alone")
			}
		}
	})
	if late != nil && (late.signed[0] || late.signed[1]) {
		p.judge(conform.SubscribeRefreshReplacesSecret, late.signed[1], "5 s later signed by the old secret alone")
	}
	p.noDelivery(ctx)
}

// copies answers the first event with a status, and counts the copies that come after
// it within 5 s.
func (p *probe) copies(ctx context.Context, row conform.ID, reply func(k *hook) sinks.Reply) *hook {
	k := p.hook()
	k.answer = func(n int, id string, before []delivery) sinks.Reply {
		if n == 0 || id != "" && id == before[0].id {
			return reply(k)
		}
		return sinks.Reply{}
	}
	if !p.ready(ctx, k) {
		return nil
	}
	if !k.until(ctx, patience, func(got []delivery) bool { return len(got) > 0 }) {
		p.noDelivery(ctx)
		return nil
	}
	if k.first() == "" {
		p.skipAll("events have no eventId")
		return nil
	}
	again := func(got []delivery) bool {
		for _, d := range got[1:] {
			if d.id == got[0].id {
				return true
			}
		}
		return false
	}
	repeated := k.until(ctx, 5*time.Second, again)
	if ctx.Err() != nil {
		p.skipAll(overTime)
		return nil
	}
	if row != conform.SSRFNoRedirects {
		p.judge(row, !repeated, "event %s came again", k.first())
	}
	return k
}

// first is the id of the first event.
func (k *hook) first() (id string) {
	k.read(func() { id = k.got[0].id })
	return id
}

func answer410(ctx context.Context, p *probe) {
	p.copies(ctx, conform.Delivery410NonRetryable, func(*hook) sinks.Reply { return sinks.Reply{Status: http.StatusGone} })
}

func answer413(ctx context.Context, p *probe) {
	p.copies(ctx, conform.Delivery413NonRetryable, func(*hook) sinks.Reply { return sinks.Reply{Status: http.StatusRequestEntityTooLarge} })
}

func redirectedDelivery(ctx context.Context, p *probe) {
	k := p.copies(ctx, conform.SSRFNoRedirects, func(k *hook) sinks.Reply {
		return sinks.Reply{Status: http.StatusTemporaryRedirect, Location: k.url + "?" + sinks.FollowedQuery}
	})
	if k != nil {
		followed := k.count(&k.followed)
		p.judge(conform.SSRFNoRedirects, followed == 0, "followed %d times", followed)
	}
}

func failedDelivery(ctx context.Context, p *probe) {
	k := p.hook()
	var failed string // the event that fails, until a copy comes much later
	k.answer = func(_ int, id string, before []delivery) sinks.Reply {
		if failed == "" {
			failed = id
		}
		copies := 0
		for _, d := range before {
			if d.id == failed {
				copies++
			}
		}
		if id != failed || copies > 3 {
			return sinks.Reply{}
		}
		return sinks.Reply{Status: http.StatusInternalServerError}
	}
	if !p.ready(ctx, k) {
		return
	}
	if k.until(ctx, patience, func(got []delivery) bool { return len(got) > 0 }) {
		p.lastError(ctx, k)
	}
	// Timestamps are whole seconds, and a busy machine reads late, so only a copy that
	// comes much later must differ.
	var last, again *delivery
	k.until(ctx, patience+patience/2, func(got []delivery) bool {
		for i := range got {
			for j := range got[:i] {
				if got[i].id != "" && got[i].id == got[j].id && got[i].at.Sub(got[j].at) >= 4*time.Second {
					last, again = &got[j], &got[i]
				}
			}
		}
		return again != nil
	})
	if again != nil {
		p.judge(
			conform.DeliveryRetryRegeneratesSignature,
			again.stamped != last.stamped,
			"event %s came again with the same webhook-timestamp",
			again.id,
		)
		p.judge(
			conform.DeliveryStandardWebhooksHeaders,
			again.named == last.named,
			"event %s came with webhook-id %s, and again with %s",
			again.id,
			last.named,
			again.named,
		)
	}
	p.skip("no copy came 4 s after one that failed", conform.DeliveryRetryRegeneratesSignature, conform.DeliveryStandardWebhooksHeaders)
}

// lastError refreshes a subscription whose last delivery failed, until the server says
// so, or has delivered.
func (p *probe) lastError(ctx context.Context, k *hook) {
	for range 10 {
		a := p.subscribe(ctx, k, nil)
		var status struct {
			LastError *string `json:"lastError"`
		}
		if json.Unmarshal(a.result["deliveryStatus"], &status) == nil && status.LastError != nil {
			p.held(conform.DeliveryStatusLastErrorCategory, conform.IsCategory(*status.LastError), a)
			return
		}
		if !sinks.Sleep(ctx, 100*time.Millisecond) {
			break
		}
	}
	p.skip("the answers to refreshes had no lastError", conform.DeliveryStatusLastErrorCategory)
}
