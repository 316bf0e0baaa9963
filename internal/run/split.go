package run

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/eventmeter/eventmeter/internal/shard/split"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/results"
)

// StartAt returns a Barrier for shards that cannot communicate: all of them begin at
// the same wall-clock time.
func StartAt(t time.Time) func(context.Context, int) (time.Time, error) {
	return func(context.Context, int) (time.Time, error) {
		if late := time.Since(t); late > 0 {
			return t, fmt.Errorf(
				"%w: its subscriptions were active %v after --start-at %s, and it published nothing; give a later time",
				errLate,
				late.Round(time.Millisecond),
				t.Format(time.RFC3339),
			)
		}
		return t, nil
	}
}

// errLate is the error of a shard that was not ready when the others began.
var errLate = errors.New("this shard was not ready in time")

// SharedRun derives the base of run numbers for shards that cannot communicate from
// what they have in common.
func SharedRun(p *profiles.Profile, count int, start time.Time) (uint32, error) {
	common, err := commonHash(p)
	if err != nil {
		return 0, err
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d/%d", common, count, start.UnixNano()))
	return uint32(sum[0])<<24 | uint32(sum[1])<<16 | uint32(sum[2])<<8 | uint32(sum[3]), nil
}

// commonHash returns a hash of the profile without the parts that differ between
// shards, such as webhook addresses.
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

// place returns the shard's place for its result; nil for a run that is not split.
func (s *Shard) place() *results.PartOf {
	if s == nil {
		return nil
	}
	return &results.PartOf{Index: s.Index, Count: s.Count}
}

// check refuses what a run in shards cannot do.
func (s *Shard) check(p *profiles.Profile, recorded bool) error {
	switch {
	case s.Count < 2 || s.Index < 0 || s.Index >= s.Count:
		return fmt.Errorf("%w: shard %d of %d: there are at least 2, numbered from 0", ErrProfile, s.Index, s.Count)
	case s.Count > results.MaxShards:
		return fmt.Errorf("%w: %d shards: there are at most %d", ErrProfile, s.Count, results.MaxShards)
	case s.Barrier == nil:
		return fmt.Errorf("%w: shard %d of %d: nothing says when it begins", ErrProfile, s.Index, s.Count)
	case len(p.Phases.Until) > 0:
		return fmt.Errorf(
			"%w: phases.until: no shard knows the latencies of the whole run; remove it and set phases.measure, or run without shards",
			ErrProfile,
		)
	case p.Phases.Cooldown > 0:
		return fmt.Errorf(
			"%w: phases.cooldown: no shard knows when the others end their subscriptions; remove it, or run without shards",
			ErrProfile,
		)
	case len(p.Cases) > 0:
		return fmt.Errorf("%w: a calibration is one run; do it without shards", ErrProfile)
	case p.Upstream.Kind == "feed":
		return fmt.Errorf("%w: a target polls one feed, so upstream.kind feed cannot be split into shards; use another kind", ErrProfile)
	case recorded:
		return fmt.Errorf("%w: a trace is recorded by one process; run without shards to record", ErrProfile)
	case p.Target.OverStdio():
		return fmt.Errorf(
			"%w: a program on standard input and output has one client, so such a run cannot be split into shards",
			ErrProfile,
		)
	case p.Target.URL == "" && s.Target == nil:
		return fmt.Errorf("%w: it names no target.url, and shards cannot each start a target of their own; give --target", ErrProfile)
	}
	return nil
}

// nextPort returns the address with its port raised by n. Port 0 stays 0.
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

// shardLanes makes the plan and reduces the lanes to the shard's part.
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

// runID returns the run number of a pass, and a function that reports whether a
// number is that of a sibling. Passes and shards share the numbers from the base on.
func (r *run) runID(pass uint32) (uint32, func(uint32) bool) {
	s := r.opts.Shard
	if s == nil {
		return r.id + pass, nil
	}
	count, index := uint32(s.Count), uint32(s.Index)
	passes := uint32(len(r.lanes))
	base := r.id
	return base + pass*count + index, func(run uint32) bool {
		n := run - base // wraps around, as run numbers do
		return n < passes*count && n%count != index
	}
}

// seed returns the seed of random values that belong to the shard and not to one of
// its subscriptions.
func (r *run) seed() uint64 {
	seed := r.profile.Schedule.Seed
	if s := r.opts.Shard; s != nil {
		return seed ^ uint64(s.Index+1)*0x9e3779b97f4a7c15
	}
	return seed
}
