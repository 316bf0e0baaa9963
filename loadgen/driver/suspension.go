package driver

import (
	"context"

	"github.com/eventmeter/eventmeter"
)

// suspended reports that the target, by its own word, delivered nothing after
// since until at.
func (k *hook) suspended(since, at eventmeter.Instant, why string) {
	k.h.d.rec.Noticed(eventmeter.Notice{Sub: k.r.sub, Kind: eventmeter.Suspended, At: at, Since: since, Detail: line(why)})
}

// toldAt is when the target last answered a subscribe.
func (k *hook) toldAt() eventmeter.Instant {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.told
}

// ended notes that the target ended the subscription, for a reason that passes.
func (k *hook) ended(at eventmeter.Instant) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.over == 0 {
		k.over = at
	}
}

// restored returns when the subscription was ended that is there again; 0 if it
// was not ended.
func (k *hook) restored() eventmeter.Instant {
	k.mu.Lock()
	defer k.mu.Unlock()
	over := k.over
	k.over = 0
	return over
}

// doubtful tells whether the target may have suspended the deliveries: the last
// one was refused, or connections failed after it.
func (k *hook) doubtful() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.granted > 0 && (k.doubt || eventmeter.Instant(k.h.failedAt.Load()) > k.last)
}

// ask sends a last refresh for a subscription whose deliveries may be suspended,
// since only the answer to a refresh says so. It is sent before the subscription
// is ended, and a failure of it is of no importance then.
func (d *events) ask(ctx context.Context, r *run) {
	k := r.hook
	if d.older || d.flavour.plain || !r.isActive() || !k.doubtful() {
		return
	}
	k.calling.Lock()
	defer k.calling.Unlock()
	stop := context.AfterFunc(ctx, r.cancel)
	defer stop()
	_ = d.subscribe(r, eventmeter.Refresh)
}

// began is when the request was sent that an answer answers.
func (a *answer) began() eventmeter.Instant { return a.at.Add(-a.took) }
