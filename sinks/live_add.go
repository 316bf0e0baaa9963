package sinks

// Add adds the figures of another ledger with the same lanes, for a display of
// several processes. Quantiles cannot be added: those of whichever has the
// higher p99 stay, with the count of both.
func (l *Live) Add(m Live) {
	l.Measured.plus(m.Measured)
	l.WarmUp.plus(m.WarmUp)
	for i := range min(len(l.Lanes), len(m.Lanes)) {
		l.Lanes[i].add(&m.Lanes[i])
	}
}

func (n *LiveLane) add(m *LiveLane) {
	for _, x := range []struct{ to, from *int64 }{
		{&n.Attaching, &m.Attaching}, {&n.Open, &m.Open}, {&n.Failed, &m.Failed}, {&n.Broken, &m.Broken},
		{&n.Delivered, &m.Delivered}, {&n.Undecided, &m.Undecided},
		{&n.OutOfOrder, &m.OutOfOrder}, {&n.Late, &m.Late}, {&n.Recovered, &m.Recovered}, {&n.InFlight, &m.InFlight},
		{&n.Replayed, &m.Replayed}, {&n.Unprobed, &m.Unprobed}, {&n.Announcements, &m.Announcements}, {&n.Overclaimed, &m.Overclaimed},
		{&n.Rejected, &m.Rejected}, {&n.Malformed, &m.Malformed}, {&n.Oversized, &m.Oversized}, {&n.Reconnects, &m.Reconnects}, {&n.DeadStreams, &m.DeadStreams},
		{&n.Terminated, &m.Terminated}, {&n.TransientErrors, &m.TransientErrors}, {&n.Holes, &m.Holes}, {&n.CallFailures, &m.CallFailures},
		{&n.EventMessages, &m.EventMessages}, {&n.EventBytes, &m.EventBytes}, {&n.Received, &m.Received},
	} {
		*x.to += *x.from
	}
	c := SubCounts{Duplicates: n.Duplicates, Unexpected: n.Unexpected}
	c.plus(&SubCounts{Duplicates: m.Duplicates, Unexpected: m.Unexpected})
	n.Duplicates, n.Unexpected = c.Duplicates, c.Unexpected
	n.Recent, n.Whole = higher(n.Recent, m.Recent), higher(n.Whole, m.Whole)
}

func higher(a, b Quantiles) Quantiles {
	count := a.Count + b.Count
	if b.P99 > a.P99 || a.Count == 0 {
		a = b
	}
	a.Count = count
	return a
}
