package run

import (
	"maps"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/profiles"
)

// secret is a text of a profile that must not be shown.
type secret struct {
	field, value string
	// credential is set if the key or the name marks the value as a secret. Other
	// header values are hidden if possible, without a warning if not.
	credential bool
}

// SecretsOf returns the secrets in a profile.
func SecretsOf(p *profiles.Profile) *errtext.Secrets {
	var texts []string
	for _, s := range listSecrets(p) {
		if whyShown(p, s.value) == "" {
			texts = append(texts, s.value)
		}
	}
	return errtext.NewSecrets(texts...)
}

// listSecrets lists the secrets by field, in a fixed order.
func listSecrets(p *profiles.Profile) []secret {
	t, u := &p.Target, &p.Upstream
	var all []secret
	add := func(field, value string, credential bool) {
		if value != "" {
			all = append(all, secret{field, value, credential})
		}
	}
	for i, token := range t.Tokens {
		add("target.tokens["+strconv.Itoa(i)+"]", token, true)
	}
	if name := t.OAuth.SecretEnv; name != "" {
		add("target.oauth.secretEnv", os.Getenv(name), true)
	}
	for _, name := range slices.Sorted(maps.Keys(t.Headers)) {
		if strings.EqualFold(name, "Host") {
			continue
		}
		scheme, credential, found := strings.Cut(t.Headers[name], " ") // Bearer, Basic
		field := "target.headers." + name
		add(field, t.Headers[name], secretName(name) && !found)
		if found && scheme != "" {
			add(field, credential, secretName(name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.Env)) {
		addVariable(add, "target.env."+name, name, t.Env[name])
	}
	add("upstream.github.secret", u.GitHub.Secret, true)
	add("upstream.slack.secret", u.Slack.Secret, true)
	add("upstream.stripe.secret", u.Stripe.Secret, true)
	for _, of := range []struct{ field, url string }{
		{"target.url", t.URL}, {"upstream.admin", u.Admin}, {"upstream.http.url", u.HTTP.URL}, {"upstream.github.url", u.GitHub.URL},
		{"upstream.slack.url", u.Slack.URL}, {"upstream.stripe.url", u.Stripe.URL}, {"upstream.replay.url", u.Replay.URL},
	} {
		if !strings.Contains(of.url, "{{") {
			for _, value := range errtext.InURL(of.url) {
				add(of.field, value, false)
			}
		}
	}
	return all
}

// addVariable adds the secrets in an environment variable. Most variables are
// settings such as a port, a level or a path, which occur in many texts; they are
// left out unless the name says that they are secret.
func addVariable(add func(field, value string, credential bool), field, name, value string) {
	credential := secretName(name)
	if u, err := url.Parse(value); err == nil && u.Scheme != "" && u.Host != "" && !credential {
		for _, part := range errtext.InURL(value) { // a connection string may hold credentials
			add(field, part, u.User != nil)
		}
		return
	}
	if !credential && setting.MatchString(value) {
		return
	}
	add(field, value, credential)
	lines := strings.Split(value, "\n")
	if len(lines) == 1 {
		return
	}
	for _, line := range lines { // of a key: messages are cut at the end of a line
		if line = strings.TrimSpace(line); len(line) >= minSecretLine {
			add(field, line, false)
		}
	}
}

// minSecretLine is the length of the shortest line of a multi-line secret that is
// hidden by itself.
const minSecretLine = 16

// setting matches values that are not secret by themselves: words with separators,
// numbers with units, paths and addresses.
var setting = regexp.MustCompile(`^(?:[A-Za-z]+(?:[-_. ,][A-Za-z]+)*|[0-9.:]+[A-Za-z%]{0,3}|\.{0,2}/[^\s?]*|[A-Za-z.-]+:[0-9]+)$`)

// secretNames are parts of names of headers and variables that hold secrets.
var secretNames = []string{
	"auth",
	"token",
	"secret",
	"passw",
	"passphrase",
	"pwd",
	"key",
	"credential",
	"cookie",
	"session",
	"signature",
	"private",
	"dsn",
}

func secretName(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc(secretNames, func(part string) bool { return strings.Contains(name, part) })
}

// whyShown returns why a secret cannot be hidden: it occurs in texts or names that
// the result needs. It returns "" if the secret can be hidden.
func whyShown(p *profiles.Profile, value string) string {
	if len(value) < errtext.MinSecret {
		return "shorter than " + strconv.Itoa(errtext.MinSecret) + " characters"
	}
	for _, l := range p.Lanes {
		switch value {
		case l.Name, l.System, l.Mode:
			return "the name, system or mode of a lane"
		}
	}
	return ""
}
