package run

import (
	"crypto/rand"
	"crypto/x509"
	"fmt"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/eventmeter/eventmeter/internal/embedded"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/loadgen/upstream"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/sinks"
)

const (
	closeTimeout    = 5 * time.Second
	discoverTimeout = 30 * time.Second
)

// targetSide is the run's side of the server: its process, the endpoints that reach
// it, and the upstream that publishes its events.
type targetSide struct {
	child     embedded.Server
	embedded  *embedded.Ready   // the embedded target; nil = there is none, or it is reached over stdio
	program   *program          // nil unless the target is reached over standard input and output
	dir       *embedded.TempDir // removed at the end; nil where there is none
	plain     *mcpclient.Endpoint
	tls       *mcpclient.Endpoint // the embedded target's second endpoint, nil unless a lane needs it
	authority *sinks.Authority
	callbacks int // connections of the target to each webhook listener
	upstream  upstream.Upstream
	feed      *upstream.Feed // the upstream if the target polls it, else nil
}

// serves records the embedded target's addresses.
func (t *targetSide) serves(r embedded.Ready) { t.embedded = &r }

// lend takes over the server that an earlier run left running.
func (t *targetSide) lend(k *embedded.Keep) {
	t.child, t.dir, t.authority = k.Server, k.Dir, k.Authority
	t.serves(k.Server.Ready())
}

// endpoints returns those that were made.
func (t *targetSide) endpoints() []*mcpclient.Endpoint {
	return slices.DeleteFunc([]*mcpclient.Endpoint{t.plain, t.tls}, func(e *mcpclient.Endpoint) bool { return e == nil })
}

func (t *targetSide) endpointFor(http string) *mcpclient.Endpoint {
	if http == "2" && t.tls != nil {
		return t.tls
	}
	return t.plain
}

// startOver makes the endpoint start the program, and reads the program's standard
// error.
func (t *targetSide) startOver(o *mcpclient.EndpointOptions) {
	if t.program == nil {
		t.program = &program{command: o.Command}
	}
	t.program.ready.found = make(chan embedded.Ready, 1)
	o.Command, o.Stderr = t.program.command, &t.program.ready
}

// addFeed makes the embedded target poll the run's feed, if there is one.
func (t *targetSide) addFeed(o *embedded.Options) {
	if t.feed == nil {
		return
	}
	o.Feed = t.feed.URL()
	if u, err := url.Parse(o.Feed); err == nil && !sinks.Loopback(u.Hostname()) {
		o.AllowHosts = []string{u.Hostname()} // the feed is served by this process
	}
}

func endpointOptions(t profiles.Target, version string) (mcpclient.EndpointOptions, error) {
	o := mcpclient.EndpointOptions{
		URL: t.URL, Headers: t.Headers, Tokens: t.Tokens, Command: t.Command, Env: variables(t.Env), Dir: t.Dir,
		Era: mcpclient.Era(t.Era), Version: t.Version, Revision: mcpclient.Revision(t.Revision),
		ClientName: "eventmeter", ClientVersion: version,
	}
	var err error
	if t.CAFile != "" {
		if o.Roots, err = rootsFrom(t.CAFile); err != nil {
			return o, fmt.Errorf("%w: target.caFile: %w", ErrProfile, err)
		}
	}
	if t.OAuth.Used() {
		if o.OAuth, err = oauthOptions(&t); err != nil {
			return o, fmt.Errorf("%w: target.oauth.%w", ErrProfile, err)
		}
	}
	return o, nil
}

// oauthOptions reads what principals need to get tokens: the client's secret from the
// environment, and first refresh tokens from their file. The embedded target accepts
// any secret.
func oauthOptions(t *profiles.Target) (*mcpclient.OAuth, error) {
	p := &t.OAuth
	ids, err := profiles.ClientIDs(p)
	if err != nil {
		return nil, fmt.Errorf("clientId: %w", err)
	}
	o := mcpclient.OAuthOf(p, ids)
	switch {
	case p.SecretEnv != "":
		if o.Secret = os.Getenv(p.SecretEnv); o.Secret == "" {
			return nil, fmt.Errorf("secretEnv: the environment variable %s is empty or not set: set it to the client's secret", p.SecretEnv)
		}
	case t.IsEmbedded():
		o.Secret = rand.Text()
	}
	if p.RefreshTokenFile == "" {
		return o, nil
	}
	text, err := os.ReadFile(p.RefreshTokenFile)
	if err != nil {
		return nil, fmt.Errorf("refreshTokenFile: %w", err)
	}
	if o.RefreshTokens = strings.Fields(strings.TrimPrefix(string(text), "\ufeff")); len(o.RefreshTokens) != p.Principals {
		return nil, fmt.Errorf(
			"refreshTokenFile: %s holds %d refresh tokens for %d principals: put one for each on a line of its own",
			p.RefreshTokenFile,
			len(o.RefreshTokens),
			p.Principals,
		)
	}
	return o, nil
}

func rootsFrom(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate in PEM form", file)
	}
	return roots, nil
}

// variables formats env as NAME=value, sorted.
func variables(env map[string]string) (out []string) {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		out = append(out, name+"="+env[name])
	}
	return out
}
