package ledger

import (
	"errors"
	"fmt"
)

// ErrUnbalanced is what Check's errors are about: a figure of the account that
// cannot be true, by a fault of the toolkit and not of the target.
var ErrUnbalanced = errors.New("the account does not balance")

// Check proves the account: everything expected was delivered or lost, what the
// lane counted is what its subscriptions counted, every delivery is in the
// histograms and in one interval, and the recorder was used as it should be. It
// returns nil, or an error that names every figure that fails and wraps
// ErrUnbalanced.
func (a Account) Check() error {
	var wrong []error
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	for _, s := range []struct {
		phase string
		Scheduled
	}{{"measured", a.Measured}, {"warm-up", a.WarmUp}} {
		if s.Fired != s.Accepted+s.Uncertain+s.Refused+s.Pending {
			say(
				"%s events: %d fired, but %d accepted, %d uncertain, %d refused, %d pending",
				s.phase,
				s.Fired,
				s.Accepted,
				s.Uncertain,
				s.Refused,
				s.Pending,
			)
		}
	}
	if a.Misuse != (Misuse{}) {
		say("the recorder was misused: %+v", a.Misuse)
	}
	for i := range a.Lanes {
		n := &a.Lanes[i]
		for _, text := range n.check() {
			say("lane %s: %s", n.Name, text)
		}
	}
	if wrong == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrUnbalanced, errors.Join(wrong...))
}

// samples is how many there are; an account that was read from a file may have
// no histogram.
func (t Timing) samples() int64 {
	if t.Histogram == nil {
		return 0
	}
	return t.Histogram.TotalCount()
}

func (n *LaneAccount) check() []string {
	var out []string
	same := func(what string, got, want int64) {
		if got != want {
			out = append(out, fmt.Sprintf("%s: %d, want %d", what, got, want))
		}
	}
	same("expected against delivered and all that is lost", n.Expected, n.Delivered+n.Lost())
	same("sum of expected against its parts", n.Sums.Expected, n.Sums.Delivered+n.Sums.Lost())
	if n.LostUndeliverable > n.Undeliverable {
		out = append(out, fmt.Sprintf("undeliverable: %d, but only %d connections failed", n.LostUndeliverable, n.Undeliverable))
	}
	if n.Sums != n.SubCounts {
		out = append(out, fmt.Sprintf("subscriptions add up to %+v, the lane has %+v", n.Sums, n.SubCounts))
	}
	same("scheduled → received, samples", n.Latency.FromIntended.samples(), n.Delivered)
	same("published → received, samples", n.Latency.FromSent.samples(), n.Delivered)
	r := n.Ready
	same("attempts to subscribe", r.Attempts, r.Time.samples()+r.Failed+r.Cancelled+r.Open)
	for _, w := range []struct {
		what      string
		got, most int64
	}{
		{"events within the measured window", n.Measured.EventMessages, n.EventMessages},
		{"event bytes within the measured window", n.Measured.EventBytes, n.EventBytes},
		{"events received within the measured window", n.Measured.Received, n.Received},
		{"active time within the measured window", int64(n.Measured.Active), int64(n.Active)},
		{"events received, of all copies", n.Received, n.EventMessages},
	} {
		if w.got < 0 || w.got > w.most {
			out = append(out, fmt.Sprintf("%s: %d, there are %d in all", w.what, w.got, w.most))
		}
	}
	var delivered, late, disorder, duplicates, unexpected, intended, sent int64
	for _, v := range n.Series {
		delivered += v.Delivered
		late += v.Late
		disorder += v.OutOfOrder
		duplicates += v.Duplicates
		unexpected += v.Unexpected
		if v.FromIntended != nil {
			intended += v.FromIntended.TotalCount()
		}
		if v.FromSent != nil {
			sent += v.FromSent.TotalCount()
		}
	}
	same("delivered in intervals", delivered, n.Delivered)
	same("late in intervals", late, n.Late)
	same("out of order in intervals", disorder, n.OutOfOrder)
	same("duplicates in intervals", duplicates, n.Duplicates.Total())
	same("unexpected in intervals", unexpected, n.Unexpected.Total())
	same("samples from intended in intervals", intended, n.Delivered)
	same("samples from sent in intervals", sent, n.Delivered)
	return out
}
