package sep1803

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
)

// Message implements [driver.StreamProtocol].
func (t *resourceStream) Message(e wire.Event, m *wire.Message) {
	t.note(e.ID)
	switch string(m.Method) {
	case driver.MethodUpdated:
		t.updated(e, m)
	case driver.MethodAcknowledged:
		t.acknowledged(e)
	case "":
		t.answered(e, m)
	default: // list changes, progress, logs, requests of the server
		t.Overhead(e.Size, "other")
	}
}

// Comment implements [driver.StreamProtocol].
func (t *resourceStream) Comment(e wire.Event) {
	t.note(e.ID)
	t.Overhead(e.Size, "comment")
}

// note keeps the id of an event as the last one.
func (t *resourceStream) note(id []byte) {
	if len(id) > 0 && string(id) != string(t.lastID) {
		t.lastID = append(t.lastID[:0], id...)
	}
}

// updated passes an update to the subscriptions to its resource, or to a resource above it.
func (t *resourceStream) updated(e wire.Event, m *wire.Message) {
	s, d := t.s, t.s.d
	v := t.delivery(e, m)
	strange := ""
	var digits [20]byte
	if t.modern && !bytes.Equal(mcpclient.BareID(m.SubscriptionID), strconv.AppendUint(digits[:0], t.ID(), 10)) {
		strange = "an update that does not name its stream's request"
	}
	defer func() {
		if strange != "" && !t.strange { // once per connection, after the lock was released
			t.strange = true
			t.malformed(strange)
		}
	}()
	s.mu.Lock()
	defer s.mu.Unlock()
	found := false
	give := func(runs []*resourceRun, known bool) {
		found = found || known
		for _, r := range runs {
			if t.before(r, v.Stamp, v.Probed) {
				d.tally.Count("earlier", 1)
				continue
			}
			v.Sub = r.Sub
			if v.Update {
				d.observed(&v)
			}
			d.Delivered(v, &m.Fields, e.Data)
			v.Bytes = 0 // counted once
		}
	}
	look := func(uri []byte) {
		runs, known := s.routes[string(uri)]
		// A modern stream also requests the resources of subscriptions that are opened
		// later. Until then their updates belong to no subscription.
		give(runs, known || s.asked[string(uri)])
	}
	for i := len(eventScheme); i < len(m.URI); i++ {
		if m.URI[i] == '/' {
			look(m.URI[:i])
		}
	}
	look(m.URI)
	// Over a pipe, a notification that names no request may belong to another lane.
	others := t.ID() == 0 && d.Pipe != nil
	if !found && !others && len(s.routes) == 1 && len(s.asked) <= 1 { // it must belong to the only resource
		strange = "an update of a resource that nobody subscribed to"
		for _, runs := range s.routes {
			give(runs, true)
		}
	}
	if !found && !others {
		d.tally.Count("unrouted", 1)
	}
	if v.Bytes != 0 { // no subscription got it
		t.Overhead(e.Size, "unsubscribed")
	}
}

// delivery returns the delivery of an update, without its subscription. It counts an
// update that was redelivered.
func (t *resourceStream) delivery(e wire.Event, m *wire.Message) eventmeter.Delivery {
	d := t.s.d
	stamp, probed := eventmeter.FindStamp(e.Data)
	v := eventmeter.Delivery{Stamp: stamp, Probed: probed, Update: !probed && !m.HasPayload, Bytes: e.Size}
	t.Timed(&v)
	if !t.modern {
		v.EventID = eventmeter.HashID(e.ID)
	}
	if t.resumed && probed && d.Opts.Published != nil {
		if at := d.Opts.Published.AckedAt(stamp); at != 0 && at < t.Back() {
			d.tally.Count("redelivered", 1)
		}
	}
	return v
}

// observed counts an update without a payload. If the emission that it stands for is known,
// observed records its latency.
func (d *lane) observed(v *eventmeter.Delivery) {
	d.tally.Count("updatesObserved", 1)
	if d.Opts.Sole == nil {
		return
	}
	e, ok := d.Opts.Sole(v.Sub, v.At)
	if !ok {
		return
	}
	d.tally.Count("updatesIdentified", 1)
	if e.Measured {
		d.tally.Took("updateLatency", v.At.Sub(e.Intended))
		d.tally.Took("updateLatencySent", v.At.Sub(e.Fired))
	}
}

// before reports whether an update is of an event that was acknowledged before run r began.
// On a stream or pipe that was open before r, such an update belongs to another subscription,
// or to an earlier run of the same one.
func (t *resourceStream) before(r *resourceRun, stamp eventmeter.Stamp, probed bool) bool {
	if !r.late || !probed || t.s.d.Opts.Published == nil {
		return false
	}
	at := t.s.d.Opts.Published.AckedAt(stamp)
	return at != 0 && at < r.Began
}

// acknowledged handles the acknowledgement of subscriptions/listen.
func (t *resourceStream) acknowledged(e wire.Event) {
	s := t.s
	var m struct {
		Params struct {
			Notifications struct {
				ResourceSubscriptions []string `json:"resourceSubscriptions"`
			} `json:"notifications"`
			Meta map[string]json.RawMessage `json:"_meta"`
		} `json:"params"`
	}
	if err := json.Unmarshal(e.Data, &m); err != nil {
		t.malformed("an acknowledgement cannot be understood: " + err.Error())
		return
	}
	if id := strings.Trim(string(m.Params.Meta[wire.SubscriptionKey]), `"`); id != strconv.FormatUint(t.ID(), 10) {
		t.malformed("an acknowledgement names another request than its stream's")
	}
	honoured := make(map[string]bool)
	for _, uri := range m.Params.Notifications.ResourceSubscriptions {
		honoured[uri] = true
	}
	s.mu.Lock()
	s.honoured = honoured
	s.mu.Unlock()
	t.Confirm(e.Size)
	for _, r := range s.runs() {
		switch {
		case honoured[r.uri]:
			r.Activate(t.At())
		case r.IsActive():
			s.lostRun(
				r,
				"the new acknowledgement leaves out its resource",
				fmt.Errorf("%w: the acknowledgement leaves %s out", mcpclient.ErrNotOffered, errtext.Line(r.uri)),
			)
		}
	}
}

// answered handles the response that ends subscriptions/listen.
func (t *resourceStream) answered(e wire.Event, m *wire.Message) {
	t.Overhead(e.Size, "response")
	var err error
	if m.HasError {
		err = mcpclient.RPCError("", &m.Error)
	}
	t.End(err)
}
