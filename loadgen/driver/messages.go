package driver

import (
	"strconv"
	"sync"

	"github.com/eventmeter/eventmeter/internal/wire"
)

// WithoutID is what is wrong with an event that no client can tell from its
// copies.
const WithoutID = "an event without an eventId"

// WithoutVersion is what is wrong with a message that clients which check it
// refuse, as the official SDKs do.
const WithoutVersion = "a message without jsonrpc 2.0"

func FaultText(m *wire.Message) string {
	if !m.HasFault {
		return "no error given"
	}
	return "rpc " + strconv.FormatInt(m.Fault.Code, 10) + ": " + string(m.Fault.Message)
}

// FieldsPool spares each delivery the scan's result on the heap.
var FieldsPool = sync.Pool{New: func() any { return new(wire.Fields) }}
