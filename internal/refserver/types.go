package refserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// privateNote is the event type whose events have an owner: the principal that
// is named in the data. A principal is named by its token.
var privateNote = eventType{
	name:        "private.note",
	description: "A note was written to a principal. Nobody else hears of it.",
	filter:      "principal",
	owned:       true,
	input:       json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`),
	payload:     json.RawMessage(`{"type":"object","properties":{"principal":{"type":"string"},"text":{"type":"string"}}}`),
}

// seasonal is the event type that comes and goes.
var seasonal = eventType{
	name:        "seasonal",
	description: "Something that this server has now and then.",
	input:       json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`),
	payload:     json.RawMessage(`{"type":"object"}`),
}

// Offer puts an event type into the catalogue or takes it out, and tells those
// that listen for changes of it. What is taken out is not found any more:
// its streams and webhook subscriptions are terminated with -32011, polls are
// answered with it, and it cannot be published. Its buffer is kept. The error
// wraps [ErrUnknownEvent].
func (s *Server) Offer(name string, offered bool) error {
	t := s.broker.topics[name]
	if t == nil {
		return fmt.Errorf("target: offer %q: %w", name, ErrUnknownEvent)
	}
	if t.withdrawn.Swap(!offered) == !offered {
		return nil
	}
	if !offered {
		t.wakeAll()
		for _, h := range s.hooks.to(t) {
			s.terminate(h, notFound("event"))
		}
	}
	s.audience.announce(methodListChanged)
	return nil
}

// wakeAll lets every reader look what has changed.
func (t *topic) wakeAll() {
	t.mu.RLock()
	defer t.mu.RUnlock()
	t.all.wake()
	for _, l := range t.byKey {
		l.wake()
	}
}

// over says why a stream has to end, or nil.
func (st *stream) over(revoked bool) *rpcError {
	switch {
	case revoked:
		return forbidden(reasonRevoked)
	case st.topic.withdrawn.Load():
		return notFound("event")
	}
	return nil
}

// to lists the open subscriptions to a topic.
func (hs *hooks) to(t *topic) []*hook {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	var all []*hook
	for _, h := range hs.byKey {
		if h.topic == t && h.isOpen() {
			all = append(all, h)
		}
	}
	return all
}

// terminate ends a subscription and, where its system has a way to, says why.
func (s *Server) terminate(h *hook, why *rpcError) {
	if h.direct {
		s.hooks.remove(h, nil)
		return
	}
	last, err := terminatedEnvelope(why)
	if err != nil {
		s.opts.Logger.Error("terminated envelope", "error", err)
	}
	s.hooks.remove(h, last)
}

// comeAndGo withdraws and offers the seasonal type in turn until the server
// closes.
func (s *Server) comeAndGo() {
	tick := time.NewTicker(s.opts.TypesEvery)
	defer tick.Stop()
	for offered := false; ; offered = !offered {
		select {
		case <-tick.C:
			if err := s.Offer(seasonal.name, offered); err != nil {
				s.opts.Logger.Error("seasonal", "error", err)
			}
		case <-s.closing:
			return
		}
	}
}

// types takes {"name","offered"}: see Offer.
func (s *Server) types(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Name    string `json:"name"`
		Offered *bool  `json:"offered"`
	}
	if !readAdmin(w, r, &in) {
		return
	}
	if in.Offered == nil {
		http.Error(w, "offered is missing: true or false", http.StatusBadRequest)
		return
	}
	switch err := s.Offer(in.Name, *in.Offered); {
	case errors.Is(err, ErrUnknownEvent):
		http.Error(w, err.Error(), http.StatusNotFound)
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}
