package profiles

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
	// only the embedded target is told.
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

// UpstreamReplay fires what was recorded.
type UpstreamReplay struct {
	// File is the trace.
	File string `yaml:"file,omitempty" json:"file,omitempty"`
	// Probe names the text of a payload that gets the probe where there is none
	// in it: keys with dots between them.
	Probe string `yaml:"probe,omitempty" json:"probe,omitempty"`
	// URL gets the payloads by POST, with Headers. Empty = the reference target
	// is told to emit the recorded events.
	URL     string            `yaml:"url,omitempty" json:"url,omitempty"`
	Headers map[string]string `yaml:"headers,omitempty" json:"-"`
}
