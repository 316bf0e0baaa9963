package calibrate

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/internal/run"
)

// tape is a Recorder that keeps what the plan needs: the emissions, when gaps were
// announced, and when subscriptions ended.
type tape struct {
	eventmeter.Recorder // ignores all else

	mu      sync.Mutex
	fired   map[eventmeter.Stamp]*taped
	gaps    map[eventmeter.Sub][]eventmeter.Instant
	over    map[eventmeter.Sub]eventmeter.Instant
	failed  map[eventmeter.Sub]bool // could not be opened
	calls   map[uint16]*laneCalls   // by lane
	applied appliedFaults           // the target's own counts at the end
}

// laneCalls are counts of a lane's requests.
type laneCalls struct {
	failed   int64                    // subscriptions
	asked    [eventmeter.Causes]int64 // by cause
	refusals map[string]int64         // by what was answered
}

// taped is one emission.
type taped struct {
	eventmeter.Emission
	outcome eventmeter.Outcome
	acked   eventmeter.Instant
}

func newTape() *tape {
	return &tape{
		Recorder: eventmeter.Tee(),
		fired:    map[eventmeter.Stamp]*taped{},
		gaps:     map[eventmeter.Sub][]eventmeter.Instant{},
		over:     map[eventmeter.Sub]eventmeter.Instant{},
		failed:   map[eventmeter.Sub]bool{},
		calls:    map[uint16]*laneCalls{},
	}
}

// Fired implements [eventmeter.Recorder].
func (t *tape) Fired(e eventmeter.Emission) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fired[e.Stamp] = &taped{Emission: e}
}

// Resolved implements [eventmeter.Recorder].
func (t *tape) Resolved(s eventmeter.Stamp, o eventmeter.Outcome, at eventmeter.Instant) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.fired[s]; e != nil {
		e.outcome, e.acked = o, at
	}
}

// Noticed implements [eventmeter.Recorder].
func (t *tape) Noticed(n eventmeter.Notice) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch n.Kind {
	case eventmeter.Truncated:
		t.gaps[n.Sub] = append(t.gaps[n.Sub], n.At)
	case eventmeter.Terminated:
		t.over[n.Sub] = n.At
	}
}

// Changed implements [eventmeter.Recorder].
func (t *tape) Changed(c eventmeter.Transition) {
	if c.To == eventmeter.Failed {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.failed[c.Sub] = true
	}
}

// Called implements [eventmeter.Recorder].
func (t *tape) Called(c eventmeter.Call) {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := t.calls[c.Lane]
	if of == nil {
		of = &laneCalls{refusals: map[string]int64{}}
		t.calls[c.Lane] = of
	}
	of.asked[c.Cause] += int64(c.Requests)
	if c.Failure != "" {
		of.refusals[c.Failure]++
	}
}

// callsOf returns the counts of a lane's requests, and of its subscriptions that failed.
func (t *tape) callsOf(lane int) laneCalls {
	t.mu.Lock()
	defer t.mu.Unlock()
	var of laneCalls
	if kept := t.calls[uint16(lane)]; kept != nil {
		of = *kept
	}
	for sub := range t.failed {
		if int(sub.Lane) == lane {
			of.failed++
		}
	}
	return of
}

// gapsOf returns when each subscription of a lane read announcements of gaps.
func (t *tape) gapsOf(lane, subscriptions int) [][]eventmeter.Instant {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([][]eventmeter.Instant, subscriptions)
	for i := range out {
		out[i] = slices.Clone(t.gaps[eventmeter.Sub{Lane: uint16(lane), Index: uint32(i)}])
	}
	return out
}

// endsOf returns when each subscription of a lane ended for good, 0 = never, and
// which of them failed.
func (t *tape) endsOf(lane, subscriptions int) (over []eventmeter.Instant, failed []bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range subscriptions {
		sub := eventmeter.Sub{Lane: uint16(lane), Index: uint32(i)}
		over, failed = append(over, t.over[sub]), append(failed, t.failed[sub])
	}
	return over, failed
}

// of returns the accepted emissions of a source in order.
func (t *tape) of(source uint16) []*taped {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []*taped
	for s, e := range t.fired {
		if s.Source == source && e.outcome == eventmeter.Accepted {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b *taped) int { return int(a.Seq) - int(b.Seq) })
	return out
}

// unsound returns why the emissions allow no plan, "" if they do: an event was not
// accepted for certain; the warm-up ended late; order matters, and two events of a source were in flight at
// once; or an event swaps places with the next, and no event of another source was
// published in between.
func (t *tape) unsound(order bool, swaps func(eventmeter.Stamp) bool) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	for s, e := range t.fired {
		if e.outcome != eventmeter.Accepted {
			return fmt.Sprintf("event %d of source %d was %s", s.Seq, s.Source, e.outcome)
		}
		next := t.fired[eventmeter.Stamp{Run: s.Run, Source: s.Source, Seq: s.Seq + 1}]
		if next != nil && e.Measured && !next.Measured {
			// The measured events are then others than those of the next run, and so
			// are those that a share of faults strikes.
			return fmt.Sprintf("event %d of source %d is of the warm-up and was published after one that is measured", s.Seq+1, s.Source)
		}
		if next == nil || !order {
			continue
		}
		if next.Fired <= e.acked {
			return fmt.Sprintf("event %d of source %d was not over when the next began", s.Seq, s.Source)
		}
		if swaps(s) && !t.separated(e, next) {
			return fmt.Sprintf("no other source published between event %d of source %d and the next", s.Seq, s.Source)
		}
	}
	return ""
}

// separated reports whether an event of another source began and was over between two
// events of one source.
func (t *tape) separated(e, next *taped) bool {
	for s, other := range t.fired {
		if s.Source != e.Stamp.Source && other.Fired > e.acked && other.acked < next.Fired {
			return true
		}
	}
	return false
}

// appliedFaults are the target's own counts of the faults it committed: a second
// source besides the faults' definitions, where only the target knows the number of
// occasions.
type appliedFaults struct {
	// Requests is the number of requests that can be resumed.
	Requests int64
	// Verified is the number of challenged callbacks, Subscribed that of opened
	// webhooks.
	Verified, Subscribed int64
	// Overflow counts the events that a slow subscriber was not sent.
	Overflow int64
	// Executed counts the faults, by system and kind.
	Executed map[string]int64
	// Tokens are the issuer's counts.
	Tokens tokenStats
}

// tokenStats are the issuer's own counts.
type tokenStats struct{ Requests, Issued, Renewed, Refused, Down int64 }

// askTarget reads the target's counts from the admin listener of an embedded target.
func (t *tape) askTarget(ctx context.Context, admin string, client *http.Client) (err error) {
	if admin != "" {
		t.applied, err = askAppliedFaults(ctx, admin, client)
	}
	return err
}

func askAppliedFaults(ctx context.Context, admin string, client *http.Client) (appliedFaults, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var stats struct {
		Resumable                 struct{ Started int64 }
		Tokens                    tokenStats
		Verifications, Subscribed int64
		QueueOverflow             int64
	}
	var plan struct{ Executed map[string]int64 }
	for path, into := range map[string]any{"/stats": &stats, "/faults": &plan} {
		if err := getJSON(ctx, client, admin+path, into); err != nil {
			return appliedFaults{}, fmt.Errorf("%w: %s: %w", run.ErrTarget, path, err)
		}
	}
	return appliedFaults{
		Requests:   stats.Resumable.Started,
		Verified:   stats.Verifications,
		Subscribed: stats.Subscribed,
		Overflow:   stats.QueueOverflow,
		Executed:   plan.Executed,
		Tokens:     stats.Tokens,
	}, nil
}

func getJSON(ctx context.Context, client *http.Client, url string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errtext.Answered(resp)
	}
	return json.NewDecoder(resp.Body).Decode(into)
}
