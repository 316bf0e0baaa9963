package main

import (
	"context"
	"fmt"
	"math"
	"time"
)

// reconnect asks what happens when all streams are lost at once: how many come back together, when the
// last one has caught up, what the server needs meanwhile, and what is lost.
//
// Hypotheses, stated before anything was measured:
//   - streams that return within a jitter window return as the closed form says: the peak of a tenth of
//     a second is within 10 % of it;
//   - the last stream has caught up when the window is over, or when the server has sent what was
//     missed, whichever is later;
//   - the server's memory does not depend on the backlog, because it keeps each event once;
//   - with maxAge below the time away, the loss is the closed form's, all of it announced, and nothing
//     comes twice.
type reconnect struct {
	Streams int            `json:"streams"`
	Jitter  []reconnection `json:"jitter"`  // by jitter window
	Backlog []reconnection `json:"backlog"` // by events missed
	Age     []reconnection `json:"age"`     // by maxAge
}

// reconnection is the outcome of runs with the same settings.
type reconnection struct {
	Streams   int     `json:"streams"`
	WindowMs  float64 `json:"windowMs"` // streams wait at most so long, at random, before they return
	AwayMs    float64 `json:"awayMs"`   // and this long in any case
	MaxAgeMs  float64 `json:"maxAgeMs"` // 0 = no bound below the server's own
	Events    int     `json:"events"`   // published while the streams are away
	Peak      spread  `json:"peak"`     // most streams that began to return in a tenth of a second
	CatchUpMs spread  `json:"catchUpMs"`
	MemoryMiB spread  `json:"memoryMiB"`
	// Sums of the runs, in deliveries.
	Replayed   int64 `json:"replayed"` // missed and received later
	Announced  int64 `json:"announced"`
	Silent     int64 `json:"silent"`
	Duplicates int64 `json:"duplicates"`
}

const (
	reconnectRepeats = 2
	reconnectCutAt   = 100 * time.Millisecond
	// herdTenth is the interval of the figure reopenedPeak.
	herdTenth = 100 * time.Millisecond
	// herdMinute is the time over which streams return that are no herd.
	herdMinute = time.Minute
	herdHolds  = 0.10 // of the closed form
	lossHolds  = 0.02
)

func (s *reconnect) measure(ctx context.Context, l *lab) error {
	s.Streams = l.subscriptions(5000, 50)
	scaled := func(d time.Duration) time.Duration { return l.duration(d, d/10) }
	short, long := scaled(3*time.Second), scaled(6*time.Second)
	for _, w := range []time.Duration{0, 500 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second} {
		r, err := s.cut(ctx, l, fmt.Sprintf("jitter-%v", w), s.Streams, scaled(w), short, 0, 60)
		if err != nil {
			return err
		}
		s.Jitter = append(s.Jitter, r)
	}
	for _, events := range []int{1, 60, 150, 300, 600} {
		r, err := s.cut(ctx, l, fmt.Sprintf("backlog-%d", events), s.Streams, scaled(2*time.Second), long, 0, events)
		if err != nil {
			return err
		}
		s.Backlog = append(s.Backlog, r)
	}
	// Fewer streams, so that they do not queue at the server: what waits there grows older.
	for _, share := range []float64{0.25, 0.5, 0.75, 1, 1.5} {
		age := time.Duration(share * float64(short)).Round(time.Millisecond)
		r, err := s.cut(ctx, l, fmt.Sprintf("age-%g", share), s.Streams/5, scaled(time.Second), short, age, 60)
		if err != nil {
			return err
		}
		s.Age = append(s.Age, r)
	}
	return nil
}

// cut makes the runs of one setting.
func (s *reconnect) cut(ctx context.Context, l *lab, name string, streams int, window, away, maxAge time.Duration, events int) (reconnection, error) {
	ms := func(d time.Duration) float64 { return d.Seconds() * 1e3 }
	out := reconnection{Streams: streams, WindowMs: ms(window), AwayMs: ms(away), MaxAgeMs: ms(maxAge), Events: events}
	var peak, catchUp, memory []float64
	repeats, drain := reconnectRepeats, 3*time.Minute
	if maxAge > 0 {
		// Counts need no repeats. A drain does not end early when events are lost.
		repeats, drain = 1, l.duration(15*time.Second, 4*time.Second)
	}
	for i := range repeats {
		wait := max(window, time.Millisecond) // the shortest backoff
		args := []string{
			"--profile", "reconnect", "--set", fmt.Sprintf("lanes.push.subscriptions=%d", streams),
			"--set", fmt.Sprintf("lanes.push.push.backoff.min=%v", wait), "--set", fmt.Sprintf("lanes.push.push.backoff.max=%v", max(wait, 10*time.Second)),
			"--set", fmt.Sprintf("lanes.push.events.cutAt=%v", reconnectCutAt), "--set", fmt.Sprintf("lanes.push.events.cutFor=%v", away),
			"--set", fmt.Sprintf("schedule.rate=%.4f/s", float64(events)/away.Seconds()),
			"--set", "phases.warmup=0", "--set", fmt.Sprintf("phases.measure=%v", reconnectCutAt+away), "--set", "phases.drain=" + drain.String(), "--set", "phases.ready=2m", "--set", "phases.late=0",
		}
		if maxAge > 0 {
			args = append(args, "--set", fmt.Sprintf("lanes.push.maxAge=%v", maxAge))
		}
		r, err := l.run(ctx, fmt.Sprintf("%s-%d", name, i+1), args...)
		if err != nil {
			return out, err
		}
		lane := r.Lanes[0]
		peak = append(peak, lane.Figures["reopenedPeak"])
		catchUp = append(catchUp, ms(time.Duration(lane.Timings["catchUp"].Max)))
		if r.Target.Process != nil {
			memory = append(memory, float64(r.Target.Process.Memory)/(1<<20))
		}
		out.Replayed += int64(lane.Figures["replayedOnReconnect"])
		out.Announced += lane.LostAnnounced + lane.LostOrderUnknown
		out.Silent += lane.LostSilent
		out.Duplicates += lane.Duplicates.SameEvent + lane.Duplicates.SameEmission
	}
	out.Peak, out.CatchUpMs = spreadOf(peak), spreadOf(catchUp)
	if len(memory) > 0 {
		out.MemoryMiB = spreadOf(memory)
	}
	return out, nil
}

// lostShare is the share of the missed deliveries that were lost.
func (r *reconnection) lostShare() float64 {
	lost := r.Announced + r.Silent
	if lost+r.Replayed == 0 {
		return 0
	}
	return float64(lost) / float64(lost+r.Replayed)
}

// missed is how many deliveries the streams of a run missed while they were away, on average.
func (r *reconnection) missed() float64 {
	return float64(r.Replayed+r.Announced+r.Silent) / float64(r.Peak.N)
}

// herdPeak returns the expected largest number of n streams that return within one tenth of a second,
// where each waits for a random time of up to window, and the ends of the interval that holds 95 % of
// all cases. Each tenth has a binomial number; the tenths are taken as independent.
func herdPeak(n int, window time.Duration) (mean, low, high float64) {
	bins := math.Floor(float64(window) / float64(herdTenth))
	if bins < 2 {
		return float64(n), float64(n), float64(n)
	}
	share := float64(herdTenth) / float64(window)
	below := 0.0 // P(one tenth has at most k)
	low, high = -1, -1
	for k := 0; k <= n; k++ {
		below += math.Exp(lgamma(n+1) - lgamma(k+1) - lgamma(n-k+1) + float64(k)*math.Log(share) + float64(n-k)*math.Log1p(-share))
		all := math.Pow(min(below, 1), bins) // P(every tenth has at most k)
		mean += 1 - all
		if low < 0 && all >= 0.025 {
			low = float64(k)
		}
		if high < 0 && all >= 0.975 {
			high = float64(k)
		}
	}
	return mean, low, high
}

func lgamma(n int) float64 {
	v, _ := math.Lgamma(float64(n))
	return v
}

// ageLoss returns the expected share of the events that were published evenly while a stream was away
// and that are too old when it returns. It is away for away and a random time of up to window, and
// asks for no events older than maxAge; 0 = for all.
func ageLoss(away, window, maxAge time.Duration) float64 {
	if maxAge == 0 {
		return 0
	}
	const steps = 1000
	sum := 0.0
	for i := range steps {
		wait := float64(window) * (float64(i) + 0.5) / steps
		sum += min(1, max(0, (float64(away)+wait-float64(maxAge))/float64(away)))
	}
	return sum / steps
}

// apart reports whether the ranges of two figures do not overlap. Only then is a difference one.
func apart(a, b spread) bool { return a.Low > b.High || b.Low > a.High }

// inMillis makes a duration of milliseconds.
func inMillis(v float64) time.Duration { return time.Duration(v * float64(time.Millisecond)) }
