package run

import (
	"cmp"

	"github.com/eventmeter/eventmeter/loadgen"
	"github.com/eventmeter/eventmeter/profiles"
)

// scheduleOf translates the profile's schedule.
func scheduleOf(p *profiles.Profile) loadgen.Schedule {
	s := p.Schedule
	switch s.Kind {
	case "poisson":
		return loadgen.Poisson{Rate: float64(s.Rate), Seed: s.Seed}
	case "burst":
		return loadgen.Burst{Size: s.Burst, Every: s.Every, Spread: s.Spread}
	case "ramp":
		return loadgen.Ramp{From: float64(s.Rate), To: float64(s.To), Over: cmp.Or(s.Period, p.Phases.Warmup+p.Phases.Measure)}
	case "sine":
		return loadgen.Sine{Mean: float64(s.Rate), Amplitude: float64(s.Amplitude), Period: s.Period}
	}
	return loadgen.Constant{Rate: float64(s.Rate)}
}
