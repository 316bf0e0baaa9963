package main

import (
	"bytes"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/internal/embedded"
	"github.com/eventmeter/eventmeter/internal/refserver"
)

// The curl command that serve prints, and that of its help, do what they say.
func TestAnnouncedCurlInjects(t *testing.T) {
	s, err := refserver.New(refserver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer s.Close(t.Context())
	var said bytes.Buffer
	if err := announce(&said, embedded.Ready{URL: s.URL(), Admin: s.AdminURL()}); err != nil {
		t.Fatal(err)
	}
	help := strings.ReplaceAll(newServeCommand(streams{}).Example, "http://127.0.0.1:8081", s.AdminURL())
	command := regexp.MustCompile(`curl -H '([^:]+): ([^']+)' -d '([^']+)' (\S+)`)
	for name, text := range map[string]string{"announced": said.String(), "help": help} {
		m := command.FindStringSubmatch(text)
		if m == nil {
			t.Errorf("%s: no curl command in %s", name, text)
			continue
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, m[4], strings.NewReader(m[3]))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(m[1], m[2])
		resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusAccepted {
			t.Errorf("%s: %s answered %s", name, m[0], resp.Status)
		}
	}
}
