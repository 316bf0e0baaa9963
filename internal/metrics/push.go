package metrics

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/dialguard"
)

// PushOptions are the options of a Pusher. All but Guard must be set.
type PushOptions struct {
	// URL of the receiver.
	URL string
	// Every is the time between two pushes.
	Every time.Duration
	From  prometheus.Gatherer
	// Guard resolves the names of the receiver and of its proxy at the start, and
	// checks each connection; nil = a new one.
	Guard *dialguard.Guard
	// Job is the label job of every series, or the name of the service.
	Job string
}

// Pusher pushes metrics at intervals. A failed push is not repeated: the next one has
// newer figures. It must be closed.
type Pusher struct {
	to     string // for people
	push   func(context.Context) error
	ended  func()
	stop   context.CancelFunc
	done   sync.WaitGroup
	failed int
}

// pushTimeout bounds one push.
const pushTimeout = 10 * time.Second

// receiver is how pushes reach their receiver: directly or by the proxy of the
// environment, at the addresses that the two had when pushing began.
type receiver struct {
	guard *dialguard.Guard
	hosts []string // still to be allowed: their names could not be resolved yet
	http  *http.Client
}

// receiver must be asked to [receiver.allow] before each push.
func (o PushOptions) receiver(config *tls.Config) *receiver {
	r := &receiver{guard: o.Guard}
	if r.guard == nil {
		r.guard = dialguard.New(nil)
	}
	if u, err := url.Parse(o.URL); err == nil {
		r.hosts = append(r.hosts, u.Hostname())
		if proxy, err := http.ProxyFromEnvironment(&http.Request{URL: u}); err == nil && proxy != nil {
			r.hosts = []string{proxy.Hostname()}
		}
	}
	r.http = &http.Client{
		Transport: &http.Transport{
			Proxy:             http.ProxyFromEnvironment,
			DialContext:       r.guard.Dial(&net.Dialer{}),
			TLSClientConfig:   config,
			ForceAttemptHTTP2: true,
		},
		// The guard has not allowed another host.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return r
}

// allow resolves the names that could not be resolved yet.
func (r *receiver) allow(ctx context.Context) {
	r.hosts = slices.DeleteFunc(r.hosts, func(host string) bool { return r.guard.Allow(ctx, host) == nil })
}

// startPushing begins to push; ended is called when no more is pushed.
func startPushing(to string, every time.Duration, push func(context.Context) error, ended func()) *Pusher {
	ctx, cancel := context.WithCancel(context.Background())
	p := &Pusher{to: to, push: push, ended: ended, stop: cancel}
	p.done.Go(func() {
		defer crash.Guard()
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				// A push interrupted by Close did not fail, because a last one
				// follows.
				if p.once(ctx) != nil && ctx.Err() == nil {
					p.failed++
				}
			}
		}
	})
	return p
}

// shown returns a URL without its password, for people.
func shown(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "a URL that cannot be read"
	}
	return u.Redacted()
}

func (p *Pusher) once(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, pushTimeout)
	defer cancel()
	return p.push(ctx)
}

// Close pushes once more, so that the end of a short run is not lost. The error is
// that of this last push, or says how many earlier ones failed.
func (p *Pusher) Close() error {
	p.stop()
	p.done.Wait()
	defer p.ended()
	if err := p.once(context.Background()); err != nil {
		return fmt.Errorf("%s: %w; the end of the run is missing there", p.to, err)
	}
	if p.failed > 0 {
		return fmt.Errorf("%s: %d pushes failed; the last one, with all totals, did not", p.to, p.failed)
	}
	return nil
}
