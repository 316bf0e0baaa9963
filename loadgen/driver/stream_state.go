package driver

// more returns the stream's rareStream.
func (s *Stream) more() *rareStream {
	if s.rare == nil {
		s.rare = &rareStream{backoff: s.streams.backoff}
		s.rare.backoff.Rand = s.p.Rand()
	}
	return s.rare
}

// lapsed returns the stream's lapse. The caller holds mu.
func (s *Stream) lapsed() *lapse {
	if s.lapse == nil {
		s.lapse = &lapse{}
	}
	return s.lapse
}

// why returns why this side gave up the current connection. The caller holds mu.
func (s *Stream) why() error {
	if s.lapse == nil {
		return nil
	}
	return s.lapse.why
}

// First returns a channel that is closed when the stream was confirmed for the first
// time, and every message that was read with the confirmation was handled; or when there
// will be no more connections, which Ended reports.
func (s *Stream) First() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first == nil {
		s.first = make(chan struct{})
	}
	return s.first
}

// Done returns a channel that is closed when there will be no more connections.
func (s *Stream) Done() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lapsed()
	if l.done == nil {
		l.done = make(chan struct{})
	}
	return l.done
}

// Ended reports whether there will be no more connections.
func (s *Stream) Ended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lapse != nil && s.lapse.over
}

// Failure returns what ended the last connection.
func (s *Stream) Failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lapse == nil {
		return nil
	}
	return s.lapse.failure
}
