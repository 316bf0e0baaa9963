package calibrate

import (
	"errors"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/run"
	"github.com/eventmeter/eventmeter/profiles"
)

// refusal is what the target has to answer to every subscription of a lane, as drivers name
// it, and the cause of those requests. The zero value: it need not refuse them all.
type refusal struct {
	answer string
	cause  eventmeter.Cause
}

// endedRows are the rows of a run that ends before anything is published, because the
// target has to refuse every subscription of a lane. err is the error of the run. There
// are none if no lane of the profile is refused as a whole.
func endedRows(name string, p *profiles.Profile, t *tape, err error) (rows []Row) {
	if err != nil && !errors.Is(err, run.ErrTarget) {
		return nil
	}
	for i := range p.Lanes {
		l := &p.Lanes[i]
		ends := calibrations[l.System].ends
		if ends == nil {
			continue
		}
		want := ends(p, l)
		if want.answer == "" {
			continue
		}
		row := Row{Case: name, Lane: l.Name, Passed: true}
		ended := int64(0)
		if err != nil {
			ended = 1
		}
		subs, calls := int64(l.Subscriptions), t.callsOf(i)
		for _, c := range []Check{
			exactly("ends for the target", 1, ended),
			exactly("failed", subs, calls.failed),
			exactly("requests", subs, calls.asked[want.cause]),
			exactly("answered "+want.answer, subs, calls.refusals[want.answer]),
			exactly("challenges", 0, calls.asked[eventmeter.Verification]),
		} {
			row.add(c)
		}
		rows = append(rows, row)
	}
	return rows
}
