package events

import (
	"fmt"
	"net/http"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/budget"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/sinks"
)

// Receive looks at one request for the run's path.
func (k *hook) Receive(in *sinks.Inbound) sinks.Reply {
	k.serving.RLock()
	defer k.serving.RUnlock()
	f := driver.FieldsPool.Get().(*wire.Fields)
	defer driver.FieldsPool.Put(f)
	r, d := k.r, k.h.d

	if deviation := k.verify(in); deviation != "" {
		if d.Opts.Webhook.Verify != driver.VerifyReport {
			return k.refuse(in, eventmeter.Rejected, deviation, http.StatusUnauthorized)
		}
		d.Notice(r.Sub, eventmeter.Malformed, in.At, driver.TakenAnyway+deviation)
	}
	if !wire.ScanFields(in.Body, f) {
		return k.refuse(in, eventmeter.Malformed, "a delivery is not a JSON object", http.StatusBadRequest)
	}
	if len(f.Type) > 0 && len(f.EventID) == 0 {
		return k.control(in, f)
	}
	return k.event(in, f)
}

// refuse answers a delivery with an error because of what it is.
func (k *hook) refuse(in *sinks.Inbound, kind eventmeter.NoticeKind, why string, status int) sinks.Reply {
	k.h.d.Recorder.Noticed(driver.RefusedNotice(k.r.Sub, kind, in, why))
	k.heard(in.At, false)
	k.h.inbound(eventmeter.Events, "", in.At, in.Size, status)
	return sinks.Reply{Status: status}
}

// event takes a delivery, or refuses its first copy on purpose.
func (k *hook) event(in *sinks.Inbound, f *wire.Fields) sinks.Reply {
	h, r, d := k.h, k.r, k.h.d
	id := eventmeter.HashID(f.EventID)
	if id == 0 {
		if v := in.Header[wire.HeaderWebhookID]; len(v) > 0 {
			id = eventmeter.HashID([]byte(v[0]))
		}
	}
	refused, repeat := h.Refuse.Decide(uint32(h.d.Opts.NumberOf(int(r.Sub.Index))), id)
	stamp, probed := eventmeter.FindStamp(in.Body)
	d.Delivered(eventmeter.Delivery{
		Sub: r.Sub, Stamp: stamp, Probed: probed, EventID: id, At: in.At, Bytes: in.Size, Refused: refused,
	}, f, in.Body)
	k.compare(in, f)
	k.heard(in.At, true)
	switch {
	case refused:
		h.inbound(eventmeter.Events, "", in.At, in.Size, http.StatusServiceUnavailable)
		return sinks.Reply{Status: http.StatusServiceUnavailable}
	case repeat:
		h.inbound(eventmeter.Retry, "", in.At, in.Size, http.StatusOK)
	default:
		h.inbound(eventmeter.Events, "", in.At, in.Size, http.StatusOK)
	}
	r.setCursor(f.Cursor)
	return sinks.Reply{Delay: d.Opts.Webhook.AckDelay}
}

// compare holds what a delivery's header fields say against its body and the
// subscription. It is taken either way: what matters is that receivers which go
// by the header, as the draft tells them to, would not have dedupped or routed
// it as this one does.
func (k *hook) compare(in *sinks.Inbound, f *wire.Fields) {
	if len(f.EventID) == 0 {
		k.h.d.Notice(k.r.Sub, eventmeter.Malformed, in.At, driver.WithoutID)
	} else if v := in.Header[wire.HeaderWebhookID]; len(v) > 0 && v[0] != string(f.EventID) {
		k.h.d.Notice(k.r.Sub, eventmeter.Malformed, in.At, "a delivery whose webhook-id is not its eventId")
	}
	k.route(in)
}

// route looks at the header field by which a receiver finds the subscription:
// every event and every envelope must have it. The older revision has no such
// field.
func (k *hook) route(in *sinks.Inbound) {
	switch v := in.Header[wire.HeaderSubscriptionID]; {
	case len(v) == 0 || v[0] == "":
		if !k.h.d.older {
			k.h.d.Notice(k.r.Sub, eventmeter.Malformed, in.At, "a delivery without X-MCP-Subscription-Id")
		}
	case !k.named(v[0]):
		k.h.d.Notice(k.r.Sub, eventmeter.Malformed, in.At, "a delivery that names another subscription")
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
	h, r, d := k.h, k.r, k.h.d
	kind := string(f.Type)
	if d.flavour.plain {
		d.tally.Count("controlEnvelopes", 1)
	}
	cause := eventmeter.Control
	if kind == "verification" {
		cause = eventmeter.Verification
	}
	h.inbound(cause, kind, in.At, in.Size, http.StatusOK)
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
			h.agenda.add(in.At.Add(minRefresh), k) // subscribe again
			break
		}
		d.Notice(r.Sub, eventmeter.Terminated, in.At, driver.FaultText(&m))
		r.Fail(mcpclient.RPCError("terminated", &f.Fault))
		h.agenda.remove(k)
		h.Receiver.Retire(k.path)
	default:
		d.Notice(r.Sub, eventmeter.Malformed, in.At, "unknown envelope "+kind)
	}
	return sinks.Reply{}
}

// turned reports a request that reached no subscription.
func (h *hooks) turned(to sinks.Hook, status int, at eventmeter.Instant, size int) {
	if k, ok := to.(*hook); ok && status != http.StatusMethodNotAllowed {
		if status == http.StatusServiceUnavailable { // the budget was used up
			h.d.TooLargeFor(k.r.Sub, at, budget.ErrExceeded)
		} else {
			h.d.Notice(k.r.Sub, eventmeter.Malformed, at, fmt.Sprintf("a delivery was answered %d", status))
		}
	}
	h.inbound(eventmeter.Events, "", at, size, status)
}

// inbound reports a request that the target made.
func (h *hooks) inbound(cause eventmeter.Cause, method string, at eventmeter.Instant, size, status int) {
	c := h.Inbox.Inbound(cause, method, at, size, status)
	c.Lane = h.d.Opts.Lane
	h.d.Recorder.Called(c)
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
