// Package defaults holds the defaults of a lane's settings. Profiles, the
// client side and the k6 extension all take them from here, so that the same
// lane does the same whichever way it is run.
package defaults

import "time"

// Settings of lanes of all systems.
const (
	// Revision is the revision of MCP Events that is sent.
	Revision = "sep-3415"
	// HTTP is the version of HTTP.
	HTTP = "1.1"
	// Timeout bounds one call that is answered at once.
	Timeout = 30 * time.Second
	// AttachConcurrency is how many subscriptions are opened at once.
	AttachConcurrency = 64
)

// Settings by mode.
const (
	// PollMinInterval is the least wait between two polls without hasMore: the draft
	// of MCP Events advises 1000 ms.
	PollMinInterval = time.Second
	// Heartbeat is the interval that a server promises: the draft wants a
	// heartbeat at least every 30 s. A stream is dead after twice as long
	// without a message.
	Heartbeat = 30 * time.Second
	// BackoffMin and BackoffMax bound the wait before a failed poll or a lost
	// stream is tried again. The draft has no numbers. They are the same for
	// both modes, so that neither recovers sooner because of its settings.
	BackoffMin = 500 * time.Millisecond
	BackoffMax = 30 * time.Second
	// WebhookTTL asks the server for no particular lifetime.
	WebhookTTL = "default"
	// RefreshAt is the share of a webhook's grant after which it is refreshed.
	// The draft only wants the refresh before the end of the grant.
	RefreshAt = 0.75
	// Secrets says which webhook secret is accepted while it changes, OldSecret
	// how long a replaced one is accepted.
	Secrets   = "both"
	OldSecret = 5 * time.Minute
	// Verify says what becomes of a delivery whose signature does not verify.
	Verify = "strict"
)
