package mcpclient_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/loadgen/systems/systemstest"
)

func TestStdioDoesNotStart(t *testing.T) {
	ep, err := mcpclient.NewEndpoint(mcpclient.EndpointOptions{Command: []string{filepath.Join(t.TempDir(), "nothing-here")}})
	must(t, err)
	err = ep.Connect(t.Context())
	if !errors.Is(err, mcpclient.ErrUnreachable) || !strings.Contains(err.Error(), "is the command right?") {
		t.Errorf("%v", err)
	}
	if err := ep.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestStdioIsNoServer(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"-- exit --\n7 usage: server FILE\n", "exit status 7: usage: server FILE: run the command by hand to see more"},
		{"-- answer --\nhello\n-- exit --\n0 \n", "exit status 0: run the command by hand"},
	} {
		file := filepath.Join(t.TempDir(), "x.txtar")
		must(t, os.WriteFile(file, []byte(c.text), 0o600))
		ep, err := mcpclient.NewEndpoint(systemstest.Scripted(t, file))
		must(t, err)
		if err := ep.Connect(t.Context()); !errors.Is(err, mcpclient.ErrUnreachable) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v", err)
		}
		if s, _ := ep.Pipe(); s.Exit == "" {
			t.Errorf("%+v", s)
		}
		if err := ep.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func TestStdioRefusesOtherOptions(t *testing.T) {
	for _, o := range []mcpclient.EndpointOptions{
		{Command: []string{""}},
		{Command: []string{"x"}, URL: "http://127.0.0.1/mcp"},
		{Command: []string{"x"}, Tokens: []string{"t"}},
		{Command: []string{"x"}, Headers: map[string]string{"A": "b"}},
	} {
		if _, err := mcpclient.NewEndpoint(o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}
