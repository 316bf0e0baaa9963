package mcpclient

import (
	"io"
	"sync/atomic"
	"time"

	"github.com/eventmeter/eventmeter/internal/crash"
)

const (
	// restTime is how long to wait for the end of an answer after the response was
	// read: a connection whose answer was not read to its end cannot be used again.
	// Most servers end the answer with the response, or a moment later in a segment
	// of its own.
	restTime = 500 * time.Millisecond
	// restHalvings is how often restTime is halved for a server that keeps its answers
	// open, so that calls are not delayed: from 500 ms to 2 ms.
	restHalvings = 8
	// maxRest bounds how much is read after the response, in bytes.
	maxRest = 256 << 10
)

// Patience is how long to wait for the ends of a target's answers. Every answer that
// does not end in time halves the wait, every other one doubles it, up to 500 ms. The
// zero value is ready. It is safe for concurrent use.
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

// bounded is a body that can end a read after a time by itself. Unlike closing the body
// from another goroutine, that keeps its connection usable.
type bounded interface {
	within(time.Duration)
}

// Rest reads the rest of an answer whose response was read, so that the connection can
// be used again, and returns the number of bytes read. It gives up if the target takes
// too long to end the answer. The caller closes the body.
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
