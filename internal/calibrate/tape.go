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

// tape is a Recorder that keeps, for the plan, what was fired, and when gaps
// were announced.
type tape struct {
	eventmeter.Recorder // ignores all else

	mu      sync.Mutex
	fired   map[eventmeter.Stamp]*taped
	gaps    map[eventmeter.Sub][]eventmeter.Instant
	applied appliedFaults // what the target says in the end
}

// taped is one emission.
type taped struct {
	eventmeter.Emission
	outcome eventmeter.Outcome
	acked   eventmeter.Instant
}

func newTape() *tape {
	return &tape{Recorder: eventmeter.Tee(), fired: map[eventmeter.Stamp]*taped{}, gaps: map[eventmeter.Sub][]eventmeter.Instant{}}
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
	if n.Kind != eventmeter.Truncated {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.gaps[n.Sub] = append(t.gaps[n.Sub], n.At)
}

// gapsOf lists when the subscriptions of a lane read that there was a gap.
func (t *tape) gapsOf(lane, subscriptions int) [][]eventmeter.Instant {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([][]eventmeter.Instant, subscriptions)
	for i := range out {
		out[i] = slices.Clone(t.gaps[eventmeter.Sub{Lane: uint16(lane), Index: uint32(i)}])
	}
	return out
}

// of lists the accepted emissions of a source in order.
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

// unsound says why no plan can be drawn up from what was fired, "" if one can:
// an event was not taken for sure, or, where order matters, two of a source were
// on their way at once.
func (t *tape) unsound(order bool) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	for s, e := range t.fired {
		if e.outcome != eventmeter.Accepted {
			return fmt.Sprintf("event %d of source %d was %s", s.Seq, s.Source, e.outcome)
		}
		s.Seq++
		if next := t.fired[s]; next != nil && next.Fired <= e.acked && order {
			return fmt.Sprintf("event %d of source %d was not over when the next began", s.Seq-1, s.Source)
		}
	}
	return ""
}

// appliedFaults is what the target says that it has done: the second witness, beside
// the faults' definition, where the number of occasions is the target's to know.
type appliedFaults struct {
	// Requests that can be resumed were begun.
	Requests int64
	// Executed counts the faults, by system and kind.
	Executed map[string]int64
	// Tokens is what the issuer did.
	Tokens tokenStats
}

// tokenStats are the issuer's own counts.
type tokenStats struct{ Requests, Issued, Renewed, Refused, Down int64 }

// askTarget asks the admin listener of an embedded target what it did.
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
		Resumable struct{ Started int64 }
		Tokens    tokenStats
	}
	var plan struct{ Executed map[string]int64 }
	for path, into := range map[string]any{"/stats": &stats, "/faults": &plan} {
		if err := getJSON(ctx, client, admin+path, into); err != nil {
			return appliedFaults{}, fmt.Errorf("%w: %s: %w", run.ErrTarget, path, err)
		}
	}
	return appliedFaults{Requests: stats.Resumable.Started, Executed: plan.Executed, Tokens: stats.Tokens}, nil
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
