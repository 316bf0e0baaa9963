package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/eventmeter/eventmeter/results"
)

// lists compares a time to live of lists with notifications of their changes: how old the copies are
// that clients use, what keeping them costs, and how many clients ask at the same moment.
type lists struct {
	Pages      int         `json:"pages"`      // of the list
	UseSeconds float64     `json:"useSeconds"` // between two uses of a client
	Points     []listPoint `json:"points"`
	Herds      []listHerd  `json:"herds"`

	simulated map[listCase]listOutcome // what was simulated already
}

// listCase is what an outcome depends on, beside the list.
type listCase struct {
	load     listLoad
	notified bool
}

// listLoad says what a lane did, and how long.
type listLoad struct {
	Clients       int     `json:"clients"`
	TTLSeconds    float64 `json:"ttlSeconds"`
	Jitter        float64 `json:"jitter"`        // share of the time to live
	AttachSeconds float64 `json:"attachSeconds"` // over which clients began
	ChangeSeconds float64 `json:"changeSeconds"` // during which the list changed
	DrainSeconds  float64 `json:"drainSeconds"`  // during which it did not
	Changes       float64 `json:"changes"`       // per second
}

// listPoint is a lane at a time to live.
type listPoint struct {
	listLoad
	Lane        string  `json:"lane"` // ttl, notified or no-cache
	NeverSeen   int64   `json:"neverSeen"`
	StaleP50MS  float64 `json:"staleP50Ms"` // change → first use that shows it
	StaleP99MS  float64 `json:"staleP99Ms"`
	FetchesHour float64 `json:"fetchesHour"` // pages, of a client
	BytesHour   float64 `json:"bytesHour"`
	Herd        float64 `json:"herd"` // fetches after notifications in the busiest 100 ms, over the mean
}

// listHerd is a lane whose clients begin together.
type listHerd struct {
	listLoad
	Factor spread `json:"factor"` // fetches of expired copies in the busiest 100 ms, over the mean
}

const (
	listUse     = 10.0 // uses per second
	listChanges = 0.5  // per second
	listJitter  = 0.1
	herdTTL     = 3 * time.Second
	herdRepeats = 2
	herdStart   = 500 * time.Millisecond // in which all clients begin
)

var (
	listTTLs    = []time.Duration{time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second}
	herdJitters = []float64{0, 0.1, 0.3, 1}
)

func (s *lists) measure(ctx context.Context, l *lab) error {
	s.UseSeconds = 1 / listUse
	for _, ttl := range listTTLs {
		if err := s.measureTTL(ctx, l, ttl); err != nil {
			return err
		}
	}
	for _, jitter := range herdJitters {
		if err := s.measureHerd(ctx, l, jitter); err != nil {
			return err
		}
	}
	return nil
}

func (s *lists) measureTTL(ctx context.Context, l *lab, ttl time.Duration) error {
	clients := l.subscriptions(200, 20)
	rate := fmt.Sprintf("%g/s", float64(clients)/ttl.Seconds()) // so that they expire at all times
	r, err := l.run(ctx, fmt.Sprintf("ttl-%gs", ttl.Seconds()), "--profile", "sep-2549", "--set", "target.embedded.lists.ttl="+ttl.String(),
		"--set", fmt.Sprintf("lanes.ttl.subscriptions=%d", clients), "--set", fmt.Sprintf("lanes.notified.subscriptions=%d", clients), "--set", "lanes.no-cache.subscriptions=5",
		"--set", "lanes.ttl.attach.rate="+rate, "--set", "lanes.notified.attach.rate="+rate, "--set", fmt.Sprintf("phases.ready=%s", ttl+15*time.Second),
		"--set", fmt.Sprintf("lanes.*.sep2549.use=%g/s", listUse), "--set", fmt.Sprintf("schedule={kind: poisson, rate: %g/s, seed: 1}", listChanges), "--set", "phases.warmup=0s", "--set", "phases.measure="+l.duration(30*time.Second, 5*time.Second).String(), "--set", "phases.drain="+(2*ttl+time.Second).String())
	if err != nil {
		return err
	}
	for i := range r.Lanes {
		lr := &r.Lanes[i]
		stale, f := lr.Timings["staleness"], lr.Figures
		if stale.Count == 0 || f["clientHours"] == 0 {
			return fmt.Errorf("ttl-%gs: nothing was measured in lane %s", ttl.Seconds(), lr.Name)
		}
		s.Pages = int(f["fetchesFirst"]) / lr.Subscriptions
		p := listPoint{Lane: lr.Name, listLoad: loadOf(r, lr, ttl, listJitter), NeverSeen: int64(f["changesNeverSeen"]), StaleP50MS: milliseconds(stale.P50), StaleP99MS: milliseconds(stale.P99),
			FetchesHour: f["fetches"] / f["clientHours"], BytesHour: f["bytesPerClientHour"], Herd: f["herdChanged"]}
		if lr.Name != "ttl" && lr.Name != "notified" {
			p.AttachSeconds = 0
		}
		s.Points = append(s.Points, p)
	}
	return nil
}

func (s *lists) measureHerd(ctx context.Context, l *lab, jitter float64) error {
	h := listHerd{}
	var factors []float64
	clients := l.subscriptions(500, 50)
	for i := range repeats(l, herdRepeats) {
		name := fmt.Sprintf("herd-%g-%d", jitter, i+1)
		r, err := l.run(ctx, name, "--profile", "sep-2549", "--set", "target.embedded.lists.ttl="+herdTTL.String(),
			"--set", fmt.Sprintf("lanes.ttl.subscriptions=%d", clients), "--set", fmt.Sprintf("lanes.ttl.attach.rate=%g/s", float64(clients)/herdStart.Seconds()), "--set", "lanes.notified.subscriptions=1", "--set", "lanes.no-cache.subscriptions=1",
			"--set", fmt.Sprintf("lanes.ttl.sep2549.jitter=%g", jitter),
			"--set", "schedule={kind: constant, rate: 0.5/s}", "--set", "phases.warmup=0s", "--set", "phases.measure=9s", "--set", "phases.drain="+(2*herdTTL).String())
		if err != nil {
			return err
		}
		lr := &r.Lanes[0]
		h.listLoad = loadOf(r, lr, herdTTL, jitter)
		h.AttachSeconds = herdStart.Seconds() // the phase begins with the handshake, before the clients
		if lr.Figures["herdExpired"] == 0 {
			return fmt.Errorf("%s: nothing expired", name)
		}
		factors = append(factors, lr.Figures["herdExpired"])
	}
	h.Factor = spreadOf(factors)
	s.Herds = append(s.Herds, h)
	return nil
}

func loadOf(r *results.Result, lr *results.Lane, ttl time.Duration, jitter float64) listLoad {
	changing := phaseSeconds(r, "warm-up", "measure")
	return listLoad{Clients: lr.Subscriptions, TTLSeconds: ttl.Seconds(), Jitter: jitter, AttachSeconds: phaseSeconds(r, "attach"), ChangeSeconds: changing, DrainSeconds: phaseSeconds(r, "drain"),
		Changes: float64(r.Upstream.Published+r.Upstream.Warmup) / changing}
}

// listOutcome is what a lane is expected to do.
type listOutcome struct {
	staleP50, staleP99 float64 // seconds
	fetchesHour        float64
	herdExpired        float64
	herdChanged        float64
}

// herdBin is the width in which the program counts fetches, in seconds.
const herdBin = 0.1

// listPasses is how often a lane is simulated, each time with changes at other moments.
const listPasses = 10

// listAnswer is how long a fetch takes, in seconds. A copy is fresh from when it has come, so that a
// time to live of a number of uses ends just after the use, and the next one finds it stale.
const listAnswer = 0.001

// expectLists simulates the clients of a lane.
func expectLists(load listLoad, pages int, use float64, notified bool) listOutcome {
	random := rand.New(rand.NewPCG(1, 2)) // the same outcome each time the page is written
	var all listSimulation
	var expired, changed []float64
	for range listPasses {
		s := listSimulation{listLoad: load, pages: pages, use: use, notified: notified, random: random, end: load.AttachSeconds + load.ChangeSeconds + load.DrainSeconds}
		s.run()
		expired, changed = append(expired, herdOf(s.expired)), append(changed, herdOf(s.changed))
		all.staleness, all.fetches, all.hours = append(all.staleness, s.staleness...), all.fetches+s.fetches, all.hours+s.hours
	}
	slices.Sort(all.staleness)
	return listOutcome{staleP50: quantile(all.staleness, 0.5), staleP99: quantile(all.staleness, 0.99), fetchesHour: float64(all.fetches) / all.hours,
		herdExpired: spreadOf(expired).Median, herdChanged: spreadOf(changed).Median}
}

// listSimulation is one pass over the clients of a lane. Times are in seconds since the first client.
type listSimulation struct {
	listLoad
	pages    int
	use      float64
	notified bool
	random   *rand.Rand
	end      float64

	changes          []float64
	expired, changed []int // fetches, by bin
	staleness        []float64
	fetches          int
	hours            float64
}

func (s *listSimulation) run() {
	for range int(math.Round(s.Changes * s.ChangeSeconds)) {
		s.changes = append(s.changes, s.AttachSeconds+s.ChangeSeconds*s.random.Float64())
	}
	slices.Sort(s.changes)
	bins := int(s.end/herdBin) + 1
	s.expired, s.changed = make([]int, bins), make([]int, bins)
	for range s.Clients {
		s.client(s.AttachSeconds * s.random.Float64())
	}
}

// client uses the list at its interval, from a random moment. A use fetches each page whose copy has
// expired, or was made stale by a change since it was fetched, where the client is notified.
func (s *listSimulation) client(start float64) {
	s.hours += (s.end - start) / time.Hour.Seconds()
	until, from := make([]float64, s.pages), make([]float64, s.pages)
	known, first := 0, true
	for now := start + s.use*s.random.Float64(); now < s.end; now += s.use {
		for page := range s.pages {
			told := s.notified && changeBetween(s.changes, from[page], now)
			if !first && now < until[page] && !told {
				continue
			}
			s.fetches++
			switch bin := int(now / herdBin); {
			case first:
			case told:
				s.changed[bin]++
			default:
				s.expired[bin]++
			}
			until[page], from[page] = now+listAnswer+s.TTLSeconds*(1-s.Jitter*s.random.Float64()), now
			for ; page == 0 && known < len(s.changes) && s.changes[known] <= now; known++ {
				if s.changes[known] >= start {
					s.staleness = append(s.staleness, now+listAnswer-s.changes[known])
				}
			}
		}
		first = false
	}
}

// changeBetween says whether the list changed after from and not after to.
func changeBetween(changes []float64, from, to float64) bool {
	i, _ := slices.BinarySearch(changes, math.Nextafter(from, math.Inf(1)))
	return i < len(changes) && changes[i] <= to
}

// quantile is the value that a share of the sorted values does not exceed; NaN without values.
func quantile(sorted []float64, share float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	return sorted[max(0, int(math.Ceil(share*float64(len(sorted))))-1)]
}

// herdOf is the largest bin over the mean of all; 0 if all are empty.
func herdOf(bins []int) float64 {
	sum := 0
	for _, n := range bins {
		sum += n
	}
	if sum == 0 {
		return 0
	}
	return float64(slices.Max(bins)) * float64(len(bins)) / float64(sum)
}
