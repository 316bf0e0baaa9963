package report

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/mcpload/mcpload/results"
)

// laneSettings are the settings of a lane that explain figures of it.
type laneSettings struct {
	Name   string `json:"name"`
	System string `json:"system"`
	Mode   string `json:"mode"`
	Poll   struct {
		Floor time.Duration `json:"floor"`
	} `json:"poll"`
	Webhook struct {
		Refuse float64 `json:"refuse"`
	} `json:"webhook"`
	Events  cutSettings `json:"events"`
	SEP1803 cutSettings `json:"sep1803"`
}

type cutSettings struct {
	CutEvery time.Duration `json:"cutEvery"`
}

// explanation is a setting that makes a lane slower than it would be.
type explanation struct {
	lane string
	text string // what follows "because"
}

// explained are the lanes of a result whose latency a setting explains.
func explained(r *results.Result) []explanation {
	var p struct {
		Lanes []laneSettings `json:"lanes"`
	}
	if json.Unmarshal(r.Profile, &p) != nil {
		return nil // a result without its profile
	}
	var out []explanation
	for i := range r.Lanes {
		l := &r.Lanes[i]
		if l.Delivered == 0 {
			continue
		}
		var s laneSettings
		for _, x := range p.Lanes {
			if x.Name == l.Name {
				s = x
			}
		}
		for _, why := range []string{pollPace(l, &s), refusals(l, &s), cuts(&s)} {
			if why != "" {
				out = append(out, explanation{l.Name, why})
			}
		}
	}
	return out
}

// pollPace explains a poll lane whose events wait for the next poll: the interval
// between polls is at least half of what the slowest deliveries took.
func pollPace(l *results.Lane, s *laneSettings) string {
	interval := l.Timings["pollInterval"]
	byServer, byFloor := l.Figures["pollsPacedByServer"], l.Figures["pollsPacedByFloor"]
	if interval.Count == 0 || byServer+byFloor == 0 || 2*interval.P50 < l.Latency.FromIntended.P99 {
		return ""
	}
	if byServer >= byFloor {
		return fmt.Sprintf("the server asked for %s between polls (nextPollMs)", settingText(interval.P50.Duration()))
	}
	return fmt.Sprintf("poll.floor is %s", settingText(s.Poll.Floor))
}

// refusals explain a webhook lane whose deliveries have to come again.
func refusals(l *results.Lane, s *laneSettings) string {
	if s.Webhook.Refuse == 0 || l.Duplicates.Requested == 0 {
		return ""
	}
	return fmt.Sprintf("it refuses %.3g %% of the deliveries once (webhook.refuse)", 100*s.Webhook.Refuse)
}

// cuts explain a lane whose streams the profile cuts.
func cuts(s *laneSettings) string {
	switch {
	case s.Events.CutEvery > 0:
		return fmt.Sprintf("its streams are cut every %s (events.cutEvery)", settingText(s.Events.CutEvery))
	case s.SEP1803.CutEvery > 0:
		return fmt.Sprintf("its streams are cut every %s (sep1803.cutEvery)", settingText(s.SEP1803.CutEvery))
	}
	return ""
}

// settingText writes a duration as a profile does, to three digits.
func settingText(d time.Duration) string {
	unit := time.Duration(1)
	for d >= 1000*unit {
		unit *= 10
	}
	return d.Round(unit).String()
}

// settingLines say for each lane which settings explain its latency.
func settingLines(r *results.Result) []string {
	whys := map[string][]string{}
	for _, e := range explained(r) {
		whys[e.lane] = append(whys[e.lane], e.text)
	}
	var out []string
	for i := range r.Lanes {
		name := r.Lanes[i].Name
		if all := whys[name]; all != nil {
			out = append(out, Clean(fmt.Sprintf("%s is slower because %s", name, listed(all))))
		}
	}
	return out
}
