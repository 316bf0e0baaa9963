package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/eventmeter/eventmeter/internal/conform"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/results"
)

// checkLanes compares the lanes of systems that list event types with the target's
// list. It requests only what a lane needs. It accepts a target that does not know
// the method, and an empty list.
func (r *run) checkLanes(ctx context.Context) error {
	if err := r.checkListeners(); err != nil {
		return err
	}
	for _, of := range systems.All() {
		if !of.Listed || !slices.ContainsFunc(r.lanes, func(l *lane) bool { return l.System == of.Name }) {
			continue
		}
		offer, err := askSystem(ctx, r.target.plain, of, false)
		if errors.Is(err, mcpclient.ErrNotOffered) {
			err = nil
		} else if err != nil {
			err = fmt.Errorf("%w: %w", ErrTarget, err)
		}
		r.keepListed(of.Name, offer.Conform)
		r.types = append(r.types, offer.Events...)
		if err == nil {
			err = r.checkSystem(of.Name, offer)
		}
		if err != nil {
			r.unmeasured(results.PartFigures{Conform: offer.Conform})
			return err
		}
	}
	return nil
}

// keepListed keeps what the list showed, for the first lane of the system.
func (r *run) keepListed(system string, seen conform.Account) {
	if i := slices.IndexFunc(r.lanes, func(l *lane) bool { return l.System == system }); i >= 0 && seen != nil {
		r.listed, r.listedFor = seen, r.lanes[i]
	}
}

// unmeasured hands over what was seen before the run ends without a measurement.
func (r *run) unmeasured(lanes ...results.PartFigures) {
	for _, l := range lanes {
		if r.opts.Unmeasured != nil {
			r.opts.Unmeasured(l.Conform)
		}
	}
}

func (r *run) checkSystem(system string, offer driver.Offer) error {
	for _, l := range r.lanes {
		if l.System != system || len(offer.Events) == 0 {
			continue
		}
		e, ok := offer.Event(l.Event)
		if !ok {
			return fmt.Errorf(
				"%w: %s does not offer the event %q that lane %s asks for; it offers %s",
				ErrTarget,
				r.target.plain.Name(),
				l.Event,
				l.Name,
				strings.Join(eventNames(offer), ", "),
			)
		}
		if len(e.Delivery) > 0 && !slices.Contains(e.Delivery, mode(l)) {
			return fmt.Errorf(
				"%w: %s does not deliver %q by %s, which lane %s asks for; it offers %v",
				ErrTarget,
				r.target.plain.Name(),
				l.Event,
				l.Mode,
				l.Name,
				e.Delivery,
			)
		}
	}
	return nil
}

// checkListeners refuses lanes that would receive each other's notifications: a
// session of the legacy era has one stream for them, and all lanes at an endpoint
// share a principal's session. Lanes that take turns do not conflict.
func (r *run) checkListeners() error {
	if r.profile.Phases.Order == "turns" {
		return nil
	}
	first := map[*mcpclient.Endpoint]string{}
	for _, l := range r.lanes {
		if s, ok := l.Settings.(interface{ Listens() bool }); !ok || !s.Listens() {
			continue
		}
		e := r.target.endpointFor(l.HTTP)
		if era, _, _ := e.Negotiated(); era != mcpclient.Legacy {
			continue
		}
		if other, taken := first[e]; taken {
			return fmt.Errorf(
				"%w: lanes.%s.events.listen: lane %s listens already, and in the legacy era the lanes share a session, which has "+
					"one stream for notifications; let one lane listen, or set phases.order: turns",
				ErrProfile,
				l.Name,
				other,
			)
		}
		first[e] = l.Name
	}
	return nil
}
