package run

import (
	"bytes"
	"encoding/json"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter/internal/embedded"
)

// program is a target that is reached over its standard input and output.
type program struct {
	command []string
	ready   readyTransport
	admin   string // base URL of its admin listener, "" if it is not known
}

// readyTime is how long a program may take, after the handshake, to print where
// events are injected.
const readyTime = 5 * time.Second

// readyTransport is a Writer that finds the first line that holds an [embedded.Ready]
// with an admin address. It is safe for concurrent use.
type readyTransport struct {
	found chan embedded.Ready

	mu   sync.Mutex
	line []byte
	done bool
	seen int
}

// readyBound is how many bytes of standard error are searched for the line.
const readyBound = 64 << 10

// Write implements [io.Writer].
func (s *readyTransport) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen += len(b); s.done {
		return len(b), nil
	}
	s.line = append(s.line, b...)
	for !s.done {
		text, rest, ok := bytes.Cut(s.line, []byte("\n"))
		if !ok {
			break
		}
		s.line = rest
		var ready embedded.Ready
		if json.Unmarshal(text, &ready) == nil && ready.Admin != "" {
			s.done = true
			s.found <- ready
		}
	}
	if s.done = s.done || s.seen > readyBound; s.done {
		s.line = nil
	}
	return len(b), nil
}
