package summary

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/results"
)

// warnReceivedNothing warns of a lane that received nothing at all, and lists the
// likely causes.
func (s *Summary) warnReceivedNothing(l *results.Lane) {
	if !l.ReceivedNothing() {
		return
	}
	for i := range s.profile.Lanes {
		if p := &s.profile.Lanes[i]; p.Name == l.Name {
			s.Warn(
				"received-nothing",
				l.Name,
				"it received nothing at all: %d deliveries were owed to its %d subscriptions, and its thresholds are not "+
					"evaluated. Likely causes, the likeliest first: %s",
				l.Expected,
				l.Subscriptions,
				strings.Join(whyNothing(l, p), "; "),
			)
		}
	}
}

// whyNothing returns the likely causes for a lane that received nothing, the
// likeliest first. Observed causes come before common ones.
func whyNothing(l *results.Lane, p *profiles.Lane) []string {
	var out []string
	add := func(n int64, format string, args ...any) {
		if n > 0 {
			out = append(out, fmt.Sprintf(format, append([]any{n}, args...)...))
		}
	}
	d := &l.Detail
	add(d.Rejected, "%d deliveries were refused here for their signature")
	add(d.Unprobed, "%d events came without a probe id, so the target may drop the text that holds it")
	add(d.Malformed, "%d messages could not be read: %s", topReason(d.MalformedBy))
	add(d.Oversized, "%d streams, answers or webhook bodies were too large: %s", topReason(d.OversizedBy))
	add(d.Terminated, "the target ended %d subscriptions")
	if s, ok := p.Settings.(interface{ Subject() string }); ok {
		if n := l.Figures["shownAtEnd"]; n > 0 {
			return append(out, fmt.Sprintf("%s has changed, as one more read after the drain showed (%.0f events), so the target did not "+
				"notify, or lets copies live for longer than the run", s.Subject(), n))
		}
		out = append(out, s.Subject()+" is not what the upstream changes")
	} else {
		out = append(out, fmt.Sprintf("the event type (%q) is not what the upstream causes", p.Event))
	}
	arguments := "{}"
	if text, err := json.Marshal(p.Arguments); err == nil && p.Arguments != nil {
		arguments = string(text)
	}
	out = append(out,
		fmt.Sprintf("the arguments (%s) select other events", arguments),
		fmt.Sprintf("sources (%q) names other sources than the arguments select", p.Sources))
	if p.Mode == "webhook" {
		out = append(out,
			"the target does not trust the certificate of the callback, or does not reach its address",
			"the target suspended the subscriptions")
	}
	return out
}
