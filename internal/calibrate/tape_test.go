package calibrate

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// What the admin listener answers is quoted.
func TestAdminAnswersAreQuoted(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "not here\nmore", http.StatusGone)
	}))
	defer s.Close()
	_, err := askAppliedFaults(t.Context(), s.URL, http.DefaultClient)
	if err == nil || !strings.Contains(err.Error(), "GET "+s.URL+"/") || !strings.Contains(err.Error(), ": 410 Gone: not here") {
		t.Errorf("admin: %v", err)
	}
}
