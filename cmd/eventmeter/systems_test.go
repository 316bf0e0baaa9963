package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/internal/promtest"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/results"
)

// profileRun is a built-in profile that the tests run for a few seconds.
type profileRun struct {
	name    string
	profile string
	set     []string
	// watched runs it with the race detector, if the tests have it.
	watched bool
	// lossy is a lane that loses some of its events by design.
	lossy string
	// check looks at what only this profile has.
	check func(t *testing.T, r *results.Result)
}

// Grants that outlive the run on any machine, and are refreshed in it.
const (
	mixedTTL     = "lanes.webhook.webhook.ttl=30s"
	mixedDefault = "target.embedded.ttlDefault=30s"
)

// TestBuiltinProfiles runs the systems' profiles with the real command, and
// reads their results back: the accounts are exact, the systems' own figures add
// up, and all thresholds pass. All of them are of counts, which a busy machine
// does not change. Each system has a profile with the race detector.
func TestBuiltinProfiles(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	for _, c := range []profileRun{
		{name: "events", profile: "events", set: eventsInShort, check: checkEventsNewest},
		{name: "events older", profile: "events", set: append([]string{"target.revision=older",
			"thresholds=['*.lostSilent == 0', '*.duplicates.rate == 0', 'rotating.figures.rotations > 0', " +
				"'rotating.figures.rejectedInRace == 0']"}, eventsInShort...), check: checkEventsOlder},
		{name: "chatgpt", profile: "chatgpt", check: checkChatGPT, set: []string{"lanes.monitors.subscriptions=200", "phases.measure=2s"}},
		{name: "smithery", profile: "smithery", check: checkSmithery, set: []string{
			"lanes.*.subscriptions=40", "phases.measure=4s", "target.embedded.ttlDefault=30s", "lanes.triggers.webhook.rotateEvery=1",
		}},
		{name: "ttl", profile: "ttl", set: []string{"lanes.kept.subscriptions=100", "phases.measure=6s",
			"thresholds.7=kept.figures.grants > 100"}, check: checkTTL},
		{name: "slow-host", profile: "slow-host", lossy: "slow", set: []string{"phases.measure=3s", "phases.drain=5s"}, check: checkSlowHost},
		{name: "races", profile: "races", set: []string{"phases.measure=4s"}, check: checkRaces},
		{name: "sep-1803", profile: "sep-1803", lossy: "forgetful", check: checkSEP1803, set: []string{
			"lanes.*.subscriptions=20", "lanes.raw.webhook.answer=[{status: 503, share: 0.2}]", "lanes.standard.churn.rate=5/s",
			"phases.measure=2s", "phases.drain=8s", "lanes.resumed.sep1803.cutEvery=800ms",
			"lanes.forgetful.sep1803.cutEvery=800ms",
		}},
		{name: "sep-975", profile: "sep-975", set: []string{
			"lanes.*.subscriptions=20", "phases.measure=2s", "target.embedded.resumeOverlap=10s", "lanes.limit.sep975.tolerance=4s",
			"lanes.limit.sep975.expire=0.5", "lanes.cut.sep975.wrong=0.5",
		}, check: checkSEP975},
		// Each client makes one request, which lasts far longer than the measured part.
		{name: "resume", watched: true, profile: "resume", set: []string{
			"lanes.*.subscriptions=20", "lanes.*.sep975.step=400ms", "lanes.*.sep975.away=1s", "phases.measure=1s",
			"target.embedded.resumeOverlap=30s",
		}, check: checkResume},
		{name: "reconnect", profile: "reconnect", set: []string{"lanes.push.subscriptions=50", "phases.measure=4s"}, check: checkReconnect},
		{name: "sep-2549", profile: "sep-2549", set: []string{"lanes.*.subscriptions=10", "phases.measure=3s",
			"schedule.rate=5/s"}, check: checkSEP2549},
		{name: "today", profile: "today", set: []string{"phases.measure=3s"}, check: checkToday},
		{name: "today in sessions", profile: "today", set: []string{"phases.measure=3s", "target.era=legacy"}, check: checkToday},
		{name: "tool", profile: "tool", set: []string{"phases.measure=1500ms"}, check: checkTool},
		{name: "feed", profile: "feed", set: []string{"phases.measure=1500ms"}, check: checkFeed},
		{name: "mixed", profile: "mixed", set: []string{"phases.measure=4s", mixedTTL, mixedDefault},
			check: func(t *testing.T, r *results.Result) {
				keepsKeys(t, r)
				checkMixed(t, r)
			}},
		{name: "mixed in sessions", watched: true, profile: "mixed",
			set: []string{"phases.measure=3s", "lanes.webhook.webhook.ttl=20s", mixedDefault, "target.era=legacy"}, check: checkMixed},
	} {
		// One after the other: each is a load by itself, and other tests run beside.
		t.Run(c.name, func(t *testing.T) {
			r := c.run(t)
			c.account(t, r)
			c.check(t, r)
		})
	}
}

func (c profileRun) run(t *testing.T) *results.Result {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "out")
	args := []string{
		"run",
		"--profile",
		c.profile,
		"--quiet",
		"--out",
		dir,
		"--set",
		"phases.warmup=500ms",
		"--set",
		"phases.ready=60s",
		"--set",
		"phases.drain=60s",
	}
	for _, s := range c.set {
		args = append(args, "--set", s)
	}
	metrics := promtest.RemoteWrite(t)
	do := execute
	if c.watched {
		do = executeWatched
	}
	stdout, stderr, code := do(t, append(args, "--remote-write", metrics.URL, "--remote-write-every", "1s")...)
	if code != 0 && code != exitBottleneck {
		t.Fatalf("exit code %d\n%s\n%s", code, stderr, stdout)
	}
	r := loaded(t, dir)
	pushed{metrics.Last(t), map[string]string{"job": "eventmeter"}}.agree(t, r)
	rising(t, metrics.Pushes(t))
	if r.Partial || len(r.Thresholds) == 0 {
		t.Errorf("partial %v (%s), %d thresholds", r.Partial, r.Reason, len(r.Thresholds))
	}
	for _, v := range r.Thresholds {
		if !v.Passed {
			t.Errorf("%s failed for %q: %s", v.Threshold, v.Lane, v.Text)
		}
	}
	if r.Conformance != nil {
		for _, row := range r.Conformance.Rows {
			if row.Verdict == results.RowBroken {
				t.Errorf("%s is broken %d times of %d, first %+v", row.Row, row.Broken, row.Seen, row.First)
			}
		}
	}
	for _, reason := range r.Generator.Reasons {
		if strings.Contains(reason, "does not add up") {
			t.Error(reason)
		}
	}
	return r
}

// account holds every lane to the profile: what is owed follows from the number
// of events and from who hears what, and all of it came once.
func (c profileRun) account(t *testing.T, r *results.Result) {
	t.Helper()
	p, err := profiles.Load(c.profile, c.set, systems.Table)
	must(t, err)
	u := r.Upstream
	if u.Scheduled != u.Published+u.Dropped || u.Published != u.Accepted+u.Uncertain+u.Refused {
		t.Errorf("upstream %+v", u)
	}
	if u.Accepted == 0 && u.Kind != "none" {
		t.Errorf("nothing was accepted: %+v", u)
	}
	for i, l := range r.Lanes {
		if l.Expected != l.Delivered+l.Lost() {
			t.Errorf("%s: expected %d, delivered %d, lost %d and %d", l.Name, l.Expected, l.Delivered, l.LostSilent, l.LostAnnounced)
		}
		owed, all := heardBy(t, p.Lanes[i], p.Upstream.Sources), l.Ready.Active >= int64(l.Subscriptions)
		if !all || l.Ready.Failed != 0 {
			t.Errorf("%s: ready %+v", l.Name, l.Ready)
		}
		// Subscriptions that churn are owed less: they are not always there.
		churns := p.Lanes[i].Churn.Rate > 0
		if want := owed * u.Accepted; l.Expected > want || !churns && l.Expected != want {
			t.Errorf("%s: expected %d, and %d subscriptions hear each of %d events", l.Name, l.Expected, owed, u.Accepted)
		}
		if c.lossy != l.Name && l.Delivered != l.Expected {
			t.Errorf("%s: delivered %d of %d", l.Name, l.Delivered, l.Expected)
		}
		rejected := l.Detail.Rejected
		if w := p.Lanes[i].Webhook; w.RotateEvery > 0 || w.Pending == "refuse" {
			rejected = 0 // what was on its way during two changes of the secret, or a subscribe, comes again
		}
		if n := l.Duplicates.SameEvent + l.Duplicates.SameEmission + l.LostAnnounced + l.LostOrderUnknown + l.Unexpected +
			l.Gaps.FalseAlarms + l.Gaps.Overclaimed + l.Gaps.NotReplayed +
			rejected + l.Detail.Malformed + l.Detail.Unprobed + l.Detail.Terminated; n != 0 {
			t.Errorf(
				"%s is not clean: duplicates %+v, announced %d, unexpected %v, gaps %+v, detail %+v",
				l.Name,
				l.Duplicates,
				l.LostAnnounced,
				l.Detail.UnexpectedBy,
				l.Gaps,
				l.Detail,
			)
		}
		if l.Latency.FromIntended.Count != l.Delivered {
			t.Errorf("%s: %d latencies of %d deliveries", l.Name, l.Latency.FromIntended.Count, l.Delivered)
		}
	}
}

// heardBy is how many subscriptions of a lane hear an event: in the built-in
// profiles as many for each source.
func heardBy(t *testing.T, l profiles.Lane, sources int) int64 {
	t.Helper()
	compiled, err := profiles.CompileLane(l)
	must(t, err)
	by := make([]int64, sources)
	for i := range l.Subscriptions {
		owed := compiled.Sources(i)
		if owed == nil { // all
			for s := range by {
				by[s]++
			}
		}
		for _, s := range owed {
			by[s]++
		}
	}
	for _, n := range by {
		if n != by[0] {
			t.Fatalf("lane %s: sources are owed by %v subscriptions", l.Name, by)
		}
	}
	return by[0]
}

// laneOf finds a lane by its name.
func laneOf(t *testing.T, r *results.Result, name string) results.Lane {
	t.Helper()
	for _, l := range r.Lanes {
		if l.Name == name {
			return l
		}
	}
	t.Fatalf("no lane %s", name)
	return results.Lane{}
}

// sum requires that a figure of the lane is the sum of others.
func sum(t *testing.T, l results.Lane, whole string, parts ...string) {
	t.Helper()
	var got float64
	for _, p := range parts {
		got += figureOf(t, l, p)
	}
	if want := figureOf(t, l, whole); got != want {
		t.Errorf("%s: %s is %v, and %s are %v", l.Name, whole, want, strings.Join(parts, " + "), got)
	}
}

func figureOf(t *testing.T, l results.Lane, name string) float64 {
	t.Helper()
	v, ok := l.Figures[name]
	if !ok {
		t.Errorf("%s has no figure %s", l.Name, name)
	}
	return v
}

// positive requires figures above 0, and none requires 0.
func positive(t *testing.T, l results.Lane, names ...string) {
	t.Helper()
	for _, name := range names {
		if v := figureOf(t, l, name); v <= 0 {
			t.Errorf("%s: %s is %v", l.Name, name, v)
		}
	}
}

func none(t *testing.T, l results.Lane, names ...string) {
	t.Helper()
	for _, name := range names {
		if v := figureOf(t, l, name); v != 0 {
			t.Errorf("%s: %s is %v, want 0", l.Name, name, v)
		}
	}
}
