package upstream

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	vegeta "github.com/tsenart/vegeta/v12/lib"
)

// Attack implements [Attacker] with vegeta's attacker, whose workers ask f for
// a stamp at the moment of sending. The caller's goroutine reads vegeta's
// results until there are no more, which is when all of its goroutines are
// done.
func (h *HTTP) Attack(ctx context.Context, f Firing, workers int) error {
	if workers <= 0 {
		return errors.New("upstream http: attack: workers must be positive")
	}
	attacker := vegeta.NewAttacker(
		vegeta.Client(&http.Client{Transport: &shooter{http: h, firing: f, ctx: ctx}}),
		vegeta.Redirects(vegeta.NoFollow),
		vegeta.Workers(uint64(workers)),
		vegeta.MaxWorkers(uint64(workers)),
	)
	// For a pacing goroutine that waits for a worker; pace sees to the rest.
	defer context.AfterFunc(ctx, func() { attacker.Stop() })()
	for range attacker.Attack(blank, pace{ctx, f}, 0, "") {
		// What became of a shot was told to f.
	}
	return nil
}

// blank is vegeta's target. It stands for a request that is made later, when
// its stamp is known.
func blank(t *vegeta.Target) error {
	t.Method, t.URL = http.MethodPost, "http://127.0.0.1/"
	return nil
}

// pace is vegeta's pacer. Vegeta would sleep through a cancelled context, so
// the waiting is done in here, on its pacing goroutine, and no wait returned.
type pace struct {
	ctx    context.Context
	firing Firing
}

func (p pace) Pace(_ time.Duration, hits uint64) (time.Duration, bool) {
	return 0, !p.firing.Wait(p.ctx, hits)
}

// Rate is asked for by vegeta's plots only.
func (p pace) Rate(time.Duration) float64 { return 0 }

// shooter is the transport of vegeta's client: each request that vegeta makes
// is the turn of the next shot. The request that leaves is another one, so it
// carries none of vegeta's headers.
type shooter struct {
	http   *HTTP
	firing Firing
	ctx    context.Context
	next   atomic.Uint64
}

var errNotFired = errors.New("shot not fired")

func (s *shooter) RoundTrip(req *http.Request) (*http.Response, error) {
	// Vegeta paces before it hits, so this number was waited for.
	n := s.next.Add(1) - 1
	if s.ctx.Err() != nil {
		return nil, errNotFired
	}
	shot, ok := s.firing.Take(n)
	if !ok {
		return nil, errNotFired
	}
	// What has left gets its answer even when the attack is broken off.
	outcome, status := s.http.send(context.WithoutCancel(s.ctx), shot)
	s.firing.Resolve(shot, outcome)
	if status == 0 {
		return nil, errNoAnswer
	}
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody, Request: req}, nil
}

var errNoAnswer = errors.New("no answer")
