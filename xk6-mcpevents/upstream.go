package mcpevents

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/grafana/sobek"
	"github.com/mcpload/mcpload"
	"github.com/mcpload/mcpload/loadgen"
	"github.com/mcpload/mcpload/loadgen/upstream"
	"github.com/sirupsen/logrus"
)

// source is the object Upstream: what makes events happen behind the target.
// Its exported methods are those of the script's object.
type source struct {
	m       *instance
	up      upstream.Upstream
	topic   uint16
	workers int
	event   string
	where   string // an address, or the name of a tool
}

// upstream makes an Upstream. It connects when it fires; a feed listens at once.
func (m *instance) upstream(options sobek.Value) (*source, error) {
	o, err := readUpstream(options)
	if err != nil {
		return nil, err
	}
	s := &source{m: m, workers: o.Workers, event: o.Event, where: cmp.Or(o.Admin, o.URL, o.Tool, o.Feed)}
	if s.topic, err = m.hub.topic(o.Topic); err != nil {
		return nil, err
	}
	if err = m.hub.ready(); err != nil {
		return nil, err
	}
	if o.Feed != "" {
		s.up, err = m.feed(o)
		return s, err
	}
	if s.up, err = o.build(); err != nil {
		return nil, err
	}
	m.until(func(context.Context) { _ = s.up.Close() }) // gives back idle connections
	return s, nil
}

// fireOptions are the argument of fire, where it is not a number.
type fireOptions struct {
	Count int     `json:"count"`
	Rate  float64 `json:"rate"`
}

// fired is what it resolves with.
type fired struct {
	Fired     uint64 `js:"fired" json:"fired"`
	Accepted  uint64 `js:"accepted" json:"accepted"`
	Uncertain uint64 `js:"uncertain" json:"uncertain"`
	Refused   uint64 `js:"refused" json:"refused"`
	Dropped   uint64 `js:"dropped" json:"dropped"`
}

// Fire fires events and resolves when each is answered. Without a rate they
// are fired one after the other; with one, in an open loop: shots for which
// nobody is free in time are dropped and counted, never fired late.
func (s *source) Fire(options sobek.Value) (*sobek.Promise, error) {
	if s.m.vu.State() == nil {
		return nil, errors.New("fire() belongs into setup() or an iteration, not into the init context")
	}
	o := fireOptions{Count: 1}
	if options != nil && sobek.IsNumber(options) {
		o.Count = int(options.ToInteger())
	} else if _, err := decode(options, &o); err != nil {
		return nil, fmt.Errorf("fire: %w", err)
	}
	if o.Count < 1 || o.Rate < 0 {
		return nil, errors.New("fire: options: count must be at least 1 and rate not negative")
	}
	ctx, log := s.m.vu.Context(), s.m.vu.State().Logger
	promise, resolve, reject := s.m.promised()
	s.m.hub.life.work.Go(func() {
		stats, err := s.fire(ctx, o)
		if err != nil {
			reject(fmt.Errorf("fire: %w", err))
			return
		}
		s.warn(log, &stats)
		resolve(fired{stats.Fired, stats.Accepted, stats.Uncertain, stats.Refused, stats.Dropped})
	})
	return promise, nil
}

// warn says once in a process that an upstream does not take what is fired: a
// test would show it by nothing but counts that nobody looks at.
func (s *source) warn(log logrus.FieldLogger, n *loadgen.Stats) {
	if n.Refused+n.Uncertain == 0 {
		return
	}
	if _, said := s.m.hub.warned.LoadOrStore(s.where, true); !said {
		log.Warnf("Upstream %s: of %d events %d were refused, and for %d there was no answer: is it there, and does it know %s? (said once; fire() gives the counts)",
			s.where, n.Fired, n.Refused, n.Uncertain, s.event)
	}
}

func (s *source) fire(ctx context.Context, o fireOptions) (loadgen.Stats, error) {
	if o.Rate == 0 {
		return s.row(ctx, o.Count), nil
	}
	base := uint64(s.topic) << topicShift
	f, err := loadgen.NewFiring(loadgen.FiringOptions{
		Clock: s.m.hub.clock, Recorder: s.m.hub, Stamper: s.m.hub.stamper, Schedule: loadgen.Constant{Rate: o.Rate},
		Duration: time.Duration((float64(o.Count) - 0.5) / o.Rate * float64(time.Second)),
		Number:   func(n uint64) uint64 { return base + n },
	})
	if err != nil {
		return loadgen.Stats{}, err
	}
	return loadgen.Loop(ctx, f, loadgen.LoopOptions{Fire: s.up.Fire, Workers: s.workers}), nil
}

// row fires one after the other.
func (s *source) row(ctx context.Context, count int) loadgen.Stats {
	var out loadgen.Stats
	clock := s.m.hub.clock
	for range count {
		if ctx.Err() != nil {
			break
		}
		shot := s.m.hub.stamper.Stamp(uint64(s.topic)<<topicShift, clock.Now(), true)
		// What has left is answered for, also when the iteration is broken off.
		outcome := s.up.Fire(context.WithoutCancel(ctx), shot)
		s.m.hub.Resolved(shot.Stamp, outcome, clock.Now())
		out.Shots++
		out.Fired++
		switch outcome {
		case mcpload.Accepted:
			out.Accepted++
		case mcpload.Uncertain:
			out.Uncertain++
		default:
			out.Refused++
		}
	}
	return out
}
