package profiles

import (
	"time"
)

// Upstream publishes the events.
type Upstream struct {
	// inject (the default) requests events from the reference server; http sends a request that you
	// define; github, slack and stripe send webhooks of these products; feed is polled by the
	// target; tool calls an MCP tool; exec writes to a program; replay publishes a trace; none
	// publishes nothing: the run then only observes.
	Kind string `json:"kind"`
	// number of independent sequences of events, 1 to 65536, default 1; order is checked within
	// each
	Sources int `json:"sources" check:"1..65536"`
	// name of the published event (inject, feed, and replay if an entry names none); default is the
	// event of the lanes if they all subscribe to the same event
	Event string `json:"event,omitempty"`
	// address of the admin listener (inject, replay) of a reference server that this run did not
	// start. It is required with target.url, and with target.command unless the program prints it
	// on standard error, as eventmeter serve --stdio does.
	Admin string `json:"admin,omitempty"`
	// data of the event (inject, feed), body of the request as JSON (http without a body),
	// arguments of the call (tool), or the object on each line (exec). Strings are templates over
	// .Source, .Seq and .Probe; at least one must contain {{.Probe}}.
	Payload map[string]any `json:"payload,omitempty"`
	// the request that publishes an event, for kind http
	HTTP UpstreamHTTP `json:"http,omitzero"`
	// webhooks of GitHub, for kind github
	GitHub UpstreamGitHub `json:"github,omitzero"`
	// events of Slack, for kind slack
	Slack UpstreamSlack `json:"slack,omitzero"`
	// events of Stripe, for kind stripe
	Stripe UpstreamStripe `json:"stripe,omitzero"`
	// the change feed that the target polls, for kind feed
	Feed UpstreamFeed `json:"feed,omitzero"`
	// the tool that publishes an event, for kind tool
	Tool UpstreamTool `json:"tool,omitzero"`
	// the program that publishes events, for kind exec
	Exec UpstreamExec `json:"exec,omitzero"`
	// the recorded events, for kind replay
	Replay UpstreamReplay `json:"replay,omitzero"`
	// bound of the time to publish one event, default 5s
	Timeout time.Duration `json:"timeout" check:"1ms.."`
	// number of events published concurrently, default 64, at most 65536; an event that is due
	// while all workers are busy is dropped
	Workers int `json:"workers" check:"1..65536"`
}

// UpstreamHTTP is a request template: the URL, the values of headers, and the body are templates
// over .Source, .Seq and .Probe. At least one of them must contain {{.Probe}}.
type UpstreamHTTP struct {
	// method of the request, default POST
	Method string `json:"method,omitempty"`
	// URL that the request is sent to, a template
	URL string `json:"url,omitempty"`
	// headers, sent as they are; without a Content-Type, a JSON body is sent as application/json
	Headers map[string]string `yaml:"headers" json:"-"`
	// body of the request, a template; without it, the payload is sent as JSON
	Body string `json:"body,omitempty"`
}

// UpstreamGitHub sends webhooks as GitHub does.
type UpstreamGitHub struct {
	// URL of the target for these webhooks
	URL string `json:"url,omitempty"`
	// secret of the webhook; empty = unsigned; never stored in a result
	Secret string `yaml:"secret" json:"-"`
	// push (the default) or issues
	Event string `json:"event,omitempty" check:"|push|issues"`
	// template over .Source that gives owner/name; default eventmeter/service-{{.Source}}
	Repository string `json:"repository,omitempty"`
	// commit message or title of the issue: a template over .Source, .Seq and .Probe that must
	// contain {{.Probe}}; there is a default
	Text string `json:"text,omitempty"`
}

// UpstreamSlack sends events as Slack's Events API does.
type UpstreamSlack struct {
	// request URL of the app, at the target
	URL string `json:"url,omitempty"`
	// signing secret of the app; never stored in a result
	Secret string `yaml:"secret" json:"-"`
	// template over .Source that gives the id of the channel; default C and ten digits
	Channel string `json:"channel,omitempty"`
	// the message: a template over .Source, .Seq and .Probe that must contain {{.Probe}}; there is
	// a default
	Text string `json:"text,omitempty"`
}

// UpstreamStripe sends webhook events as Stripe does.
type UpstreamStripe struct {
	// URL of the target for these webhooks
	URL string `json:"url,omitempty"`
	// secret of the endpoint (whsec_…); never stored in a result
	Secret string `yaml:"secret" json:"-"`
	// payment_intent.succeeded (the default) or customer.updated
	Type string `json:"type,omitempty" check:"|payment_intent.succeeded|customer.updated"`
	// the description: a template over .Source, .Seq and .Probe that must contain {{.Probe}}; there
	// is a default
	Text string `json:"text,omitempty"`
}

// UpstreamFeed is a change feed that the target polls.
type UpstreamFeed struct {
	// address of the feed; empty = a free port of 127.0.0.1, which only the embedded target can
	// know
	Listen string `json:"listen,omitempty"`
	// largest number of changes in one answer, default 500
	Limit int `json:"limit,omitempty" check:"0..10000000"`
	// number of newest changes kept, default 100,000
	Keep int `json:"keep,omitempty" check:"0..10000000"`
}

// UpstreamTool calls a tool of the target; its arguments are the payload.
type UpstreamTool struct {
	// name of the tool
	Name string `json:"name,omitempty"`
}

// UpstreamExec writes the payload to a program, one line per event.
type UpstreamExec struct {
	// the program and its arguments; no shell runs
	Command []string `json:"command,omitempty"`
	// waits for a line of the program's output that contains the event's probe id
	Ack bool `json:"ack,omitempty"`
}

// UpstreamReplay publishes recorded events.
type UpstreamReplay struct {
	// file of the trace
	File string `json:"file,omitempty"`
	// path of the text in a payload that receives the probe id if the payload has none: keys
	// separated by dots
	Probe string `json:"probe,omitempty"`
	// URL that receives the payloads by POST, with headers; empty = the reference server publishes
	// the recorded events
	URL string `json:"url,omitempty"`
	// headers of the requests to url; never stored in a result
	Headers map[string]string `yaml:"headers" json:"-"`
}
