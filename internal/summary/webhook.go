package summary

import (
	"strings"

	"github.com/eventmeter/eventmeter/results"
	"github.com/eventmeter/eventmeter/sinks"
)

// warnWebhook warns of deliveries that failed on this side, and of deliveries that
// the target held back.
func (s *Summary) warnWebhook(l *results.Lane) {
	d := &l.Detail
	refused, failed := splitUndeliverable(d.UndeliverableBy)
	if n := total(refused); n > 0 {
		s.Warn(
			"webhook-connections",
			l.Name,
			"the target opened too many connections at once, and %d of them were closed here before they carried a request: "+
				"%s. %d deliveries were undeliverable here, which is no loss of the target's. Have the target keep fewer "+
				"connections, or raise limits.memory and the limit of open files (ulimit -n)",
			n,
			topReason(refused),
			l.LostUndeliverable,
		)
	}
	if n := total(failed); n > 0 {
		s.Warn(
			"undeliverable",
			l.Name,
			"%d connections of the target failed at the webhook listener here before they carried a request: %s. %d deliveries "+
				"were undeliverable here, which is no loss of the target's. Give the listener a certificate that the target "+
				"trusts (webhook.certFile, webhook.keyFile), have the target trust the listener's, or set webhook.callback to "+
				"http://127.0.0.1:0 for a target on this machine that takes plain http",
			n,
			topReason(failed),
			l.LostUndeliverable,
		)
	}
	if d.Rejected > 0 {
		s.Warn(
			"rejected",
			l.Name,
			"%d webhook deliveries were refused here because their signature was wrong, missing or stale: %s. %d events were "+
				"refused in every copy; webhook.verify: report takes such deliveries and notes what is wrong",
			d.Rejected,
			topReason(d.RejectedBy),
			l.LostRefused,
		)
	}
	if d.Suspended > 0 {
		s.Warn(
			"suspended",
			l.Name,
			"the target said %d times that it had suspended delivery or lost a subscription: %s. %d events published meanwhile "+
				"never arrived; refreshes subscribed again",
			d.Suspended,
			topReason(d.SuspendedBy),
			l.LostSuspended,
		)
	}
	if n := l.Figures["idsChanged"]; n > 0 {
		s.Warn(
			"resubscribed",
			l.Name,
			"%.0f refreshes were answered with another subscription id: the subscription was gone, and the refresh made a new one",
			n,
		)
	}
}

// splitUndeliverable splits the reasons of failed connections into connections closed
// here because there were too many, and the others.
func splitUndeliverable(by map[string]int64) (refused, failed map[string]int64) {
	refused, failed = map[string]int64{}, map[string]int64{}
	for reason, n := range by {
		if strings.HasPrefix(reason, sinks.TooManyConnections) {
			refused[reason] = n
		} else {
			failed[reason] = n
		}
	}
	return refused, failed
}

func total(counts map[string]int64) (sum int64) {
	for _, n := range counts {
		sum += n
	}
	return sum
}
