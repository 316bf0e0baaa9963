package sep1803

import (
	"github.com/eventmeter/eventmeter/internal/figure"
	"github.com/eventmeter/eventmeter/loadgen/driver"
)

// FigureTable declares the figures of lanes of SEP-1803.
var FigureTable = figure.Table{Name: "sep-1803", Systems: []string{"sep-1803"}, Figures: []figure.Figure{
	{Name: "sessions", Help: "sessions opened, or in the modern era first streams"},
	{Name: "unrouted", Help: "updates of a resource that nobody in the session had ever subscribed to"},
	{Name: "earlier", Help: "updates of what happened before their subscription was asked for"},
	{Name: "updatesObserved", Help: "updates without a payload that reached a subscription"},
	{Name: "updatesIdentified", Help: "updates without a payload that stand for one certain event"},
	figure.Duration("updateLatency", "from scheduled until an identified update was read"),
	figure.Duration("updateLatencySent", "from published until an identified update was read"),
	{Name: driver.FigureCoalesced, Help: "streams whose updates arrived in coalesced reads, as through a buffer"},
	{Name: "cuts", Help: "streams that the lane cut"},
	{Name: "resumes", Help: "streams that were opened with Last-Event-ID"},
	{Name: "resumesRefused", Help: "streams opened with Last-Event-ID that the server refused to continue"},
	{Name: "redelivered", Help: "updates, on streams opened with Last-Event-ID, of events from before the stream was confirmed"},
	figure.Duration("outage", "from the loss of a stream until the next one was confirmed"),

	{Name: "registrations", Help: "registrations that were answered"},
	{Name: "registrationsUnanswered", Help: "registrations without an answer"},
	{Name: "registrationsRaced", Help: "registrations with a delivery before the secret was known"},
	{Name: "beforeSecret", Help: "deliveries before the secret was known"},
	{Name: "beforeSecretRefused", Help: "deliveries before the secret was known that were answered 503"},
	{Name: "secretsRaw", Help: "registrations with a raw secret"},
	{Name: "secretsStandard", Help: "registrations with a secret of Standard Webhooks"},
	{Name: "secretsNone", Help: "registrations without a secret"},
	{Name: driver.FigureNeverRetried, Help: "events that were answered 4xx, other than 410 and 413, and did not come again for 10 s"},
	figure.Duration("secretWindow", "from sending a registration until its secret was known"),
	figure.Duration("secretLate", "from the first delivery before the secret until it was known"),
}}
