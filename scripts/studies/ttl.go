package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/eventmeter/eventmeter/results"
)

// ttlStudy is about the cost of a time to live.
//
// Hypotheses, before anything was measured: the cost is that of the refreshes, so it is proportional
// to 1/TTL; after a common start the peak falls below twice the mean once the jitter is more than 0.3
// of the grant; the target stores what is abandoned for the rest of its grant, and no longer.
type ttlStudy struct {
	RefreshAt float64     `json:"refreshAt"` // of all runs: share of the grant
	Costs     []ttlCost   `json:"costs"`
	Herds     []ttlHerd   `json:"herds"`
	Abandoned []ttlStored `json:"abandoned"`
}

// ttlCost is one run with a TTL, over its measured phase.
type ttlCost struct {
	TTL           float64 `json:"ttlSeconds"` // 0 = no expiry
	Repeat        int     `json:"repeat"`
	Subscriptions int     `json:"subscriptions"`
	Seconds       float64 `json:"seconds"`
	Refreshes     float64 `json:"refreshes"`
	CPU           float64 `json:"targetCpuSeconds"`
	RefreshBytes  float64 `json:"bytesPerRefresh"` // both ways, in the whole run; 0 = there was none
	Stored        float64 `json:"stored"`          // at the end
}

// ttlHerd is one run after a common start.
type ttlHerd struct {
	Jitter        float64   `json:"jitter"` // share of the grant
	TTL           float64   `json:"ttlSeconds"`
	Subscriptions int       `json:"subscriptions"`
	Opening       float64   `json:"openingSeconds"` // from the first subscription to the last
	PerSecond     []float64 `json:"refreshesBySecond"`
	Expected      []float64 `json:"expectedBySecond"`
	Peak          spread    `json:"expectedLargestSecond"` // of the simulations
}

// ttlStored is one run in which subscriptions are abandoned.
type ttlStored struct {
	TTL    float64 `json:"ttlSeconds"`
	Live   int     `json:"live"`
	Rate   float64 `json:"abandonedPerSecond"`
	Stored float64 `json:"stored"` // mean of the measured phase
	Failed float64 `json:"failedAttemptsPerSecond"`
}

// defaultJitter is the refreshJitter of lanes that set none.
const defaultJitter = 0.05

// meanInterval is the mean time between refreshes, as a share of the grant.
func meanInterval(refreshAt, jitter float64) float64 { return refreshAt - jitter/2 }

// peakOverMean is the closed form of the first wave after a start of all at one instant, where the
// jitter is not 0: they are spread evenly over that share of the grant.
func peakOverMean(refreshAt, jitter float64) float64 { return meanInterval(refreshAt, jitter) / jitter }

// smallestJitter is the jitter at which peakOverMean is 2: refreshAt - j/2 = 2j.
func smallestJitter(refreshAt float64) float64 { return refreshAt / 2.5 }

// storedExpected is the number of stored subscriptions. One that is abandoned has been granted its time
// half of the mean interval ago, in the mean, and stays for the rest of it.
func storedExpected(live int, rate, ttl, refreshAt, jitter float64) float64 {
	return float64(live) + rate*ttl*(1-meanInterval(refreshAt, jitter)/2)
}

// simulate sets the refreshes in each second from the end of an even opening on, the mean of several
// simulations, and their largest seconds.
func (h *ttlHerd) simulate(refreshAt float64, seconds int) {
	const rounds = 20
	h.Expected = make([]float64, seconds)
	r := rand.New(rand.NewPCG(1, 2))
	var peaks []float64
	for range rounds {
		by := make([]float64, seconds)
		for range h.Subscriptions {
			at := -h.Opening * r.Float64()
			for {
				at += h.TTL * (refreshAt - h.Jitter*r.Float64())
				if at >= float64(seconds) {
					break
				}
				if at >= 0 {
					by[int(at)]++
				}
			}
		}
		for i, n := range by {
			h.Expected[i] += n / rounds
		}
		peaks = append(peaks, peak(by))
	}
	h.Peak = spreadOf(peaks)
}

func peak(by []float64) (most float64) {
	for _, n := range by {
		most = max(most, n)
	}
	return most
}

// mean is the refreshes per second of h in the long run.
func (h *ttlHerd) mean(refreshAt float64) float64 {
	return float64(h.Subscriptions) / (h.TTL * meanInterval(refreshAt, h.Jitter))
}

func (s *ttlStudy) measure(ctx context.Context, l *lab) error {
	s.RefreshAt = 0.75
	for repeat := 1; repeat <= 2; repeat++ {
		for _, ttl := range []int{10, 20, 40, 0} {
			if err := s.cost(ctx, l, ttl, repeat); err != nil {
				return err
			}
		}
	}
	for _, jitter := range []float64{0, 0.05, 0.1, 0.2, 0.3, 0.35, 0.4, 0.6} {
		if err := s.herd(ctx, l, jitter); err != nil {
			return err
		}
	}
	for _, ttl := range []int{5, 10, 20} {
		if err := s.abandon(ctx, l, ttl); err != nil {
			return err
		}
	}
	return nil
}

const ttlServer = `{"TTLMin": "1s", "AllowPrivateCallbacks": true, "CallbackInsecure": true, "AckTimeout": "20s"}`

// ttlArgs are the arguments of all runs, which have one lane. more are further keys of the lane.
func ttlArgs(ttl string, subscriptions int, measure time.Duration, jitter float64, more string) []string {
	lane := fmt.Sprintf("{name: kept, mode: webhook, subscriptions: %d, event: chat.message, arguments: {channel: 'channel-{{mod .Index 50}}'}, sources: '{{mod .Index 50}}', webhook: {ttl: %s, refreshAt: 0.75, refreshJitter: %g%s}",
		subscriptions, ttl, jitter, more)
	return []string{"--profile", "ttl", "--set", "lanes=[" + lane + "]", "--set", "thresholds=[]", "--set", "schedule.rate=1/s",
		"--set", "phases.measure=" + measure.String(), "--set", "phases.drain=5s", "--set", "phases.ready=2m"}
}

func (s *ttlStudy) cost(ctx context.Context, l *lab, ttl, repeat int) error {
	text := "none"
	if ttl > 0 {
		text = fmt.Sprintf("%ds", ttl)
	}
	c := ttlCost{TTL: float64(ttl), Repeat: repeat, Subscriptions: l.subscriptions(10_000, 200)}
	r, all, err := l.runServed(ctx, fmt.Sprintf("cost-%s-%d", text, repeat), ttlServer,
		ttlArgs(text, c.Subscriptions, l.duration(25*time.Second, 16*time.Second), defaultJitter, "}")...)
	if err != nil {
		return err
	}
	from, to, err := phase(r, "measure")
	if err != nil {
		return err
	}
	c.Seconds = to.Sub(from).Seconds()
	c.Refreshes = valueAt(all, to, refreshesOf) - valueAt(all, from, refreshesOf)
	c.CPU = valueAt(all, to, cpuOf) - valueAt(all, from, cpuOf)
	c.Stored = valueAt(all, to, storedOf)
	c.RefreshBytes = bytesPerRefresh(r)
	s.Costs = append(s.Costs, c)
	return nil
}

func bytesPerRefresh(r *results.Result) float64 {
	t := r.Lanes[0].Overhead.Causes["refresh"]
	if t.Requests == 0 {
		return 0
	}
	return float64(t.BytesUp+t.BytesDown) / float64(t.Requests)
}

func (s *ttlStudy) herd(ctx context.Context, l *lab, jitter float64) error {
	const ttl, seconds = 12, 22
	h := ttlHerd{Jitter: jitter, TTL: ttl, Subscriptions: l.subscriptions(1000, 300)}
	_, all, err := l.runServed(ctx, fmt.Sprintf("herd-%g", jitter*100), ttlServer,
		ttlArgs("12s", h.Subscriptions, seconds*time.Second, jitter, "}")...)
	if err != nil {
		return err
	}
	var begun, opened time.Time
	for _, a := range all {
		if n := subscribedOf(&a.stats); n == 0 {
			begun = a.at
		} else if n >= float64(h.Subscriptions) && opened.IsZero() {
			opened = a.at
		}
	}
	if opened.IsZero() {
		return fmt.Errorf("herd: not all subscriptions were opened")
	}
	h.Opening = opened.Sub(begun).Seconds()
	for i := range seconds {
		at := opened.Add(time.Duration(i) * time.Second)
		h.PerSecond = append(h.PerSecond, valueAt(all, at.Add(time.Second), refreshesOf)-valueAt(all, at, refreshesOf))
	}
	h.simulate(s.RefreshAt, seconds)
	s.Herds = append(s.Herds, h)
	return nil
}

func (s *ttlStudy) abandon(ctx context.Context, l *lab, ttl int) error {
	live, rate := l.subscriptions(2000, 200), math.Max(50*l.scale, 10)
	text := fmt.Sprintf("%ds", ttl)
	r, all, err := l.runServed(ctx, "abandoned-"+text, ttlServer, append(
		ttlArgs(text, live, 15*time.Second, defaultJitter, fmt.Sprintf(", silent: 0.2}, churn: {rate: %g/s}", rate)), "--set", "phases.warmup="+text)...)
	if err != nil {
		return err
	}
	from, to, err := phase(r, "measure")
	if err != nil {
		return err
	}
	a := ttlStored{TTL: float64(ttl), Live: live, Failed: (valueAt(all, to, failuresOf) - valueAt(all, from, failuresOf)) / to.Sub(from).Seconds()}
	n := 0
	for _, x := range all {
		if !x.at.Before(from) && x.at.Before(to) {
			a.Stored += storedOf(&x.stats)
			n++
		}
	}
	a.Stored /= float64(max(n, 1))
	// Subscriptions leave from the warm-up to the end of the measured phase.
	warm, _, err := phase(r, "warm-up")
	if err != nil {
		return err
	}
	// All others end after it, some of them silently, too.
	opened := float64(r.Lanes[0].Overhead.Opened)
	a.Rate = r.Lanes[0].Figures["leftSilently"] / opened * (opened - float64(live)) / to.Sub(warm).Seconds()
	s.Abandoned = append(s.Abandoned, a)
	return nil
}
