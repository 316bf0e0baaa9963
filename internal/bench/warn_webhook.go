package bench

import "github.com/eventmeter/eventmeter/results"

// warnWebhook tells of deliveries that failed on this side, and of those that
// the target held back.
func (r *run) warnWebhook(l *results.Lane) {
	d := &l.Detail
	if d.Undeliverable > 0 {
		r.warning("undeliverable", l.Name, "%d connections of the target failed at the webhook listener here before they carried a request: %s. %d deliveries were undeliverable here, which is no loss of the target's. Give the listener a certificate that the target trusts (webhook.certFile, webhook.keyFile), have the target trust the listener's, or set webhook.callback to http://127.0.0.1:0 for a target on this machine that takes plain http",
			d.Undeliverable, topReason(d.UndeliverableBy), l.LostUndeliverable)
	}
	if d.Rejected > 0 {
		r.warning("rejected", l.Name, "%d webhook deliveries were refused here because their signature was wrong, missing or stale: %s. %d events were refused in every copy; webhook.verify: report takes such deliveries and notes what is wrong",
			d.Rejected, topReason(d.RejectedBy), l.LostRefused)
	}
	if d.Suspended > 0 {
		r.warning("suspended", l.Name, "the target said %d times that it had suspended delivery or lost a subscription: %s. %d events that were published meanwhile never came; refreshes subscribed again",
			d.Suspended, topReason(d.SuspendedBy), l.LostSuspended)
	}
	if n := l.Figures["idsChanged"]; n > 0 {
		r.warning("resubscribed", l.Name, "%.0f refreshes were answered with another subscription id: the subscription was gone, and the refresh made a new one", n)
	}
}
