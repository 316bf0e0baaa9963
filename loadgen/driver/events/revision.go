package events

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
)

// said is what a target's answers show of the revision that it speaks.
type said struct {
	pages, typed  int  // pages of the list, and those with a resultType
	deliveryModes bool // a descriptor has the older spelling
	deviations    []string

	codes   string // the revision whose error codes were seen; "" = none
	seconds bool   // a poll was answered with nextPollSeconds
	held    bool   // a poll with timeoutMs was held
}

// page evaluates a page of events/list, which was requested with cursor.
func (s *said) page(p *listPage, cursor json.RawMessage) {
	s.pages++
	if p.ResultType != "" {
		s.typed++
	}
	if len(p.NextCursor) > 0 && string(p.NextCursor) == string(cursor) {
		s.deviates("events/list answers with the cursor that it was asked with")
	}
	for _, e := range p.Events {
		name := errtext.Line(string(e.Name))
		s.deliveryModes = s.deliveryModes || e.DeliveryModes != nil
		switch {
		case e.Name == "":
			s.deviates("an event type has no name")
			continue
		case len(e.Delivery)+len(e.DeliveryModes) == 0:
			s.deviates("event type " + name + " names no delivery mode")
		}
		for _, m := range append(e.Delivery, e.DeliveryModes...) {
			if !slices.Contains([]eventmeter.Mode{eventmeter.Poll, eventmeter.Push, eventmeter.Webhook}, eventmeter.Mode(m)) {
				s.deviates("event type " + name + " has the delivery mode " + errtext.Line(string(m)))
			}
		}
		for _, m := range []struct {
			member string
			schema json.RawMessage
		}{{"inputSchema", e.InputSchema}, {"payloadSchema", e.PayloadSchema}} {
			if len(m.schema) == 0 || m.schema[0] != '{' && string(m.schema) != "true" && string(m.schema) != "false" {
				s.deviates("event type " + name + " has no " + m.member)
			}
		}
	}
}

// maxDeviations bounds the list of deviations of a target with many odd event types.
const maxDeviations = 50

func (s *said) deviates(how string) {
	if len(s.deviations) < maxDeviations && !slices.Contains(s.deviations, how) {
		s.deviations = append(s.deviations, how)
	}
}

// failed evaluates the error of a request that names something unknown. It returns false
// if the error is not one of MCP Events.
func (s *said) failed(e *mcpclient.CallError) bool {
	code, _ := e.Code()
	switch {
	case e.Meaning() != "" && code <= -32023:
		s.codes = string(mcpclient.SEP3415)
	case e.Meaning() != "":
		s.codes = string(mcpclient.Sketch)
	case code <= -32001 && code >= -32006, code == -32016:
		s.codes = string(mcpclient.Older)
	default:
		return false
	}
	return true
}

// Examine implements [driver.Examiner]. It unsubscribes from a subscription and polls an
// event type that do not exist. It also polls an existing event type, to find out whether
// the target holds polls.
func (d *lane) Examine(ctx context.Context, o *driver.Offer) error {
	if d.flavour.plain {
		return nil
	}
	session, err := d.Endpoint.Principal(0).Session(ctx, d.Observe)
	if err != nil {
		return err
	}
	s := &d.said
	d.examineEnd(ctx, session)
	polled := slices.IndexFunc(o.Events, func(e driver.EventType) bool { return slices.Contains(e.Delivery, eventmeter.Poll) })
	if polled >= 0 {
		if a := d.examinePoll(ctx, session, unknownEvent, nil, 0); a.Err != nil {
			s.failed(a.Err)
		} else {
			s.deviates("events/poll of an event type that does not exist succeeds, where NotFound is due")
		}
		d.examineHold(ctx, session, o.Events)
	}
	o.Revision = s.revision(eventsCapabilities(o.Capabilities))
	s.judge(o)
	o.Deviations = s.deviations
	return nil
}

// unknownEvent is an event type that no target has.
const unknownEvent = "eventmeter.does-not-exist"

// examineEnd unsubscribes from a subscription that does not exist.
func (d *lane) examineEnd(ctx context.Context, session *mcpclient.Session) {
	params := wire.BeginObject(nil)
	params.String("name", unknownEvent)
	params.Raw("arguments", []byte("{}"))
	delivery := wire.BeginObject(nil)
	delivery.String("mode", "webhook")
	delivery.String("url", "https://eventmeter.invalid/none")
	params.Raw("delivery", delivery.End())
	a := d.examine(ctx, session, methodUnsubscribe, params)
	defer a.Release()
	switch {
	case a.Err == nil:
		d.said.deviates("events/unsubscribe of a subscription that does not exist succeeds, where NotFound is due; ChatGPT expects success")
	case d.said.failed(a.Err) && a.Err.Meaning() == "NotFound", a.Err.Meaning() == "Forbidden":
	case a.Err.HasCode && a.Err.Meaning() != "":
		d.said.deviates(
			"events/unsubscribe of a subscription that does not exist is answered " + a.Err.Meaning() + ", where NotFound is due",
		)
	}
}

// examineHold polls an event type without required arguments twice, and finds out whether
// the target holds the second poll, which has timeoutMs.
func (d *lane) examineHold(ctx context.Context, session *mcpclient.Session, types []driver.EventType) {
	i := slices.IndexFunc(types, func(e driver.EventType) bool {
		var schema struct {
			Required []string `json:"required"`
		}
		return slices.Contains(e.Delivery, eventmeter.Poll) && json.Unmarshal(e.InputSchema, &schema) == nil && len(schema.Required) == 0
	})
	if i < 0 {
		return
	}
	first := d.examinePoll(ctx, session, types[i].Name, nil, 0)
	if first.Err != nil || none(first.cursor) {
		return
	}
	second := d.examinePoll(ctx, session, types[i].Name, first.cursor, holdFor)
	d.said.held = second.Err == nil && second.events == 0 && second.took >= holdFor*3/4 && second.took > 2*first.took
}

// holdFor is the timeoutMs of the second poll of examineHold.
const holdFor = time.Second

// examined is the answer to a poll of Examine.
type examined struct {
	Err    *mcpclient.CallError
	cursor []byte
	events int
	took   time.Duration
}

func (d *lane) examinePoll(ctx context.Context, session *mcpclient.Session, name string, cursor []byte, hold time.Duration) (out examined) {
	params := wire.BeginObject(nil)
	params.String("name", name)
	params.Raw("arguments", []byte("{}"))
	params.Raw("cursor", cursor)
	if hold > 0 {
		params.Int("timeoutMs", hold.Milliseconds())
	}
	a := d.examine(ctx, session, methodPoll, params)
	defer a.Release()
	if a.Err == nil {
		var m struct {
			Result struct {
				Events  []json.RawMessage `json:"events"`
				Seconds *float64          `json:"nextPollSeconds"`
			} `json:"result"`
		}
		_ = json.Unmarshal(*a.Buf, &m) // members of the wrong type count as absent
		d.said.seconds = d.said.seconds || m.Result.Seconds != nil
		out.events = len(m.Result.Events)
	}
	out.Err, out.took, out.cursor = a.Err, a.Took, slices.Clone(a.Msg.Cursor)
	return out
}

func (d *lane) examine(ctx context.Context, session *mcpclient.Session, method string, params wire.Object) *mcpclient.Answer {
	ctx, cancel := context.WithTimeout(ctx, d.Opts.Timeout)
	defer cancel()
	_, body := d.build(method, params, session)
	a := d.Call(ctx, method, session.Header(method, ""), body)
	d.Called(eventmeter.Discovery, method, a)
	return a
}

// revision returns the revision that fits the answers best, "" if they do not show one.
// places are those that have the capability.
func (s *said) revision(places []string) string {
	switch {
	case s.deliveryModes || s.seconds || s.codes == string(mcpclient.Older):
		return string(mcpclient.Older)
	case s.held:
		return string(mcpclient.LongPoll)
	case s.codes == string(mcpclient.SEP3415):
		return string(mcpclient.SEP3415)
	case slices.Contains(places, "extensions"):
		return string(mcpclient.SEP3415)
	case s.pages > 0:
		return string(mcpclient.Sketch)
	}
	return ""
}

// judge adds the deviations from the offer's revision, and from what well-known clients
// need.
func (s *said) judge(o *driver.Offer) {
	if o.Revision == "" {
		return
	}
	places := eventsCapabilities(o.Capabilities)
	sep := o.Revision == string(mcpclient.SEP3415)
	switch {
	case len(places) == 0:
		s.deviates("the capability is not advertised")
	case sep && !slices.Contains(places, "extensions"):
		s.deviates(`the capability is not under extensions["` + Extension + `"]`)
	}
	if !slices.Contains(places, "events") {
		s.deviates("the capability is not under events, the only place where ChatGPT and @ai-sdk/mcp look")
	}
	if sep && s.typed < s.pages {
		s.deviates("results have no resultType")
	}
	if sep && o.Era != mcpclient.Modern {
		s.deviates(fmt.Sprintf("the extension is defined for protocol 2026-07-28 and later, and this is %s", errtext.Line(o.Version)))
	}
	switch {
	case sep && s.codes == string(mcpclient.Sketch):
		s.deviates("error codes are those of the sketch, from -32011 on; ChatGPT expects these")
	case o.Revision == string(mcpclient.LongPoll) && s.codes == string(mcpclient.SEP3415):
		s.deviates("error codes are those of SEP-3415, from -32023 on")
	}
}
