package main

import (
	"container/heap"
	"math/rand/v2"
	"slices"
)

// sendersModel is what the simulation of a server's deliveries needs: senders that serve subscriptions
// in the order in which they have something to send, one delivery of a subscription at a time.
type sendersModel struct {
	senders, perHost int     // perHost 0 = no bound
	healthy, slow    int     // subscriptions
	hosts            int     // of the slow ones
	sources          int     // a subscription has one of them, by its number in its lane
	rate             float64 // events per second, Poisson
	hold             float64 // seconds that a delivery to a slow one takes
	service          float64 // seconds that one to a healthy one takes
	seconds          float64
}

// modelSub is a subscription of the model.
type modelSub struct {
	host    int // 0 = of the healthy
	waiting []float64
	busy    bool // in the queue, at its host, or in service
}

type departure struct {
	at   float64
	sub  *modelSub
	born float64
}

type departures []departure

func (d departures) Len() int           { return len(d) }
func (d departures) Less(i, j int) bool { return d[i].at < d[j].at }
func (d departures) Swap(i, j int)      { d[i], d[j] = d[j], d[i] }
func (d *departures) Push(x any)        { *d = append(*d, x.(departure)) }
func (d *departures) Pop() any {
	old := *d
	last := old[len(old)-1]
	*d = old[:len(old)-1]
	return last
}

// model is a simulation in progress.
type model struct {
	sendersModel
	now      float64
	queue    []*modelSub
	parked   map[int][]*modelSub
	inFlight map[int]int
	out      departures
	took     []float64 // latencies of the healthy
}

// healthyLatencies simulates deliveries and returns the latencies of the healthy subscriptions, sorted.
func (m sendersModel) healthyLatencies(seed uint64) []float64 {
	s := &model{sendersModel: m, parked: map[int][]*modelSub{}, inFlight: map[int]int{}}
	of := make([][]*modelSub, m.sources)
	for i := range m.healthy {
		of[i%m.sources] = append(of[i%m.sources], &modelSub{})
	}
	for i := range m.slow {
		// Each host is a lane with numbers of its own.
		of[(i/m.hosts)%m.sources] = append(of[(i/m.hosts)%m.sources], &modelSub{host: 1 + i%m.hosts})
	}
	r := rand.New(rand.NewPCG(seed, 3))
	for n := 0; ; n++ {
		next := s.nowAfter(r.ExpFloat64() / m.rate)
		s.until(next)
		if s.now = next; next > m.seconds {
			break
		}
		for _, sub := range of[n%m.sources] {
			sub.waiting = append(sub.waiting, next)
			if !sub.busy {
				sub.busy = true
				s.queue = append(s.queue, sub)
			}
		}
		s.start()
	}
	s.until(m.seconds + 30)
	slices.Sort(s.took)
	return s.took
}

func (s *model) nowAfter(d float64) float64 { return s.now + d }

// start begins deliveries while there are free senders.
func (s *model) start() {
	for len(s.queue) > 0 && len(s.out) < s.senders {
		sub := s.queue[0]
		s.queue = s.queue[1:]
		if sub.host > 0 && s.perHost > 0 && s.inFlight[sub.host] >= s.perHost {
			s.parked[sub.host] = append(s.parked[sub.host], sub)
			continue
		}
		s.inFlight[sub.host]++
		took := s.service
		if sub.host > 0 {
			took = s.hold
		}
		heap.Push(&s.out, departure{s.now + took, sub, sub.waiting[0]})
		sub.waiting = sub.waiting[1:]
	}
}

// until ends the deliveries that are over by then.
func (s *model) until(then float64) {
	for len(s.out) > 0 && s.out[0].at <= then {
		d := heap.Pop(&s.out).(departure)
		s.now = d.at
		if d.sub.host == 0 {
			s.took = append(s.took, d.at-d.born)
		}
		s.inFlight[d.sub.host]--
		if d.sub.busy = len(d.sub.waiting) > 0; d.sub.busy {
			s.queue = append(s.queue, d.sub)
		}
		if p := s.parked[d.sub.host]; len(p) > 0 {
			s.queue, s.parked[d.sub.host] = append(s.queue, p[0]), p[1:]
		}
		s.start()
	}
}

// simulateSuspension returns the seconds until the last of some subscriptions, all of whose deliveries
// fail at once, has made after attempts. Each has a source of its own and gets events at a rate; events
// of all together are Poisson, and the sources take turns. A delivery is tried again retries times,
// after waits that double from base with a random upper half.
func simulateSuspension(subscriptions, after, retries int, base, rate float64, seed uint64) float64 {
	r := rand.New(rand.NewPCG(seed, 4))
	last := 0.0
	for range subscriptions {
		var attempts []float64
		gap := func() (sum float64) {
			for range subscriptions {
				sum += r.ExpFloat64() / (rate * float64(subscriptions))
			}
			return sum
		}
		for at := gap(); ; at += gap() {
			// Later events add only later attempts.
			if slices.Sort(attempts); len(attempts) >= after && attempts[after-1] <= at {
				break
			}
			when, wait := at, base
			attempts = append(attempts, when)
			for range retries {
				when += wait/2 + r.Float64()*wait/2
				wait *= 2
				attempts = append(attempts, when)
			}
		}
		last = max(last, attempts[after-1])
	}
	return last
}

// duplicatesExpected is the number of duplicates for each event where answers take from 0 to longest,
// evenly, and the same for each copy of an event: an event whose answers come too late is sent again each
// time.
func duplicatesExpected(longest, timeout float64, retries int) float64 {
	if longest <= timeout {
		return 0
	}
	return (1 - timeout/longest) * float64(retries)
}
