package upstream

import (
	"context"
	"errors"
	"net/http"
	"time"

	vegeta "github.com/tsenart/vegeta/v12/lib"

	"github.com/eventmeter/eventmeter/internal/crash"
)

// Attack implements [Attacker] with vegeta's attacker. The pacer admits an emission
// when a worker is free, and drops it otherwise; the worker asks f for its stamp
// at the moment of sending. The caller's goroutine reads vegeta's results until
// there are no more, which is when all of its goroutines are done.
func (h *HTTP) Attack(ctx context.Context, f Firing, workers int) error {
	if workers <= 0 {
		return errors.New("upstream http: attack: workers must be positive")
	}
	p := &pace{ctx: ctx, firing: f, busy: make(chan struct{}, workers), admitted: make(chan uint64, workers)}
	attacker := vegeta.NewAttacker(
		vegeta.Client(&http.Client{Transport: &shooter{http: h, pace: p}}),
		vegeta.Redirects(vegeta.NoFollow),
		vegeta.Workers(uint64(workers)),
		vegeta.MaxWorkers(uint64(workers)),
	)
	// For a pacing goroutine that waits for a worker; pace sees to the rest.
	defer context.AfterFunc(ctx, func() {
		defer crash.Guard()
		attacker.Stop()
	})()
	for range attacker.Attack(blank, p, 0, "") {
		// What became of an emission was told to f.
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
	next   uint64 // used by the pacing goroutine only
	// busy has a token for each emission that was admitted and is not done.
	// admitted has the numbers of those that no worker has taken yet. It is as
	// long as busy, so sending to it never blocks.
	busy     chan struct{}
	admitted chan uint64
}

// Pace waits for the next emission that is to be sent. Vegeta's own count of hits
// is of no use: it leaves out the dropped ones.
func (p *pace) Pace(time.Duration, uint64) (time.Duration, bool) {
	for p.firing.Wait(p.ctx, p.next) {
		n := p.next
		p.next++
		if p.firing.Admit(p.ctx, n, p.busy) {
			p.admitted <- n
			return 0, false
		}
	}
	return 0, true
}

// Rate is asked for by vegeta's plots only.
func (p *pace) Rate(time.Duration) float64 { return 0 }

// shooter is the transport of vegeta's client: each request that vegeta makes
// is the turn of the next emission. The request that leaves is another one, so it
// carries none of vegeta's headers.
type shooter struct {
	http *HTTP
	pace *pace
}

var errNotFired = errors.New("event not published")

func (s *shooter) RoundTrip(req *http.Request) (*http.Response, error) {
	n := <-s.pace.admitted // vegeta paces before it hits
	defer func() { <-s.pace.busy }()
	ctx, firing := s.pace.ctx, s.pace.firing
	if ctx.Err() != nil {
		return nil, errNotFired
	}
	emission, ok := firing.Take(n)
	if !ok {
		return nil, errNotFired
	}
	// What has left gets its answer even when the attack is broken off.
	outcome, status := s.http.send(context.WithoutCancel(ctx), emission)
	firing.Resolve(emission, outcome)
	if status == 0 {
		return nil, errNoAnswer
	}
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody, Request: req}, nil
}

var errNoAnswer = errors.New("no answer")
