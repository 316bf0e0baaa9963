package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/mcpload/mcpload"
	"github.com/mcpload/mcpload/loadgen/dialect"
	"github.com/mcpload/mcpload/profiles"
)

const (
	closeTimeout    = 5 * time.Second
	discoverTimeout = 30 * time.Second
)

// DiscoverTarget connects to the target at t.URL, or starts t.Command, and asks
// what it offers. The host must be this machine or in allowHosts. Errors wrap [ErrProfile] or
// [ErrTarget].
func DiscoverTarget(ctx context.Context, t profiles.Target, allowHosts []string, version string) (dialect.Offer, error) {
	if len(t.Command) == 0 {
		if err := checkHost(ctx, t.URL, "target", allowHosts); err != nil {
			return dialect.Offer{}, err
		}
	}
	opts, err := endpointOptions(t, version)
	if err != nil {
		return dialect.Offer{}, err
	}
	e, err := dialect.NewEndpoint(opts)
	if err != nil {
		return dialect.Offer{}, fmt.Errorf("%w: %w", ErrProfile, err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		_ = e.Close(ctx) // a session that stays open is the server's to end
	}()
	if err := e.Connect(ctx); err != nil {
		return dialect.Offer{}, fmt.Errorf("%w: %w", ErrTarget, err)
	}
	offer, err := ask(ctx, e)
	if err != nil {
		return dialect.Offer{}, fmt.Errorf("%w: %w", ErrTarget, err)
	}
	return offer, nil
}

// ask asks a connected target what it offers. It subscribes to nothing.
func ask(ctx context.Context, e *dialect.Endpoint) (dialect.Offer, error) {
	ctx, cancel := context.WithTimeout(ctx, discoverTimeout)
	defer cancel()
	d, err := dialect.New(dialect.Options{
		Clock: mcpload.NewClock(), Recorder: mcpload.Tee(), Endpoint: e, Mode: mcpload.Poll, Event: "-", Subscriptions: 1,
	})
	if err != nil {
		return dialect.Offer{}, fmt.Errorf("discover: %w", err)
	}
	defer func() { _ = d.Close(ctx) }()
	return d.(dialect.Discoverer).Discover(ctx)
}

func endpointOptions(t profiles.Target, version string) (dialect.EndpointOptions, error) {
	o := dialect.EndpointOptions{
		URL: t.URL, Headers: t.Headers, Tokens: t.Tokens, Command: t.Command, Env: variables(t.Env), Dir: t.Dir,
		Era: dialect.Era(t.Era), Revision: dialect.Revision(t.Revision),
		ClientName: "mcpload", ClientVersion: version,
	}
	var err error
	if t.CAFile != "" {
		if o.Roots, err = rootsFrom(t.CAFile); err != nil {
			return o, fmt.Errorf("%w: target.caFile: %w", ErrProfile, err)
		}
	}
	return o, nil
}

func mode(l *lane) mcpload.Mode { return mcpload.Mode(l.Mode) }
