package refserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/eventmeter/eventmeter"
)

// admin is the handler of the admin listener.
func (s *Server) admin() http.Handler {
	mux := http.NewServeMux()
	command(mux, "/inject", s.inject)
	command(mux, "/revoke", s.revoke)
	command(mux, "/disturb", s.disturb)
	command(mux, "/tokens/expire", s.expireTokens)
	command(mux, "/types", s.types)
	mux.HandleFunc("GET /faults", s.faultPlan)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, []byte(`{"status":"ok"}`))
	})
	mux.HandleFunc("GET /stats", func(w http.ResponseWriter, _ *http.Request) { writeValue(w, s.Stats()) })
	return onlyPrograms(mux)
}

// errNoTokens says that a server has no tokens that expire.
var errNoTokens = errors.New("there are no tokens that expire: start the server with TokenLife")

// command serves a POST to the admin listener. do takes the bounded JSON body, and returns
// the answer, nil for one without a body.
func command[T any](mux *http.ServeMux, path string, do func(in T) (answer []byte, err error)) {
	mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // cannot fail: it has been read, and is in memory
		var in T
		if err := json.Unmarshal(body, &in); err != nil {
			http.Error(w, "the body is not the JSON object that is wanted: "+err.Error(), http.StatusBadRequest)
			return
		}
		answer, err := do(in)
		switch {
		case errors.Is(err, errUnknownEvent), errors.Is(err, errNoTokens):
			http.Error(w, err.Error(), http.StatusNotFound)
		case errors.Is(err, errTooLarge):
			http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		case err != nil:
			http.Error(w, err.Error(), http.StatusBadRequest)
		case answer != nil:
			writeJSON(w, http.StatusAccepted, answer)
		default:
			w.WriteHeader(http.StatusNoContent)
		}
	})
}

func writeValue(w http.ResponseWriter, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	writeJSON(w, http.StatusOK, b)
}

// onlyPrograms refuses requests that a web page could send: under a name that
// the page has rebound to this machine, with an origin, or with a body that
// browsers send to other sites without a preflight. The admin listener has no
// page of its own, so every origin is foreign.
func onlyPrograms(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		site, status, why := r.Header.Get("Sec-Fetch-Site"), http.StatusForbidden, ""
		switch {
		case !hostAllowed(r):
			why = fmt.Sprintf("Forbidden: Host %q is not loopback; use 127.0.0.1 or localhost", r.Host)
		case len(r.Header.Values("Origin")) > 0:
			why = fmt.Sprintf("Forbidden: the request has the Origin %q; web pages may not use the admin listener", r.Header.Get("Origin"))
		case site != "" && site != "none":
			why = fmt.Sprintf("Forbidden: Sec-Fetch-Site is %q; web pages may not use the admin listener", site)
		case r.Method == http.MethodPost && !isJSON(r):
			status = http.StatusUnsupportedMediaType
			why = "Content-Type must be application/json; with curl, use -H 'Content-Type: application/json'"
		default:
			next.ServeHTTP(w, r)
			return
		}
		http.Error(w, why, status)
	})
}

// inject publishes {"name","data","id"}, where id is optional. It answers when the queue of every
// subscriber holds the event.
func (s *Server) inject(in struct {
	Name string          `json:"name"`
	Data json.RawMessage `json:"data"`
	ID   string          `json:"id"`
}) ([]byte, error) {
	id, err := s.PublishAs(in.ID, in.Name, in.Data)
	return append(quote([]byte(`{"eventId":`), id), '}'), err
}

// revoke takes {"token","restore"}: see [Server.Revoke] and [Server.Restore].
func (s *Server) revoke(in struct {
	Token   string `json:"token"`
	Restore bool   `json:"restore"`
}) ([]byte, error) {
	if in.Restore {
		s.Restore(in.Token)
	} else {
		s.Revoke(in.Token)
	}
	return nil, nil
}

// expireTokens takes {}: every access token expires now.
func (s *Server) expireTokens(struct{}) ([]byte, error) {
	if s.issuer == nil {
		return nil, errNoTokens
	}
	s.issuer.ExpireAll()
	return nil, nil
}

// disturb takes {"name","message"}: see [Server.Disturb].
func (s *Server) disturb(in struct {
	Name    string `json:"name"`
	Message string `json:"message"`
}) ([]byte, error) {
	return nil, s.Disturb(in.Name, in.Message)
}

// terminate ends a subscription and sends the reason if its system has a
// message for it. With once, it is not tried again.
func (s *Server) terminate(h *hook, why *rpcError, once bool) {
	if h.direct {
		s.hooks.remove(h, nil)
		return
	}
	last := h.terminatedEnvelope(s.rules.spell(why))
	last.once = once
	s.hooks.remove(h, last)
}

// toggleSeasonal withdraws and offers the seasonal type in turn until the
// server closes.
func (s *Server) toggleSeasonal() {
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

// types takes {"name","offered"} or {"name","changed":true}: see [Server.Offer]
// and [Server.ChangeSchema].
func (s *Server) types(in struct {
	Name    string `json:"name"`
	Offered *bool  `json:"offered"`
	Changed bool   `json:"changed"`
}) ([]byte, error) {
	switch {
	case (in.Offered != nil) == in.Changed:
		return nil, errors.New("want one of offered (true or false) and changed (true)")
	case in.Changed:
		return nil, s.ChangeSchema(in.Name)
	}
	return nil, s.Offer(in.Name, *in.Offered)
}

// changeList is [Server.Publish] for eventListChanged.
func (s *Server) changeList(data []byte) (eventID string, err error) {
	if err := s.lists.change(data); err != nil {
		return "", fmt.Errorf("target: publish %s: %w", eventListChanged, err)
	}
	return s.broker.nextID(), nil
}

// Offer adds an event type to the catalogue or removes it, and notifies clients
// that listen for changes of it. A removed type is not found: its streams and
// webhook subscriptions are terminated, polls fail with the same error, and it
// cannot be published. Its buffer is kept. The error wraps
// errUnknownEvent.
func (s *Server) Offer(name string, offered bool) error {
	all := s.broker.named(name)
	if len(all) == 0 {
		return fmt.Errorf("target: offer %q: %w", name, errUnknownEvent)
	}
	s.offer(all, offered)
	return nil
}

// offer adds or removes these types at once: no client hears of one before the
// catalogue has changed for all.
func (s *Server) offer(all []*topic, offered bool) {
	changed := false
	for _, t := range all {
		changed = t.withdrawn.Swap(!offered) != !offered || changed
	}
	if changed && !offered {
		s.endSubscriptions(all, noSuchEvent())
	}
	if changed {
		s.announceTypes()
	}
}

// ChangeSchema changes the payload schema of an event type in place. Its streams
// and webhook subscriptions are terminated, polls with earlier cursors fail, and
// clients that listen for changes of the types are notified. What was published
// stays readable. The error wraps errUnknownEvent.
func (s *Server) ChangeSchema(name string) error {
	all := s.broker.named(name)
	if len(all) == 0 {
		return fmt.Errorf("target: change %q: %w", name, errUnknownEvent)
	}
	epoch := strconv.FormatInt(time.Now().UnixNano(), 36)
	for _, t := range all {
		t.changeSchema(epoch)
	}
	s.endSubscriptions(all, schemaChanged())
	s.announceTypes()
	return nil
}

func (s *Server) announceTypes() {
	if !s.breach.Breaks("list-changed-notification", "") {
		s.typeListeners.announce(methodListChanged)
	}
}

// endSubscriptions ends the streams and webhook subscriptions of topics.
func (s *Server) endSubscriptions(of []*topic, why *rpcError) {
	for _, t := range of {
		t.wakeAll()
	}
	for _, h := range s.hooks.openHooks(func(h *hook) bool { return slices.Contains(of, h.topic) }) {
		if !s.breach.Breaks("removal-terminates-subscriptions", eventmeter.Webhook) {
			s.terminate(h, why, false)
		}
	}
	s.flushState()
}

// faultPlan answers GET /faults?sources=N&to=M.
func (s *Server) faultPlan(w http.ResponseWriter, r *http.Request) {
	sources, to := 1, 100
	for name, into := range map[string]*int{"sources": &sources, "to": &to} {
		text := r.URL.Query().Get(name)
		if text == "" {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 100_000 {
			http.Error(w, name+" must be a whole number from 1 to 100000", http.StatusBadRequest)
			return
		}
		*into = n
	}
	writeValue(w, s.faultInjector.plan(sources, uint32(to)))
}
