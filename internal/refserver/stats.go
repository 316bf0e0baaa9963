package refserver

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/eventmeter/eventmeter/internal/cputime"
)

// Stats are a server's counters since its start, and its state at one moment.
// Counters only grow. They are read one after the other, so sums over them may
// be off by what happened meanwhile.
type Stats struct {
	// UptimeSeconds since New.
	UptimeSeconds float64 `json:"uptimeSeconds"`
	// Subscriptions that are open now.
	Subscriptions Subscriptions `json:"subscriptions"`
	// Events published.
	Events int64 `json:"events"`
	// Deliveries of events that succeeded, as far as this side can tell.
	Deliveries Deliveries `json:"deliveries"`
	// Polls answered, and those of them without an event.
	Polls      int64 `json:"polls"`
	EmptyPolls int64 `json:"emptyPolls"`
	// Webhook attempts of events and envelopes; those that were retries; those
	// that failed; deliveries given up; gap envelopes made.
	Attempts  int64 `json:"attempts"`
	Retries   int64 `json:"retries"`
	Failures  int64 `json:"failures"`
	Abandoned int64 `json:"abandoned"`
	Gaps      int64 `json:"gaps"`
	// Webhook handshakes begun, subscriptions opened, refreshed and expired.
	Verifications int64 `json:"verifications"`
	Subscribed    int64 `json:"subscribed"`
	Refreshes     int64 `json:"refreshes"`
	Expired       int64 `json:"expired"`
	// QueueOverflow is events that were skipped because a subscriber lagged.
	QueueOverflow int64 `json:"queueOverflow"`
	// Resumable is about requests that outlive their connections.
	Resumable  Resumable `json:"resumable"`
	Goroutines int       `json:"goroutines"`
	// HeapBytes is live and not yet collected heap memory.
	HeapBytes uint64 `json:"heapBytes"`
	// CPUSeconds is user and system time of the process; 0 when unknown.
	CPUSeconds float64 `json:"cpuSeconds"`
}

// Subscriptions counts by mode. Poll is polls that wait for an event now: a
// poller leaves no state behind.
type Subscriptions struct {
	Poll    int64 `json:"poll"`
	Push    int64 `json:"push"`
	Webhook int64 `json:"webhook"`
}

// Deliveries counts event deliveries by mode.
type Deliveries struct {
	Poll    int64 `json:"poll"`
	Push    int64 `json:"push"`
	Webhook int64 `json:"webhook"`
}

// counters are what Stats is made of.
type counters struct {
	polls, emptyPolls, polled, waiting atomic.Int64
	streams, pushed                    atomic.Int64
	attempts, retries, failures        atomic.Int64
	posted, abandoned, gaps            atomic.Int64
	verifications, subscribed          atomic.Int64
	refreshes, expired                 atomic.Int64
}

// Stats reads the counters.
func (s *Server) Stats() Stats {
	c := s.counts
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return Stats{
		UptimeSeconds: time.Since(s.started).Seconds(),
		Subscriptions: Subscriptions{Poll: c.waiting.Load(), Push: c.streams.Load(), Webhook: int64(s.hooks.count() + s.resources.count())},
		Events:        s.broker.published.Load(),
		Deliveries:    Deliveries{Poll: c.polled.Load(), Push: c.pushed.Load(), Webhook: c.posted.Load()},
		Polls:         c.polls.Load(),
		EmptyPolls:    c.emptyPolls.Load(),
		Attempts:      c.attempts.Load(),
		Retries:       c.retries.Load(),
		Failures:      c.failures.Load(),
		Abandoned:     c.abandoned.Load(),
		Gaps:          c.gaps.Load(),
		Verifications: c.verifications.Load(),
		Subscribed:    c.subscribed.Load(),
		Refreshes:     c.refreshes.Load(),
		Expired:       c.expired.Load(),
		QueueOverflow: s.broker.overflow.Load(),
		Resumable:     s.resumables.stats(),
		Goroutines:    runtime.NumGoroutine(),
		HeapBytes:     memory.HeapAlloc,
		CPUSeconds:    cputime.Used().Seconds(),
	}
}
