// Package runtest is for tests of runs: the reference server in this process.
package runtest

import (
	"context"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/internal/embedded"
	"github.com/eventmeter/eventmeter/internal/refserver"
	"github.com/eventmeter/eventmeter/internal/refserver/faults"
)

// InProcess serves the reference target in this process, for run.Options.Embedded,
// with the few flags that the tests have.
func InProcess(ctx context.Context, args []string) (embedded.Server, error) {
	return InProcessWith(ctx, args, refserver.Options{
		AllowPrivateCallbacks: true, NextPoll: 50 * time.Millisecond, RetryBase: 50 * time.Millisecond,
		ResumeOverlap: -1, Lists: refserver.ListOptions{Entries: 20, Page: 10, TTL: time.Hour},
	})
}

// InProcessWith is InProcess with other options.
func InProcessWith(ctx context.Context, args []string, o refserver.Options) (embedded.Server, error) {
	value := func(flag string) string {
		if i := slices.Index(args, flag); i >= 0 {
			return args[i+1]
		}
		return ""
	}
	o.CallbackCAFile = value("--callback-ca")
	var err error
	if o.Faults, err = faults.Load(value("--faults")); err != nil {
		return nil, err
	}
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

// StartTarget opens the reference target in this process, as a foreign target.
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
