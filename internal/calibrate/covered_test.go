package calibrate

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/conform"
	"github.com/eventmeter/eventmeter/internal/refserver/breach"
	"github.com/eventmeter/eventmeter/internal/refserver/faults"
	"github.com/eventmeter/eventmeter/internal/settings"
	"github.com/eventmeter/eventmeter/loadgen/driver/events"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/profiles"
)

var loadBuiltin = sync.OnceValues(func() (*profiles.Profile, error) { return profiles.Load("calibrate", nil, systems.Table) })

// builtin is the built-in profile calibrate, which is read once: tests do not change it.
func builtin(t *testing.T) *profiles.Profile {
	t.Helper()
	p, err := loadBuiltin()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestEveryFaultIsCalibrated requires a case of every kind of fault, in every system and
// mode that has it, or a reason why there is none.
func TestEveryFaultIsCalibrated(t *testing.T) {
	t.Parallel()
	reasons := map[string]string{}
	for _, system := range []string{"smithery webhook", "sep-1803 push", "sep-1803 webhook", "sep-975 push", "sep-2549 poll", "updates push"} {
		for _, kind := range []faults.Kind{faults.TokenRefuse, faults.TokenDown, faults.TokenSlow} {
			reasons[fmt.Sprint(system, " ", kind)] = "renewals are the same for every system, and the lanes of MCP Events have them"
		}
	}
	for _, place := range []string{
		"events push", "events poll", "events webhook", "smithery webhook", "sep-1803 push", "sep-1803 webhook",
		"sep-975 push", "sep-2549 poll", "updates push",
	} {
		reasons[fmt.Sprint(place, " ", faults.Hoard)] = "the memory is the process's, whatever the system, and a verdict " +
			"takes half a minute: TestLeak of cmd/eventmeter has it"
	}
	p := builtin(t)
	has, places := map[string]bool{}, map[faults.Place]bool{}
	for _, c := range p.Cases {
		spec, err := faults.Load(c.Faults)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range p.Lanes {
			if !slices.Contains(c.Lanes, l.Name) {
				continue
			}
			places[faults.Place{System: l.System, Mode: eventmeter.Mode(l.Mode)}] = true
			for _, f := range spec {
				if f.Mode == "" || string(f.Mode) == l.Mode {
					has[fmt.Sprint(l.System, " ", l.Mode, " ", f.Kind)] = true
				}
			}
		}
	}
	for place := range places {
		for _, kind := range faults.KindsOf(place) {
			name := fmt.Sprint(place.System, " ", place.Mode, " ", kind)
			if has[name] == (reasons[name] != "") {
				t.Errorf("%s: has a case: %t, and the reason to have none is %q", name, has[name], reasons[name])
			}
		}
	}
	kinds := map[string]bool{}
	for name := range has {
		kinds[name[strings.LastIndex(name, " ")+1:]] = true
	}
	for _, page := range []string{"../../README.md", "../../docs/trust.md"} {
		text, err := os.ReadFile(page)
		if want := fmt.Sprintf(" %d kinds of faults", len(kinds)); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s does not say %q: %v", page, want, err)
		}
	}
	if len(places) != 9 {
		t.Errorf("%d systems and modes have cases: %v", len(places), places)
	}
}

// unbrokenRows are the rows that lanes judge and no case breaks, at rest and under load, and
// why.
func unbrokenRows() (rest, load map[string]string) {
	rest, load = map[string]string{}, map[string]string{}
	for _, u := range []struct{ reason, rows string }{
		{"the run ends before it measures anything",
			"fallback-method-not-found list-implemented list-pagination descriptor-name"},
		{"needs events from before the subscriptions, and a case has none",
			"cursor-null-starts-from-now max-age-ms-ignored-when-cursor-null"},
		{"takes half a minute",
			"stream-heartbeat-interval subscribe-refresh-replaces-secret"},
		{"the end of the target comes after the counts",
			"stream-final-result-shape"},
		{"retries of 4 s and more take too long",
			"delivery-retry-regenerates-signature"},
		{"the cases of refused codes have it, in exact numbers",
			"error-callback-endpoint-error"},
	} {
		for row := range strings.FieldsSeq(u.rows) {
			rest[row] = u.reason
		}
	}
	for _, u := range []struct{ reason, rows string }{
		{"is judged when subscriptions are opened, of which the first are few",
			"capability-events-object capability-list-changed-flag capability-list-changed-gated descriptor-description " +
				"descriptor-delivery-subset descriptor-input-schema descriptor-payload-schema descriptor-meta " +
				"error-not-found error-forbidden error-server-range poll-implemented poll-errors-are-jsonrpc stream-implemented " +
				"stream-error-before-open stream-active-confirmation " +
				"stream-exempt-from-concurrency-cap subscribe-auth-required verification-required-before-delivery " +
				"verification-challenge-echo verification-failure-error"},
		{"differs under load in nothing but its number; TestPlantedRows and tools/trust have it",
			"poll-response-cursor cursor-opaque cursor-consistency truncated-false-when-no-replay stream-error-is-recoverable " +
				"stream-heartbeat-required stream-heartbeat-not-sse-comment " +
				"ttl-refresh-before-lte-suggestion ttl-null-only-when-requested delivery-status-last-error-category " +
				"delivery-standard-webhooks-headers delivery-signature-formula delivery-dual-sign-on-rotation " +
				"delivery-413-non-retryable ssrf-no-redirects verification-cached-per-principal-url envelope-signed-like-deliveries " +
				"envelope-webhook-id-format envelope-terminated " +
				"removal-error-not-found removal-error-schema-changed error-unsupported"},
	} {
		for row := range strings.FieldsSeq(u.rows) {
			load[row] = u.reason
		}
	}
	for row, reason := range rest {
		load[row] = reason
	}
	return rest, load
}

// TestEveryRowIsCalibrated requires a case that breaks each row of conformance that lanes
// judge, or a reason why there is none, and one that does so under load alone.
func TestEveryRowIsCalibrated(t *testing.T) {
	t.Parallel()
	rest, load := unbrokenRows()
	has, crowded := map[string]bool{}, map[string]bool{}
	for _, c := range builtin(t).Cases {
		spec, err := faults.Load(c.Faults)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range spec.Breaches() {
			if p.Above == 0 {
				has[string(p.Row)] = true
			} else if strings.HasSuffix(c.Name, "with many") {
				crowded[string(p.Row)] = true
			}
		}
	}
	for _, r := range conform.Rows {
		if r.Unseen != "" || !breach.Has(r.Name) {
			continue
		}
		if has[r.Name] == (rest[r.Name] != "") {
			t.Errorf("%s: has a case: %t, and the reason to have none is %q", r.Name, has[r.Name], rest[r.Name])
		}
		if crowded[r.Name] == (load[r.Name] != "") {
			t.Errorf("%s: has a case under load: %t, and the reason to have none is %q", r.Name, crowded[r.Name], load[r.Name])
		}
	}
}

// keysOf lists the keys of a struct of settings.
func keysOf(prefix string, v any) (keys []string) {
	for f := range reflect.TypeOf(v).Fields() {
		if name := settings.KeyOf(f.Tag); name != "" && name != "-" {
			keys = append(keys, prefix+name)
		}
	}
	return keys
}

// TestEveryRuleIsCalibrated requires a case of every rule that a lane or the embedded target
// can be told to follow, or a reason why there is none.
func TestEveryRuleIsCalibrated(t *testing.T) {
	t.Parallel()
	p := builtin(t)
	var sets []string
	for _, c := range p.Cases {
		sets = append(sets, c.Set...)
	}
	keys := slices.Concat(
		keysOf(".events.", events.Settings{}), keysOf(".webhook.", settings.WebhookLane{}), keysOf("answer.", settings.WebhookAnswer{}),
		keysOf(".oauth.", settings.OAuth{}), keysOf(".embedded.", profiles.Embedded{}), keysOf(".lists.", profiles.EmbeddedLists{}),
	)
	keys = append(keys, "target.version", "sep975.tool")
	for _, key := range keys {
		has := slices.ContainsFunc(sets, func(set string) bool {
			path, value, _ := strings.Cut(set, "=")
			if of, name, ok := strings.Cut(key, "answer."); ok && of == "" {
				return strings.HasSuffix(path, ".webhook.answer") && strings.Contains(value, name+":")
			}
			return strings.Contains(path+".", key+".")
		})
		if has == (uncalibrated[key] != "") {
			t.Errorf("%s: has a case: %t, and the reason to have none is %q", key, has, uncalibrated[key])
		}
	}
	for key := range uncalibrated {
		if !slices.Contains(keys, key) {
			t.Errorf("%s: there is no such key", key)
		}
	}
}

// TestEveryRevisionIsCalibrated requires the cases of each revision in each mode, plain and
// from a chosen start, and a case of each client and of each status with a rule of its own.
func TestEveryRevisionIsCalibrated(t *testing.T) {
	t.Parallel()
	p := builtin(t)
	type seen struct {
		revision, mode string
		start          bool
	}
	got, values := map[seen]bool{}, map[string]bool{}
	for _, c := range p.Cases {
		revision := "sep-3415"
		start := false
		for _, set := range c.Set {
			if r, ok := strings.CutPrefix(set, "target.revision="); ok {
				revision = r
			}
			if strings.Contains(set, ".client=") {
				values["client "+set[strings.Index(set, "=")+1:]] = true
			}
			if _, status, ok := strings.Cut(set, "status: "); ok {
				values["status "+status[:3]] = true
			}
			start = start || strings.Contains(set, ".events.cursor=")
		}
		for _, lane := range c.Lanes {
			if lane == "push" || lane == "poll" || lane == "webhook" {
				got[seen{revision, lane, start}] = true
			}
		}
	}
	for _, revision := range []string{"sep-3415", "sketch", "longpoll", "older"} {
		for _, mode := range []string{"push", "poll", "webhook"} {
			for _, start := range []bool{false, true} {
				if !got[seen{revision, mode, start}] {
					t.Errorf("revision %s by %s has no case (chosen start: %t)", revision, mode, start)
				}
			}
		}
	}
	for _, want := range []string{"client chatgpt", "client ai-sdk", "status 302", "status 410", "status 413",
		"status 425", "status 429", "status 503"} {
		if !values[want] {
			t.Errorf("%s has no case", want)
		}
	}
}

// uncalibrated are the keys without a case, and why.
var uncalibrated = func() map[string]string {
	out := map[string]string{}
	for _, u := range []struct{ reason, keys string }{
		{"what they do to a lane depends on its clock: how often streams are cut, and what is published until then",
			".events.cutEvery .events.cutAt .events.cutFor"},
		{"it chooses the streams that stallFor stops, and has no figure of its own",
			".events.stallShare"},
		{"what it sets the cases of clients set",
			".webhook.require .webhook.pending .webhook.unsubscribeMode .webhook.expired"},
		{"secrets overlap for a time that depends on what is in flight",
			".webhook.secrets .webhook.oldSecret .embedded.dualSign .embedded.singleSign"},
		{"it changes who refuses a delivery, as in the cases of signatures and sizes",
			".webhook.verify .webhook.bodyLimit"},
		{"it moves refreshes at random, whose number is counted where they are",
			".webhook.refreshJitter"},
		{"it says what the operator of the target allows, which no target can tell",
			".webhook.proven"},
		{"it is about the end of a subscription, after everything is counted",
			".webhook.silent"},
		{"it names an address, a certificate or a file, and no rule",
			".webhook.callback .webhook.listen .webhook.certFile .webhook.keyFile .oauth.secretEnv .oauth.refreshTokenFile " +
				".oauth.tokenURL .oauth.timeout"},
		{"it draws a random wait between delay and itself",
			"answer.delayTo"},
		{"both ends share it, and the cases of tokens have the default",
			".oauth.auth"},
		{"a bound that no case reaches: its tests are the server's",
			".embedded.maxSubscriptions .embedded.capacity .embedded.capacityBurst .embedded.ttlDefault " +
				".embedded.ttlMax .embedded.resumeMaxWait .embedded.suspendAfter .embedded.verifyFailures " +
				".embedded.sendersPerHost"},
		{"the profile itself sets it for all cases",
			".embedded.nextPoll .embedded.retryBase .lists.entries .lists.page"},
		{"a pace of the server, on which no count depends",
			".embedded.resumeOverlap .embedded.feedEvery"},
		{"the column of faults sets it",
			".embedded.faults"},
		{"target.revision sets it",
			".embedded.revision"},
		{"faults are not available over pipes",
			".embedded.transport"},
		{"it concerns proxies, and there is none",
			".embedded.proxiesMayBuffer"},
		{"an id that changes shows that a subscription was lost, at a time that nobody knows",
			".embedded.freshIds"},
		{"it changes what lists say, not what clients count; the driver's tests have it",
			".lists.private .lists.older .lists.uneven .lists.strict"},
	} {
		for key := range strings.FieldsSeq(u.keys) {
			out[key] = u.reason
		}
	}
	return out
}()
