package driver

import (
	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/wire"
)

// look shows an event to whoever wants to see it, right after its delivery was
// reported. message is the event's object, or the notification around it.
func (d *events) look(r *run, at eventmeter.Instant, id uint64, f *wire.Fields, message []byte) {
	if d.looker != nil {
		d.looker.Observed(eventmeter.Observation{Sub: r.sub, At: at, EventID: id, Timestamp: f.Timestamp, Message: message})
	}
}
