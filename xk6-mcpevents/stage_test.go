package mcpevents

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/refserver"
	"github.com/eventmeter/eventmeter/internal/refserver/faults"
	"github.com/sirupsen/logrus"
	"go.k6.io/k6/v2/js/modulestest"
	"go.k6.io/k6/v2/lib"
	"go.k6.io/k6/v2/metrics"
	"go.uber.org/goleak"
)

// modeOf is the mode of a method.
var modeOf = map[string]eventmeter.Mode{"stream": eventmeter.Push, "poll": eventmeter.Poll, "subscribe": eventmeter.Webhook}

// stage is one VU with the module, and what it measured.
type stage struct {
	*modulestest.Runtime
	t       *testing.T
	samples chan metrics.SampleContainer
	stop    context.CancelFunc // breaks the iteration off
	log     bytes.Buffer       // to be read when the iteration is over
	dialer  lib.DialContexter  // k6's, of its options; nil = none
	tls     *tls.Config        // k6's, of its options; nil = none

	mu   sync.Mutex
	got  []metrics.Sample
	end  chan struct{} // closed when samples is read to its end
	once sync.Once
}

// newStage prepares a VU; its module is given, because VUs share one.
func newStage(t *testing.T, root *Root) *stage {
	t.Helper()
	s := &stage{Runtime: modulestest.NewRuntime(t), t: t, samples: make(chan metrics.SampleContainer, 10), end: make(chan struct{})}
	must(t, s.SetupModuleSystem(map[string]any{Name: root}, nil, nil))
	if _, err := s.VU.Runtime().RunString(`const { Client, Upstream, WebhookSink, kept } = require('k6/x/mcpevents');`); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(s.end)
		for c := range s.samples {
			s.mu.Lock()
			s.got = append(s.got, c.GetSamples()...)
			s.mu.Unlock()
		}
	}()
	t.Cleanup(s.over)
	return s
}

// iterate moves the VU from the init context into an iteration, or into
// another one.
func (s *stage) iterate() {
	if s.VU.InitEnvField != nil {
		registry := s.VU.InitEnvField.Registry
		log := logrus.New()
		log.SetOutput(&s.log)
		s.MoveToVUContext(&lib.State{
			Samples: s.samples, Tags: lib.NewVUStateTags(registry.RootTagSet().With("scenario", "s")), Logger: log,
			BuiltinMetrics: metrics.RegisterBuiltinMetrics(registry), Dialer: s.dialer, TLSConfig: s.tls,
		})
	}
	s.VU.CtxField, s.stop = context.WithCancel(context.Background())
}

// run runs the body of an async function as one iteration, as k6 does: when it
// is over, or has failed, its context ends, and what it left is waited for.
func (s *stage) run(body string) error {
	s.t.Helper()
	s.iterate()
	err := s.EventLoop.Start(func() error {
		_, err := s.VU.Runtime().RunString("(async () => {" + body + "\n})()")
		return err
	})
	s.stop()
	s.EventLoop.WaitOnRegistered()
	return err
}

// must runs an iteration that must not fail.
func (s *stage) must(body string) {
	s.t.Helper()
	if err := s.run(body); err != nil {
		s.t.Fatal(err)
	}
}

// sum adds up a metric's samples, and counts them. With pairs of tags and
// values, only those that have them.
func (s *stage) sum(name string, tags ...string) (sum float64, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.got {
		if v.Metric.Name != name {
			continue
		}
		fits := true
		for i := 0; i < len(tags); i += 2 {
			is, _ := v.Tags.Get(tags[i])
			fits = fits && is == tags[i+1]
		}
		if fits {
			sum += v.Value
			n++
		}
	}
	return sum, n
}

// value evaluates an expression of the script's globals.
func (s *stage) value(expression string) any {
	s.t.Helper()
	v, err := s.VU.Runtime().RunString(expression)
	if err != nil {
		s.t.Fatal(err)
	}
	return v.Export()
}

// over ends the taking of samples; all that were sent are in got then.
func (s *stage) over() {
	s.once.Do(func() { close(s.samples) })
	<-s.end
}

// here starts a target, and a module on a stage, and looks for leaks at the end.
func here(t *testing.T, o refserver.Options) (*refserver.Server, *Root, *stage) {
	t.Helper()
	noLeaks(t)
	srv, root := serveHere(t, o, ""), New()
	return srv, root, newStage(t, root)
}

// serveHere starts a reference server in this process.
func serveHere(t *testing.T, o refserver.Options, committed string) *refserver.Server {
	t.Helper()
	if committed != "" {
		spec, err := faults.Parse(committed)
		must(t, err)
		o.Faults = spec
	}
	if o.NextPoll == 0 {
		o.NextPoll = 50 * time.Millisecond
	}
	o.AllowPrivateCallbacks, o.CallbackInsecure = true, true
	s, err := refserver.New(o)
	must(t, err)
	must(t, s.Start(t.Context()))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Errorf("closing the target: %v", err)
		}
	})
	return s
}

// noLeaks fails the test if it leaves goroutines. It must be called first, so
// that it looks last.
func noLeaks(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
}

// at fills the addresses of a target into a script.
func at(s *refserver.Server, script string) string {
	return strings.NewReplacer("TARGET", fmt.Sprintf("%q", s.URL()), "ADMIN", fmt.Sprintf("%q", s.AdminURL())).Replace(script)
}

// finished ends the module, as k6 does at the end of a test.
func finished(t *testing.T, root *Root) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	root.hub.life.end(ctx)
	if ctx.Err() != nil {
		t.Error("the module did not end in time")
	}
}
