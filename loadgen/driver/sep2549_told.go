package driver

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/wire"
)

// piece takes the next bytes of the stream. Clients are let in after it: what
// came with the confirmation is older than their first fetch.
func (e *listEar) piece(b []byte, at eventmeter.Instant) error {
	e.at = at
	err := e.parser.Feed(b, e.take)
	e.letIn()
	if err != nil {
		e.d.tooLargeFor(e.sub, at, err)
		return err
	}
	if e.over != nil {
		return errEnded
	}
	return nil
}

// take handles one message.
func (e *listEar) take(ev wire.Event) {
	d := e.d
	var m wire.Message
	switch {
	case e.over != nil: // nothing more is taken from it
		return
	case len(ev.Data) == 0:
		e.overhead(ev.Size, "comment")
		return
	case !wire.ScanMessage(ev.Data, &m):
		d.rec.Noticed(eventmeter.Notice{Sub: e.sub, Kind: eventmeter.Malformed, At: e.at, Detail: "a message is not a JSON object"})
		return
	}
	switch method := string(m.Method); {
	case method == "" && (m.HasResult || m.HasError):
		e.overhead(ev.Size, "response")
		e.over = errEnded
		if m.HasError {
			e.over = rpcError(methodListen, &m.Error)
		} else if !e.heard {
			e.over = e.failed(&callError{kind: kindProtocol, message: "the stream ended before it was confirmed"})
		}
	case method == methodAcknowledged:
		e.acknowledged(ev)
	case method == d.about && (d.want != "" || names(ev.Data, d.set.URI)):
		e.overhead(ev.Size, method)
		d.tally.changes.Add(1)
		e.spoil()
	default:
		e.overhead(ev.Size, method)
		d.tally.otherChanges.Add(1)
	}
}

// acknowledged looks whether the target will tell what was asked for.
func (e *listEar) acknowledged(ev wire.Event) {
	d := e.d
	var m struct {
		Params struct {
			Notifications map[string]json.RawMessage `json:"notifications"`
		} `json:"params"`
	}
	_ = json.Unmarshal(ev.Data, &m) // what cannot be read agrees to nothing
	agreed := string(m.Params.Notifications[d.want]) == "true"
	if d.want == "" {
		agreed = slices.ContainsFunc(uris(m.Params.Notifications["resourceSubscriptions"]), func(u string) bool { return u == d.set.URI })
	}
	e.down += int64(ev.Size)
	if agreed {
		e.confirmed()
		return
	}
	e.report(nil)
	e.over = fmt.Errorf("notifications: %w: it did not agree to tell of changes of this list", ErrNotOffered)
}

func uris(raw json.RawMessage) (list []string) {
	_ = json.Unmarshal(raw, &list) // likewise
	return list
}

// overhead counts bytes of the open stream: notifications carry no event.
func (e *listEar) overhead(size int, method string) {
	d := e.d
	if !e.heard {
		e.down += int64(size)
		return
	}
	d.tally.bytes.Add(int64(size))
	d.rec.Called(eventmeter.Call{Lane: d.opts.Lane, Cause: eventmeter.Heartbeat, At: e.at, Down: int64(size), Method: method})
}
