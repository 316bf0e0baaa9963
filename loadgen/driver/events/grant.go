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

// life returns how long the grant lasts from the answer on; false if it has no valid end.
// refreshBefore is a time of the server's clock. date is the Date header of the answer.
func (g *grant) life(date time.Time) (time.Duration, bool) {
	if g.RefreshBefore == nil {
		return 0, false
	}
	t, err := time.Parse(time.RFC3339, *g.RefreshBefore)
	if err != nil {
		return 0, false
	}
	return min(t.Sub(serverTime(date)), maxLife), true
}

// serverTime returns the time of the server's clock at an answer that was just received. The
// Date header of the answer is used instead of the local time if the two clocks differ by more
// than two seconds.
func serverTime(date time.Time) time.Time {
	now := time.Now()
	if off := now.Sub(date); !date.IsZero() && (off > 2*time.Second || off < -2*time.Second) {
		return date
	}
	return now
}

// maxLife bounds the life of a grant: dates of the far future would overflow.
const maxLife = 365 * 24 * time.Hour

// deliveryStatus is what the answer to a refresh says about the target's deliveries to a
// subscription.
type deliveryStatus struct {
	Active      *bool   `json:"active"`
	LastError   *string `json:"lastError"`
	FailedSince *string `json:"failedSince"`
	// Throttled is true, or an object; null and false mean that it is not.
	Throttled json.RawMessage `json:"throttled"`
	// RetryAfter is how much longer deliveries are throttled, in milliseconds.
	RetryAfter float64 `json:"retryAfterMs"`
}
