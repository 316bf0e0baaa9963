package interop

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/refserver"
	"github.com/eventmeter/eventmeter/internal/refserver/faults"
)

// aiStats are the counts of ai-sdk.mjs.
type aiStats struct {
	Events []struct{ Key, EventID, Text string }
	Gaps   []struct {
		Key, Cursor string
		After       int // events that came before
	}
	Terminations []struct {
		Key, Message string
		Code         int
	}
	Answers       map[string]int
	Held          int
	Subscriptions map[string]struct {
		Status, Cursor string
		Truncated      bool
	}
}

// texts are the texts of the events that a subscription got, in order.
func (a aiStats) texts(key string) (texts []string) {
	for _, e := range a.Events {
		if e.Key == key {
			texts = append(texts, e.Text)
		}
	}
	return texts
}

// aiSDK is the reference server in this process with the client and the receiver of
// the AI SDK at it.
type aiSDK struct {
	*script
	server *refserver.Server
	sent   uint32
}

func startAISDK(t *testing.T, o refserver.Options) *aiSDK {
	t.Helper()
	needsPackages(t)
	cert, key := certificate(t)
	o.AllowPrivateCallbacks, o.CallbackCAFile = true, cert
	o.RetryBase, o.RetryMax, o.AckTimeout = 20*time.Millisecond, 1000, patience
	server, err := refserver.New(o)
	must(t, err)
	must(t, server.Start(t.Context()))
	t.Cleanup(func() {
		if err := server.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	return &aiSDK{
		server: server,
		script: start(t, "ai-sdk.mjs", "--server", server.URL(), "--token", "alice", "--cert", cert, "--key", key, "--until-eof"),
	}
}

// subscribe subscribes to the messages of a channel and returns the record's key.
func (a *aiSDK) subscribe(channel string, ttl time.Duration) string {
	a.t.Helper()
	answer := a.control(
		"subscribe",
		map[string]any{"name": "chat.message", "arguments": map[string]any{"channel": channel}, "ttlMs": ttl.Milliseconds()},
	)
	key, _ := answer["key"].(string)
	if key == "" || answer["refreshBefore"] == nil {
		a.t.Fatalf("subscribe: %v", answer)
	}
	return key
}

// publish publishes a message with a probe id to a channel and returns its text.
func (a *aiSDK) publish(channel string) string {
	a.t.Helper()
	a.sent++
	text := eventmeter.Stamp{Run: 1, Source: 1, Seq: a.sent}.String()
	if _, err := a.server.Publish("chat.message", fmt.Appendf(nil, `{"channel":%q,"text":%q}`, channel, text)); err != nil {
		a.t.Fatal(err)
	}
	return text
}

// got waits for a state of the receiver.
func (a *aiSDK) got(what string, reached func(aiStats) bool) (s aiStats) {
	a.t.Helper()
	until(a.t, what, func() bool {
		s = stats[aiStats](a.script)
		return reached(s)
	})
	return s
}

// TestAISDKReceivesAll: list, challenge, deliveries in order over a refresh, and
// unsubscribe.
func TestAISDKReceivesAll(t *testing.T) {
	t.Parallel()
	a := startAISDK(t, refserver.Options{})
	if names := fmt.Sprint(a.control("list", nil)["names"]); names != "[chat.message ticket.moved tick private.note]" {
		t.Errorf("events/list: %s", names)
	}
	key := a.subscribe("c", time.Hour)
	var want []string
	for i := range 60 {
		if i == 30 {
			a.control("refresh", map[string]any{"key": key})
		}
		want = append(want, a.publish("c"))
		a.publish("another")
		a.got("an event", func(s aiStats) bool { return len(s.Events) > i })
	}
	// An answer is counted after its event, here and there.
	got := a.got("the answers", func(s aiStats) bool { return s.Answers["204"] >= len(want) })
	until(t, "the server's counts", func() bool { return a.server.Stats().Deliveries.Webhook >= int64(len(want)) })
	if !slices.Equal(got.texts(key), want) {
		t.Errorf("the receiver got %v, want %v", got.texts(key), want)
	}
	if got.Answers["204"] != len(want) || got.Answers["200"] != 1 || len(got.Answers) != 2 {
		t.Errorf("the receiver answered %v, want %d times 204 and 1 challenge", got.Answers, len(want))
	}
	a.control("unsubscribe", map[string]any{"key": key})
	a.publish("c")
	counts := a.server.Stats()
	if counts.Subscribed != 1 || counts.Refreshes != 1 || counts.Verifications != 1 || counts.Deliveries.Webhook != int64(len(want)) ||
		counts.Retries != 0 ||
		counts.Subscriptions.Webhook != 0 {
		t.Errorf("the server counts %+v", counts)
	}
}

// TestAISDKPending: what is posted before the answer to a refresh is stored is
// answered 503, and is delivered by a retry.
func TestAISDKPending(t *testing.T) {
	t.Parallel()
	a := startAISDK(t, refserver.Options{})
	key := a.subscribe("c", time.Hour)
	a.control("hold", map[string]any{"on": true})
	refreshed := make(chan error, 1)
	go func() {
		_, err := a.try("refresh", map[string]any{"key": key})
		refreshed <- err
	}()
	a.got("the answer to the refresh held back", func(s aiStats) bool { return s.Held == 1 })
	text := a.publish("c")
	s := a.got("a delivery refused with 503", func(s aiStats) bool { return s.Answers["503"] > 0 })
	if len(s.Events) != 0 {
		t.Errorf("got %v before the refresh was stored", s.Events)
	}
	a.control("hold", map[string]any{"on": false})
	if err := <-refreshed; err != nil {
		t.Errorf("refresh: %v", err)
	}
	s = a.got("the event and its answer", func(s aiStats) bool { return len(s.Events) > 0 && s.Answers["204"] > 0 })
	if !slices.Equal(s.texts(key), []string{text}) || s.Answers["204"] != 1 {
		t.Errorf("got %v, answered %v", s.Events, s.Answers)
	}
	until(t, "the server's counts", func() bool { return a.server.Stats().Deliveries.Webhook == 1 })
	if c := a.server.Stats(); c.Retries != int64(s.Answers["503"]) || c.Failures != c.Retries || c.Abandoned != 0 {
		t.Errorf("the server counts %d retries and %d failures, the receiver %d times 503", c.Retries, c.Failures, s.Answers["503"])
	}
}

// TestAISDKExpiry: a subscription that is not refreshed ends, and a later refresh
// starts it again where its cursor is.
func TestAISDKExpiry(t *testing.T) {
	t.Parallel()
	a := startAISDK(t, refserver.Options{TTLMin: time.Millisecond})
	key := a.subscribe("c", time.Millisecond)
	until(t, "the end of the subscription", func() bool { return a.server.Stats().Expired == 1 })
	missed := a.publish("c")
	a.control("patch", map[string]any{"key": key, "patch": map[string]any{"ttlMs": time.Hour.Milliseconds()}})
	if answer := a.control("refresh", map[string]any{"key": key}); answer["truncated"] != false {
		t.Errorf("refresh after the end: %v", answer)
	}
	s := a.got("the event of the time between", func(s aiStats) bool { return len(s.Events) > 0 })
	if !slices.Equal(s.texts(key), []string{missed}) {
		t.Errorf("got %v, want %v", s.texts(key), missed)
	}
}

// TestAISDKExpiredForTheClient: the receiver answers 410 after the time that it was
// granted, and the server gives that event up.
func TestAISDKExpiredForTheClient(t *testing.T) {
	t.Parallel()
	a := startAISDK(t, refserver.Options{})
	key := a.subscribe("c", time.Hour)
	a.control("patch", map[string]any{"key": key, "patch": map[string]any{"refreshBefore": "2020-01-01T00:00:00Z"}})
	a.publish("c")
	until(t, "the event given up", func() bool { return a.server.Stats().Abandoned == 1 })
	s := a.got("its answer", func(s aiStats) bool { return s.Answers["410"] > 0 })
	if c := a.server.Stats(); s.Answers["410"] != 1 || len(s.Events) != 0 || c.Retries != 0 || c.Subscriptions.Webhook != 1 {
		t.Errorf("the receiver answered %v and got %v; the server counts %+v", s.Answers, s.Events, c)
	}
}

// TestAISDKGap: an announced gap reaches the application between the events
// beside it.
func TestAISDKGap(t *testing.T) {
	t.Parallel()
	spec, err := faults.Load("announce(every=3)")
	must(t, err)
	a := startAISDK(t, refserver.Options{Faults: spec})
	key := a.subscribe("c", time.Hour)
	one, two := a.publish("c"), a.publish("c")
	a.publish("c") // the gap
	four := a.publish("c")
	s := a.got("three events and a gap", func(s aiStats) bool { return len(s.Events) == 3 && len(s.Gaps) == 1 })
	if !slices.Equal(s.texts(key), []string{one, two, four}) || s.Gaps[0].Key != key || s.Gaps[0].After != 2 {
		t.Errorf("got the events %v and the gap %+v, want the gap after two", s.texts(key), s.Gaps)
	}
	if s.Gaps[0].Cursor == "" {
		t.Errorf("the gap has no cursor: %+v", s.Gaps)
	}
}

// TestAISDKTerminated: access that is revoked and a type that is removed end a
// subscription, which the application is told.
func TestAISDKTerminated(t *testing.T) {
	t.Parallel()
	a := startAISDK(t, refserver.Options{})
	removed := a.subscribe("c", time.Hour)
	must(t, a.server.Offer("chat.message", false))
	s := a.got("the end", func(s aiStats) bool { return len(s.Terminations) == 1 })
	if e := s.Terminations[0]; e.Key != removed || !slices.Contains([]int{-32011, -32023}, e.Code) {
		t.Errorf("a removed type ends with %+v, want NotFound", e)
	}
	must(t, a.server.Offer("chat.message", true))
	revoked := a.subscribe("c", time.Hour)
	a.server.Revoke("alice")
	s = a.got("the end", func(s aiStats) bool { return len(s.Terminations) == 2 })
	if e := s.Terminations[1]; e.Key != revoked || !slices.Contains([]int{-32012, -32024}, e.Code) {
		t.Errorf("revoked access ends with %+v, want Forbidden", e)
	}
	a.got("no record left", func(s aiStats) bool { return len(s.Subscriptions) == 0 })
}

// TestAISDKUnsubscribeUnknown: the server's NotFound makes the client fail and keep
// its record.
func TestAISDKUnsubscribeUnknown(t *testing.T) {
	t.Parallel()
	a := startAISDK(t, refserver.Options{TTLMin: time.Millisecond})
	key := a.subscribe("c", time.Millisecond)
	until(t, "the end of the subscription", func() bool { return a.server.Stats().Expired == 1 })
	if answer, err := a.try("unsubscribe", map[string]any{"key": key}); err == nil || !strings.Contains(err.Error(), "Not found") {
		t.Errorf("unsubscribing what has ended: %v %v, want Not found", answer, err)
	}
	if s := stats[aiStats](a.script); len(s.Subscriptions) != 1 {
		t.Errorf("the client keeps %v, want the record", s.Subscriptions)
	}
}

// must ends the test if a step of it has failed.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
