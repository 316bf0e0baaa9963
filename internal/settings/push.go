package settings

import "time"

// PushLane defines how a stream is supervised.
type PushLane struct {
	// heartbeat interval that the server promises, default 30s, the draft's minimum; a stream
	// without data for more than twice as long is dead
	Heartbeat time.Duration `json:"heartbeat,omitempty" check:"1ms.."`
	// first and longest wait before a reconnect, default 500ms to 30s
	Backoff Backoff `json:"backoff,omitempty"`
	// largest number of streams per HTTP/2 connection, if the server allows as many; 0 = 2000, the
	// largest value
	StreamsPerConnection int `json:"streamsPerConnection,omitempty" check:"0|1..2000"`
}

// Backoff doubles from min to max, with full jitter.
type Backoff struct {
	Min time.Duration `json:"min,omitempty" check:"1ms.."` // first wait
	Max time.Duration `json:"max,omitempty"`               // longest wait
}

// DefaultPush returns the defaults.
func DefaultPush() PushLane {
	return PushLane{Heartbeat: heartbeat, Backoff: Backoff{Min: backoffMin, Max: backoffMax}}
}

// Key returns the key of the settings in a lane.
func (p *PushLane) Key() string { return "push" }

// Check reports what is wrong with the settings, beyond what their tags check.
func (p *PushLane) Check(l Lane) {
	if what, fix := Span(p.Backoff.Max, p.Backoff.Min, Longest); what != "" {
		l.Bad("push.backoff.max", what, fix)
	}
	if l.HTTP == HTTP {
		l.Reject(
			"push",
			[]string{"streamsPerConnection"},
			"over HTTP/1.1 a connection carries one stream",
			"remove it, or set http: h2c or http: 2",
		)
	}
}
