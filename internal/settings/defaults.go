package settings

import "time"

// Defaults of lanes of all systems.
const (
	// Revision is the revision of MCP Events in sent messages.
	Revision = "sep-3415"
	// HTTP is the version of HTTP.
	HTTP = "1.1"
	// Timeout bounds one call that the server answers at once.
	Timeout = 30 * time.Second
	// AttachConcurrency is how many subscriptions are opened at once.
	AttachConcurrency = 64
)

// Defaults by mode.
const (
	// minInterval: the draft of MCP Events advises 1000 ms.
	minInterval = time.Second
	// heartbeat is the interval that a server promises: the draft requires a
	// heartbeat at least every 30 s. A stream is dead after twice that time without a
	// message.
	heartbeat = 30 * time.Second
	// The draft gives no wait before a failed poll or a lost stream is tried again.
	// It is the same for both modes, so that neither recovers sooner because of its
	// settings.
	backoffMin = 500 * time.Millisecond
	backoffMax = 30 * time.Second
	// refreshAt: the draft only requires a refresh before the end of the grant.
	refreshAt = 0.75
	// refreshJitter: the draft asks for none; a few percent keep refreshes from falling on one instant.
	refreshJitter = 0.05
	// soonestRefresh is the least share of a grant after which a refresh may come.
	soonestRefresh = 0.05
	oldSecret      = 5 * time.Minute
)
