package run

import (
	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/refserver/faults"
	"github.com/eventmeter/eventmeter/profiles"
)

// checkFaults reads the faults of the embedded target and refuses those that
// mean nothing to a system of the profile's lanes: the run would seem to have
// withstood what was never done to it.
func checkFaults(p *profiles.Profile) error {
	spec, err := faults.Load(p.Target.Embedded.Faults)
	if err != nil {
		return err
	}
	places := make([]faults.Place, len(p.Lanes))
	for i, l := range p.Lanes {
		places[i] = faults.Place{System: l.System, Mode: eventmeter.Mode(l.Mode)}
	}
	return spec.Check(places)
}
