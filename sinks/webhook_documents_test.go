package sinks

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/eventmeter/eventmeter"
)

func TestDocuments(t *testing.T) {
	asked, turned := 0, 0
	r := NewReceiver(ReceiverOptions{
		Clock:     eventmeter.NewClock(),
		Turned:    func(Hook, int, eventmeter.Instant, int) { turned++ },
		Documents: map[string][]byte{"/.well-known/x.json": []byte(`{"a":1}`)},
		Asked: func(at eventmeter.Instant, size, answered int) {
			asked++
			if at == 0 || size == 0 || answered != 7 {
				t.Errorf("at %d, %d bytes, %d answered", at, size, answered)
			}
		},
	})
	for _, c := range []struct {
		method, path string
		status       int
		body         string
	}{
		{http.MethodGet, "/.well-known/x.json", 200, `{"a":1}`},
		{http.MethodPost, "/.well-known/x.json", 404, ""},
		{http.MethodGet, "/.well-known/y.json", 404, ""},
	} {
		w := httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequest(c.method, c.path, nil))
		if w.Code != c.status || w.Body.String() != c.body {
			t.Errorf("%s %s: %d %q", c.method, c.path, w.Code, w.Body)
		}
	}
	if asked != 1 || turned != 2 {
		t.Errorf("%d asked, %d turned", asked, turned)
	}
}
