package dialect

import (
	"github.com/mcpload/mcpload"
	"github.com/mcpload/mcpload/internal/wire"
)

// look shows an event to whoever wants to see it, right after its delivery was
// reported. message is the event's object, or the notification around it.
func (d *events) look(r *run, at mcpload.Instant, id uint64, f *wire.Fields, message []byte) {
	if d.looker != nil {
		d.looker.Observed(mcpload.Observation{Sub: r.sub, At: at, EventID: id, Timestamp: f.Timestamp, Message: message})
	}
}
