package events

import (
	"net/http"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/conform"
	"github.com/eventmeter/eventmeter/internal/settings"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/sinks"
)

// Receive handles one request for the run's path.
func (k *hook) Receive(in *sinks.Inbound) sinks.Reply {
	k.Serving.RLock()
	defer k.Serving.RUnlock()
	f := driver.FieldsPool.Get().(*wire.Fields)
	defer driver.FieldsPool.Put(f)
	deviation, seen := k.verify(in, f)
	if reply, ok := k.d.Check(&k.Hook, in, deviation, f); !ok {
		if deviation == "" {
			k.d.saw(k.r, conform.Delivery)
			k.broke(in, conform.DeliveryPostJSON)
		}
		k.arrived(in.At, false)
		return reply
	}
	if (len(f.Type) > 0 || k.d.older && f.HasFault) && len(f.EventID) == 0 {
		return k.control(in, f, seen)
	}
	if status, why := k.unfit(in, f); status != 0 {
		return k.d.Reject(&k.Hook, in, eventmeter.Rejected, why, status)
	}
	return k.event(in, f, seen)
}

// unfit returns the status with which the lane's client refuses an event, and why; 0 = it
// accepts the event.
func (k *hook) unfit(in *sinks.Inbound, f *wire.Fields) (status int, why string) {
	w := &k.d.Opts.Webhook
	if w.Pending == settings.Refuse || w.Expired == settings.Refuse {
		k.mu.Lock()
		pending, expired := k.pending || k.granted == 0, k.expires != 0 && in.At > k.expires
		k.mu.Unlock()
		switch {
		case w.Pending == settings.Refuse && pending:
			k.d.tally.Count("refusedPending", 1)
			return http.StatusServiceUnavailable, "a delivery before the answer to subscribe"
		case w.Expired == settings.Refuse && expired:
			k.d.tally.Count("refusedExpired", 1)
			return http.StatusGone, "a delivery after the end of the grant"
		}
	}
	for _, what := range w.Require {
		switch what {
		case "eventId":
			if len(f.EventID) == 0 || in.First(wire.HeaderWebhookID) != string(f.EventID) {
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

// webhookIDs is the detail of the notice about a delivery that receivers cannot dedup by
// its webhook-id.
const webhookIDs = "a delivery whose webhook-id is not its eventId"

// event accepts a delivery, or refuses it because of webhook.answer.
func (k *hook) event(in *sinks.Inbound, f *wire.Fields, seen bool) sinks.Reply {
	id := eventmeter.HashID(f.EventID)
	if id == 0 {
		id = eventmeter.HashID([]byte(in.First(wire.HeaderWebhookID)))
	}
	receipt := k.d.Take(&k.Hook, in, id, f)
	k.judgeDelivery(in, f, receipt, id, seen)
	k.compare(in, f)
	k.arrived(in.At, true)
	if !receipt.Refused {
		k.r.setCursor(f.Cursor)
	}
	return k.d.Answer(in, receipt)
}

// compare compares a delivery's header fields with its body and the subscription. The
// delivery is accepted all the same. A difference is reported because receivers that use
// the header, as the draft requires, would dedup or route the delivery in another way.
func (k *hook) compare(in *sinks.Inbound, f *wire.Fields) {
	if len(f.EventID) == 0 {
		k.d.Notice(k.r.Sub, eventmeter.Malformed, in.At, driver.WithoutID)
	} else if v := in.Header[wire.HeaderWebhookID]; len(v) > 0 && v[0] != string(f.EventID) {
		if k.d.Endpoint.Revision() == mcpclient.SEP3415 { // the SEP leaves open whether it is the id of the event or of the message
			k.d.tally.Count("messageIDs", 1)
		} else {
			k.d.Notice(k.r.Sub, eventmeter.Malformed, in.At, webhookIDs)
		}
	}
	k.route(in)
}

// route checks the header field with which a receiver finds the subscription. Every event
// and every envelope must have it, except in the older revision, which has no such field.
func (k *hook) route(in *sinks.Inbound) {
	switch id := in.First(wire.HeaderSubscriptionID); {
	case id == "":
		if !k.d.older {
			k.d.Notice(k.r.Sub, eventmeter.Malformed, in.At, "a delivery without X-MCP-Subscription-Id")
			k.broke(in, conform.DeliverySubscriptionIDHeader)
		}
	case !k.named(id):
		k.d.Notice(k.r.Sub, eventmeter.Malformed, in.At, "a delivery that names another subscription")
		k.broke(in, conform.DeliverySubscriptionIDHeader)
	}
}

// arrived records that an event came, and whether it was accepted. It counts events that
// were accepted before a challenge and before the first answer to subscribe.
func (k *hook) arrived(at eventmeter.Instant, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.continued = true
	if k.doubt = !ok; !ok {
		return
	}
	k.last = max(k.last, at)
	if !k.challenged && k.granted == 0 {
		k.early++
	}
}

// passesOver reports whether an announced gap may be before the subscription. The answer
// to subscribe has no truncated in the older revision, so that a target can only announce
// afterwards that it does not begin at the run's cursor: by the first envelope, before any
// event.
func (k *hook) passesOver() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	first := !k.continued
	k.continued = true
	return first && k.d.older && k.r.begins != beginsNow
}

// prove records a challenge, and returns how many events came before the first one. The
// draft allows none before the challenge is answered.
func (k *hook) prove() (early int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.challenged && k.granted == 0 {
		early = k.early
	}
	k.challenged = true
	if k.d.shared != nil {
		k.d.judge.proven.Store(true)
	}
	return early
}

// named reports whether id may be that of the subscription: it is the id of the last
// answer or the one before, or an answer with another id may be under way.
func (k *hook) named(id string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.pending || k.id == "" || k.id == id || k.formerID == id
}

// control handles a control envelope.
func (k *hook) control(in *sinks.Inbound, f *wire.Fields, seen bool) sinks.Reply {
	r, d := k.r, k.d
	kind := string(f.Type)
	if kind == "" { // the only envelope of the older revision
		if kind = "terminated"; mcpclient.RPCError("", &f.Fault).In(mcpclient.Older).Expired() {
			kind = "gap"
		}
	}
	if d.flavour.plain {
		d.tally.Count("controlEnvelopes", 1)
	}
	cause := eventmeter.Control
	if kind == "verification" {
		cause = eventmeter.Verification
	}
	d.Inbound(cause, kind, in.At, in.Size, http.StatusOK)
	k.route(in)
	k.judgeEnvelope(in, kind, f, seen)
	switch kind {
	case "verification":
		if f.Challenge == nil {
			d.Notice(r.Sub, eventmeter.Malformed, in.At, "a verification without a challenge")
			return sinks.Reply{Status: http.StatusBadRequest}
		}
		for range k.prove() {
			d.Notice(r.Sub, eventmeter.Malformed, in.At, "a delivery before the challenge")
			k.broke(in, conform.VerificationRequiredBeforeDelivery)
		}
		if reply, wrong := d.AnswerChallenge(&k.Hook, []byte(`{"challenge":"another"}`)); wrong {
			d.tally.Count("challengesFailed", 1)
			k.echo(false)
			return reply
		}
		k.echo(true)
		o := wire.BeginObject(nil)
		o.Raw("challenge", f.Challenge)
		return sinks.Reply{Body: o.End()}
	case "gap":
		before := k.passesOver()
		if before {
			d.tally.Count(r.begins.figure()+"Truncated", 1)
		}
		d.Recorder.Noticed(eventmeter.Notice{Sub: r.Sub, Kind: eventmeter.Truncated, At: in.At, Before: before})
		r.setCursor(f.Cursor)
	case "terminated":
		m := wire.Message{Fields: *f}
		k.ended(in.At)
		if f.HasFault && mcpclient.Passing(f.Fault.Code) {
			d.Notice(r.Sub, eventmeter.TransientError, in.At, "terminated: "+driver.FaultText(&m))
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

// suspected returns the keys that deliveries may be signed with by mistake.
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

// verify checks a delivery's signature and returns what is wrong with it, "" if nothing
// is, and whether that was counted among the rows of conformance.
func (k *hook) verify(in *sinks.Inbound, f *wire.Fields) (deviation string, seen bool) {
	err := k.signed(in)
	if err == nil {
		return "", false
	}
	seen = k.judgeSignature(in, err, f)
	return driver.Rejection(err, in, k.suspected()), seen
}
