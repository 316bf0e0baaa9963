package profiles

import (
	"time"
)

// Upstream is where emissions come from.
type Upstream struct {
	// Kind is inject (the default), which tells the reference target to emit;
	// http, which sends a request of your own; github, slack or stripe, which
	// send those products' webhooks; feed, which the target polls; tool, which
	// calls an MCP tool; exec, which writes to a program; replay, which publishes
	// a trace; or none, which publishes nothing and only observes.
	Kind string `yaml:"kind,omitempty" json:"kind"`
	// Sources is how many independent sequences of events there are, 1 to
	// 65536, default 1. Order is followed within each.
	Sources int `yaml:"sources,omitempty" json:"sources" check:"1..65536"`
	// Event is the event name that is published (inject, feed, and replay where an
	// entry names none); default is the lanes' own, if they all subscribe to
	// the same.
	Event string `yaml:"event,omitempty" json:"event,omitempty"`
	// Admin is the address of the admin listener (inject, replay) of a reference target
	// that this run did not start: needed with target.url, and only with that or
	// target.command, where it is needed unless the program says it on standard
	// error, as eventmeter serve --stdio does.
	Admin string `yaml:"admin,omitempty" json:"admin,omitempty"`
	// Payload is the event's data (inject, feed), the request's body as JSON
	// (http, where it has no other), the arguments of the call (tool), or the
	// object on each line (exec): strings are templates over
	// .Source, .Seq and .Probe; at least one must hold {{.Probe}}.
	Payload map[string]any `yaml:"payload,omitempty" json:"payload,omitempty"`
	HTTP    UpstreamHTTP   `yaml:"http,omitempty" json:"http,omitzero"`
	GitHub  UpstreamGitHub `yaml:"github,omitempty" json:"github,omitzero"`
	Slack   UpstreamSlack  `yaml:"slack,omitempty" json:"slack,omitzero"`
	Stripe  UpstreamStripe `yaml:"stripe,omitempty" json:"stripe,omitzero"`
	Feed    UpstreamFeed   `yaml:"feed,omitempty" json:"feed,omitzero"`
	Tool    UpstreamTool   `yaml:"tool,omitempty" json:"tool,omitzero"`
	Exec    UpstreamExec   `yaml:"exec,omitempty" json:"exec,omitzero"`
	Replay  UpstreamReplay `yaml:"replay,omitempty" json:"replay,omitzero"`
	// Timeout bounds one emission, default 5s.
	Timeout time.Duration `yaml:"timeout,omitempty" json:"timeout" check:"1ms.."`
	// Workers bounds the emissions under way, default 64, at most 65536. An emission that
	// is due while all are busy is dropped.
	Workers int `yaml:"workers,omitempty" json:"workers" check:"1..65536"`
}

// UpstreamHTTP is a request template over .Source, .Seq and .Probe: URL, the
// values of Headers, and Body. At least one of them must hold {{.Probe}}.
type UpstreamHTTP struct {
	// Method is POST unless given.
	Method string `yaml:"method,omitempty" json:"method,omitempty"`
	URL    string `yaml:"url,omitempty" json:"url,omitempty"`
	// Headers are sent as they are. Without a Content-Type, a JSON body is sent as
	// application/json.
	Headers map[string]string `yaml:"headers,omitempty" json:"-"`
	Body    string            `yaml:"body,omitempty" json:"body,omitempty"`
}

// UpstreamGitHub sends webhooks as GitHub does.
type UpstreamGitHub struct {
	// URL that the target has for them.
	URL string `yaml:"url,omitempty" json:"url,omitempty"`
	// Secret of the webhook; empty = unsigned. It never enters a result.
	Secret string `yaml:"secret,omitempty" json:"-"`
	// Event is push (the default) or issues.
	Event string `yaml:"event,omitempty" json:"event,omitempty" check:"|push|issues"`
	// Repository is a template over .Source that gives owner/name; default
	// eventmeter/service-{{.Source}}.
	Repository string `yaml:"repository,omitempty" json:"repository,omitempty"`
	// Text is the commit message or the title: a template over .Source,
	// .Seq and .Probe that must hold {{.Probe}}. There is a default.
	Text string `yaml:"text,omitempty" json:"text,omitempty"`
}

// UpstreamSlack sends what Slack's Events API sends.
type UpstreamSlack struct {
	// URL that the target has for them (the request URL of the app).
	URL string `yaml:"url,omitempty" json:"url,omitempty"`
	// Secret is the app's signing secret. It never enters a result.
	Secret string `yaml:"secret,omitempty" json:"-"`
	// Channel is a template over .Source that gives the channel's id; default
	// C and ten digits.
	Channel string `yaml:"channel,omitempty" json:"channel,omitempty"`
	// Text is the message: a template over .Source, .Seq and .Probe that must
	// hold {{.Probe}}. There is a default.
	Text string `yaml:"text,omitempty" json:"text,omitempty"`
}

// UpstreamStripe sends webhook events as Stripe does.
type UpstreamStripe struct {
	// URL that the target has for them.
	URL string `yaml:"url,omitempty" json:"url,omitempty"`
	// Secret of the endpoint (whsec_…). It never enters a result.
	Secret string `yaml:"secret,omitempty" json:"-"`
	// Type is payment_intent.succeeded (the default) or customer.updated.
	Type string `yaml:"type,omitempty" json:"type,omitempty" check:"|payment_intent.succeeded|customer.updated"`
	// Text is the description: a template over .Source, .Seq and .Probe that
	// must hold {{.Probe}}. There is a default.
	Text string `yaml:"text,omitempty" json:"text,omitempty"`
}

// UpstreamFeed is a change feed that the target polls.
type UpstreamFeed struct {
	// Listen is the feed's address. Empty = a free port of 127.0.0.1, which
	// only the embedded target learns.
	Listen string `yaml:"listen,omitempty" json:"listen,omitempty"`
	// Limit is the most changes of one answer, default 500.
	Limit int `yaml:"limit,omitempty" json:"limit,omitempty" check:"0..10000000"`
	// Keep is how many of the newest changes can be asked for, default 100,000.
	Keep int `yaml:"keep,omitempty" json:"keep,omitempty" check:"0..10000000"`
}

// UpstreamTool calls a tool of the target; its arguments are the payload.
type UpstreamTool struct {
	Name string `yaml:"name,omitempty" json:"name,omitempty"`
}

// UpstreamExec writes the payload to a program, a line an emission.
type UpstreamExec struct {
	// Command is the program and its arguments. No shell is asked.
	Command []string `yaml:"command,omitempty" json:"command,omitempty"`
	// Ack waits for a line of the program's output with the emission's probe.
	Ack bool `yaml:"ack,omitempty" json:"ack,omitempty"`
}

// UpstreamReplay publishes a recorded trace.
type UpstreamReplay struct {
	// File is the trace.
	File string `yaml:"file,omitempty" json:"file,omitempty"`
	// Probe names the text of a payload that gets the probe where there is none
	// in it: keys with dots between them.
	Probe string `yaml:"probe,omitempty" json:"probe,omitempty"`
	// URL gets the payloads by POST, with Headers. Empty = the reference target
	// emits the recorded events.
	URL     string            `yaml:"url,omitempty" json:"url,omitempty"`
	Headers map[string]string `yaml:"headers,omitempty" json:"-"`
}
