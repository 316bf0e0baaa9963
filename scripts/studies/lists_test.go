package main

import (
	"math"
	"testing"
)

func TestListsExpected(t *testing.T) {
	near := func(what string, got, want, share float64) {
		t.Helper()
		if math.Abs(got-want) > share*want {
			t.Errorf("%s: %g, want %g", what, got, want)
		}
	}
	// A copy lives for 1 s after its answer, so the 11th use, after 1.1 s, fetches again: 12 times in 13 s.
	ttl := expectLists(listLoad{Clients: 1, TTLSeconds: 1, ChangeSeconds: 11, DrainSeconds: 2, Changes: 100}, 1, 0.1, false)
	near("fetches an hour", ttl.fetchesHour, 12*3600.0/13, 1e-9)
	near("median staleness", ttl.staleP50, 0.55, 0.03) // uniform over 1.1 s
	near("p99 of staleness", ttl.staleP99, 0.99*1.1, 0.01)

	// One change in 10 s: each page is fetched at the beginning and after it.
	notified := expectLists(listLoad{Clients: 1000, TTLSeconds: 1000, ChangeSeconds: 10, DrainSeconds: 2, Changes: 0.1}, 2, 0.1, true)
	near("fetches of notified clients", notified.fetchesHour, 4*3600/12.0, 1e-3)
	near("median staleness when notified", notified.staleP50, 0.05, 0.05) // uniform over a use
	near("p99 of staleness when notified", notified.staleP99, 0.1, 0.03)
	if notified.herdExpired != 0 {
		t.Errorf("herd of expired copies %g, but none expired", notified.herdExpired)
	}

	// 100 clients begin within 0.1 s. In 51 bins, they fetch in one after 2.1 s and in one after 4.2 s.
	herd := expectLists(listLoad{Clients: 100, TTLSeconds: 2, ChangeSeconds: 5}, 1, 0.1, false)
	near("herd", herd.herdExpired, 25.5, 0.05)
	if got := herdOf([]int{0, 3, 1, 0}); got != 3 {
		t.Errorf("herd %g, want 3", got)
	}
}

// listsByHand are clients that do what is expected.
func listsByHand() *lists {
	s := &lists{Pages: 1, UseSeconds: 0.1}
	for _, ttl := range []float64{1, 10} {
		for _, lane := range []string{"ttl", "notified"} {
			p := listPoint{Lane: lane, listLoad: listLoad{Clients: 50, TTLSeconds: ttl, Jitter: 0.1, AttachSeconds: ttl, ChangeSeconds: 20, DrainSeconds: ttl, Changes: 0.5}}
			e := s.expect(&p)
			p.StaleP50MS, p.StaleP99MS, p.FetchesHour = e.staleP50*1e3, e.staleP99*1e3, e.fetchesHour
			s.Points = append(s.Points, p)
		}
	}
	for _, jitter := range []float64{0, 1} {
		h := listHerd{listLoad: listLoad{Clients: 500, TTLSeconds: 3, Jitter: jitter, AttachSeconds: 0.2, ChangeSeconds: 9, DrainSeconds: 3}}
		h.Factor = exactly(s.herdExpected(&h))
		s.Herds = append(s.Herds, h)
	}
	return s
}

func TestListsPage(t *testing.T) {
	s := listsByHand()
	says(t, pageOf(t, s),
		"**With a time to live of 10.0 s, a client that is not notified uses a list for ", " times as many pages",
		"without notifications, a time to live of 1.00 s costs as many and leaves a client 993 ms behind at the 99th percentile",
		"the herd at expiry is ",
		"and two uses | Held | at every time to live |", "Fetches are the simulated ones, within 15 % | Held |", "within 2 uses, whatever the time to live | Held |", "The herd is the simulated one, within 30 % | Held | at every jitter |", "2.5 times the mean at most | Held |",
	)
	for i := range s.Points {
		s.Points[i].StaleP99MS, s.Points[i].FetchesHour = 60_000, 60
	}
	for i := range s.Herds {
		s.Herds[i].Factor = exactly(100)
	}
	says(t, pageOf(t, s),
		"It fetches about as many pages", "Jitter made no difference to the herd",
		"and two uses | **Did not hold** | not so: ttl at 1.00 s,", "Fetches are the simulated ones, within 15 % | **Did not hold** |", "whatever the time to live | **Did not hold** | not so: notified at 1.00 s: 1m0s", "The herd is the simulated one, within 30 % | **Did not hold** | jitter 0: 100 where", "2.5 times the mean at most | **Did not hold** |",
	)
	says(t, pageOf(t, &lists{}), "**Nothing was measured.**")
}
