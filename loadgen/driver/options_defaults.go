package driver

import (
	"cmp"

	"github.com/eventmeter/eventmeter/internal/defaults"
	"github.com/eventmeter/eventmeter/sinks"
)

// WithDefaults returns the options with every field filled in whose zero value
// stands for a default. [New] does the same.
func (o Options) WithDefaults() Options {
	o.System = cmp.Or(o.System, "events")
	o.HTTP = cmp.Or(o.HTTP, defaults.HTTP)
	o.Timeout = cmp.Or(o.Timeout, defaults.Timeout)
	o.Poll.MinInterval = cmp.Or(o.Poll.MinInterval, defaults.PollMinInterval)
	o.Poll.BackoffMin = cmp.Or(o.Poll.BackoffMin, defaults.BackoffMin)
	o.Poll.BackoffMax = cmp.Or(o.Poll.BackoffMax, defaults.BackoffMax)
	o.Push.Heartbeat = cmp.Or(o.Push.Heartbeat, defaults.Heartbeat)
	o.Push.BackoffMin = cmp.Or(o.Push.BackoffMin, defaults.BackoffMin)
	o.Push.BackoffMax = cmp.Or(o.Push.BackoffMax, defaults.BackoffMax)
	o.Webhook.RefreshAt = cmp.Or(o.Webhook.RefreshAt, defaults.RefreshAt)
	o.Webhook.Grace = cmp.Or(o.Webhook.Grace, defaults.OldSecret)
	o.Webhook.Secrets = cmp.Or(o.Webhook.Secrets, defaults.Secrets)
	o.Webhook.Verify = cmp.Or(o.Webhook.Verify, defaults.Verify)
	o.Webhook.BodyLimit = cmp.Or(o.Webhook.BodyLimit, sinks.DefaultBodyLimit)
	o.Smithery.ArgumentsKey = cmp.Or(o.Smithery.ArgumentsKey, defaults.SmitheryArgumentsKey)
	o.SEP1803.PerSession = cmp.Or(o.SEP1803.PerSession, defaults.SEP1803PerSession)
	o.SEP975.Tool = cmp.Or(o.SEP975.Tool, defaults.SEP975Tool)
	o.SEP975.Steps = cmp.Or(o.SEP975.Steps, defaults.SEP975Steps)
	o.SEP975.Step = cmp.Or(o.SEP975.Step, defaults.SEP975Step)
	o.SEP975.Disconnect = cmp.Or(o.SEP975.Disconnect, CutNone)
	o.SEP975.Tolerance = cmp.Or(o.SEP975.Tolerance, defaults.SEP975Tolerance)
	o.SEP2549.List = cmp.Or(o.SEP2549.List, defaults.SEP2549List)
	o.SEP2549.URI = cmp.Or(o.SEP2549.URI, defaults.SEP2549URI)
	o.SEP2549.Use = cmp.Or(o.SEP2549.Use, defaults.SEP2549Use)
	return o
}
