package settings

import (
	"fmt"
	"time"
)

// Clients are the clients that a lane can imitate, the default first.
var Clients = []string{"generic", clientChatGPT, clientAISDK}

const (
	clientChatGPT = "chatgpt"
	clientAISDK   = "ai-sdk"
)

// clientBody is the largest body that both clients accept.
const clientBody = 256 << 10

// WebhookOf returns the default settings of a lane that imitates a client. They come
// from the client's documents or source; what these leave open is in
// [WebhookLane.Assumptions].
func WebhookOf(client string) WebhookLane {
	w := DefaultWebhook()
	switch client {
	case clientChatGPT:
		w.RefreshAt = assumedRefreshAt
		w.Require = []string{"eventId", "zone", "name"}
		w.BodyLimit = clientBody
		w.Answer = []WebhookAnswer{{Delay: 50 * time.Millisecond, DelayTo: 500 * time.Millisecond}}
		w.UnsubscribeMode, w.Silent = true, assumedSilent
	case clientAISDK:
		w.Require = []string{"eventId", "zone", "name"}
		w.Pending, w.Expired = Refuse, Refuse
		w.BodyLimit = clientBody
		w.Answer = []WebhookAnswer{{Status: 204}}
		w.UnsubscribeMode = true
	}
	return w
}

// Assumptions about ChatGPT, which nobody has measured.
const (
	assumedRefreshAt = 0.95
	assumedSilent    = 0.5
)

// Assumptions returns what is only assumed about a client, as far as these settings
// follow the assumption.
func (w *WebhookLane) Assumptions(client string) (all []string) {
	switch client {
	case clientChatGPT:
		if w.RefreshAt == assumedRefreshAt {
			all = append(
				all,
				fmt.Sprintf(
					"it is not known when ChatGPT refreshes; assumed: at 0.95 of the grant, up to %g %% of it earlier (webhook.refreshAt)",
					w.RefreshJitter*100,
				),
			)
		}
		if w.RotateEvery == 0 {
			all = append(all, "it is not known whether ChatGPT changes its secret; assumed: it does not (webhook.rotateEvery)")
		}
		if w.Silent == assumedSilent {
			all = append(
				all,
				"it is not known how many users remove ChatGPT's plugin, which does not unsubscribe, instead of the task; assumed: "+
					"half (webhook.silent)",
			)
		}
		all = append(
			all,
			"it is not known with which status ChatGPT refuses a delivery, and how long it takes to answer; assumed: 400, and 50 "+
				"to 500 ms (one measurement: 295 ms)",
		)
	case clientAISDK:
		all = append(
			all,
			"the AI SDK has no timer for refreshes; the application decides; assumed: at "+fmt.Sprint(
				w.RefreshAt,
			)+" of the grant (webhook.refreshAt)",
		)
	}
	return all
}

// CheckClient reports what is wrong with the client that a lane of a system imitates.
func (w *WebhookLane) CheckClient(l Lane, client string, of System) {
	if client != "" && (l.Mode != "webhook" || !of.Judges) {
		l.Bad("client", "clients are imitated by webhook lanes of system events", "remove it, or set mode: webhook")
	}
	if !of.Judges {
		l.Reject("webhook", judging, "has no effect on system "+of.Name, "remove it")
	}
}

// judging are the keys of a webhook lane that only systems with Judges have.
var judging = []string{"require", "pending", "expired", "silent", "unsubscribeMode"}
