package driver

import (
	"strconv"
	"sync"

	"github.com/eventmeter/eventmeter/internal/wire"
)

// WithoutID is the detail of the notice about an event without an id, of which clients
// cannot recognize duplicates.
const WithoutID = "an event without an eventId"

// NotAnObject is the detail of the notice about a message that cannot be read.
const NotAnObject = "a message is not a JSON object"

// WithoutVersion is the detail of the notice about a message without a version. Clients
// that check it, such as the official SDKs, refuse the message.
const WithoutVersion = "a message without jsonrpc 2.0"

// FaultText returns the error in a message's params or result, for the detail of a notice.
func FaultText(m *wire.Message) string {
	if !m.HasFault {
		return "no error given"
	}
	return "rpc " + strconv.FormatInt(m.Fault.Code, 10) + ": " + string(m.Fault.Message)
}

// FieldsPool has *wire.Fields for scans, so that a delivery allocates none.
var FieldsPool = sync.Pool{New: func() any { return new(wire.Fields) }}
