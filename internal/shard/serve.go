package shard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/metrics"
	"github.com/eventmeter/eventmeter/internal/run"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/profiles"
)

// The parent of a split run and its shards talk in lines of JSON: orders on a
// shard's standard input, replies on its standard output.

// An order has one of its fields set.
type order struct {
	Job    *job        `json:"job,omitempty"`    // the first order
	Target *run.Shared `json:"target,omitempty"` // the shared target and the siblings
	Begin  *time.Time  `json:"begin,omitempty"`  // when to begin publishing
	Stop   bool        `json:"stop,omitempty"`   // stop publishing, and end in order
	Cancel bool        `json:"cancel,omitempty"` // end at once
}

// job is the part of a shard. The profile is YAML with its secrets, which must not be
// in an argument that other users of the machine can read.
type job struct {
	Profile    string   `json:"profile"`
	AllowHosts []string `json:"allowHosts"`
	Version    string   `json:"version"`
	Name       string   `json:"name,omitempty"`
	Index      int      `json:"index"`
	Count      int      `json:"count"`
	Run        uint32   `json:"run"`
	Dir        string   `json:"dir"`             // where the archive goes
	Looks      bool     `json:"looks,omitempty"` // metrics are wanted
}

// A reply has one of its fields set.
type reply struct {
	Hello    *hello         `json:"hello,omitempty"`
	Ready    *int           `json:"ready,omitempty"` // the pass that is ready to begin
	Progress *run.Progress  `json:"progress,omitempty"`
	Looks    []metrics.Look `json:"looks,omitempty"` // one for each pass
	Done     *done          `json:"done,omitempty"`  // the last reply: the archive is written
}

// hello has the certificates by which the shard's callbacks are trusted.
type hello struct {
	Callbacks []byte `json:"callbacks"`
}

// done says how the run ended.
type done struct {
	Kind string `json:"kind"` // "", profile, target, stopped or failed
	Text string `json:"text"`
}

// doneKinds are the ways in which a shard ends, with their errors.
var doneKinds = map[string]error{
	"profile":  run.ErrProfile,
	"target":   run.ErrTarget,
	"stopped":  run.ErrStopped,
	"canceled": context.Canceled,
}

func doneOf(err error) done {
	if err == nil {
		return done{}
	}
	for kind, target := range doneKinds {
		if errors.Is(err, target) {
			return done{Kind: kind, Text: err.Error()}
		}
	}
	return done{Kind: "failed", Text: err.Error()}
}

func (d *done) err() error {
	if d.Kind == "" {
		return nil
	}
	return childError{d.Text, doneKinds[d.Kind]}
}

// childError is the error of another process.
type childError struct {
	text string
	kind error
}

func (e childError) Error() string { return e.text }
func (e childError) Unwrap() error { return e.kind }

// Serve is the child's side of [Processes]. It reads orders from in, runs the shard,
// calls archive at the end and checkpoint on the way to write its outcome to a
// directory, and reports on out. The end of in ends the shard at once, so that it
// cannot outlive its parent. Serve only returns errors that cannot be sent to the
// parent.
func Serve(in io.Reader, out io.Writer, archive, checkpoint func(dir string, o *run.Outcome) error) error {
	s := &shardServer{
		checkpoint: checkpoint,
		enc:        json.NewEncoder(out),
		target:     make(chan run.Shared, 1),
		begin:      make(chan time.Time, 1),
		stop:       make(chan struct{}),
	}
	dec := json.NewDecoder(in)
	var first order
	if err := dec.Decode(&first); err != nil || first.Job == nil {
		return errors.New(
			"a shard is started by eventmeter run --processes, which sends it orders; to start a shard yourself, use eventmeter run --shard",
		)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	// A read of standard input cannot be interrupted, so this goroutine may live
	// until the process ends.
	go func() {
		defer crash.Guard()
		defer cancel()
		s.obey(dec)
	}()
	d := doneOf(s.run(ctx, first.Job, archive))
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.enc.Encode(reply{Done: &d})
}

// send sends r. An error is ignored: a parent that is gone also closes standard
// input, which ends the shard.
func (s *shardServer) send(r reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.enc.Encode(r)
}

type shardServer struct {
	checkpoint func(string, *run.Outcome) error

	mu     sync.Mutex
	enc    *json.Encoder // guarded by mu
	target chan run.Shared
	begin  chan time.Time
	stop   chan struct{}
}

// obey carries out orders until in ends or an order cancels the shard.
func (s *shardServer) obey(dec *json.Decoder) {
	stopped := false
	for {
		var o order
		if dec.Decode(&o) != nil || o.Cancel {
			return
		}
		switch {
		case o.Target != nil:
			s.target <- *o.Target
		case o.Begin != nil:
			s.begin <- *o.Begin
		case o.Stop && !stopped:
			stopped = true
			close(s.stop)
		}
	}
}

func (s *shardServer) run(ctx context.Context, j *job, archive func(string, *run.Outcome) error) error {
	p, err := profiles.Parse("profile of the parent", []byte(j.Profile), nil, systems.Table)
	if err != nil {
		return fmt.Errorf("%w: %w", run.ErrProfile, err)
	}
	if err := os.MkdirAll(j.Dir, 0o750); err != nil {
		return err
	}
	var shown *metrics.Collector
	stopShowing := func() {}
	if j.Looks {
		shown = &metrics.Collector{}
		stopShowing = s.show(shown)
	}
	outcome, runErr := run.Run(ctx, run.Options{
		Collector: shown,
		Profile:   p, AllowHosts: j.AllowHosts, Version: j.Version, Name: j.Name, Stop: s.stop,
		Progress:   func(p run.Progress) { s.send(reply{Progress: &p}) },
		Checkpoint: func(o *run.Outcome) error { return s.checkpoint(j.Dir, o) },
		Shard: &run.Shard{
			Index: j.Index, Count: j.Count, Run: j.Run,
			Barrier: func(ctx context.Context, pass int) (time.Time, error) {
				s.send(reply{Ready: &pass})
				return receive(ctx, s.stop, s.begin)
			},
			Target: func(ctx context.Context, callbacks []byte) (run.Shared, error) {
				s.send(reply{Hello: &hello{callbacks}})
				return receive(ctx, s.stop, s.target)
			},
		},
	})
	stopShowing()
	if outcome == nil {
		_ = os.Remove(j.Dir) // only if it is still empty
		return runErr
	}
	return errors.Join(runErr, archive(j.Dir, outcome))
}

// looksEvery is the time between two snapshots for the parent's metrics.
const looksEvery = time.Second

// show sends snapshots for metrics to the parent until the returned function is
// called, which sends a last one.
func (s *shardServer) show(c *metrics.Collector) func() {
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer crash.Guard()
		tick := time.NewTicker(looksEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				s.send(reply{Looks: c.Looks()})
			case <-stop:
				return
			}
		}
	})
	return func() {
		close(stop)
		wg.Wait()
		s.send(reply{Looks: c.Looks()})
	}
}

// receive waits for an order, or for an order to stop.
func receive[T any](ctx context.Context, stop <-chan struct{}, from <-chan T) (T, error) {
	var none T
	select {
	case v := <-from:
		return v, nil
	case <-stop:
		return none, run.ErrStopped
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
}
