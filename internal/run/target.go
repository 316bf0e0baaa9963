package run

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/x509"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/eventmeter/eventmeter/internal/budget"
	"github.com/eventmeter/eventmeter/internal/embedded"
	"github.com/eventmeter/eventmeter/internal/health"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/results"
	"github.com/eventmeter/eventmeter/sinks"
)

// open starts the embedded target if the profile names no other, connects, and checks
// that the target offers what the profile requests.
func (r *run) open(ctx context.Context) error {
	var err error
	t := &r.target
	lent := r.profile.Target.IsEmbedded() && r.opts.Keep.Alive()
	if k := r.opts.Keep; lent {
		t.lend(k)
	}
	if r.needsListener() && t.authority == nil {
		if t.authority, err = sinks.NewAuthority(); err != nil {
			return fmt.Errorf("make the webhook listener's certificate: %w", err)
		}
	}
	if err := r.openFeed(); err != nil {
		return err
	}
	if !lent {
		if err := r.startEmbedded(ctx); err != nil {
			return err
		}
	}
	if err := r.connect(ctx); err != nil {
		return err
	}
	if t.upstream, err = r.openUpstream(); err != nil {
		return fmt.Errorf("%w: upstream: %w", ErrProfile, err)
	}
	if err := r.prepareUpstream(ctx); err != nil {
		return err
	}
	return r.checkOffer(ctx)
}

func (r *run) needsListener() bool {
	return slices.ContainsFunc(r.lanes, func(l *lane) bool { return l.Mode == "webhook" })
}

// startEmbedded starts the reference server, which trusts this run's callbacks, if
// the profile names no other. A shard receives the address of the target that all
// shards share.
func (r *run) startEmbedded(ctx context.Context) error {
	t := &r.target
	var callbacks []byte
	if t.authority != nil {
		callbacks = t.authority.PEM()
	}
	if s := r.opts.Shard; s != nil && s.Target != nil {
		shared, err := s.Target(ctx, callbacks)
		if err != nil {
			return err
		}
		if r.siblings = shared.Siblings; shared.Source.IsValid() {
			r.sources = []netip.Addr{shared.Source}
		}
		if r.profile.Target.IsEmbedded() {
			t.embedded = &shared.Ready
		}
		return nil
	}
	if !r.profile.Target.IsEmbedded() {
		return nil
	}
	var err error
	if t.dir, err = embedded.NewTempDir(); err != nil {
		return fmt.Errorf("start the embedded target: %w", err)
	}
	o, err := TargetOptions(r.profile, t.dir.Path, callbacks)
	if err != nil {
		return err
	}
	t.addFeed(&o)
	if r.profile.Target.OverStdio() {
		return r.commandEmbedded(o)
	}
	if r.opts.Embedded == nil {
		return fmt.Errorf("%w: it names no target.url, and no embedded target can be started here", ErrProfile)
	}
	if t.child, err = r.opts.Embedded(ctx, o); err != nil {
		return fmt.Errorf("%w: %w", ErrTarget, err)
	}
	t.serves(t.child.Ready())
	return nil
}

// TargetOptions returns the options of an embedded target that trusts the
// certificates in callbacks (PEM), which it writes to dir.
func TargetOptions(p *profiles.Profile, dir string, callbacks []byte) (embedded.Options, error) {
	o, err := embedded.OptionsOf(spoken(p))
	if err != nil {
		return o, fmt.Errorf("%w: target.embedded.faults: %w", ErrProfile, err)
	}
	o.AllowPrivateCallbacks = true
	if len(callbacks) > 0 {
		o.CallbackCAFile = filepath.Join(dir, "callbacks.pem")
		if err := os.WriteFile(o.CallbackCAFile, callbacks, 0o600); err != nil {
			return o, fmt.Errorf("start the embedded target: %w", err)
		}
	}
	o.TLS = slices.ContainsFunc(p.Lanes, func(l profiles.Lane) bool { return l.HTTP == "2" })
	return o, nil
}

// spoken returns the settings of the embedded target, with its revision filled in.
func spoken(p *profiles.Profile) profiles.Embedded {
	e := p.Target.Embedded
	e.Revision = cmp.Or(e.Revision, p.Target.Revision)
	return e
}

// connect negotiates a protocol version with the target.
func (r *run) connect(ctx context.Context) error {
	t := &r.target
	opts, err := endpointOptions(r.profile.Target, r.opts.Version)
	if err != nil {
		return err
	}
	opts.Capabilities, opts.Extensions = r.declares()
	opts.LocalAddrs, opts.Guard = r.sources, r.guard
	if o := opts.OAuth; o != nil && o.RefreshTokens != nil && r.shares() > 1 {
		return fmt.Errorf(
			"%w: target.oauth.refreshTokenFile: a refresh token works in one process, and this run has %d: use one process, or leave the file out",
			ErrProfile,
			r.shares(),
		)
	}
	memory := int64(r.profile.Limits.Memory) / int64(r.shares())
	opts.Budget, t.callbacks = budget.New(memory), callbackConnections(r.mine(), health.FileLimit(), memory)
	if r.profile.Target.OverStdio() {
		t.startOver(&opts)
	}
	if t.embedded != nil {
		opts.URL = t.embedded.URL
		if len(opts.Tokens) == 0 && opts.OAuth == nil {
			opts.Tokens = []string{rand.Text()}
		}
	}
	if t.plain, err = connect(ctx, opts); err != nil {
		return err
	}
	if err := r.findAdmin(ctx); err != nil {
		return err
	}
	if t.embedded != nil && t.embedded.TLSURL != "" {
		opts.URL, opts.Roots = t.embedded.TLSURL, x509.NewCertPool()
		opts.Roots.AppendCertsFromPEM([]byte(t.embedded.Cert))
		if t.tls, err = connect(ctx, opts); err != nil {
			return err
		}
	}
	return nil
}

// connect makes an endpoint, which is not nil if it has to be closed, and its handshake.
func connect(ctx context.Context, o mcpclient.EndpointOptions) (*mcpclient.Endpoint, error) {
	e, err := mcpclient.NewEndpoint(o)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProfile, err)
	}
	if err := e.Connect(ctx); err != nil {
		return e, fmt.Errorf("%w: %w", ErrTarget, err)
	}
	return e, nil
}

// shares returns how many processes share the run's memory budget.
func (r *run) shares() int {
	if s := r.opts.Shard; s != nil {
		return max(s.Count, 1)
	}
	return 1
}

// checkOffer records the target's identity, and compares its offer with what the
// lanes need.
func (r *run) checkOffer(ctx context.Context) error {
	who := r.target.plain.Server()
	r.Result.Target = results.Target{
		URL: r.targetName(), Embedded: r.profile.Target.IsEmbedded(),
		Era: string(who.Era), Protocol: who.Version, Fallback: who.Fallback, Name: who.Server, Version: who.ServerVersion,
	}
	return r.checkLanes(ctx)
}

func eventNames(o driver.Offer) []string {
	var names []string
	for _, e := range o.Events {
		names = append(names, e.Name)
	}
	slices.Sort(names)
	return names
}

// hurriedTimeout is how long sessions have to end if the run is stopped before
// anything was measured.
const hurriedTimeout = 300 * time.Millisecond

// close ends everything that open started.
func (r *run) close() {
	r.endTrace() // in case the pass did not begin
	t := &r.target
	limit := closeTimeout
	if r.hurried {
		limit = hurriedTimeout
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	for _, e := range t.endpoints() {
		_ = e.Close(ctx) // the target may be gone, and nothing more is measured
	}
	if t.upstream != nil {
		_ = t.upstream.Close()
	}
	if k := r.opts.Keep; k != nil && t.child != nil {
		k.Server, k.Dir, k.Authority = t.child, t.dir, t.authority // k stops it
		return
	}
	if t.child != nil {
		t.child.Stop()
	}
	t.dir.Remove()
}

// targetPIDs returns the processes of the target, without their descendants; none if it
// does not run on this machine or they cannot be determined.
func (r *run) targetPIDs(ctx context.Context) []int {
	if r.target.embedded != nil {
		return []int{r.target.embedded.PID}
	}
	if pid := r.target.plain.PID(); pid != 0 {
		return []int{pid}
	}
	u, err := url.Parse(r.target.plain.URL())
	if err != nil || !isLoopback(ctx, nil, u.Hostname()) {
		return nil
	}
	return health.Listeners(u)
}

// commandEmbedded prepares the embedded target over standard input and output; the
// endpoint starts it.
func (r *run) commandEmbedded(o embedded.Options) error {
	if r.opts.EmbeddedCommand == nil {
		return fmt.Errorf("%w: it names no target, and no embedded target can be started here", ErrProfile)
	}
	var text bytes.Buffer
	if err := embedded.WriteOptions(&text, o); err != nil {
		return fmt.Errorf("start the embedded target: %w", err)
	}
	file := filepath.Join(r.target.dir.Path, "options.json")
	if err := os.WriteFile(file, text.Bytes(), 0o600); err != nil {
		return fmt.Errorf("start the embedded target: %w", err)
	}
	command, err := r.opts.EmbeddedCommand(file)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrTarget, err)
	}
	r.target.program = &program{command: command}
	return nil
}

// findAdmin waits for the program to print where events are injected, if the upstream
// needs the address.
func (r *run) findAdmin(ctx context.Context) error {
	p, u := r.target.program, r.profile.Upstream
	if p == nil || u.Admin != "" || u.Kind != "inject" && (u.Kind != "replay" || u.Replay.URL != "") {
		return nil
	}
	wait := time.NewTimer(readyTime)
	defer wait.Stop()
	select {
	case ready := <-p.ready.found:
		// A program may print any address, but the load may go to this machine only.
		if err := CheckHost(ctx, r.guard, ready.Admin, "the admin address that the program printed", r.opts.AllowHosts); err != nil {
			return err
		}
		p.admin = ready.Admin
		return nil
	case <-r.target.plain.Ended():
		return fmt.Errorf("%w: %w", ErrTarget, r.target.plain.Err())
	case <-wait.C:
		return fmt.Errorf(
			"%w: upstream.kind %s needs an admin listener, and the program printed none on standard error; give upstream.admin "+
				"(or --upstream-url), or for any other server another upstream.kind",
			ErrProfile,
			u.Kind,
		)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// tokenFigures returns the counts of requests for expiring tokens; nil without such
// tokens.
func (r *run) tokenFigures() *results.Tokens {
	var out *results.Tokens
	for _, e := range r.target.endpoints() {
		if c, ok := e.TokenCounts(); ok {
			tokens := results.Tokens(c)
			out = out.Add(&tokens)
		}
	}
	return out
}

// endTokens ends requests for tokens in progress. The lanes must be closed.
func (r *run) endTokens() {
	for _, e := range r.target.endpoints() {
		e.EndTokens()
	}
}

// stdioFigures returns the traffic over the pipes; nil without pipes.
func (r *run) stdioFigures() *results.Stdio {
	if r.target.plain == nil {
		return nil
	}
	s, ok := r.target.plain.Pipe()
	if !ok {
		return nil
	}
	out := &results.Stdio{
		Up: s.Up, Down: s.Down, Lines: s.Lines, Late: s.Late, Unknown: s.Unknown, Unaddressed: s.Unaddressed,
		Requests: s.Requests, Malformed: s.Malformed, TooLong: s.TooLong, Exit: s.Exit,
	}
	if s.Exit != "" {
		out.Stderr = s.Stderr
	}
	return out
}

// targetName returns the target's address in the result. The command of an embedded
// target is shortened, because it names temporary files.
func (r *run) targetName() string {
	if r.profile.Target.IsEmbedded() && r.profile.Target.OverStdio() {
		return "stdio:eventmeter serve --stdio"
	}
	return r.target.plain.URL()
}

// declares returns the capabilities and extensions that the lanes must declare as
// clients.
func (r *run) declares() (capabilities, extensions []string) {
	for _, of := range systems.All() {
		if slices.ContainsFunc(r.lanes, func(l *lane) bool { return l.System == of.Name }) {
			capabilities, extensions = append(capabilities, of.Capabilities...), append(extensions, of.Extensions...)
		}
	}
	return capabilities, extensions
}
