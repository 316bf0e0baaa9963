package embedded

import (
	"slices"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/profiles"
)

func TestArgs(t *testing.T) {
	got := Args(profiles.Embedded{NextPoll: 50 * time.Millisecond, Retries: -1, Queue: 7, ProxiesMayBuffer: true})
	spoken := Args(profiles.Embedded{Revision: "sketch", WebhookID: "message", TypesPage: 2})
	if want := []string{"--revision", "sketch", "--webhook-id", "message", "--types-page", "2"}; !slices.Equal(spoken, want) {
		t.Errorf("%q, want %q", spoken, want)
	}
	sse := Args(profiles.Embedded{SSEAnswers: true})
	want := []string{"--next-poll", "50ms", "--queue", "7", "--retries", "-1", "--proxies-may-buffer"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if want := []string{"--sse-answers"}; !slices.Equal(sse, want) {
		t.Errorf("%q, want %q", sse, want)
	}
	if got := Args(profiles.Embedded{}); got != nil {
		t.Errorf("no wishes: %q", got)
	}
}
