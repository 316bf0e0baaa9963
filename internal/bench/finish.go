package bench

import (
	"fmt"
	"strings"
	"time"

	"github.com/eventmeter/eventmeter/internal/health"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/upstream"
	"github.com/eventmeter/eventmeter/results"
	"github.com/eventmeter/eventmeter/sinks"
)

// add puts the account of one pass, and its lanes' own figures, into the result. Passes follow each other
// when lanes take turns; then counts add up, and of the generator's figures
// the worst is kept.
func (r *run) add(a sinks.Account, own []driver.Figures, in results.Generator, process *results.Process) {
	res := r.result
	u := &res.Upstream
	m := a.Measured
	// An emission that the target never answered for is uncertain.
	u.Fired += m.Fired
	u.Accepted += m.Accepted
	u.Uncertain += m.Uncertain + m.Pending
	u.Refused += m.Refused
	u.Dropped += m.Dropped
	u.Scheduled = u.Fired + u.Dropped
	u.Warmup += a.WarmUp.Fired
	r.fireLag = r.fireLag.Plus(a.FireLag)
	r.fireLatency = r.fireLatency.Plus(a.FireLatency)
	u.Lag, u.Answer = results.Summarise(r.fireLag), results.Summarise(r.fireLatency)
	turns := r.profile.Phases.Order == "turns"
	for i := range a.Lanes {
		l := results.NewLane(&a.Lanes[i])
		for name, v := range own[i].Values {
			l.Figures[name] = v
		}
		for name, t := range own[i].Timings {
			l.Timings[name] = results.Summarise(t)
		}
		if turns {
			l.Process = process
		}
		res.Lanes = append(res.Lanes, l)
	}
	res.Generator = health.Worse(res.Generator, in)
	res.Generator.DroppedEvents = share(u.Dropped, u.Scheduled)
	res.Target.Process = health.Together(res.Target.Process, process)
	if r.goesOn && r.opts.Shard == nil {
		// It has no series to be held to, and the whole account is checked at the end.
	} else if err := a.Check(); err != nil {
		// A ledger that does not add up is our fault, and its figures are worth
		// nothing: say so as loudly as a result can.
		r.unsound = append(r.unsound, fmt.Sprintf("the ledger does not add up, which is a bug in eventmeter: %v", err))
	}
	res.Generator.Reasons = append(health.Bottlenecks(res.Generator, res.Host.CPUs, r.sending()), r.unsound...)
	res.Generator.Bottleneck = len(res.Generator.Reasons) > 0
}

// sending is what the firing so far is judged by.
func (r *run) sending() health.Sending {
	u := &r.result.Upstream
	s := health.Sending{Workers: r.profile.Upstream.Workers, Lag: u.Lag, Answer: u.Answer}
	if r.profile.Schedule.Kind == "burst" {
		s.Burst = r.profile.Schedule.Burst
	}
	return s
}

// warning adds a warning to the result. It is safe for concurrent use.
func (r *run) warning(code, lane, format string, args ...any) {
	r.warnMu.Lock()
	defer r.warnMu.Unlock()
	r.result.Warnings = append(r.result.Warnings, results.Warning{Code: code, Lane: lane, Text: fmt.Sprintf(format, args...)})
}

// warnStdio tells of lines that belong to nothing.
func (r *run) warnStdio(s *results.Stdio) {
	if s == nil {
		return
	}
	if n := s.Malformed + s.TooLong; n > 0 {
		r.warning("malformed", "", "%d lines of the target's standard output are no messages; something there prints what belongs on standard error", n)
	}
	if s.Unknown > 0 {
		r.warning("unknown-ids", "", "%d lines of the target name a request that was never sent", s.Unknown)
	}
	if s.Exit != "" && len(s.Stderr) > 1 {
		r.warning("target-stderr", "", "the target's last words: %s", strings.Join(s.Stderr, " | "))
	}
}

// warn looks over the finished figures for what their reader should know.
func (r *run) warn() {
	res := r.result
	if r.profile.Upstream.Kind == "none" {
		r.warnObserved()
	} else if res.Upstream.Accepted == 0 {
		r.warning("nothing-measured", "", "no event was accepted in the measured part, so nothing is known about delivery")
	}
	if n := res.Upstream.Uncertain + res.Upstream.Refused; n > 0 {
		r.warning("publishing-failed", "", "%d of %d events could not be published for sure; they are owed to nobody, and count as recovered if they came%s", n, res.Upstream.Fired, r.firstFailure())
	}
	if res.Upstream.Dropped > 0 {
		r.warning("dropped-events", "", "%d events were due while all %d workers waited for the upstream's answers, and were never sent; %s", res.Upstream.Dropped, r.profile.Upstream.Workers, r.sending().Remedy())
	}
	r.warnStdio(res.Target.Stdio)
	for _, l := range res.Lanes {
		r.warnLane(l)
	}
}

// firstFailure says for the end of a sentence why the first emission failed.
func (r *run) firstFailure() string {
	if e, ok := r.target.upstream.(upstream.Explainer); ok {
		if first, _ := e.Failures(); first != "" {
			return "; the first: " + first
		}
	}
	return ""
}

func (r *run) warnLane(l results.Lane) {
	r.warnUnheard(&l)
	if missing := int64(l.Subscriptions) - l.Ready.Active; missing > 0 && l.Ready.Failed > 0 {
		r.warning("not-all-open", l.Name, "%d of %d subscriptions could not be opened: %s", missing, l.Subscriptions, topReason(l.Ready.Reasons))
	}
	if l.Expected == 0 && l.Detail.Excused+l.Detail.InFlight > 0 {
		// A threshold on losses holds where nothing can be lost.
		r.warning("nothing-owed", l.Name, "%d deliveries were on their way when a subscription began or ended, and nothing else was owed, so this lane says nothing about delivery: churn more slowly, or publish for longer", l.Detail.Excused+l.Detail.InFlight)
	}
	updates := int64(l.Figures["updatesObserved"])
	if updates > 0 && r.profile.Upstream.Kind != "none" {
		r.warning("observed-updates", l.Name, "%d updates named a resource and no event, since the target sends no payload: %d pairs of event and subscription may have been announced by them and are not expected one by one, so this lane says nothing about loss among them; %.0f updates stand for one certain event each (updateLatency)", updates, l.Detail.Unidentified, l.Figures["updatesIdentified"])
	}
	if other := l.Detail.Unprobed - updates; other > 0 && r.profile.Upstream.Kind != "none" {
		r.warning("other-traffic", l.Name, "%d events carried no probe id: somebody else's traffic, or a target that drops the string", other)
	}
	r.warnWebhook(&l)
	if l.Detail.Malformed > 0 {
		r.warning("malformed", l.Name, "%d messages could not be read, or break the protocol: %s", l.Detail.Malformed, topReason(l.Detail.MalformedBy))
	}
	if l.Detail.Oversized > 0 {
		r.warning("oversized", l.Name, "%d streams, answers or webhook bodies were given up because they were too large: %s", l.Detail.Oversized, topReason(l.Detail.OversizedBy))
	}
	if l.Detail.Reconnects+l.Detail.DeadStreams > 0 {
		r.warning("reconnects", l.Name, "%d streams were cut and opened again, %d of them because they fell silent", l.Detail.Reconnects, l.Detail.DeadStreams)
	}
	if n := l.Figures["streamsInClumps"]; n > 0 {
		r.warning("clumps", l.Name, "on %.0f streams the deliveries came in clumps: again and again the bytes stopped in the middle of a message, at equal distances, for a second and more. A proxy on the path collects them until a buffer is full (or the server itself does): the latencies are its, not the delivery's. See docs/proxies.md", n)
	}
	if ttl := time.Duration(l.Figures["ttlMs"] * 1e6); l.LostSilent > 0 && ttl > r.profile.Phases.Drain {
		r.warning("ttl-outlasts-drain", l.Name, "%d changes had not been seen when the drain (%v) was over, and the target lets copies live for %v, so clients may have had no reason to fetch again: raise phases.drain above that before you call them lost", l.LostSilent, r.profile.Phases.Drain, ttl)
	}
	if l.Detail.Terminated > 0 {
		r.warning("terminated", l.Name, "the target ended %d subscriptions", l.Detail.Terminated)
	}
	if n := l.Latency.FromIntended.OutOfRange; n > 0 {
		r.warning("out-of-range", l.Name, "%d latencies were over ten minutes and count as ten minutes", n)
	}
	if n := l.LostOrderUnknown; n > 0 {
		r.warning("order-unknown", l.Name, "%d lost deliveries may have been announced or not: their events were published while others were on their way, so nobody knows on which side of an announcement they lie. Fire fewer at a time to find out", n)
	}
	if n := l.Gaps.FalseAlarms; n > 0 {
		r.warning("false-alarms", l.Name, "%d gaps were announced in which nothing was missing", n)
	}
	for _, f := range topFailures(l.Failures, 3) {
		r.warning("failed-calls", l.Name, "%d calls failed: %s", l.Failures[f], f)
	}
}
