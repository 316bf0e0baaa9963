package refserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// admin is the handler of the admin listener.
func (s *Server) admin() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /inject", s.inject)
	mux.HandleFunc("POST /revoke", s.revoke)
	mux.HandleFunc("POST /disturb", s.disturb)
	mux.HandleFunc("GET /faults", s.faultPlan)
	mux.HandleFunc("POST /types", s.types)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, []byte(`{"status":"ok"}`))
	})
	mux.HandleFunc("GET /stats", func(w http.ResponseWriter, _ *http.Request) {
		b, err := json.Marshal(s.Stats())
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		writeJSON(w, http.StatusOK, b)
	})
	return onlyPrograms(mux)
}

// onlyPrograms refuses what a web page could send: requests under a name that the page
// has rebound to this machine, with an origin, or with a body that a browser
// sends to other sites without asking first. The admin listener has no page of its own,
// so every origin is a foreign one.
func onlyPrograms(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		site := r.Header.Get("Sec-Fetch-Site")
		switch {
		case !hostAllowed(r):
			http.Error(w, fmt.Sprintf("Forbidden: Host %q is not loopback; use 127.0.0.1 or localhost", r.Host), http.StatusForbidden)
		case len(r.Header.Values("Origin")) > 0:
			http.Error(w, fmt.Sprintf("Forbidden: the request has the Origin %q; web pages may not use the admin listener", r.Header.Get("Origin")), http.StatusForbidden)
		case site != "" && site != "none":
			http.Error(w, fmt.Sprintf("Forbidden: Sec-Fetch-Site is %q; web pages may not use the admin listener", site), http.StatusForbidden)
		case r.Method == http.MethodPost && !isJSON(r):
			http.Error(w, "Content-Type must be application/json; with curl, use -H 'Content-Type: application/json'", http.StatusUnsupportedMediaType)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// isJSON tells whether a request says that its body is JSON.
func isJSON(r *http.Request) bool {
	media, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	return strings.EqualFold(strings.TrimSpace(media), "application/json")
}

// readAdmin reads a bounded JSON body; false means that it answered.
func readAdmin(w http.ResponseWriter, r *http.Request, into any) bool {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, "the body is too large or broke off", http.StatusRequestEntityTooLarge)
		return false
	}
	if err := json.Unmarshal(body, into); err != nil {
		http.Error(w, "the body is not the JSON object that is wanted: "+err.Error(), http.StatusBadRequest)
		return false
	}
	return true
}

// inject publishes {"name","data"}. It answers when every subscriber's queue
// holds the event.
func (s *Server) inject(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Name string          `json:"name"`
		Data json.RawMessage `json:"data"`
	}
	if !readAdmin(w, r, &in) {
		return
	}
	id, err := s.Publish(in.Name, in.Data)
	switch {
	case errors.Is(err, ErrUnknownEvent):
		http.Error(w, err.Error(), http.StatusNotFound)
	case errors.Is(err, ErrTooLarge):
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
	default:
		writeJSON(w, http.StatusAccepted, append(quote([]byte(`{"eventId":`), id), '}'))
	}
}

// revoke takes {"token","restore"}: see Revoke and Restore.
func (s *Server) revoke(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Token   string `json:"token"`
		Restore bool   `json:"restore"`
	}
	if !readAdmin(w, r, &in) {
		return
	}
	if in.Restore {
		s.Restore(in.Token)
	} else {
		s.Revoke(in.Token)
	}
	w.WriteHeader(http.StatusNoContent)
}

// disturb takes {"name","message"}: see Disturb.
func (s *Server) disturb(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Name    string `json:"name"`
		Message string `json:"message"`
	}
	if !readAdmin(w, r, &in) {
		return
	}
	if err := s.Disturb(in.Name, in.Message); err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
