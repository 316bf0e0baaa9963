package conform

// ClientRow is one promise of a client. The suite plays the server for it; here a
// test does, and judges the clients that runs use.
type ClientRow struct {
	// Name is the suite's, without its prefix.
	Name     string
	Requires string
	Lanes    string
	// Broken is what breaks it, seen by the server.
	Broken string
	// Deviates is why eventmeter's clients break it on purpose; "" = they hold it.
	Deviates string
}

// ClientRows are the rows of the suite for clients, in its order.
var ClientRows = []ClientRow{
	{
		Name:     "client-no-events-without-extension",
		Requires: "no events/* is sent to a server that does not offer the extension",
		Lanes:    "poll, push, webhook",
		Broken:   "a request of events/* after a handshake without the extension",
		Deviates: "many servers have events and do not advertise them: a lane asks anyway, and the run reports " +
			"capability-events-object as broken",
	},
	{
		Name:     "client-relist-on-list-changed",
		Requires: "the types are listed again after list_changed",
		Lanes:    "poll, push, webhook",
		Broken:   "no events/list follows list_changed; lanes with events.listen",
	},
	{
		Name:     "client-poll-drain-on-has-more",
		Requires: "hasMore is followed at once, whatever nextPollMs says",
		Lanes:    "poll",
		Broken:   "no poll with the new cursor follows hasMore with a nextPollMs of an hour",
	},
	{
		Name:     "client-poll-respects-next-poll-ms",
		Requires: "the next poll waits for nextPollMs",
		Lanes:    "poll",
		Broken:   "less than 0.9 nextPollMs between an answer and the next poll",
	},
	{
		Name:     "client-poll-floor",
		Requires: "a floor bounds the pace, 1 s by default",
		Lanes:    "poll",
		Broken:   "less than 0.9 of the floor between an answer with nextPollMs 0 and the next poll",
	},
	{
		Name:     "client-stream-reconnect-with-cursor",
		Requires: "a lost stream is opened again at the last cursor",
		Lanes:    "push",
		Broken:   "the next events/stream lacks the cursor of the last event",
	},
	{
		Name:     "client-refresh-before-expiry",
		Requires: "a subscription is refreshed before its grant ends",
		Lanes:    "webhook",
		Broken:   "no events/subscribe with the same key before refreshBefore",
	},
	{
		Name:     "client-null-cursor-not-replayed",
		Requires: "a null cursor is neither kept nor sent as a position",
		Lanes:    "poll, push, webhook",
		Broken:   "a request after cursor: null has a cursor other than null, or none follows",
	},
	{
		Name:     "client-cursor-absent-tolerated",
		Requires: "an answer without a cursor is no error",
		Lanes:    "poll, push, webhook",
		Broken:   "a request after an answer without a cursor has one, or none follows",
	},
	{
		Name:     "client-truncated-persists-fresh-cursor",
		Requires: "the cursor that comes with truncated is the one to go on from",
		Lanes:    "poll, push, webhook",
		Broken:   "the next request lacks the cursor that came with truncated",
	},
}
