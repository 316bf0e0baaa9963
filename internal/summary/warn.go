package summary

import (
	"slices"
	"strings"
	"time"

	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/results"
)

// warnStdio warns of lines that belong to no request or stream.
func (s *Summary) warnStdio(io *results.Stdio) {
	if io == nil {
		return
	}
	if n := io.Malformed + io.TooLong; n > 0 {
		s.Warn("malformed", "", "%d lines of the target's standard output are not messages; print logs and other text on standard error", n)
	}
	if io.Unknown > 0 {
		s.Warn("unknown-ids", "", "%d lines of the target name a request that was never sent", io.Unknown)
	}
	if io.Exit != "" && len(io.Stderr) > 1 {
		s.Warn("target-stderr", "", "the last lines of the target's standard error: %s", strings.Join(io.Stderr, " | "))
	}
}

// warnTokens warns of requests for tokens that failed.
func (s *Summary) warnTokens(t *results.Tokens) {
	if t == nil || t.Failed == 0 {
		return
	}
	s.Warn(
		"tokens-failed",
		"",
		"%d of %d requests for a token failed, and %d subscriptions ended because there was none; the first: %s",
		t.Failed,
		t.Requests,
		t.Lost,
		t.FirstError,
	)
}

// warn adds warnings about the finished figures.
func (s *Summary) warn(firstFailure string) {
	res := s.Result
	if s.profile.Upstream.Kind == "none" {
		s.warnObserved()
	} else if res.Upstream.Accepted == 0 {
		s.Warn("nothing-measured", "", "no event was accepted in the measured part, so nothing is known about delivery")
	}
	if n := res.Upstream.Uncertain + res.Upstream.Refused; n > 0 {
		s.Warn(
			results.PublishingFailed,
			"",
			"%d of %d events were not accepted (%d refused, %d uncertain), and are owed to nobody%s",
			n,
			res.Upstream.Published,
			res.Upstream.Refused,
			res.Upstream.Uncertain,
			firstFailure,
		)
	}
	if res.Upstream.Dropped > 0 {
		s.Warn(
			"dropped-events",
			"",
			"%d events were due while all %d workers waited for the upstream's answers, and were never sent; %s",
			res.Upstream.Dropped,
			s.profile.Upstream.Workers,
			s.sending().Remedy(),
		)
	}
	s.warnStdio(res.Target.Stdio)
	s.warnTokens(res.Target.Tokens)
	for _, w := range results.Doubts(res.Lanes) {
		s.Warn(w.Code, w.Lane, "%s", w.Text)
	}
	for _, l := range res.Lanes {
		s.warnLane(l)
	}
}

// findings are figures that should be 0, and what to say of them.
var findings = []struct{ figure, code, text string }{
	{"detail.unexpectedBy.notSubscribed", "not-subscribed",
		"%d deliveries were of sources that nobody subscribed to: if the target ignores the arguments, set lanes.*.sources to those that " +
			"it delivers (all, without it)"},
	{"detail.unexpectedBy.afterEnd", "after-end",
		"%d deliveries were of events that were published after their subscription had ended: the target did not end it"},
	{"detail.unexpectedBy.foreignRun", "foreign-run",
		"%d deliveries were of another run: wait until the target has forgotten its events, or let one run publish at a time"},
	{"detail.unexpectedBy.stale", "stale-events",
		"%d deliveries were of events from before their subscription, which asked for no replay (lanes.*.maxAge)"},
	{"figures.neverRetried", "never-retried",
		"%d events that this side answered 4xx did not come again for 10 s and more: only 410 and 413 are final"},
	{"figures.hasMoreUnmoved", "has-more", "%d answers to polls said hasMore without an event and without a new cursor"},
	{"figures.reordered", "list-order", "%d uses saw the entries of the list in another order than the use before"},
}

func (s *Summary) warnLane(l results.Lane) {
	s.warnReceivedNothing(&l)
	if missing := int64(l.Subscriptions) - l.Ready.Active; missing > 0 && l.Ready.Failed > 0 {
		s.Warn(
			"not-all-open",
			l.Name,
			"%d of %d subscriptions could not be opened: %s",
			missing,
			l.Subscriptions,
			topReason(l.Ready.Reasons),
		)
	}
	if l.Expected == 0 && l.Detail.Excused+l.Detail.InFlight > 0 {
		// A threshold on losses holds if nothing can be lost, so this must be a
		// warning.
		s.Warn(
			"nothing-owed",
			l.Name,
			"%d deliveries were on their way when a subscription began or ended, and nothing else was owed, so this lane says "+
				"nothing about delivery: churn more slowly, or publish for longer",
			l.Detail.Excused+l.Detail.InFlight,
		)
	}
	updates := int64(l.Figures["updatesObserved"])
	if updates > 0 && s.profile.Upstream.Kind != "none" {
		s.Warn(
			"observed-updates",
			l.Name,
			"%d updates named a resource and no event, because the target sends no payload. These updates may have announced "+
				"%d pairs of event and subscription, which are not expected one by one, so this lane says nothing about loss "+
				"among them; %.0f updates stand for one certain event each (updateLatency)",
			updates,
			l.Detail.Unidentified,
			l.Figures["updatesIdentified"],
		)
	}
	if other := l.Detail.Unprobed - updates; other > 0 && s.profile.Upstream.Kind != "none" {
		s.Warn("other-traffic", l.Name, "%d events carried no probe id: somebody else's traffic, or a target that drops the string", other)
	}
	s.warnWebhook(&l)
	if l.Detail.Malformed > 0 {
		s.Warn(
			"malformed",
			l.Name,
			"%d messages could not be read, or break the protocol: %s",
			l.Detail.Malformed,
			topReason(l.Detail.MalformedBy),
		)
	}
	if l.Detail.Oversized > 0 {
		s.Warn(
			"oversized",
			l.Name,
			"%d streams, answers or webhook bodies were given up because they were too large: %s",
			l.Detail.Oversized,
			topReason(l.Detail.OversizedBy),
		)
	}
	if l.Detail.Reconnects+l.Detail.DeadStreams > 0 {
		s.Warn(
			"reconnects",
			l.Name,
			"%d streams were cut and opened again, %d of them because they fell silent",
			l.Detail.Reconnects,
			l.Detail.DeadStreams,
		)
	}
	if n := l.Figures["coalescedStreams"]; n > 0 {
		s.Warn(
			"coalesced-reads",
			l.Name,
			"on %.0f streams the deliveries arrived in coalesced reads: again and again the bytes stopped in the middle of a "+
				"message, at equal distances, for a second and more. A proxy on the path, or the server itself, collects them "+
				"until a buffer is full: the latencies are those of the buffer. See docs/proxies.md",
			n,
		)
	}
	if ttl := time.Duration(l.Figures["ttlMs"] * 1e6); l.LostSilent > 0 && ttl > s.profile.Phases.Drain {
		s.Warn(
			"ttl-outlasts-drain",
			l.Name,
			"%d changes had not been seen when the drain (%v) was over, and the target lets copies live for %v, so clients may "+
				"have had no reason to fetch again: raise phases.drain above that before you call them lost",
			l.LostSilent,
			s.profile.Phases.Drain,
			ttl,
		)
	}
	if l.Detail.Terminated > 0 {
		s.Warn("terminated", l.Name, "the target ended %d subscriptions", l.Detail.Terminated)
	}
	for _, f := range findings {
		if n, _ := l.Figure(f.figure); n > 0 {
			s.Warn(f.code, l.Name, f.text, int64(n))
		}
	}
	if n := l.Latency.FromIntended.OutOfRange; n > 0 {
		s.Warn("out-of-range", l.Name, "%d latencies were over ten minutes and count as ten minutes", n)
	}
	if n := l.LostOrderUnknown; n > 0 {
		why := "their events were published while others were on their way, so it is not known whether an announcement covers them. " +
			"Publish fewer at a time to find out"
		if l.Unordered {
			why = "webhooks have no order, so an announcement may be about every event that was published before it arrived"
		}
		s.Warn("order-unknown", l.Name, "%d lost deliveries may have been announced or not: "+why, n)
	}
	if n := l.Gaps.FalseAlarms; n > 0 {
		s.Warn("false-alarms", l.Name, "%d gaps were announced in which nothing was missing", n)
	}
	if n := l.Gaps.NotReplayed; n > 0 {
		s.Warn(
			"not-replayed",
			l.Name,
			"%d subscriptions were opened again with a kept cursor, without truncated, and received none of the events that were "+
				"published meanwhile",
			n,
		)
	}
	for _, f := range topFailures(l.Failures, 3) {
		s.Warn("failed-calls", l.Name, "%d calls failed: %s", l.Failures[f], f)
	}
}

// warnObserved names the figures that a run that publishes nothing cannot have.
func (s *Summary) warnObserved() {
	if !slices.ContainsFunc(s.profile.Lanes, func(l profiles.Lane) bool { return !l.HasNoSources() }) {
		return
	}
	s.Warn(
		"observed-only",
		"",
		"nothing was published, so expected, lost, out of order and latency say nothing; the observed figures, such as "+
			"observedEvents, count the events received in the %v measured",
		s.profile.Phases.Measure.Round(time.Millisecond),
	)
}
