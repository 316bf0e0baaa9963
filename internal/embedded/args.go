package embedded

import (
	"strconv"
	"time"

	"github.com/eventmeter/eventmeter/profiles"
)

// Args turns the settings of a profile for the embedded target into flags of the
// serve command.
func Args(e profiles.Embedded) []string {
	var args []string
	duration := func(flag string, d time.Duration) {
		if d != 0 {
			args = append(args, "--"+flag, d.String())
		}
	}
	text := func(flag, value string) {
		if value != "" {
			args = append(args, "--"+flag, value)
		}
	}
	number := func(flag string, n int) {
		if n != 0 {
			args = append(args, "--"+flag, strconv.Itoa(n))
		}
	}
	text("revision", e.Revision)
	text("webhook-id", e.WebhookID)
	number("types-page", e.TypesPage)
	duration("heartbeat", e.Heartbeat)
	duration("next-poll", e.NextPoll)
	number("buffer", e.Buffer)
	number("queue", e.Queue)
	if e.Capacity > 0 {
		args = append(args, "--capacity", strconv.FormatFloat(float64(e.Capacity), 'f', -1, 64))
	}
	number("capacity-burst", e.CapacityBurst)
	duration("ttl-min", e.TTLMin)
	duration("ttl-default", e.TTLDefault)
	duration("ttl-max", e.TTLMax)
	number("retries", e.Retries)
	duration("retry-base", e.RetryBase)
	duration("ack-timeout", e.AckTimeout)
	text("faults", e.Faults)
	duration("dual-sign", e.DualSign)
	if e.SingleSign {
		duration("dual-sign", -1)
	}
	number("suspend-after", e.SuspendAfter)
	text("proof", e.Proof)
	duration("types-every", e.TypesEvery)
	duration("feed-every", e.FeedEvery)
	duration("resume-max-wait", e.ResumeMaxWait)
	duration("resume-overlap", e.ResumeOverlap)
	if e.ResumeOnce {
		duration("resume-overlap", -1)
	}
	number("list-entries", e.Lists.Entries)
	number("list-page", e.Lists.Page)
	duration("list-ttl", e.Lists.TTL)
	for flag, on := range map[string]bool{
		"list-private": e.Lists.Private, "list-older": e.Lists.Older, "list-strict": e.Lists.Strict,
		"proxies-may-buffer": e.ProxiesMayBuffer, "sse-answers": e.SSEAnswers,
	} {
		if on {
			args = append(args, "--"+flag)
		}
	}
	return args
}
