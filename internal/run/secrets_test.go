package run

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/internal/settings"
	"github.com/eventmeter/eventmeter/profiles"
)

// TestSecretsOfAProfile: what stands in the text is hidden, or is left where the
// value is a setting that stands in many texts.
func TestSecretsOfAProfile(t *testing.T) {
	for _, tt := range []struct {
		name   string
		target profiles.Target
		in     string
		want   string
	}{
		{"a variable named as a secret", profiles.Target{Env: map[string]string{"API_TOKEN": "production"}},
			"bad token production", "bad token …"},
		{"a variable that looks like one", profiles.Target{Env: map[string]string{"APP": "x8f-3f9a7c51e2"}}, "x8f-3f9a7c51e2?", "…?"},
		{"a connection string", profiles.Target{Env: map[string]string{"STORE": "postgres://app:hunter22@db:5432/x?sslkey=s3cr3t"}},
			"app at db: hunter22, s3cr3t", "app at db: …, …"},
		{"one with a name of a secret", profiles.Target{Env: map[string]string{"STORE_DSN": "postgres://db:5432/private"}},
			"cannot reach postgres://db:5432/private", "cannot reach …"},
		{"a key of several lines", profiles.Target{Env: map[string]string{"PRIVATE_KEY": "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG\nend\n"}},
			"parse MIIEvQIBADANBgkqhkiG: the end", "parse …: the end"},
		{"all of it, on one line", profiles.Target{Env: map[string]string{"PASSWORD": "two\nlines of it"}}, "not two lines of it", "not …"},
		{"as JSON", profiles.Target{Env: map[string]string{"PASSWORD": `quo"ted!`}}, `{"p":"quo\"ted!"}`, `{"p":"…"}`},
		{"a level", profiles.Target{Env: map[string]string{"LOG_LEVEL": "warning"}}, "warning: 8 lost", "warning: 8 lost"},
		{"a port and an address", profiles.Target{Env: map[string]string{"PORT": "8080", "LISTEN": "127.0.0.1:8080",
			"UPSTREAM": "localhost:8080"}}, "127.0.0.1:8080, localhost:8080", "127.0.0.1:8080, localhost:8080"},
		{"a time", profiles.Target{Env: map[string]string{"TIMEOUT": "1250.5ms"}}, "p99 1250.5ms", "p99 1250.5ms"},
		{"a path", profiles.Target{Env: map[string]string{"PATH": "/usr/local/bin"}}, "/usr/local/bin/server ended",
			"/usr/local/bin/server ended"},
		{"a number of requests", profiles.Target{Env: map[string]string{"WORKERS": "1000000"}}, "1000000 expected", "1000000 expected"},
		{"an address without a password", profiles.Target{Env: map[string]string{"BACKEND": "http://127.0.0.1:9"}},
			"http://127.0.0.1:9/x", "http://127.0.0.1:9/x"},
		{"a short token", profiles.Target{Tokens: []string{"11"}}, "11 of 1100 lost", "11 of 1100 lost"},
		{"a token like a name of a lane", profiles.Target{Tokens: []string{"events", "fanout", "webhook"}},
			"fanout: events by webhook", "fanout: events by webhook"},
		{"a header", profiles.Target{Headers: map[string]string{"Authorization": "Bearer abcdef-1", "Host": "example"}},
			"abcdef-1 for example", "… for example"},
	} {
		p := &profiles.Profile{Target: tt.target, Lanes: []profiles.Lane{{Name: "fanout", System: "events", Mode: "webhook"}}}
		if got := SecretsOf(p).Scrub(tt.in); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestSecretsThatCannotBeHidden: a run warns of each, and names the field alone. On this
// machine, as in the first steps of the README, any token will do.
func TestSecretsThatCannotBeHidden(t *testing.T) {
	p := hostileProfile(t, "http://127.0.0.1:9/mcp")
	p.Target.Tokens = []string{"any"}
	local, err := newRun(t.Context(), Options{Profile: p, Version: "test"})
	if err != nil || len(local.Result.Warnings) > 0 {
		t.Errorf("%v, %+v", err, local)
	}
	p.Target.URL, p.Target.Allow = "http://192.0.2.1:9/mcp", []string{"192.0.2.1"}
	p.Target.Tokens = []string{"poll", "tok-long-enough", "ab7", "events"}
	p.Target.Headers = map[string]string{"X-Api-Key": "k9z", "X-Version": "2", "Authorization": "Bearer q1"}
	p.Target.Env = map[string]string{"DB_PASSWORD": "pw", "WORKERS": "4"}
	r, err := newRun(t.Context(), Options{Profile: p, Version: "test", AllowHosts: []string{"192.0.2.1"}})
	must(t, err)
	var got []string
	for _, w := range r.Result.Warnings {
		if w.Code == "secret-not-hidden" {
			got = append(got, w.Text)
		}
	}
	const short, name = "shorter than 6 characters", "the name, system or mode of a lane"
	var want []string
	for _, of := range [][2]string{{"target.tokens[0]", short}, {"target.tokens[2]", short}, {"target.tokens[3]", name},
		{"target.headers.Authorization", short}, {"target.headers.X-Api-Key", short}, {"target.env.DB_PASSWORD", short}} {
		want = append(want, fmt.Sprintf("%s is not hidden where the target repeats it, because it is %s", of[0], of[1]))
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("warnings:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestVariablesAreHidden: a program that repeats its environment gives nothing away.
func TestVariablesAreHidden(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell")
	}
	target := profiles.Target{
		Command: []string{"sh", "-c", `printf 'no access with %s' "$API_KEY" >&2; exit 1`},
		Env:     map[string]string{"API_KEY": "k-3f9a7c51"},
	}
	_, err := DiscoverTarget(t.Context(), target, nil, "test")
	if err == nil || !strings.Contains(err.Error(), "no access with …") {
		t.Errorf("discover: %v", err)
	}
	p := hostileProfile(t, "http://127.0.0.1:9/mcp")
	p.Target = target
	_, err = Run(t.Context(), Options{Profile: p, Version: "test"})
	if err == nil || !strings.Contains(err.Error(), "no access with …") {
		t.Errorf("run: %v", err)
	}
}

// TestClientSecretIsHidden: the profile holds the name of a variable, and what
// that holds is a secret.
func TestClientSecretIsHidden(t *testing.T) {
	t.Setenv("OAUTH_TEST_SECRET", "very-secret-words")
	p := &profiles.Profile{Target: profiles.Target{OAuth: settings.OAuth{ClientID: "c", SecretEnv: "OAUTH_TEST_SECRET"}}}
	if got := SecretsOf(p).Scrub("client_secret=very-secret-words"); got != "client_secret=…" {
		t.Error(got)
	}
	p.Target.OAuth.SecretEnv = "OAUTH_TEST_NO_SECRET"
	if _, err := endpointOptions(
		p.Target,
		"",
	); err == nil ||
		!strings.Contains(err.Error(), "target.oauth.secretEnv: the environment variable OAUTH_TEST_NO_SECRET is empty or not set") {
		t.Error(err)
	}
}
