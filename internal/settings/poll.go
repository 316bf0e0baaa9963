package settings

import "time"

// PollLane defines the pace of a poller.
type PollLane struct {
	// shortest time between an answer without hasMore and the next poll; default 1s, as the draft
	// recommends. A longer wait requested by the server (nextPollMs) takes precedence.
	MinInterval time.Duration `json:"minInterval,omitempty" check:"0.."`
	// requested long-poll time (timeoutMs), which only target.revision longpoll has; 0 = answer at
	// once
	Timeout time.Duration `json:"timeout,omitempty" check:"0.."`
	// largest number of events per poll; 0 = the server's default
	MaxEvents int `json:"maxEvents,omitempty" check:"0.."`
}

// DefaultPoll returns the defaults.
func DefaultPoll() PollLane { return PollLane{MinInterval: minInterval} }
