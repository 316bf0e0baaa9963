package driver

import (
	"cmp"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/sinks"
)

// answers decides how copies of events and challenges are answered. It remembers only
// the ones that were refused: of each lane the last answerMemory, up to twice as many.
type answers struct {
	all  []Answer
	seed uint64

	mu        sync.Mutex
	now, past map[answered]int // how often each was refused

	// waiting are events that the target has to send again, by subscription and event, and when they
	// came; answerMemory of them at most, which number counts. slowest is the longest wait of one
	// that came again, and given is how many others had waited for too long when their subscription
	// ended.
	waiting map[uint32]map[uint64]eventmeter.Instant
	number  int
	slowest time.Duration
	given   int64
}

// answered is an event of a subscription; event 0 is the subscription's challenge.
type answered struct {
	index uint32
	event uint64
}

const answerMemory = 1 << 16

// draw returns the answer to an event or challenge, nil for an immediate 200, and a
// random number in [0, 1) for the delay.
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

// decide returns the answer to this copy, nil for an immediate 200, a random number for
// the delay, and the answer by which an earlier copy was refused; nil if none was.
func (s *answers) decide(index uint32, event uint64, challenge bool) (a *Answer, drawn float64, former *Answer) {
	if event == 0 && !challenge {
		return nil, 0, nil
	}
	a, drawn = s.draw(index, event, challenge)
	if a == nil || a.Accepts() {
		return a, drawn, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := answered{index, event}
	n, ok := s.now[key]
	if !ok {
		n = s.past[key]
	}
	if n >= cmp.Or(a.Times, 1) {
		return nil, 0, a
	}
	if s.now == nil || !ok && len(s.now) >= answerMemory {
		s.now, s.past = make(map[answered]int), s.now
	}
	s.now[key] = n + 1
	if n > 0 {
		former = a
	}
	return a, drawn, former
}

// await notes that a copy came at an instant, was given an answer, and how an earlier one was
// refused.
func (s *answers) await(key answered, a, former *Answer, at eventmeter.Instant) {
	if former == nil {
		former = a
	}
	if former == nil || !demandsRetry(*former) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	since, ok := s.waiting[key.index][key.event]
	switch {
	case ok:
		s.slowest = max(s.slowest, at.Sub(since))
		delete(s.waiting[key.index], key.event)
		s.number--
	case former == a && s.number < answerMemory:
		if s.waiting == nil {
			s.waiting = make(map[uint32]map[uint64]eventmeter.Instant)
		}
		if s.waiting[key.index] == nil {
			s.waiting[key.index] = make(map[uint64]eventmeter.Instant)
		}
		s.waiting[key.index][key.event] = at
		s.number++
	}
}

// leave says that a subscription ends at an instant: its events need not come again.
func (s *answers) leave(index uint32, at eventmeter.Instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.given += s.tooLong(s.waiting[index], at)
	s.number -= len(s.waiting[index])
	delete(s.waiting, index)
}

// leastPatience is how long an event may wait for its next copy. Where others waited for
// longer, it is twice their wait.
const leastPatience = 10 * time.Second

// tooLong returns how many events of a subscription have waited for too long.
func (s *answers) tooLong(waiting map[uint64]eventmeter.Instant, at eventmeter.Instant) (n int64) {
	for _, since := range waiting {
		if at.Sub(since) >= max(leastPatience, 2*s.slowest) {
			n++
		}
	}
	return n
}

// FigureNeverRetried counts events that webhook.answer answered 4xx, other than 410 and 413,
// and that did not come again for 10 s, and twice the longest wait of others.
const FigureNeverRetried = "neverRetried"

// NeverRetried adds [FigureNeverRetried] to the figures of a lane whose webhook.answer has such
// answers. c may be nil.
func (c *Inbox) NeverRetried(f Figures, now eventmeter.Instant) Figures {
	if c == nil || !slices.ContainsFunc(c.answers.all, demandsRetry) {
		return f
	}
	if f.Values == nil {
		f.Values = map[string]float64{}
	}
	s := &c.answers
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.given
	for _, of := range s.waiting {
		n += s.tooLong(of, now)
	}
	f.Values[FigureNeverRetried] = float64(n)
	return f
}

// demandsRetry reports whether the target has to send an event again after a 4xx. The draft
// makes 410 and 413 final, and no others.
func demandsRetry(a Answer) bool {
	return !a.Challenge && a.Status/100 == 4 && a.Status != http.StatusGone && a.Status != http.StatusRequestEntityTooLarge
}

// replyOf returns the reply for an answer. followed is the Location of a redirect.
func replyOf(a *Answer, drawn float64, followed string) sinks.Reply {
	r := sinks.Reply{Status: a.Status, Hang: a.Hang, Reset: a.Reset, RetryAfter: a.RetryAfter, Delay: a.Delay}
	if a.DelayTo > a.Delay {
		r.Delay += time.Duration(drawn * float64(a.DelayTo-a.Delay))
	}
	if a.Status/100 == 3 {
		r.Location = followed
	}
	return r
}

// statusOf returns the status that is reported for an answer; 0 = there was no answer.
func statusOf(a *Answer) int {
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
