package run

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/embedded"
	"github.com/eventmeter/eventmeter/internal/shard/split"
	"github.com/eventmeter/eventmeter/loadgen"
	"github.com/eventmeter/eventmeter/loadgen/upstream"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/results"
	"github.com/eventmeter/eventmeter/sinks"
)

// Shard makes a run one of several that load the same target together. Each
// opens its part of every lane's subscriptions, fires its part of the schedule,
// and measures that on its own clock. [Merge] adds up what they archive.
type Shard struct {
	// Index is from 0 to Count-1. There are at least 2.
	Index, Count int
	// Run is the base of the run numbers of all shards, which must be equal in
	// all of them, and in no other run.
	Run uint32
	// Barrier is called when all subscriptions of a pass (from 0; there are
	// several when lanes take turns) are active. It returns when firing begins
	// by the wall clock, which may lie ahead; a time that is past is an error.
	Barrier func(ctx context.Context, pass int) (time.Time, error)
	// Target, where not nil, gives the embedded target that all shards share;
	// callbacks is the PEM of what it has to trust.
	Target func(ctx context.Context, callbacks []byte) (Shared, error)
}

// Shared is an embedded target that another process started.
type Shared struct {
	Ready embedded.Ready
	// Siblings are the processes of the run on this machine, without this one
	// and the target: their work is not somebody else's.
	Siblings []int
	// Source is the address that connections to the target come from, so that
	// shards of one machine do not share the ports of one; not valid = any.
	Source netip.Addr
}

// errLate is for a shard that was not ready when the others began.
var errLate = errors.New("this shard was not ready in time")

// StartAt is a Barrier for shards that cannot talk to each other: all begin at
// the same time by the wall clock.
func StartAt(t time.Time) func(context.Context, int) (time.Time, error) {
	return func(context.Context, int) (time.Time, error) {
		if late := time.Since(t); late > 0 {
			return t, fmt.Errorf("%w: its subscriptions were active %v after --start-at %s, and it published nothing; give a later time", errLate, late.Round(time.Millisecond), t.Format(time.RFC3339))
		}
		return t, nil
	}
}

// SharedRun is the base of run numbers for shards that cannot talk to each
// other: it follows from what they have in common.
func SharedRun(p *profiles.Profile, count int, start time.Time) (uint32, error) {
	common, err := commonHash(p)
	if err != nil {
		return 0, err
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d/%d", common, count, start.UnixNano()))
	return uint32(sum[0])<<24 | uint32(sum[1])<<16 | uint32(sum[2])<<8 | uint32(sum[3]), nil
}

// commonHash is a hash of the profile as all shards must have it. Where a
// shard's webhooks arrive is its own.
func commonHash(p *profiles.Profile) (string, error) {
	common := *p
	common.Lanes = slices.Clone(p.Lanes)
	for i := range common.Lanes {
		w := &common.Lanes[i].Webhook
		w.Listen, w.Callback, w.CertFile, w.KeyFile = "", "", "", ""
	}
	text, err := json.Marshal(common)
	if err != nil {
		return "", fmt.Errorf("hash the profile: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// place is what the result of a shard says of itself; nil of a whole run.
func (s *Shard) place() *results.PartOf {
	if s == nil {
		return nil
	}
	return &results.PartOf{Index: s.Index, Count: s.Count}
}

// check refuses what shards cannot do.
func (s *Shard) check(p *profiles.Profile, recorded bool) error {
	switch {
	case s.Count < 2 || s.Index < 0 || s.Index >= s.Count:
		return fmt.Errorf("%w: shard %d of %d: there are at least 2, numbered from 0", ErrProfile, s.Index, s.Count)
	case s.Count > results.MaxShards:
		return fmt.Errorf("%w: %d shards: there are at most %d", ErrProfile, s.Count, results.MaxShards)
	case s.Barrier == nil:
		return fmt.Errorf("%w: shard %d of %d: nothing says when it begins", ErrProfile, s.Index, s.Count)
	case len(p.Cases) > 0:
		return fmt.Errorf("%w: a calibration is one run; do it without shards", ErrProfile)
	case p.Upstream.Kind == "feed":
		return fmt.Errorf("%w: a target polls one feed, so upstream.kind feed cannot be split into shards; use another kind", ErrProfile)
	case recorded:
		return fmt.Errorf("%w: a trace is recorded by one process; run without shards to record", ErrProfile)
	case p.Target.OverStdio():
		return fmt.Errorf("%w: a program on standard input and output has one client, so such a run cannot be split into shards", ErrProfile)
	case p.Target.URL == "" && s.Target == nil:
		return fmt.Errorf("%w: it names no target.url, and shards cannot each start a target of their own; give --target", ErrProfile)
	}
	return nil
}

// shardLanes works out the plan and cuts the lanes down to the shard's part.
func (r *run) shardLanes() error {
	s := r.opts.Shard
	if s == nil {
		return nil
	}
	var all []split.Lane
	for _, l := range r.lanes {
		all = append(all, l.split())
	}
	r.plan = split.New(all, r.profile.Upstream.Sources, s.Count)
	if err := r.plan.Check(); err != nil {
		return fmt.Errorf("%w: %w", ErrProfile, err)
	}
	for i, l := range r.lanes {
		whole := l.Subscriptions
		l.numbers = r.plan.Subs[s.Index][i]
		if l.numbers == nil {
			l.numbers = []int{}
		}
		l.Subscriptions, l.plan, l.shard = len(l.numbers), r.plan, s.Index
		share := float64(l.Subscriptions) / float64(whole)
		l.Lane.Attach.Rate *= profiles.Rate(share)
		l.Churn.Rate *= profiles.Rate(share)
		l.Lane.Attach.Concurrency = max(1, (l.Lane.Attach.Concurrency+s.Count-1)/s.Count)
		if l.Webhook.Listen != "" && s.Target != nil {
			listen, err := nextPort(l.Webhook.Listen, s.Index)
			if err != nil {
				return fmt.Errorf("%w: lane %s: webhook.listen: %w", ErrProfile, l.Name, err)
			}
			l.Webhook.Listen = listen
		}
	}
	return nil
}

// mine is the profile with the lanes as they are here: cut down, of a shard.
func (r *run) mine() *profiles.Profile {
	p := *r.profile
	p.Lanes = make([]profiles.Lane, len(r.lanes))
	for i, l := range r.lanes {
		p.Lanes[i] = l.Lane
	}
	return &p
}

// nextPort is the address with a port that is higher by n; port 0 stays.
func nextPort(address string, n int) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", err
	}
	number, err := strconv.Atoi(port)
	if err != nil || number == 0 {
		return address, err
	}
	if number+n > 65535 {
		return "", fmt.Errorf("%s: shard %d would need port %d; give a lower one", address, n, number+n)
	}
	return net.JoinHostPort(host, strconv.Itoa(number+n)), nil
}

// split is what a plan of shards needs to know of the lane.
func (l *lane) split() split.Lane {
	unit := 1
	if l.System == "sep-1803" {
		unit = max(l.SEP1803.PerSession, 1)
	}
	return split.Lane{Subscriptions: l.Subscriptions, Unit: unit, Sources: l.templates.Sources, HearsNone: l.HearsNone()}
}

// wholeNumber is the number that local subscription i has in the whole run.
func (l *lane) wholeNumber(i int) int {
	if l.numbers == nil {
		return i
	}
	return l.numbers[i]
}

// hears gives what local subscription i is owed; nil is everything.
func (l *lane) hears(i int) []uint16 {
	heard := l.templates.Sources(l.wholeNumber(i))
	if l.plan == nil {
		return heard
	}
	return l.plan.Hears(l.shard, heard)
}

// hearsAll tells whether what siblings fire reaches local subscription i,
// whatever its source.
func (l *lane) hearsAll(i int) bool {
	return l.plan.HearsAll(l.templates.Sources(l.wholeNumber(i)))
}

// runID is the run number of a pass, and which numbers are of its siblings.
// Passes and shards share out the numbers from the base on.
func (r *run) runID(pass uint32) (uint32, func(uint32) bool) {
	s := r.opts.Shard
	if s == nil {
		return r.id + pass, nil
	}
	count, index := uint32(s.Count), uint32(s.Index)
	passes := uint32(len(r.lanes))
	base := r.id
	return base + pass*count + index, func(run uint32) bool {
		n := run - base // wraps as run numbers do
		return n < passes*count && n%count != index
	}
}

// seed is the seed of what a shard draws for itself and not for one of its
// subscriptions.
func (r *run) seed() uint64 {
	seed := r.profile.Schedule.Seed
	if s := r.opts.Shard; s != nil {
		return seed ^ uint64(s.Index+1)*0x9e3779b97f4a7c15
	}
	return seed
}

// myEmissions is the part of the schedule that this process fires, and the number
// of each of its emissions in the whole; nil means that they are the same.
func (r *run) myEmissions() (loadgen.Schedule, func(uint64) uint64) {
	whole := r.schedule()
	s := r.opts.Shard
	if s == nil {
		return whole, nil
	}
	sources := r.profile.Upstream.Sources
	cycle, sourceOf := sources, func(n int) uint16 { return uint16(n) }
	if o, ok := r.target.upstream.(upstream.Sourcer); ok {
		cycle, sourceOf = max(len(r.trace), 1), func(n int) uint16 { return o.Source(uint64(n)) }
	}
	part := r.plan.Part(whole, s.Index, cycle, sourceOf)
	return part, part.Number
}

// getReady is how long before its time a shard begins to watch itself.
const getReady = 250 * time.Millisecond

// begin waits for the other shards until shortly before firing begins, and
// returns when that is; 0, without other shards, is at once.
func (p *pass) begin(ctx context.Context) (eventmeter.Instant, error) {
	s := p.opts.Shard
	if s == nil {
		return 0, nil
	}
	p.enter("wait", 0)
	ctx, cancel := p.untilStopped(ctx)
	defer cancel(nil)
	at, err := s.Barrier(ctx, int(p.number))
	switch {
	case err != nil && ctx.Err() != nil:
		return 0, context.Cause(ctx)
	case err != nil:
		return 0, err
	}
	start := p.clock.Now().Add(time.Until(at))
	if err := p.pause(ctx, time.Until(at)-getReady); err != nil {
		return 0, err
	}
	return start, nil
}

// part is what a shard leaves for a merge, beside its result.
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
	out.Upstream = r.upstreamFigures()
	return out
}

// wholeNames gives the subscriptions in examples their numbers in the whole run.
func (p *pass) wholeNames(a *sinks.Account) {
	for i := range a.Lanes {
		for j := range a.Lanes[i].Examples {
			sub := &a.Lanes[i].Examples[j].Sub
			sub.Index = uint32(p.lanes[i].wholeNumber(int(sub.Index)))
		}
	}
}

// keepPart keeps one pass of a shard for a merge.
func (p *pass) keepPart(a sinks.Account, own []results.PartFigures, in results.Generator, process *results.Process) {
	if p.opts.Shard != nil {
		p.partPasses = append(p.partPasses, p.partPass(a, own, in, process))
	}
}

// partPass is what a merge needs of a pass.
func (p *pass) partPass(a sinks.Account, own []results.PartFigures, in results.Generator, process *results.Process) results.PartPass {
	start := p.firing.Start()
	part := results.PartPass{
		Account: a, Began: results.Nanos(start), BeganAt: p.clock.Time(start).UTC(), Generator: in, Target: process, Figures: own,
	}
	return part
}

// thisMachine tells the machines of a run apart in a report.
func thisMachine() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return name
}
