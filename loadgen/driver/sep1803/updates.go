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
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
)

// Message implements [driver.StreamProtocol].
func (t *resourceStream) Message(e wire.Event, m *wire.Message) {
	t.note(e.ID)
	switch string(m.Method) {
	case "notifications/resources/updated":
		t.updated(e, m)
	case "notifications/subscriptions/acknowledged":
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

// note keeps the id of the last event.
func (t *resourceStream) note(id []byte) {
	if len(id) > 0 && string(id) != string(t.lastID) {
		t.lastID = append(t.lastID[:0], id...)
	}
}

// updated hands an update to the subscriptions that it is for: those to its
// resource, and those to a resource that it lies below.
func (t *resourceStream) updated(e wire.Event, m *wire.Message) {
	s, d := t.s, t.s.d
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
	strange := ""
	var digits [20]byte
	if t.modern && !bytes.Equal(mcpclient.BareID(m.SubscriptionID), strconv.AppendUint(digits[:0], t.ID(), 10)) {
		strange = "an update that does not name its stream's request"
	}
	defer func() {
		if strange != "" && !t.strange { // once on each stream; the lock is free again
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
			if t.before(r, stamp, probed) {
				d.tally.Count("earlier", 1)
				continue
			}
			v.Sub = r.Sub
			if v.Update {
				d.observed(&v)
			}
			d.Delivered(v, &m.Fields, e.Data)
			v.Bytes = 0 // they came once
		}
	}
	look := func(uri []byte) {
		runs, known := s.routes[string(uri)]
		// A modern stream listens from the start to what subscriptions of the
		// session will only ask for: until then it is for nobody.
		give(runs, known || s.asked[string(uri)])
	}
	for i := len(eventScheme); i < len(m.URI); i++ {
		if m.URI[i] == '/' {
			look(m.URI[:i])
		}
	}
	look(m.URI)
	// Over a pipe, what names no request may be another lane's.
	others := t.ID() == 0 && d.Pipe != nil
	if !found && !others && len(s.routes) == 1 && len(s.asked) <= 1 { // whatever it is called, it is for the only one there is
		strange = "an update of a resource that nobody subscribed to"
		for _, runs := range s.routes {
			give(runs, true)
		}
	}
	if !found && !others {
		d.tally.Count("unrouted", 1)
	}
	if v.Bytes != 0 { // it was for nobody, or nobody any more
		t.Overhead(e.Size, "unheard")
	}
}

// observed counts an update without a payload, and times it where the one
// emission is known that it stands for.
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

// before tells whether an update is of something that happened before its
// subscription was asked for. On a stream that was there already, such an update
// was another subscription's, or that of the one before it.
func (t *resourceStream) before(r *resourceRun, stamp eventmeter.Stamp, probed bool) bool {
	if !r.late || !probed || t.s.d.Opts.Published == nil {
		return false
	}
	at := t.s.d.Opts.Published.AckedAt(stamp)
	return at != 0 && at < r.Began
}

// acknowledged notes what a request listens to.
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
		t.malformed("an acknowledgement that is none: " + err.Error())
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
			s.lostRun(r, "the new acknowledgement leaves it out", fmt.Errorf("%w: the acknowledgement leaves %s out", mcpclient.ErrNotOffered, errtext.Line(r.uri)))
		}
	}
}

// answered handles the response that ends a request to listen.
func (t *resourceStream) answered(e wire.Event, m *wire.Message) {
	t.Overhead(e.Size, "response")
	var err error
	if m.HasError {
		err = mcpclient.RPCError("", &m.Error)
	}
	t.End(err)
}
