package mcpclient

import (
	"io"
	"sync/atomic"
	"time"

	"github.com/eventmeter/eventmeter/internal/crash"
)

const (
	// restTime is how long the end of an answer is waited for after the
	// response was read: a connection whose answer was not read to its end
	// cannot be used again. Servers that made the response end the answer at
	// once, or a moment later in a segment of its own.
	restTime = 500 * time.Millisecond
	// restHalvings is how often that time is halved at a server that keeps its
	// answers open, so that calls are not held up by it: 500 ms to 2 ms.
	restHalvings = 8
	// maxRest bounds what is read after the response, in bytes.
	maxRest = 256 << 10
)

// Patience is how long the ends of a target's answers are waited for. Every
// answer that does not end in time halves the wait, every one that does doubles
// it again.
type Patience struct{ halved atomic.Int32 }

func (p *Patience) limit() time.Duration { return restTime >> p.halved.Load() }

func (p *Patience) learn(ended bool) {
	switch n := p.halved.Load(); {
	case ended && n > 0:
		p.halved.CompareAndSwap(n, n-1)
	case !ended && n < restHalvings:
		p.halved.CompareAndSwap(n, n+1)
	}
}

// bounded is a body whose reading can be ended by a timer of its own, which
// keeps its connection usable where closing it from aside would not.
type bounded interface {
	within(time.Duration)
}

// Rest reads what is left of an answer whose response was read, so that the
// connection can be used again, and returns how many bytes that were. It gives
// up when the target takes too long to end it; the caller closes the body.
func (p *Patience) Rest(body io.ReadCloser) (n int64) {
	if p == nil {
		return 0
	}
	limit := p.limit()
	if b, ok := body.(bounded); ok {
		b.within(limit)
	} else {
		timer := time.AfterFunc(limit, func() {
			defer crash.Guard()
			_ = body.Close()
		})
		defer timer.Stop()
	}
	n, err := io.Copy(io.Discard, io.LimitReader(body, maxRest))
	p.learn(err == nil && n < maxRest)
	return n
}
