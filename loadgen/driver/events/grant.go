package events

import (
	"encoding/json"
	"time"
)

// grant is the answer to subscribe.
type grant struct {
	ID             string          `json:"id"`
	RefreshBefore  *string         `json:"refreshBefore"`
	Truncated      bool            `json:"truncated"`
	DeliveryStatus *deliveryStatus `json:"deliveryStatus"`
}

// life is how long the grant lasts from the answer on. refreshBefore is a time
// of the server's clock: if its Date header shows that this clock is another
// than ours, it is read by that.
func (g *grant) life(date time.Time) (time.Duration, bool) {
	if g.RefreshBefore == nil {
		return 0, false
	}
	t, err := time.Parse(time.RFC3339, *g.RefreshBefore)
	if err != nil {
		return 0, false
	}
	now := time.Now()
	if off := now.Sub(date); !date.IsZero() && (off > 2*time.Second || off < -2*time.Second) {
		now = date
	}
	return min(t.Sub(now), maxLife), true
}

// maxLife bounds what is believed of a grant: dates of the far future do not fit
// the clock.
const maxLife = 365 * 24 * time.Hour

// deliveryStatus is how a target's deliveries to a subscription fare, as the
// answer to a refresh tells.
type deliveryStatus struct {
	Active      *bool   `json:"active"`
	LastError   *string `json:"lastError"`
	FailedSince *string `json:"failedSince"`
	// Throttled is true, or an object; null and false mean that it is not.
	Throttled json.RawMessage `json:"throttled"`
	// RetryAfter is for how much longer, in milliseconds.
	RetryAfter float64 `json:"retryAfterMs"`
}
