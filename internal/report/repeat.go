package report

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/eventmeter/eventmeter/results"
)

// repeat is the command that repeats the run in the directory of its profile.yaml. Flags add what a
// profile cannot hold: foreign hosts that may be loaded, and the number of processes.
func repeat(r *results.Result) string {
	words := []string{"eventmeter run --profile profile.yaml"}
	for _, host := range foreignHosts(r.Profile) {
		words = append(words, "--allow-host "+shellWord(host))
	}
	count := 0
	if r.Part != nil {
		count = r.Part.Count
	} else if len(r.Shards) > 0 {
		count = r.Shards[0].Count
	}
	if count > 1 {
		words = append(words, fmt.Sprintf("--processes %d", count))
	}
	return strings.Join(words, " ")
}

// foreignHosts are the hosts that a profile loads, except those that are certainly this machine.
// One host too many does no harm.
func foreignHosts(profile json.RawMessage) []string {
	type withURL struct {
		URL string `json:"url"`
	}
	var p struct {
		Target struct {
			URL   string   `json:"url"`
			Allow []string `json:"allow"`
		} `json:"target"`
		Upstream struct {
			Admin  string  `json:"admin"`
			HTTP   withURL `json:"http"`
			GitHub withURL `json:"github"`
			Slack  withURL `json:"slack"`
			Stripe withURL `json:"stripe"`
			Replay withURL `json:"replay"`
		} `json:"upstream"`
	}
	if json.Unmarshal(profile, &p) != nil {
		return nil
	}
	u := &p.Upstream
	hosts := slices.Clone(p.Target.Allow) // the run refuses to begin unless they are named
	for _, address := range []string{p.Target.URL, u.Admin, u.HTTP.URL, u.GitHub.URL, u.Slack.URL, u.Stripe.URL, u.Replay.URL} {
		// The part after the host may be a template.
		scheme, rest, _ := strings.Cut(address, "://")
		host, _, _ := strings.Cut(rest, "/")
		parsed, err := url.Parse(scheme + "://" + host)
		if err != nil || parsed.Hostname() == "" || isThisMachine(parsed.Hostname()) {
			continue
		}
		hosts = append(hosts, parsed.Hostname())
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

func isThisMachine(host string) bool {
	if a, err := netip.ParseAddr(host); err == nil {
		return a.Unmap().IsLoopback()
	}
	return strings.EqualFold(host, "localhost")
}

// shellWord quotes s for a shell if needed.
func shellWord(s string) string {
	s = Clean(s)
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(".-_:", r))
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
