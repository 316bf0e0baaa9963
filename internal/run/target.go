package run

import (
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
	"github.com/eventmeter/eventmeter/internal/dialguard"
	"github.com/eventmeter/eventmeter/internal/embedded"
	"github.com/eventmeter/eventmeter/internal/health"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/upstream"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/results"
	"github.com/eventmeter/eventmeter/sinks"
)

// targetSide is everything that has to do with the server: its process, the
// endpoints under which it is met, and the upstream that makes its events.
type targetSide struct {
	child     embedded.Server
	embedded  *embedded.Ready   // the embedded target, whoever started it; nil = there is none, or it is met over stdio
	program   *program          // where it is met over standard input and output
	dir       *embedded.TempDir // removed at the end; nil where there is none
	plain     *driver.Endpoint
	tls       *driver.Endpoint // the embedded target's second endpoint, where a lane needs it
	authority *sinks.Authority
	callbacks int // connections of the target to each webhook listener
	upstream  upstream.Upstream
	feed      *upstream.Feed // the upstream, where it is polled by the target
}

// serves notes where the embedded target is.
func (t *targetSide) serves(r embedded.Ready) { t.embedded = &r }

// lend takes over the server that an earlier run left behind.
func (t *targetSide) lend(k *embedded.Keep) {
	t.child, t.dir, t.authority = k.Server, k.Dir, k.Authority
	t.serves(k.Server.Ready())
}

func (t *targetSide) endpointFor(http string) *driver.Endpoint {
	if http == "2" && t.tls != nil {
		return t.tls
	}
	return t.plain
}

// checkHosts applies the rule of [CheckHost] to every URL of the profile. A
// host that the profile allows must be named on the command line too.
func checkHosts(ctx context.Context, guard *dialguard.Guard, p *profiles.Profile, named []string) error {
	if p.Target.URL != "" {
		if err := CheckHost(ctx, guard, p.Target.URL, "target.url", named); err != nil {
			return err
		}
	}
	if err := checkUpstreamHosts(ctx, guard, &p.Upstream, named); err != nil {
		return err
	}
	for _, a := range p.Target.Allow {
		if !slices.Contains(named, a) {
			return fmt.Errorf("%w: target.allow names %s, which must be named on the command line too: --allow-host %s", ErrProfile, a, a)
		}
	}
	return nil
}

// open starts the embedded target where there is none, connects, and makes
// sure that the target offers what the profile asks for.
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

// startEmbedded starts the reference target where the profile names no other,
// trusting this run's callbacks. A shard is told of one that serves them all.
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
	args, err := TargetArgs(r.profile, t.dir.Path, callbacks)
	if err != nil {
		return err
	}
	args = append(args, t.feedArgs()...)
	if r.profile.Target.OverStdio() {
		return r.commandEmbedded(args)
	}
	if r.opts.Embedded == nil {
		return fmt.Errorf("%w: it names no target.url, and no embedded target can be started here", ErrProfile)
	}
	if t.child, err = r.opts.Embedded(ctx, args); err != nil {
		return fmt.Errorf("%w: %w", ErrTarget, err)
	}
	t.serves(t.child.Ready())
	return nil
}

// TargetArgs are the flags of an embedded target that trusts callbacks, PEM, which
// is written to dir.
func TargetArgs(p *profiles.Profile, dir string, callbacks []byte) ([]string, error) {
	args := []string{"--allow-private-callbacks"}
	if len(callbacks) > 0 {
		file := filepath.Join(dir, "callbacks.pem")
		if err := os.WriteFile(file, callbacks, 0o600); err != nil {
			return nil, fmt.Errorf("start the embedded target: %w", err)
		}
		args = append(args, "--callback-ca", file)
	}
	if slices.ContainsFunc(p.Lanes, func(l profiles.Lane) bool { return l.HTTP == "2" }) {
		args = append(args, "--tls")
	}
	return append(args, embedded.Args(p.Target.Embedded)...), nil
}

// feedArgs are the flags of an embedded target that polls the run's feed.
func (t *targetSide) feedArgs() []string {
	if t.feed == nil {
		return nil
	}
	args := []string{"--feed", t.feed.URL()}
	if u, err := url.Parse(t.feed.URL()); err == nil && !sinks.Loopback(u.Hostname()) {
		args = append(args, "--allow-host", u.Hostname()) // an address of this process
	}
	return args
}

// connect agrees on a protocol version with the target.
func (r *run) connect(ctx context.Context) error {
	t := &r.target
	opts, err := endpointOptions(r.profile.Target, r.opts.Version)
	if err != nil {
		return err
	}
	opts.Capabilities = r.capabilities()
	opts.LocalAddrs, opts.Guard = r.sources, r.guard
	memory := int64(r.profile.Limits.Memory) / int64(r.shares())
	opts.Budget, t.callbacks = budget.New(memory), callbackConnections(r.mine(), health.FileLimit(), memory)
	if r.profile.Target.OverStdio() {
		t.meet(&opts)
	}
	if t.embedded != nil {
		opts.URL = t.embedded.URL
		if len(opts.Tokens) == 0 {
			opts.Tokens = []string{rand.Text()}
		}
	}
	if t.plain, err = driver.NewEndpoint(opts); err != nil {
		return fmt.Errorf("%w: %w", ErrProfile, err)
	}
	if err := t.plain.Connect(ctx); err != nil {
		return fmt.Errorf("%w: %w", ErrTarget, err)
	}
	if err := r.findAdmin(ctx); err != nil {
		return err
	}
	if t.embedded != nil && t.embedded.TLSURL != "" {
		opts.URL, opts.Roots = t.embedded.TLSURL, x509.NewCertPool()
		opts.Roots.AppendCertsFromPEM([]byte(t.embedded.Cert))
		if t.tls, err = driver.NewEndpoint(opts); err != nil {
			return fmt.Errorf("%w: %w", ErrProfile, err)
		}
		if err := t.tls.Connect(ctx); err != nil {
			return fmt.Errorf("%w: %w", ErrTarget, err)
		}
	}
	return nil
}

// shares is how many processes share the run's memory budget.
func (r *run) shares() int {
	if s := r.opts.Shard; s != nil {
		return max(s.Count, 1)
	}
	return 1
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

// checkOffer notes who the target is, and compares what it offers with what the
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

// hurriedTimeout is how long sessions have to end where somebody wants to leave
// before anything was measured.
const hurriedTimeout = 300 * time.Millisecond

// close ends everything that open began.
func (r *run) close() {
	r.endTrace() // of a pass that did not begin
	t := &r.target
	limit := closeTimeout
	if r.hurried {
		limit = hurriedTimeout
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	for _, e := range []*driver.Endpoint{t.plain, t.tls} {
		if e != nil {
			// The target may be gone; the run is over either way.
			_ = e.Close(ctx)
		}
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

// targetPID is the process of the target, where it is one of this machine and
// its owner can be read; else 0.
func (r *run) targetPID(ctx context.Context) int {
	if r.target.embedded != nil {
		return r.target.embedded.PID
	}
	if pid := r.target.plain.PID(); pid != 0 {
		return pid
	}
	u, err := url.Parse(r.target.plain.URL())
	if err != nil || !isLoopback(ctx, nil, u.Hostname()) {
		return 0
	}
	return health.ListenerPID(u)
}
