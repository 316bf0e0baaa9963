package driver

import (
	"context"
	"fmt"
	"sync"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/crash"
)

// attachment is one turn of a subscription at being open, from Attaching to
// Detached or Failed, and what all systems report of it: each state once, and
// none after the end. Lanes embed it in their own runs.
type attachment struct {
	sub eventmeter.Sub
	to  *caller // the lane's: its recorder and its clock
	// ctx is over with the attachment; cancel has it end.
	ctx    context.Context
	cancel context.CancelFunc

	mu     sync.Mutex // guards what follows, and what lanes say
	active bool
	over   bool
	// asked is, of a poller, when the last poll was sent that reached the end of
	// what there was, or that failed. held tells that a long poll is at the
	// target, which answers as soon as something happens.
	asked eventmeter.Instant
	held  bool
}

// isOver tells whether the attachment has ended.
func (a *attachment) isOver() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.over
}

// isActive tells whether it was confirmed, and has not ended.
func (a *attachment) isActive() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.active && !a.over
}

// wasActive tells whether it was ever confirmed.
func (a *attachment) wasActive() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.active
}

// activate reports Active, once.
func (a *attachment) activate(at eventmeter.Instant) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.active && !a.over {
		a.active = true
		a.to.rec.Changed(eventmeter.Transition{Sub: a.sub, To: eventmeter.Active, At: at})
	}
}

// fail reports Failed, unless the attachment has ended already.
func (a *attachment) fail(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.over {
		a.over = true
		a.to.rec.Changed(eventmeter.Transition{Sub: a.sub, To: eventmeter.Failed, At: a.to.clock.Now(), Reason: line(err.Error()), Seen: a.seen()})
		a.cancel()
	}
}

// leave reports Detaching; false if the attachment has ended already.
func (a *attachment) leave() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over {
		return false
	}
	a.over = true
	a.to.rec.Changed(eventmeter.Transition{Sub: a.sub, To: eventmeter.Detaching, At: a.to.clock.Now(), Seen: a.seen()})
	return true
}

// seen is until when the attachment could have received what was fired; 0 means
// until now. The caller holds the lock.
func (a *attachment) seen() eventmeter.Instant {
	if a.held {
		return 0
	}
	return a.asked
}

// turn is a lane's own kind of attachment, by pointer.
type turn interface {
	comparable
	isOver() bool
}

// mayAttach says why subscription i of a lane cannot be opened now, nil if it
// can. turns are the last ones by index, nil where there was none.
func mayAttach[T turn](closed bool, turns []T, i int) error {
	var none T
	switch {
	case closed:
		return fmt.Errorf("%w: the lane is closed", ErrState)
	case i < 0 || i >= len(turns):
		return fmt.Errorf("%w: there are %d", ErrState, len(turns))
	case turns[i] != none && !turns[i].isOver():
		return fmt.Errorf("%w: it is open", ErrState)
	}
	return nil
}

// lastTurn returns the last attachment of subscription i; nil if there was none.
func lastTurn[T turn](mu *sync.Mutex, turns []T, i int) (last T) {
	mu.Lock()
	defer mu.Unlock()
	if i >= 0 && i < len(turns) {
		last = turns[i]
	}
	return last
}

// detachAtOnce is how many subscriptions a lane that closes detaches at a time.
const detachAtOnce = 32

// detachAll ends every turn that is open. It returns how many of the calls
// failed, and the first of their errors. No turn may begin meanwhile.
func detachAll[T turn](turns []T, detach func(i int) error) (failed int, first error) {
	room := make(chan struct{}, detachAtOnce)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var none T
	for i, r := range turns {
		if r == none || r.isOver() {
			continue
		}
		room <- struct{}{}
		wg.Go(func() {
			defer crash.Guard()
			defer func() { <-room }()
			if err := detach(i); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed++
				if first == nil {
					first = err
				}
			}
		})
	}
	wg.Wait()
	return failed, first
}
