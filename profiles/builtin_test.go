package profiles

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/loadgen/systems"
)

func TestBuiltins(t *testing.T) {
	var names []string
	for _, info := range Builtin() {
		names = append(names, info.Name)
		if info.Description == "" {
			t.Errorf("%s: no description", info.Name)
		}
	}
	want := []string{
		"compare",
		"baseline",
		"calibrate",
		"capacity",
		"chatgpt",
		"check",
		"events",
		"feed",
		"longpoll",
		"mixed",
		"poll",
		"push",
		"races",
		"reconnect",
		"resume",
		"sep-1803",
		"sep-2549",
		"sep-975",
		"slow-host",
		"smithery",
		"smoke",
		"soak",
		"stdio",
		"thousand",
		"today",
		"tool",
		"ttl",
		"webhook",
	}
	if !slices.Equal(names, want) {
		t.Fatalf("built-in profiles are %v, want %v", names, want)
	}
	for _, name := range builtinNames() {
		p := loaded(t, name)
		if p.Name != name {
			t.Errorf("%s calls itself %s", name, p.Name)
		}
		again(t, p)
	}
}

var builtinProfiles = map[string]*Profile{}

// loaded returns a built-in profile, which is read once for all tests.
func loaded(t *testing.T, name string) *Profile {
	t.Helper()
	if builtinProfiles[name] == nil {
		p, err := Load(name, nil, systems.Table)
		if err != nil {
			t.Fatalf("%s:\n%v", name, err)
		}
		builtinProfiles[name] = p
	}
	return builtinProfiles[name]
}

// again writes a profile, reads it, and compares.
func again(t *testing.T, p *Profile) {
	t.Helper()
	text, err := p.YAML()
	must(t, err)
	q, err := Parse("again", text, nil, systems.Table)
	if err != nil {
		t.Fatalf("%v\nof what was written:\n%s", err, text)
	}
	if !reflect.DeepEqual(p, q) {
		t.Fatalf("read again, the profile differs:\n%+v\n%+v\n%s", p, q, text)
	}
}

func TestCompare(t *testing.T) {
	p, err := Load(Default, nil, systems.Table)
	must(t, err)
	if len(p.Lanes) != 3 || p.Upstream.Sources != 60 || p.Upstream.Event != "chat.message" {
		t.Fatalf("%+v", p)
	}
	if got := p.Phases; !reflect.DeepEqual(
		got,
		Phases{
			Order:   "together",
			Ready:   15 * time.Second,
			Warmup:  2 * time.Second,
			Measure: 10 * time.Second,
			Drain:   5 * time.Second,
			Late:    5 * time.Second,
		},
	) {
		t.Errorf("phases %+v", got)
	}
	// p99 needs 1,000 independent events, and neighbours are late together.
	if s := p.Schedule; s.Kind != "constant" || float64(s.Rate)*p.Phases.Measure.Seconds() < 2000 {
		t.Errorf("schedule %+v", s)
	}
	for _, l := range p.Lanes {
		lt, err := CompileLane(l)
		must(t, err)
		for i := range l.Subscriptions {
			if got := lt.Sources(i); len(got) != 1 || int(got[0]) != i%60 {
				t.Fatalf("%s %d hears %v", l.Name, i, got)
			}
		}
		if got := string(lt.Arguments(217)); got != `{"channel":"channel-37"}` {
			t.Errorf("%s: arguments %s", l.Name, got)
		}
	}
	payload, err := CompilePayload(p.Upstream)
	must(t, err)
	if got := string(payload([]byte("x"), 3, 7, "PROBE")); got != `x{"channel":"channel-3","text":"message 7 PROBE"}` {
		t.Errorf("payload %s", got)
	}
}

// A built-in profile that demands that nothing is silent loss demands of the
// same lanes that nothing is lost with an announcement, or perhaps with one: that
// is lost as well.
func TestThresholdsCoverAnnouncedLoss(t *testing.T) {
	for _, name := range builtinNames() {
		p := loaded(t, name)
		for _, text := range p.Thresholds {
			lane, ok := strings.CutSuffix(text, ".lostSilent == 0")
			if !ok {
				continue
			}
			for _, other := range []string{".lostAnnounced == 0", ".lostOrderUnknown == 0"} {
				if !slices.Contains(p.Thresholds, lane+other) && !slices.Contains(p.Thresholds, "*"+other) {
					t.Errorf("%s: %q has no %q beside it", name, text, lane+other)
				}
			}
		}
	}
}

// One with a webhook lane demands the same of the losses that only webhooks have.
func TestThresholdsCoverWebhookLoss(t *testing.T) {
	for _, name := range builtinNames() {
		p := loaded(t, name)
		if len(p.Thresholds) == 0 || !slices.ContainsFunc(p.Lanes, func(l Lane) bool { return l.Mode == "webhook" }) {
			continue
		}
		for _, figure := range []string{"lostUndeliverable", "lostRefused", "lostSuspended"} {
			if want := "*." + figure + " == 0"; !slices.Contains(p.Thresholds, want) {
				t.Errorf("%s: no %q", name, want)
			}
		}
	}
}

func TestLoad(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mine.yaml")
	_, text, err := Read("smoke", nil)
	must(t, err)
	must(t, os.WriteFile(file, text, 0o600))
	if p, err := Load(file, []string{"name=mine"}, systems.Table); err != nil || p.Name != "mine" {
		t.Errorf("%v, %v", p, err)
	}
	for name, want := range map[string]string{
		"comprae":   `profile "comprae": no such profile: neither a file nor built in; did you mean compare?`,
		"./compare": `profile "./compare": no such profile: neither a file nor built in; did you mean compare?`,
		"xyzzyplughaaa": "there is compare, baseline, calibrate, capacity, chatgpt, check, events, feed, longpoll, mixed, " +
			"poll, push, races, reconnect, resume, sep-1803, sep-2549, sep-975, slow-host, smithery, smoke, soak, stdio, " +
			"thousand, today, tool, ttl, webhook",
	} {
		_, err := Load(name, nil, systems.Table)
		if !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), want) {
			t.Errorf("Load(%q): %v", name, err)
		}
	}
	if _, _, err := Read("../builtin/smoke", nil); !errors.Is(err, ErrNotFound) {
		t.Errorf("Read outside: %v", err)
	}
	if _, err := Load(t.TempDir(), nil, systems.Table); err == nil || errors.Is(err, ErrNotFound) {
		t.Errorf("Load of a folder: %v", err)
	}
}

func TestJSONHoldsNoSecrets(t *testing.T) {
	p, err := Load("smoke", []string{"target.tokens=[hush-token]", "target.headers.X-Key=hush-header", "target.tokenFile="}, systems.Table)
	must(t, err)
	text, err := json.Marshal(p)
	must(t, err)
	if bytes.Contains(text, []byte("hush")) {
		t.Errorf("%s", text)
	}
	q, err := FromJSON(text, systems.Table)
	must(t, err)
	if !reflect.DeepEqual(q.Phases, p.Phases) || q.Schedule != p.Schedule {
		t.Errorf("JSON changes the profile: %s", text)
	}
	again(t, p)
}

// must ends the test if a step of it has failed.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
