package refserver

// Resumable counts requests that can be resumed. Held, Detached and Messages
// are what there is now; the rest only grows.
type Resumable struct {
	// Held requests are remembered: those that work, and those whose response
	// may have to be handed out again.
	Held int64 `json:"held"`
	// Detached of them have no connection.
	Detached int64 `json:"detached"`
	// Messages are kept for a connection to come, Bytes with what each is charged
	// beside its own.
	Messages int64 `json:"messages"`
	Bytes    int64 `json:"bytes"`
	// Started, Resumed, Polled (requests/getStatus), Superseded connections,
	// HungUp by the server, Refused for a wrong token or id or an expired
	// policy, Expired before the response was handed out, Overrun and ended because
	// too much would have been kept.
	Started    int64 `json:"started"`
	Resumed    int64 `json:"resumed"`
	Polled     int64 `json:"polled"`
	Superseded int64 `json:"superseded"`
	HungUp     int64 `json:"hungUp"`
	Refused    int64 `json:"refused"`
	Expired    int64 `json:"expired"`
	Overrun    int64 `json:"overrun"`
}

func (q *resumables) stats() Resumable {
	c := &q.counts
	return Resumable{
		Held: c.held.Load(), Detached: c.detached.Load(), Messages: c.kept.Load(), Bytes: c.bytes.Load(),
		Started: q.started.Load(), Resumed: c.resumed.Load(), Polled: c.polled.Load(), Superseded: c.superseded.Load(),
		HungUp: c.hungUp.Load(), Refused: c.refused.Load(), Expired: c.expired.Load(), Overrun: c.overrun.Load(),
	}
}
