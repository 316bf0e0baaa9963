package report

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/eventmeter/eventmeter/results"
)

// laneSettings are the settings of a lane that explain its figures.
type laneSettings struct {
	Name string `json:"name"`
	Poll struct {
		MinInterval time.Duration `json:"minInterval"`
	} `json:"poll"`
	Webhook struct {
		Answer []sinkAnswer `json:"answer"`
	} `json:"webhook"`
	// groups are all groups of the lane by their keys.
	groups map[string]json.RawMessage
}

// sinkAnswer is how the sink answers a share of the events.
type sinkAnswer struct {
	Status    int     `json:"status"`
	Hang      bool    `json:"hang"`
	Reset     bool    `json:"reset"`
	Challenge bool    `json:"challenge"`
	Share     float64 `json:"share"`
}

type cutSettings struct {
	CutEvery time.Duration `json:"cutEvery"`
	CutAt    time.Duration `json:"cutAt"`
	CutFor   time.Duration `json:"cutFor"`
}

// settingLines returns, for each lane, the settings that explain its figures.
func settingLines(r *results.Result) []string {
	var p struct {
		Lanes []laneSettings `json:"lanes"`
	}
	if json.Unmarshal(r.Profile, &p) != nil {
		return nil // a result without its profile
	}
	var out []string
	for i := range r.Lanes {
		l := &r.Lanes[i]
		at := slices.IndexFunc(p.Lanes, func(s laneSettings) bool { return s.Name == l.Name })
		if l.Delivered == 0 || at < 0 {
			continue
		}
		s := &p.Lanes[at]
		for _, text := range []string{pollPace(l, s), refusals(l, s), cuts(s)} {
			if text != "" {
				out = append(out, Clean(l.Name+" "+text))
			}
		}
	}
	return out
}

// pollPace explains a poll lane whose events wait for the next poll: the interval between polls is
// at least half of the p99 latency.
func pollPace(l *results.Lane, s *laneSettings) string {
	interval := l.Timings["pollInterval"]
	byServer, byMinInterval := l.Figures["pollsPacedByServer"], l.Figures["pollsPacedByMinInterval"]
	if interval.Count == 0 || byServer+byMinInterval == 0 || 2*interval.P50 < l.Latency.FromIntended.P99 {
		return ""
	}
	const text = "waits for its polls: "
	if asked := l.Timings["nextPoll"]; byServer >= byMinInterval && asked.Count > 0 {
		return text + fmt.Sprintf("the server asked for %s between polls (nextPollMs)", settingText(asked.P50.Duration()))
	}
	return text + fmt.Sprintf("poll.minInterval is %s", settingText(s.Poll.MinInterval))
}

// refusals explains the requested copies of a webhook lane and their delay.
func refusals(l *results.Lane, s *laneSettings) string {
	refused, others := 0.0, 1.0
	for _, a := range s.Webhook.Answer {
		if !a.Challenge {
			others -= a.Share
		}
	}
	for _, a := range s.Webhook.Answer {
		switch {
		case a.Challenge, !a.Hang && !a.Reset && a.Status < 300:
		case a.Share == 0:
			refused += others
		default:
			refused += a.Share
		}
	}
	if refused == 0 || l.Duplicates.Requested == 0 {
		return ""
	}
	return fmt.Sprintf("refuses %.3g %% of its deliveries, which delays them (webhook.answer)", 100*refused)
}

// UnmarshalJSON keeps the groups: a lane has the settings of its system under a key
// of the system.
func (s *laneSettings) UnmarshalJSON(data []byte) error {
	type plain laneSettings
	if err := json.Unmarshal(data, (*plain)(s)); err != nil {
		return err
	}
	return json.Unmarshal(data, &s.groups)
}

// cuts explains the broken streams of a lane whose profile cuts them.
func cuts(s *laneSettings) string {
	for _, key := range slices.Sorted(maps.Keys(s.groups)) {
		var set cutSettings
		switch {
		case json.Unmarshal(s.groups[key], &set) != nil:
		case set.CutEvery > 0:
			return fmt.Sprintf("cuts its streams every %s (%s.cutEvery)", settingText(set.CutEvery), key)
		case set.CutAt > 0:
			return fmt.Sprintf("cuts all of its streams at once for %s (%s.cutAt)", settingText(set.CutFor), key)
		}
	}
	return ""
}

// settingText formats a duration as in a profile, with three digits.
func settingText(d time.Duration) string {
	unit := time.Duration(1)
	for d >= 1000*unit {
		unit *= 10
	}
	return d.Round(unit).String()
}

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
