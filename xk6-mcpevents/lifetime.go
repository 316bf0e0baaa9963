package mcpevents

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.k6.io/k6/v2/js/common"
	"go.k6.io/k6/v2/lib"
	"go.k6.io/k6/v2/metrics"
)

// endOfTest bounds the ending of everything when the test ends.
const endOfTest = 30 * time.Second

// The numbers of k6's global events; their type is not for extensions to name.
const (
	testEnd = 3 // setup, scenarios and teardown are over, and samples are still taken
	exit    = 6 // k6 is about to exit, also when there was no test
)

// lifetime holds what ends with the test, and not with an iteration.
type lifetime struct {
	work   jobs      // every goroutine of the module
	follow sync.Once // k6's events
	over   context.Context
	cancel context.CancelFunc // ends over

	mu      sync.Mutex
	kept    map[string]*group // those that outlive the iteration that opened them
	closers []func(context.Context)
	shared  map[string]any // sinks and feeds, by their options

	sending sync.Mutex // held while samples get their time and are sent
	silent  bool       // k6 takes no more samples
}

func (l *lifetime) init() {
	l.over, l.cancel = context.WithCancel(context.Background())
	l.kept, l.shared = map[string]*group{}, map[string]any{}
}

// watch closes everything at the end of the test. k6 waits for it.
func (l *lifetime) watch(e common.Events) {
	if e.Global == nil { // in tests of modules
		return
	}
	l.follow.Do(func() {
		_, events := e.Global.Subscribe(testEnd, exit)
		go func() { // ends when k6 closes the channel, which it does last
			for event := range events {
				ctx, cancel := context.WithTimeout(context.Background(), endOfTest)
				l.end(ctx)
				cancel()
				event.Done()
			}
		}()
	})
}

// end closes everything, and waits for it as long as ctx lasts. Nothing is
// sent to k6 afterwards. It may be called more than once.
func (l *lifetime) end(ctx context.Context) {
	l.mu.Lock()
	kept := l.kept
	l.kept = map[string]*group{}
	l.mu.Unlock()
	for _, g := range kept {
		l.work.Go(func() { g.settle(ctx) })
	}
	l.work.wait(ctx)
	l.cancel() // all remaining waits give up
	l.mu.Lock()
	closers := l.closers
	l.closers, l.shared = nil, map[string]any{}
	l.mu.Unlock()
	for i := range closers { // in the reverse of the order in which they were opened
		closers[len(closers)-1-i](ctx)
	}
	l.sending.Lock()
	l.silent = true
	l.sending.Unlock()
}

// atEnd calls f when the test ends.
func (l *lifetime) atEnd(f func(context.Context)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closers = append(l.closers, f)
}

// sharedOf returns the object that all VUs share under a key. It makes the object if
// there is none, and closes it when the test ends.
func sharedOf[T any](l *lifetime, key string, made func() (T, func(context.Context), error)) (T, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if v, ok := l.shared[key].(T); ok {
		return v, nil
	}
	v, done, err := made()
	if err == nil {
		l.shared[key] = v
		l.closers = append(l.closers, done)
	}
	return v, err
}

// keep stores a group under a name, which a closed group may have had.
func (l *lifetime) keep(name string, g *group) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if before := l.kept[name]; before != nil && !before.closed() {
		return fmt.Errorf("options: keep: there are open subscriptions named %q: close them, or use another name", name)
	}
	l.kept[name] = g
	return nil
}

// keeper returns the group with that name, nil if there is none.
func (l *lifetime) keeper(name string) *group {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.kept[name]
}

// send passes samples on while k6 accepts them, with the current time.
//
// All VUs share the order of these times: k6's outputs add a sample that is older than
// the last one of its series to the sum, but Prometheus does not get that sum before
// a newer sample comes, which after the last one is never.
func (l *lifetime) send(to *lib.State, list []metrics.Samples) {
	l.sending.Lock()
	defer l.sending.Unlock()
	if l.silent {
		return
	}
	at := time.Now()
	for _, piece := range list { // before the first leaves, because pieces share memory
		for i := range piece {
			piece[i].Time = at
		}
	}
	for _, piece := range list {
		to.Samples <- piece
	}
}
