package sinks

import "cmp"

// Plus returns both distributions together. It shares no memory with either
// that is written to later.
func (d Distribution) Plus(e Distribution) Distribution {
	out := Distribution{Count: d.Count + e.Count, Below: d.Below + e.Below, Above: d.Above + e.Above}
	a, b := d.Buckets, e.Buckets
	for len(a) > 0 && len(b) > 0 {
		switch cmp.Compare(a[0].Low, b[0].Low) {
		case -1:
			out.Buckets, a = append(out.Buckets, a[0]), a[1:]
		case 1:
			out.Buckets, b = append(out.Buckets, b[0]), b[1:]
		default:
			both := a[0]
			both.High, both.Count = max(both.High, b[0].High), both.Count+b[0].Count
			out.Buckets, a, b = append(out.Buckets, both), a[1:], b[1:]
		}
	}
	out.Buckets = append(append(out.Buckets, a...), b...)
	return out
}

// Add adds the figures of another ledger with the same lanes, for a display of
// several processes.
func (d *Detail) Add(e *Detail) {
	d.Live.Add(e.Live)
	d.FireLag, d.FireLatency = d.FireLag.Plus(e.FireLag), d.FireLatency.Plus(e.FireLatency)
	for i := range min(len(d.More), len(e.More)) {
		d.More[i].add(&e.More[i])
	}
}

func (d *LaneDetail) add(e *LaneDetail) {
	d.Subscriptions += e.Subscriptions
	d.Active += e.Active
	d.Longest = max(d.Longest, e.Longest)
	for _, x := range []struct{ to, from *int64 }{
		{&d.Expected, &e.Expected}, {&d.Outstanding, &e.Outstanding}, {&d.LostSilent, &e.LostSilent}, {&d.LostAnnounced, &e.LostAnnounced},
		{&d.LostOrderUnknown, &e.LostOrderUnknown},
		{&d.Gaps, &e.Gaps}, {&d.FalseAlarms, &e.FalseAlarms}, {&d.Excused, &e.Excused}, {&d.Unidentified, &e.Unidentified}, {&d.Foreign, &e.Foreign}, {&d.Kernel, &e.Kernel},
		{&d.LostUndeliverable, &e.LostUndeliverable}, {&d.LostRefused, &e.LostRefused}, {&d.LostSuspended, &e.LostSuspended},
		{&d.Undeliverable, &e.Undeliverable}, {&d.Suspended, &e.Suspended},
	} {
		*x.to += *x.from
	}
	d.FromIntended, d.FromSent, d.Ready = d.FromIntended.Plus(e.FromIntended), d.FromSent.Plus(e.FromSent), d.Ready.Plus(e.Ready)
	for i := range d.Traffic {
		d.Traffic[i].plus(&e.Traffic[i])
	}
	d.Measured.plus(&e.Measured)
}
