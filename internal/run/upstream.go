package run

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/loadgen/upstream"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/results"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// openFeed opens a feed before the target starts, because the target needs its
// address.
func (r *run) openFeed() error {
	u := r.profile.Upstream
	if u.Kind != "feed" {
		return nil
	}
	payload, err := profiles.CompilePayload(u)
	if err != nil {
		return fmt.Errorf("%w: upstream: %w", ErrProfile, err)
	}
	feed, err := upstream.NewFeed(upstream.FeedOptions{
		Listen: u.Feed.Listen, Event: u.Event, Payload: payload, Limit: u.Feed.Limit, Keep: u.Feed.Keep,
	})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrProfile, err)
	}
	r.target.upstream, r.target.feed = feed, feed
	return nil
}

// openUpstream makes the upstream of the profile.
func (r *run) openUpstream() (upstream.Upstream, error) {
	u := r.profile.Upstream
	trusted, err := r.upstreamTLS()
	if err != nil {
		return nil, err
	}
	switch u.Kind {
	case "feed":
		return r.target.upstream, nil
	case "none":
		return upstream.None{}, nil
	case "http":
		request, err := profiles.CompileHTTP(u)
		if err != nil {
			return nil, err
		}
		return upstream.NewHTTP(upstream.HTTPOptions{
			Method: u.HTTP.Method, Request: request, ClientOptions: r.clientOptions(trusted),
		})
	case "github", "slack", "stripe":
		return openProduct(u, r.clientOptions(trusted))
	case "replay":
		return r.openReplay(trusted)
	}
	payload, err := profiles.CompilePayload(u)
	if err != nil {
		return nil, err
	}
	switch u.Kind {
	case "tool":
		return upstream.NewTool(upstream.ToolOptions{Arguments: payload, Timeout: u.Timeout, Call: r.callTool})
	case "exec":
		env := []string{"EVENTMETER_TARGET=" + r.target.plain.URL()}
		if admin := r.adminURL(); admin != "" {
			env = append(env, "EVENTMETER_ADMIN="+admin)
		}
		return upstream.NewExec(upstream.ExecOptions{Command: u.Exec.Command, Ack: u.Exec.Ack, Line: payload, Timeout: u.Timeout, Env: env})
	}
	base := r.adminURL()
	if base == "" {
		return nil, errors.New(
			"kind inject needs upstream.admin (or --upstream-url), the admin address that the reference server printed; for any " +
				"other server use kind http",
		)
	}
	return upstream.NewInject(upstream.InjectOptions{
		Admin: base, Event: u.Event, Payload: payload, ClientOptions: r.clientOptions(trusted),
	})
}

// clientOptions returns the options of upstreams that send HTTP requests.
func (r *run) clientOptions(trusted *tls.Config) upstream.ClientOptions {
	u := &r.profile.Upstream
	return upstream.ClientOptions{Timeout: u.Timeout, Connections: u.Workers, TLS: trusted, Dial: r.dial()}
}

// dial opens the connections of upstreams.
func (r *run) dial() upstream.DialFunc {
	timeout := r.profile.Upstream.Timeout
	if timeout <= 0 {
		timeout = upstream.DefaultTimeout
	}
	return r.guard.Dial(&net.Dialer{Timeout: timeout, KeepAlive: 30 * time.Second})
}

// adminURL returns the base URL of the reference server's admin listener, "" if there
// is none.
func (r *run) adminURL() string {
	switch base := r.profile.Upstream.Admin; {
	case base != "":
		return base
	case r.target.embedded != nil:
		return r.target.embedded.Admin
	case r.target.program != nil:
		return r.target.program.admin
	}
	return ""
}

// upstreamTLS returns how https connections to the upstream are verified. A proxy in
// front of a target usually has a certificate from the same authority, so
// target.caFile is trusted here as well. nil means Go's defaults.
func (r *run) upstreamTLS() (*tls.Config, error) {
	file := r.profile.Target.CAFile
	if file == "" {
		return nil, nil
	}
	roots, err := rootsFrom(file)
	if err != nil {
		return nil, fmt.Errorf("target.caFile: %w", err)
	}
	return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, nil
}

// openProduct makes one of the fake products.
func openProduct(u profiles.Upstream, client upstream.ClientOptions) (upstream.Upstream, error) {
	o := upstream.WebhookOptions{ClientOptions: client}
	common := func(url, secret, text string) error {
		o.URL, o.Secret = url, secret
		if text == "" {
			return nil
		}
		var err error
		o.Text, err = profiles.CompileText(text)
		return err
	}
	perSource := func(text string) (func(int) string, error) {
		if text == "" {
			return nil, nil
		}
		f, err := profiles.CompileText(text)
		return func(source int) string { return f(source, 0, "") }, err
	}
	switch u.Kind {
	case "github":
		err := common(u.GitHub.URL, u.GitHub.Secret, u.GitHub.Text)
		repository, err2 := perSource(u.GitHub.Repository)
		if err := errors.Join(err, err2); err != nil {
			return nil, err
		}
		return upstream.NewGitHub(upstream.GitHubOptions{WebhookOptions: o, Event: u.GitHub.Event, Repository: repository})
	case "slack":
		err := common(u.Slack.URL, u.Slack.Secret, u.Slack.Text)
		channel, err2 := perSource(u.Slack.Channel)
		if err := errors.Join(err, err2); err != nil {
			return nil, err
		}
		return upstream.NewSlack(upstream.SlackOptions{WebhookOptions: o, Channel: channel})
	}
	if err := common(u.Stripe.URL, u.Stripe.Secret, u.Stripe.Text); err != nil {
		return nil, err
	}
	return upstream.NewStripe(upstream.StripeOptions{WebhookOptions: o, Type: u.Stripe.Type})
}

func (r *run) openReplay(trusted *tls.Config) (upstream.Upstream, error) {
	u := r.profile.Upstream
	o := upstream.ReplayOptions{
		Trace: r.trace, Probe: u.Replay.Probe, URL: u.Replay.URL, Headers: u.Replay.Headers,
		Event: u.Event, ClientOptions: r.clientOptions(trusted),
	}
	if o.URL == "" {
		o.Admin = r.adminURL()
	}
	replay, err := upstream.NewReplay(o)
	if err != nil {
		return nil, err
	}
	if n := replay.Sources(); n > u.Sources {
		return nil, fmt.Errorf(
			"upstream replay: the trace has events of source %d and there are %d sources; set upstream.sources: %d",
			n-1,
			u.Sources,
			n,
		)
	}
	return replay, nil
}

// callTool calls the profile's tool as the principal with the source's number.
func (r *run) callTool(ctx context.Context, source int, arguments []byte) mcpclient.ToolAnswer {
	a, _ := r.target.plain.CallTool(ctx, source, r.profile.Upstream.Tool.Name, arguments) // the answer has the error's text
	return a
}

// prepareUpstream makes the agreements with the target that publishing needs.
func (r *run) prepareUpstream(ctx context.Context) error {
	p, ok := r.target.upstream.(upstream.Preparer)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, prepareTimeout)
	defer cancel()
	if err := p.Prepare(ctx); err != nil {
		return fmt.Errorf("%w: %w", ErrTarget, err)
	}
	return nil
}

const prepareTimeout = 30 * time.Second

// upstreamFigures returns the figures that only the upstream has.
func (r *run) upstreamFigures() results.PartFigures {
	f, ok := r.target.upstream.(upstream.Figurer)
	if !ok {
		return results.PartFigures{}
	}
	own := f.Figures()
	out := results.PartFigures{Values: own.Values, Timings: map[string]ledger.Timing{}}
	for name, t := range own.Timings {
		out.Timings[name] = ledger.Timing(t)
	}
	return out
}

// warnEnded warns of an upstream that ended by itself.
func (r *run) warnEnded() {
	if e, ok := r.target.upstream.(upstream.Ender); ok {
		if err := e.Ended(); err != nil {
			r.Warn("upstream-ended", "", "%v; events published after it ended were refused", err)
		}
	}
}

// firstFailure ends a sentence with the reason why the first emission failed.
func (r *run) firstFailure() string {
	if e, ok := r.target.upstream.(upstream.Explainer); ok {
		if first, _ := e.Failures(); first != "" {
			return "; the first: " + first
		}
	}
	return ""
}
