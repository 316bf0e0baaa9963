package profiles

import (
	"fmt"
	"slices"
	"time"
)

// The clients that a lane can imitate, beside generic.
const (
	clientChatGPT = "chatgpt"
	clientAISDK   = "ai-sdk"
)

// clientBody is the largest body that both clients take.
const clientBody = 256 << 10

// imitate sets the defaults of a client. Facts are of the client's documents or
// source; what is not known of it is in assumed.
func imitate(w *WebhookLane, client string) {
	switch client {
	case clientChatGPT:
		w.RefreshAt = assumedRefreshAt
		w.Require = []string{"eventId", "zone", "name"}
		w.BodyLimit = clientBody
		w.Answer = []WebhookAnswer{{Delay: 50 * time.Millisecond, DelayTo: 500 * time.Millisecond}}
		w.UnsubscribeMode, w.Silent = true, assumedSilent
	case clientAISDK:
		w.Require = []string{"eventId", "zone", "name"}
		w.Pending, w.Expired = "refuse", "refuse"
		w.BodyLimit = clientBody
		w.Answer = []WebhookAnswer{{Status: 204}}
		w.UnsubscribeMode = true
	}
}

// What is assumed of ChatGPT, because nobody has measured it.
const (
	assumedRefreshAt = 0.95
	assumedSilent    = 0.5
)

// Assumptions are what a lane's client is only assumed to do, as far as the lane
// still has it so.
func (l *Lane) Assumptions() (all []string) {
	w := &l.Webhook
	switch l.Client {
	case clientChatGPT:
		if w.RefreshAt == assumedRefreshAt {
			all = append(all, "it is not known when ChatGPT refreshes: at 0.95 of the grant, up to 5 % of it earlier (webhook.refreshAt)")
		}
		if w.RotateEvery == 0 {
			all = append(all, "it is not known whether ChatGPT changes its secret: it does not (webhook.rotateEvery)")
		}
		if w.Silent == assumedSilent {
			all = append(all, "it is not known how many users remove ChatGPT's plugin, which does not unsubscribe, instead of the task: half (webhook.silent)")
		}
		all = append(all, "it is not known with which status ChatGPT refuses a delivery, and how long it takes to answer: 400, and 50 to 500 ms (one measurement: 295 ms)")
	case clientAISDK:
		all = append(all, "the AI SDK has no timer for refreshes; the application decides: at "+fmt.Sprint(w.RefreshAt)+" of the grant (webhook.refreshAt)")
	}
	return all
}

// client checks that the lane can imitate its client.
func (c *checker) client(path string, l *Lane) {
	if l.Client != "" && (l.Mode != "webhook" || l.System != "events") {
		c.bad(path+".client", "clients are imitated by webhook lanes of system events", "remove it, or set mode: webhook")
	}
	for i, word := range l.Webhook.Require {
		if !slices.Contains(required, word) {
			c.bad(fmt.Sprintf("%s.webhook.require.%d", path, i), quote(word)+" is not known", "use eventId, zone or name")
		}
	}
	if l.Webhook.ShareURL && c.p.Target.Revision == "older" {
		c.bad(path+".webhook.shareUrl", "revision older has no X-MCP-Subscription-Id to route by", "remove it, or set another target.revision")
	}
	if l.System != "events" {
		c.reject(path+".webhook", judging, "has no effect on system "+l.System, "remove it")
	}
}

// required is what a sink can require of a delivery.
var required = []string{"eventId", "zone", "name"}

// judging are the keys of a webhook lane by which the sink of system events judges.
var judging = []string{"require", "pending", "expired", "silent", "unsubscribeMode"}
