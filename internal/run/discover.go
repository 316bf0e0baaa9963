package run

import (
	"context"
	"errors"
	"fmt"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/dialguard"
	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/driver/events"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/profiles"
)

// Discovery is the answer of a target to the question what it offers.
type Discovery struct {
	// Offer is the target's offer of MCP Events. The name of the target is always
	// set.
	driver.Offer
	// Others are the event types of other systems that the target supports.
	Others []SystemOffer
	// Abilities are the abilities of the target besides event types.
	Abilities mcpclient.Abilities
	// NoEvents is why MCP Events could not be listed. It is empty if the target has
	// no such method.
	NoEvents string `json:",omitempty"`
}

// SystemOffer is the offer of a target for one system.
type SystemOffer struct {
	System string
	Events []driver.EventType
}

// DiscoverTarget connects to the target at t.URL, or starts t.Command, and asks what
// it offers. The host must be this machine or in allowHosts. Errors wrap [ErrProfile]
// or [ErrTarget]. A target that offers nothing of any system is an error.
func DiscoverTarget(ctx context.Context, t profiles.Target, allowHosts []string, version string) (Discovery, error) {
	secrets := SecretsOf(&profiles.Profile{Target: t})
	found, err := discover(ctx, t, allowHosts, version)
	errtext.CleanAll(&found) // schemas, too: programs print them, and profiles take values from them
	secrets.ScrubAll(&found)
	return found, secrets.ScrubError(err)
}

func discover(ctx context.Context, t profiles.Target, allowHosts []string, version string) (Discovery, error) {
	var found Discovery
	guard := dialguard.New(nil)
	if len(t.Command) == 0 {
		if err := CheckHost(ctx, guard, t.URL, "target", allowHosts); err != nil {
			return found, err
		}
	}
	opts, err := endpointOptions(t, version)
	if err != nil {
		return found, err
	}
	opts.Guard = guard
	// Some servers only offer what the client declares support for.
	opts.Capabilities, opts.Extensions = systems.Capabilities(), []string{events.Extension}
	e, err := connect(ctx, opts)
	if e != nil {
		defer func() {
			ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
			defer cancel()
			_ = e.Close(ctx) // a session that stays open is the server's to end
		}()
	}
	if err != nil {
		return found, err
	}
	if err := found.askAll(ctx, e); err != nil {
		return found, fmt.Errorf("%w: %w", ErrTarget, err)
	}
	return found, nil
}

// askAll asks the target about every system in turn. A system that the target does
// not know is not offered; the first such answer is the error if the target offers
// nothing at all.
func (f *Discovery) askAll(ctx context.Context, e *mcpclient.Endpoint) error {
	all := systems.All()
	var err error
	f.Offer, err = askSystem(ctx, e, all[0], true)
	switch {
	case errors.Is(err, mcpclient.ErrUnreachable), errors.Is(err, mcpclient.ErrThrottled):
		return err
	case err != nil && !errors.Is(err, mcpclient.ErrNotOffered):
		f.NoEvents = err.Error()
	}
	ctx, cancel := context.WithTimeout(ctx, discoverTimeout)
	defer cancel()
	// A server that gives an invalid answer about one system may support others.
	types := 0
	for _, of := range all[1:] {
		if of.Discover == "" {
			continue
		}
		if o, err := askSystem(ctx, e, of, false); err == nil && o.Events != nil {
			f.Others = append(f.Others, SystemOffer{of.Name, o.Events})
			types += len(o.Events)
		}
	}
	var err2 error
	if f.Abilities, err2 = e.Abilities(ctx); err2 != nil {
		return err2
	}
	if types+len(f.Abilities.Lists) > 0 || f.Abilities.Resumable {
		return nil
	}
	return err
}

// askSystem asks a connected target for the event types of one system and, if examine
// is true, for the revision that it speaks. It opens no subscription.
func askSystem(ctx context.Context, e *mcpclient.Endpoint, of systems.System, examine bool) (driver.Offer, error) {
	ctx, cancel := context.WithTimeout(ctx, discoverTimeout)
	defer cancel()
	d, err := of.New(driver.Options{
		Clock:         eventmeter.NewClock(),
		Recorder:      eventmeter.Tee(),
		Endpoint:      e,
		System:        of.Name,
		Mode:          of.Discover,
		Event:         "-",
		Subscriptions: 1,
	})
	if err != nil {
		return driver.Offer{}, fmt.Errorf("discover: %w", err)
	}
	defer func() { _ = d.Close(ctx) }()
	o, err := d.(driver.Discoverer).Discover(ctx)
	if f, ok := d.(driver.Figurer); ok {
		o.Conform = f.Figures().Conform
	}
	if x, ok := d.(driver.Examiner); ok && examine && err == nil {
		err = x.Examine(ctx, &o)
	}
	return o, err
}
