package main

import (
	"bytes"
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/eventmeter/eventmeter/internal/embedded"
	"github.com/eventmeter/eventmeter/internal/refserver"
)

// The curl command that serve prints, and that of its help, do what they say.
func TestAnnouncedCurlInjects(t *testing.T) {
	s, err := refserver.New(refserver.Options{})
	must(t, err)
	must(t, s.Start(t.Context()))
	defer s.Close(t.Context())
	var said bytes.Buffer
	must(t, announce(&said, embedded.Ready{URL: s.URL(), Admin: s.AdminURL()}))
	help := strings.ReplaceAll(newServeCommand(streams{}).Example, "http://127.0.0.1:8081", s.AdminURL())
	command := regexp.MustCompile(`curl -H '([^:]+): ([^']+)' -d '([^']+)' (\S+)`)
	for name, text := range map[string]string{"announced": said.String(), "help": help} {
		m := command.FindStringSubmatch(text)
		if m == nil {
			t.Errorf("%s: no curl command in %s", name, text)
			continue
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, m[4], strings.NewReader(m[3]))
		must(t, err)
		req.Header.Set(m[1], m[2])
		resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
		must(t, err)
		resp.Body.Close()
		if resp.StatusCode != http.StatusAccepted {
			t.Errorf("%s: %s answered %s", name, m[0], resp.Status)
		}
	}
}

// TestFlagsHoldOverOptions: a flag that sets an option does so over the document
// of --options, too.
func TestFlagsHoldOverOptions(t *testing.T) {
	values := map[string][2]string{ // of the flag, and of the document
		"string": {"flag", `"document"`}, "stringArray": {"flag", `["document"]`}, "bool": {"true", "false"}, "float64": {"7", "3"},
	}
	for _, option := range serveOptions {
		var f serveFlags
		var c cobra.Command
		f.add(&c)
		value := values[c.Flags().Lookup(option.flag).Value.Type()]
		document := fmt.Sprintf(`{%q: %s, "NextPoll": "9s"}`, option.field, value[1])
		must(t, c.ParseFlags([]string{"--" + option.flag + "=" + value[0], "--options", document}))
		if err := f.load(&c, streams{}); err != nil {
			t.Errorf("--%s: %v", option.flag, err)
			continue
		}
		got := fmt.Sprint(reflect.ValueOf(f.options).FieldByName(option.field))
		if strings.Trim(got, "[]") != value[0] || f.options.NextPoll != 9*time.Second {
			t.Errorf("--%s gives %s with %v", option.flag, got, f.options.NextPoll)
		}
	}
}

// TestServeAnnouncesItself: the commands that serve prints can be pasted as they
// are.
func TestServeAnnouncesItself(t *testing.T) {
	var out strings.Builder
	must(t, announce(&out, embedded.Ready{URL: "http://127.0.0.1:8080/mcp", Admin: "http://127.0.0.1:8081"}))
	want := `MCP         http://127.0.0.1:8080/mcp
admin       http://127.0.0.1:8081

inject      curl -H 'Content-Type: application/json' ` +
		`-d '{"name":"chat.message","data":{"channel":"channel-0","text":"hello"}}' http://127.0.0.1:8081/inject
load it     eventmeter run --target http://127.0.0.1:8080/mcp --token any --upstream-url http://127.0.0.1:8081

Ctrl-C ends it.
`
	if got := out.String(); got != want {
		t.Errorf("serve prints\n%s\nwant\n%s", got, want)
	}
}
