package check

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/sinks"
)

// secret is a secret for signatures.
type secret struct {
	text string
	key  *wire.Key
}

func newSecret(size int) secret {
	raw := make([]byte, size)
	rand.Read(raw)
	return secret{wire.FormatSecret(raw), wire.NewKey(raw)}
}

// delivery is an event that came to a hook.
type delivery struct {
	id      string // its eventId
	named   string // webhook-id
	at      eventmeter.Instant
	stamped int64  // webhook-timestamp
	signed  []bool // by each secret of the hook
	status  int    // of the answer
}

// hook is a callback of a step. Its fields above mu are set before it is subscribed.
type hook struct {
	path, url string
	clock     *eventmeter.Clock
	// challenge returns the reply to a challenge; nil = it is echoed.
	challenge func(nonce json.RawMessage) sinks.Reply
	// answer returns the reply to the event that came as number n, from 0, with the
	// deliveries before; nil = 200.
	answer  func(n int, id string, before []delivery) sinks.Reply
	changed chan struct{}

	mu         sync.Mutex
	secrets    []secret
	challenges int
	followed   int
	got        []delivery
	arguments  json.RawMessage // of the subscription; nil = there is none to end
}

// maxKept bounds what a hook remembers.
const maxKept = 1000

// hook makes a callback for a step. It is removed at the end of the step.
func (p *probe) hook() *hook {
	k := &hook{clock: p.Clock, path: p.Inbox.Receiver.Issue("/h/check-"), changed: make(chan struct{}, 1), secrets: []secret{newSecret(32)}}
	k.url = p.Inbox.Listener.URL(k.path)
	p.Inbox.Receiver.Add(k.path, k)
	p.hooks = append(p.hooks, k)
	return k
}

// Followed and Turned implement [driver.Judge].
func (k *hook) Followed(eventmeter.Instant)    { k.change(func() { k.followed++ }) }
func (k *hook) Turned(int, eventmeter.Instant) {}

func (k *hook) change(f func()) {
	k.mu.Lock()
	f()
	k.mu.Unlock()
	select {
	case k.changed <- struct{}{}:
	default:
	}
}

// Receive implements [sinks.Hook].
func (k *hook) Receive(in *sinks.Inbound) (reply sinks.Reply) {
	var f wire.Fields
	if !wire.ScanFields(in.Body, &f) {
		return sinks.Reply{Status: http.StatusBadRequest}
	}
	k.change(func() { reply = k.receive(in, &f) })
	return reply
}

func (k *hook) receive(in *sinks.Inbound, f *wire.Fields) sinks.Reply {
	switch {
	case string(f.Type) == "verification":
		k.challenges++
		if k.challenge != nil {
			return k.challenge(f.Challenge)
		}
		return echo(f.Challenge)
	case len(f.Type) > 0 || len(k.got) == maxKept:
		return sinks.Reply{}
	}
	d := delivery{id: string(f.EventID), at: in.At, stamped: wire.Stamped(in.Header), status: http.StatusOK}
	if v := in.Header[wire.HeaderWebhookID]; len(v) > 0 {
		d.named = strings.Clone(v[0])
	}
	for _, s := range k.secrets {
		d.signed = append(d.signed, wire.Verify(in.Header, in.Body, k.clock.Time(in.At), s.key) == nil)
	}
	var reply sinks.Reply
	if k.answer != nil {
		reply = k.answer(len(k.got), d.id, k.got)
	}
	if reply.Status != 0 {
		d.status = reply.Status
	}
	k.got = append(k.got, d)
	return reply
}

// echo is the reply that a challenge wants.
func echo(nonce json.RawMessage) sinks.Reply {
	return sinks.Reply{Body: append(append([]byte(`{"challenge":`), nonce...), '}')}
}

// read calls f while nothing changes.
func (k *hook) read(f func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f()
}

// count reads one of the hook's counts.
func (k *hook) count(of *int) (n int) {
	k.read(func() { n = *of })
	return n
}

// until waits until done returns true, with the deliveries so far.
func (k *hook) until(ctx context.Context, limit time.Duration, done func(got []delivery) bool) (ok bool) {
	return until(ctx, limit, k.changed, func() bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		return done(k.got)
	})
}

// delivery returns the member of that name in subscribe's params.
func (k *hook) delivery() params {
	k.mu.Lock()
	defer k.mu.Unlock()
	return params{"mode": "webhook", "url": k.url, "secret": k.secrets[len(k.secrets)-1].text}
}

// subscription are the params of a subscribe, and key those that name the subscription.
func (p *probe) subscription(k *hook) params {
	return p.base().with(params{"delivery": k.delivery(), "cursor": null})
}

func (p *probe) key(k *hook) params {
	return p.base().with(params{"delivery": params{"mode": "webhook", "url": k.url}})
}

// subscribe subscribes a hook with params that replace the usual ones.
func (p *probe) subscribe(ctx context.Context, k *hook, more params) answer {
	of := p.subscription(k).with(more)
	a := p.call(ctx, p.me(), "events/subscribe", of)
	if a.granted() || a.silent != "" {
		k.read(func() { k.arguments, _ = of["arguments"].(json.RawMessage) })
	}
	return a
}

// unsubscribe ends the subscription of a hook.
func (p *probe) unsubscribe(ctx context.Context, k *hook, more params) answer {
	return p.call(ctx, p.me(), "events/unsubscribe", p.key(k).with(more))
}

// cleanUp ends what the step has left subscribed.
func (p *probe) cleanUp(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	for _, k := range p.hooks {
		var of json.RawMessage
		k.read(func() { of = k.arguments })
		if of != nil {
			_ = p.unsubscribe(ctx, k, params{"arguments": of})
		}
		p.Inbox.Receiver.Retire(k.path)
	}
}
