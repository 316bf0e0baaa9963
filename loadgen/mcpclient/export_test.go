package mcpclient

import (
	"time"

	"github.com/eventmeter/eventmeter/internal/wire"
)

// WithoutProgram makes the pipe of an endpoint one that has no program: what is
// sent stays in the queue, and route takes a line of the server's.
func (e *Endpoint) WithoutProgram() (queue <-chan []byte, route func(wire.Line, time.Time)) {
	e.pipe.starts.Do(func() {}) // there is nothing to start
	return e.pipe.queue, e.pipe.router.route
}
