package faults

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/eventmeter/eventmeter"
)

// The event systems, as lanes of profiles name them.
const (
	Events   = "events"
	Smithery = "smithery"
	SEP1803  = "sep-1803"
	SEP975   = "sep-975"
	SEP2549  = "sep-2549"
	Updates  = "updates"
)

// kindsBySystem are the faults of systems other than MCP Events, by system and
// mode. Faults without a meaning there are left out: Announce where the
// protocol has no gaps, Cut where it has no streams.
var kindsBySystem = map[string][]Kind{
	Smithery + " webhook": {
		Drop, Duplicate, Reid, Reorder, Delay, Misdeliver, Malformed, UTF8, Oversize, Signature, Repeat,
		Stall, Throttle, Refuse, TTL, Expire, Forget, NoRetry, Gone,
	},
	SEP1803 + " push": {
		Drop, Duplicate, Reid, Reorder, Delay, Misdeliver, Malformed, UTF8, Cut, Stall, Throttle, Refuse, Forget,
	},
	SEP1803 + " webhook": {
		Drop, Duplicate, Reid, Reorder, Delay, Misdeliver, Malformed, UTF8, Oversize, Signature, Repeat,
		Stall, Throttle, Refuse, Forget, Early, NoRetry,
	},
	SEP975 + " push":  {Drop, Duplicate, Cut, Lapse, Leak, NoResume, NoIDs, Twofold, LateResult},
	SEP2549 + " poll": {Drop, Duplicate, Delay, Stale, ListTTL, Scope, MixScope},
	Updates + " push": {Drop, Duplicate, Delay, Refuse, Forget},
}

// foreign are the kinds that MCP Events does not have.
var foreign = []Kind{Lapse, Leak, NoResume, NoIDs, Twofold, LateResult, Stale, ListTTL, Scope, MixScope}

// ofTokens are the kinds of the issuer of tokens.
var ofTokens = []Kind{TokenRefuse, TokenDown, TokenSlow}

// OfTokens reports whether one of the faults is the issuer's.
func (s Spec) OfTokens() bool {
	return slices.ContainsFunc(s, func(f Fault) bool { return slices.Contains(ofTokens, f.Kind) })
}

// fits reports whether a system has the fault in a mode.
func (f Fault) fits(system string, mode eventmeter.Mode) bool {
	if !f.in(mode) {
		return false
	}
	if f.Kind == Hoard || slices.Contains(ofTokens, f.Kind) {
		return true // whatever the system
	}
	if system == Events {
		return !slices.Contains(foreign, f.Kind)
	}
	return slices.Contains(kindsBySystem[system+" "+string(mode)], f.Kind)
}

// errMisfit is wrapped by the error about a fault that a system does not have.
var errMisfit = errors.New("fault not available")

// Place is a system in a mode.
type Place struct {
	System string
	Mode   eventmeter.Mode
}

// String formats the place for messages.
func (p Place) String() string { return p.System + " by " + string(p.Mode) }

// Check refuses faults that one of the given systems has in none of its given
// modes. A fault that is limited to a mode is checked only against that mode.
// The error wraps errMisfit.
func (s Spec) Check(places []Place) error {
	for _, f := range s {
		fits := map[string]bool{}
		for _, p := range places {
			fits[p.System] = fits[p.System] || f.fits(p.System, p.Mode)
		}
		for _, p := range places {
			if !fits[p.System] && (f.Mode == "" || f.Mode == p.Mode) {
				return fmt.Errorf(
					"%w: %s: system %s has no such fault by %s; it has %s",
					errMisfit,
					f,
					p.System,
					p.Mode,
					strings.Join(KindsOf(p), ", "),
				)
			}
		}
	}
	return nil
}

// KindsOf lists the kinds of faults that a place has, in order.
func KindsOf(p Place) []string {
	return slices.DeleteFunc(kinds(), func(k string) bool { return !(Fault{Kind: Kind(k)}).fits(p.System, p.Mode) })
}
