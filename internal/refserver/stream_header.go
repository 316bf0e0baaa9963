package refserver

import "net/http"

// streamHeader sets what the head of every event stream has.
func (s *Server) streamHeader(h http.Header) {
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache, no-transform")
	s.unbuffered(h)
}

// unbuffered asks proxies to pass bytes on as they come: one that collects them
// would hold every event back. nginx and some others know this header.
func (s *Server) unbuffered(h http.Header) {
	if !s.opts.ProxiesMayBuffer {
		h.Set("X-Accel-Buffering", "no")
	}
}
