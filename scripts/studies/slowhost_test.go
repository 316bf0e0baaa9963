package main

import "testing"

func TestSendersModel(t *testing.T) {
	m := sendersModel{senders: 4, healthy: 10, slow: 3, hosts: 1, sources: 1, rate: 0.6, hold: 1, service: 0.001, seconds: 400}
	p99 := func(m sendersModel) float64 { return quantile(m.healthyLatencies(1), 0.99) }
	// Three slow subscriptions leave a sender: the ten of an event wait for one another, 10 ms at most,
	// and seldom for those of another event.
	if got := p99(m); got > 0.05 {
		t.Errorf("fewer slow ones than senders: %g s", got)
	}
	// Seven want 4.2 senders and soon always have something to send: a healthy one waits for the three in
	// the queue to begin and for one to end, up to 1 s, and again where two events come in that time.
	m.slow = 7
	if got := quantile(m.healthyLatencies(1), 0.5); got < 0.4 || got > 2 {
		t.Errorf("more slow ones than senders: %g s", got)
	}
	m.perHost = 3
	if got := p99(m); got > 0.05 {
		t.Errorf("with a bound per host: %g s", got)
	}
	m.hosts = 2 // 2 × 3 are more than the senders
	if got := p99(m); got < 0.2 {
		t.Errorf("with two hosts: %g s", got)
	}
	// One sender and one subscription.
	m = sendersModel{senders: 1, healthy: 1, sources: 1, rate: 10, service: 0.001, seconds: 10}
	got := m.healthyLatencies(1)
	near(t, "deliveries of 10 s", float64(len(got)), 100, 30)
	near(t, "the least latency", got[0], 0.001, 1e-9)
}

func TestSlowHostExpectations(t *testing.T) {
	near(t, "in time", duplicatesExpected(0.4, 0.5, 2), 0, 0)
	near(t, "half too late", duplicatesExpected(1, 0.5, 2), 1, 1e-9)
	// Without retries, 20 attempts are 20 events: 5 s at 4/s. The last of many takes a little longer: where
	// 20 sources take turns, 20 events of one have a standard deviation of 5 s / √400.
	near(t, "suspension of one", meanSuspension(1, 20, 0, 4), 5, 0.3)
	near(t, "suspension of the last of 20", meanSuspension(20, 20, 0, 4), 5.45, 0.2)
	// With 4 retries an event makes 5 attempts, at 0, about 0.15, 0.45, 1.05 and 2.25 s.
	if got := meanSuspension(1, 20, 4, 4); got < 1.2 || got > 2.5 {
		t.Errorf("suspension with retries: %g s", got)
	}
}

func meanSuspension(subscriptions, after, retries int, rate float64) (sum float64) {
	for seed := range uint64(200) {
		sum += simulateSuspension(subscriptions, after, retries, 0.2, rate, seed) / 200
	}
	return sum
}

func slowData() *slowHost {
	return &slowHost{
		Senders: 64, Hold: 1, SuspendAfter: 20, Refresh: 12,
		Isolation: []isolation{
			{Kind: "none", Healthy: 200, P99: 0.010}, {Kind: "none", Healthy: 200, P99: 0.012},
			{Kind: "slow", Healthy: 180, Slow: 20, P99: 0.011, Expected: 0.001},
			{Kind: "hang", Healthy: 100, Slow: 100, P99: 0.55, Expected: 0.6},
			{Kind: "refuse", Healthy: 100, Slow: 100, P99: 0.010, Expected: 0.001},
		},
		Hosts: []isolation{
			{Kind: "hang", Healthy: 100, Slow: 96, Hosts: 8, P99: 0.5, Expected: 0.5},
			{Kind: "hang", Healthy: 100, Slow: 96, Hosts: 1, PerHost: 16, P99: 0.011, Expected: 0.001},
		},
		Duplicates:  []ackDelay{{Longest: 1, Timeout: 0.5, Retries: 2, Delivered: 400, Rate: 1.02}},
		Suspensions: []suspensionTime{{Retries: -1, Base: 0.2, Subs: 20, Rate: 4, Took: 7, Expected: 7.1, Paused: 5, Attempts: 20}},
	}
}

func TestSlowHostPage(t *testing.T) {
	s := slowData()
	has(t, pageOf(t, s), "**Yes, once there are more slow subscriptions than senders: with 100 slow ones and 64 senders, the p99 of the healthy rose 50.0-fold, from 11.0 ms to 550 ms.**",
		"A bound of 16 senders per host restores isolation", "That held in all ", "no: runs only", "seen in 1 of 1 runs, came with the refresh in 1")
	s.Isolation[3].P99, s.Hosts[1].P99, s.Duplicates[0].Rate, s.Suspensions[0].Took = 0.013, 0.3, 0.2, 14
	has(t, pageOf(t, s), "**No: with up to 100 slow subscriptions and 64 senders, the p99 of the healthy was at most 1.18 times", "did not restore isolation",
		"**That held in 2 of 3 runs only.**", "**That held in 1 of 2 runs only.**", "**That held in 0 of 1 runs only.**", "refresh in 0 of them")
	s = slowData()
	s.Isolation[2].P99, s.Hosts[1].P99 = 0.1, 0.1
	has(t, pageOf(t, s), "**Yes: with 100 slow subscriptions and 64 senders", "The delay did not begin at the number of senders", "lowered the index for one slow host from 45.5 to 9.09")
	has(t, pageOf(t, &slowHost{}), "There was no run with slow callbacks")
}
