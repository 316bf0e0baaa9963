package updates

import (
	"github.com/eventmeter/eventmeter/internal/figure"
	"github.com/eventmeter/eventmeter/loadgen/driver"
)

// FigureTable declares the figures of lanes of system updates.
var FigureTable = figure.Table{Name: "updates", Systems: []string{"updates"}, Figures: []figure.Figure{
	{Name: "sessions", Help: "sessions of the legacy era that were opened for a client's stream"},
	{Name: "sessionsForgotten", Help: "sessions that the server no longer knew (404), in place of which a client opened a new one"},
	{Name: "refused", Help: "requests to subscribe, to listen or to open a stream that the server refused"},
	{Name: "refusedInside200", Help: "of those, JSON-RPC errors inside an answer with HTTP status 200"},
	{Name: "notifications", Help: "notifications of a change that reached the client that subscribed to it"},
	{Name: "updatesObserved", Help: "of those, notifications after which nothing was read (identify: none)"},
	{Name: "updatesIdentified", Help: "notifications that stand for one certain change"},
	figure.Duration("updateLatency", "from scheduled until an identified notification was received"),
	figure.Duration("updateLatencySent", "from published until an identified notification was received"),
	{Name: "unrouted", Help: "notifications of a resource that the client did not subscribe to"},
	{Name: "otherNotifications", Help: "notifications of anything else"},
	{Name: "reads", Help: "times that a client read its resource or list, the first time included"},
	{Name: "readsFailed", Help: "reads that failed"},
	{Name: "readsUnchanged", Help: "reads after a notification that found no change that the client did not know"},
	{Name: "changesSuperseded", Help: "changes of which a client learned only by a later change of the same source"},
	{Name: "shownAtEnd", Help: "events that one more read showed after the drain, in a lane that had received nothing"},
	{Name: driver.FigureCoalesced, Help: "streams whose notifications arrived in coalesced reads, as through a buffer"},
	figure.Duration("outage", "from the loss of a stream until the next one was open"),
}}
