package driver

import "errors"

// Why a stream ends that the target did not end by itself.
var (
	// ErrCut: the lane cut it on purpose.
	ErrCut = errors.New("the lane cut the stream on purpose")
	// ErrDead: it was silent for too long.
	ErrDead = errors.New("the stream was silent for twice the heartbeat interval")
	// ErrEnded: its last message was read.
	ErrEnded = errors.New("the stream has ended")
)
