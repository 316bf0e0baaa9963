package events

import (
	"net/http"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/sinks"
)

// Receive looks at one request for the run's path.
func (k *hook) Receive(in *sinks.Inbound) sinks.Reply {
	k.Serving.RLock()
	defer k.Serving.RUnlock()
	f := driver.FieldsPool.Get().(*wire.Fields)
	defer driver.FieldsPool.Put(f)
	if reply, ok := k.d.Check(&k.Hook, in, k.verify(in), f); !ok {
		k.heard(in.At, false)
		return reply
	}
	if len(f.Type) > 0 && len(f.EventID) == 0 {
		return k.control(in, f)
	}
	if status, why := k.unfit(in, f); status != 0 {
		return k.d.Reject(&k.Hook, in, eventmeter.Rejected, why, status)
	}
	return k.event(in, f)
}

// unfit tells with which status the lane's client would refuse an event, and why;
// 0 = it would not.
func (k *hook) unfit(in *sinks.Inbound, f *wire.Fields) (status int, why string) {
	w := &k.d.Opts.Webhook
	if w.RefusePending || w.RefuseExpired {
		k.mu.Lock()
		pending, expired := k.pending || k.granted == 0, k.expires != 0 && in.At > k.expires
		k.mu.Unlock()
		switch {
		case w.RefusePending && pending:
			k.d.tally.Count("refusedPending", 1)
			return http.StatusServiceUnavailable, "a delivery before the answer to subscribe"
		case w.RefuseExpired && expired:
			k.d.tally.Count("refusedExpired", 1)
			return http.StatusGone, "a delivery after the end of the grant"
		}
	}
	for _, what := range w.Require {
		switch what {
		case "eventId":
			if v := in.Header[wire.HeaderWebhookID]; len(v) == 0 || len(f.EventID) == 0 || v[0] != string(f.EventID) {
				why = webhookIDs
			}
		case "zone":
			if _, err := time.Parse(time.RFC3339Nano, string(f.Timestamp)); err != nil {
				why = "a timestamp without a time zone"
			}
		case "name":
			if string(f.Name) != k.d.Opts.Event {
				why = "a delivery of another event type"
			}
		}
		if why != "" {
			k.d.tally.Count("refusedUnfit", 1)
			return http.StatusBadRequest, why
		}
	}
	return 0, ""
}

// webhookIDs is what is wrong with a webhook-id by which receivers dedup that
// expect the event's.
const webhookIDs = "a delivery whose webhook-id is not its eventId"

// event takes a delivery, or refuses its first copy on purpose.
func (k *hook) event(in *sinks.Inbound, f *wire.Fields) sinks.Reply {
	id := eventmeter.HashID(f.EventID)
	if id == 0 {
		if v := in.Header[wire.HeaderWebhookID]; len(v) > 0 {
			id = eventmeter.HashID([]byte(v[0]))
		}
	}
	receipt := k.d.Take(&k.Hook, in, id, f)
	k.compare(in, f)
	k.heard(in.At, true)
	if !receipt.Refused {
		k.r.setCursor(f.Cursor)
	}
	return k.d.Answer(in, receipt)
}

// compare holds what a delivery's header fields say against its body and the
// subscription. It is taken either way: what matters is that receivers which go
// by the header, as the draft tells them to, would not have dedupped or routed
// it as this one does.
func (k *hook) compare(in *sinks.Inbound, f *wire.Fields) {
	if len(f.EventID) == 0 {
		k.d.Notice(k.r.Sub, eventmeter.Malformed, in.At, driver.WithoutID)
	} else if v := in.Header[wire.HeaderWebhookID]; len(v) > 0 && v[0] != string(f.EventID) {
		if k.d.Endpoint.Revision() == mcpclient.SEP3415 { // either rule: whether it is the event's or the message's is not settled
			k.d.tally.Count("messageIDs", 1)
		} else {
			k.d.Notice(k.r.Sub, eventmeter.Malformed, in.At, webhookIDs)
		}
	}
	k.route(in)
}

// route looks at the header field by which a receiver finds the subscription:
// every event and every envelope must have it. The older revision has no such
// field.
func (k *hook) route(in *sinks.Inbound) {
	switch v := in.Header[wire.HeaderSubscriptionID]; {
	case len(v) == 0 || v[0] == "":
		if !k.d.older {
			k.d.Notice(k.r.Sub, eventmeter.Malformed, in.At, "a delivery without X-MCP-Subscription-Id")
		}
	case !k.named(v[0]):
		k.d.Notice(k.r.Sub, eventmeter.Malformed, in.At, "a delivery that names another subscription")
	}
}

// heard notes that an event came, and whether it was taken: one that was while
// nothing has been proved for it yet is too early.
func (k *hook) heard(at eventmeter.Instant, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.doubt = !ok; !ok {
		return
	}
	k.last = max(k.last, at)
	if !k.challenged && k.granted == 0 {
		k.early++
	}
}

// prove notes a challenge, and returns how many events came before the first.
// The draft lets none be delivered before it is answered.
func (k *hook) prove() (early int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.challenged && k.granted == 0 {
		early = k.early
	}
	k.challenged = true
	return early
}

// named tells whether the subscription may go by that id: the one of the last
// answer, or the one before. While an answer is awaited it may be any.
func (k *hook) named(id string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.asking || k.id == "" || k.id == id || k.formerID == id
}

// control answers a control envelope.
func (k *hook) control(in *sinks.Inbound, f *wire.Fields) sinks.Reply {
	r, d := k.r, k.d
	kind := string(f.Type)
	if d.flavour.plain {
		d.tally.Count("controlEnvelopes", 1)
	}
	cause := eventmeter.Control
	if kind == "verification" {
		cause = eventmeter.Verification
	}
	d.Inbound(cause, kind, in.At, in.Size, http.StatusOK)
	k.route(in)
	switch kind {
	case "verification":
		if f.Challenge == nil {
			d.Notice(r.Sub, eventmeter.Malformed, in.At, "a verification without a challenge")
			return sinks.Reply{Status: http.StatusBadRequest}
		}
		for range k.prove() {
			d.Notice(r.Sub, eventmeter.Malformed, in.At, "a delivery before the challenge")
		}
		if reply, wrong := d.AnswerChallenge(&k.Hook, []byte(`{"challenge":"another"}`)); wrong {
			d.tally.Count("challengesFailed", 1)
			return reply
		}
		o := wire.BeginObject(nil)
		o.Raw("challenge", f.Challenge)
		return sinks.Reply{Body: o.End()}
	case "gap":
		d.Notice(r.Sub, eventmeter.Truncated, in.At, "")
		r.setCursor(f.Cursor)
	case "terminated":
		m := wire.Message{Fields: *f}
		if f.HasFault && mcpclient.Passing(f.Fault.Code) {
			d.Notice(r.Sub, eventmeter.TransientError, in.At, "terminated: "+driver.FaultText(&m))
			k.ended(in.At)
			d.agenda.add(in.At.Add(minRefresh), k) // subscribe again
			break
		}
		d.Notice(r.Sub, eventmeter.Terminated, in.At, driver.FaultText(&m))
		r.Fail(mcpclient.RPCError("terminated", &f.Fault))
		d.agenda.remove(k)
		d.takeOff(k)
	default:
		d.Notice(r.Sub, eventmeter.Malformed, in.At, "unknown envelope "+kind)
	}
	return sinks.Reply{}
}

// suspected returns what deliveries may be signed with by mistake.
func (k *hook) suspected() []*wire.Suspects {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.suspects == nil {
		k.suspects = append(k.suspects, wire.NewSuspects(k.secret, k.keys[0]))
		if k.keys[1] != nil {
			k.suspects = append(k.suspects, wire.NewSuspects(k.former, k.keys[1]))
		}
	}
	return k.suspects
}

// verify checks a delivery's signature. The deviation, if there is one, is what
// is wrong with it.
func (k *hook) verify(in *sinks.Inbound) (deviation string) {
	if err := k.signed(in); err != nil {
		return driver.Rejection(err, in, k.suspected())
	}
	return ""
}
