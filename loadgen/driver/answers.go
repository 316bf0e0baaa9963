package driver

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter/sinks"
)

// Answer is a way in which a receiver answers a share of the events that are
// delivered to it, or of the challenges. At most one of Status, Hang and Reset is
// set; none is 200, and for a challenge a wrong echo.
type Answer struct {
	// Status from 200 to 299 takes the event; any other refuses it.
	Status int
	// Hang never answers; Reset closes the connection without an answer.
	Hang, Reset bool
	// Challenge says that it answers challenges, by subscription, instead of events.
	Challenge bool
	// Share is the part of the events, or of the subscriptions; 0 = what the others
	// leave, once for events and once for challenges. Which ones depends on
	// Options.Seed, the subscription and the event id.
	Share float64
	// Times is how many copies of an event, or challenges of a subscription, are
	// refused; 0 = one. It means nothing to answers that take the event.
	Times int
	// Delay is waited before the answer; with DelayTo, a time between the two.
	Delay, DelayTo time.Duration
	// RetryAfter, in whole seconds, goes into the answer's header field; 0 = there is
	// none.
	RetryAfter time.Duration
}

// takes tells whether the answer accepts what was delivered.
func (a *Answer) takes() bool {
	return !a.Challenge && !a.Hang && !a.Reset && (a.Status == 0 || a.Status/100 == 2)
}

// checkAnswers holds answers to what they can be.
func checkAnswers(all []Answer) error {
	var sum [2]float64
	var rest [2]int
	for i := range all {
		a := &all[i]
		what := 0
		if a.Challenge {
			what = 1
		}
		said := 0
		for _, is := range []bool{a.Status != 0, a.Hang, a.Reset} {
			if is {
				said++
			}
		}
		switch {
		case a.Share < 0 || a.Share > 1:
			return fmt.Errorf("webhook: answer %d: share %g: use a share from 0 to 1", i, a.Share)
		case a.Status != 0 && (a.Status < 200 || a.Status > 599):
			return fmt.Errorf("webhook: answer %d: status %d: use one from 200 to 599", i, a.Status)
		case said > 1:
			return fmt.Errorf("webhook: answer %d: give one of status, hang and reset", i)
		case a.Delay < 0 || a.Times < 0 || a.RetryAfter < 0 || a.DelayTo != 0 && a.DelayTo < a.Delay:
			return fmt.Errorf("webhook: answer %d: times, delay, delayTo and retryAfter are not below 0, and delayTo is not below delay", i)
		case a.Share == 0:
			rest[what]++
		}
		sum[what] += a.Share
	}
	for what := range sum {
		if sum[what] > 1+1e-9 {
			return fmt.Errorf("webhook: the shares of the answers add up to %g: use at most 1", sum[what])
		}
		if rest[what] > 1 {
			return errors.New("webhook: two answers have no share: give one of them a share")
		}
	}
	return nil
}

// answers decides how copies of events and challenges are answered. It remembers
// those that were refused, the last answerMemory to twice as many of a lane, and
// nothing of the others.
type answers struct {
	all  []Answer
	seed uint64

	mu        sync.Mutex
	now, past map[answered]int // how often each was refused
}

// answered is an event of a subscription, or a subscription's challenge: event 0.
type answered struct {
	index uint32
	event uint64
}

const answerMemory = 1 << 16

// draw picks the answer of an event or challenge, and a number that is drawn for
// the delay; nil = 200, at once.
func (s *answers) draw(index uint32, event uint64, challenge bool) (*Answer, float64) {
	if len(s.all) == 0 {
		return nil, 0
	}
	drawn := mix(s.seed^uint64(index)<<32, event)
	at := float64(drawn>>11) / (1 << 53)
	var rest *Answer
	for i := range s.all {
		a := &s.all[i]
		switch {
		case a.Challenge != challenge:
		case a.Share == 0:
			rest = a
		case at < a.Share:
			return a, float64(mix(drawn, 1)>>11) / (1 << 53)
		default:
			at -= a.Share
		}
	}
	return rest, float64(mix(drawn, 1)>>11) / (1 << 53)
}

// decide tells how this copy is answered, nil = 200 at once, and whether it is a
// later copy of one that was refused.
func (s *answers) decide(index uint32, event uint64, challenge bool) (a *Answer, drawn float64, repeat bool) {
	if event == 0 && !challenge {
		return nil, 0, false
	}
	a, drawn = s.draw(index, event, challenge)
	if a == nil || a.takes() {
		return a, drawn, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := answered{index, event}
	n, ok := s.now[key]
	if !ok {
		n = s.past[key]
	}
	if n >= cmp.Or(a.Times, 1) {
		return nil, 0, true
	}
	if s.now == nil || !ok && len(s.now) >= answerMemory {
		s.now, s.past = make(map[answered]int), s.now
	}
	s.now[key] = n + 1
	return a, drawn, n > 0
}

// reply makes the answer. followed is where a redirect leads to.
func (a *Answer) reply(drawn float64, followed string) sinks.Reply {
	r := sinks.Reply{Status: a.Status, Hang: a.Hang, Reset: a.Reset, RetryAfter: a.RetryAfter, Delay: a.Delay}
	if a.DelayTo > a.Delay {
		r.Delay += time.Duration(drawn * float64(a.DelayTo-a.Delay))
	}
	if a.Status/100 == 3 {
		r.Location = followed
	}
	return r
}

// status is what the answer is reported as; 0 = none was given.
func (a *Answer) status() int {
	if a.Hang || a.Reset {
		return 0
	}
	return cmp.Or(a.Status, http.StatusOK)
}

// mix hashes two words into one (the finisher of splitmix64, twice).
func mix(a, b uint64) uint64 {
	for _, v := range [...]uint64{0, b} {
		a ^= v + 0x9e3779b97f4a7c15
		a = (a ^ a>>30) * 0xbf58476d1ce4e5b9
		a = (a ^ a>>27) * 0x94d049bb133111eb
		a ^= a >> 31
	}
	return a
}
