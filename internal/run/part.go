package run

import (
	"fmt"
	"os"
	"slices"

	"github.com/eventmeter/eventmeter/results"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// part returns what a merge needs of a shard besides its result.
func (r *run) part() *results.Part {
	s := r.opts.Shard
	if s == nil {
		return nil
	}
	out := &results.Part{
		Schema: results.PartSchema, Index: s.Index, Count: s.Count, Run: fmt.Sprintf("%08x", r.id),
		Profile: r.common, Machine: thisMachine(), Coverage: r.plan.Coverage(),
		Passes: r.partPasses, Warnings: slices.Clone(r.Result.Warnings),
	}
	out.Upstream, out.UpstreamFailure = r.upstreamFigures(), r.firstFailure()
	return out
}

// wholeNames changes the subscriptions in examples to their numbers in the whole run.
func (p *pass) wholeNames(a *ledger.Account) {
	for i := range a.Lanes {
		for j := range a.Lanes[i].Examples {
			sub := &a.Lanes[i].Examples[j].Sub
			sub.Index = uint32(p.lanes[i].wholeNumber(int(sub.Index)))
		}
	}
}

// keepPart stores one pass of a shard for the merge.
func (p *pass) keepPart(a ledger.Account, own []results.PartFigures, in results.Generator, process *results.Process) {
	if p.opts.Shard != nil {
		p.partPasses = append(p.partPasses, p.partPass(a, own, in, process))
	}
}

// partPass returns what a merge needs of a pass.
func (p *pass) partPass(a ledger.Account, own []results.PartFigures, in results.Generator, process *results.Process) results.PartPass {
	start := p.firing.Start()
	part := results.PartPass{
		Account: a, Began: results.Nanos(start), BeganAt: p.clock.Time(start).UTC(), Generator: in, Target: process, Figures: own,
	}
	return part
}

// thisMachine returns the host name, which tells the machines of a run apart.
func thisMachine() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return name
}
