// Package runtest is for tests of runs: the reference server in this process.
package runtest

import (
	"cmp"
	"context"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/internal/embedded"
	"github.com/eventmeter/eventmeter/internal/refserver"
)

// InProcess serves the reference server in this process, for
// run.Options.Embedded. What is not given is as tests want it.
func InProcess(ctx context.Context, o embedded.Options) (embedded.Server, error) {
	o.NextPoll = cmp.Or(o.NextPoll, 50*time.Millisecond)
	o.RetryBase = cmp.Or(o.RetryBase, 50*time.Millisecond)
	o.ResumeOverlap = cmp.Or(o.ResumeOverlap, -1)
	if o.Lists.Entries == 0 {
		o.Lists = refserver.ListOptions{Entries: 20, Page: 10, TTL: time.Hour}
	}
	return start(ctx, o)
}

// InProcessWith serves the reference server with these options, of which the
// given ones replace those that a run decides on.
func InProcessWith(ctx context.Context, given embedded.Options, o refserver.Options) (embedded.Server, error) {
	o.CallbackCAFile, o.Faults, o.Revision = given.CallbackCAFile, given.Faults, given.Revision
	return start(ctx, o)
}

func start(ctx context.Context, o refserver.Options) (embedded.Server, error) {
	s, err := refserver.New(o)
	if err != nil {
		return nil, err
	}
	if err := s.Start(ctx); err != nil {
		return nil, err
	}
	return &inProcess{server: s, exited: make(chan struct{})}, nil
}

// inProcess is an [embedded.Server] of this process.
type inProcess struct {
	server *refserver.Server
	exited chan struct{}
	stop   sync.Once
}

func (s *inProcess) Ready() embedded.Ready {
	return embedded.Ready{URL: s.server.URL(), Admin: s.server.AdminURL(), PID: os.Getpid()}
}

func (s *inProcess) Exited() <-chan struct{} { return s.exited }

func (s *inProcess) Err() error { return nil }

func (s *inProcess) Stop() {
	s.stop.Do(func() {
		_ = s.server.Close(context.Background())
		close(s.exited)
	})
}

// StartTarget opens the reference server in this process, as a foreign target.
func StartTarget(t *testing.T, o refserver.Options) *refserver.Server {
	t.Helper()
	s, err := refserver.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return s
}
