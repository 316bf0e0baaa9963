package upstream

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/eventmeter/eventmeter/internal/errtext"
)

// SlackOptions describe a [Slack].
type SlackOptions struct {
	WebhookOptions
	// Channel returns the id of a source's channel; nil means C and ten digits.
	Channel func(source int) string
}

// Slack sends the requests of Slack's Events API: first url_verification, whose
// challenge the target must return, then for each emission one event_callback with a
// message that has the probe in its text. All requests are signed with the app's
// signing secret. Each source is a channel. Slack repeats no request, so
// X-Slack-Retry-Num is never sent.
type Slack struct {
	poster
	channel func(source int) string
}

// NewSlack checks the options. It does not connect.
func NewSlack(o SlackOptions) (*Slack, error) {
	if o.Secret == "" {
		return nil, fmt.Errorf("upstream slack: %w", errNoSecret)
	}
	p, err := newPoster("slack", o.WebhookOptions, func(_ int, seq uint32, probe string) string {
		return fmt.Sprintf("deploy %d is through, see %s", seq, probe)
	})
	if err != nil {
		return nil, err
	}
	s := &Slack{poster: p, channel: o.Channel}
	s.event, s.header, s.body = "message", s.headerOf, s.bodyOf
	if s.channel == nil {
		s.channel = func(source int) string { return fmt.Sprintf("C%010d", source) }
	}
	return s, nil
}

// Prepare implements [Preparer]: it does the url_verification handshake.
func (s *Slack) Prepare(ctx context.Context) error {
	challenge := rand.Text()
	body := fill("slack_verification", map[string]any{"challenge": challenge})
	status, answer, err := s.ask(ctx, s.header(Emission{}, body), body)
	where := errtext.Address(s.url)
	switch {
	case err != nil:
		return fmt.Errorf("upstream slack: url_verification at %s: %w; is the target up, and the address right?", where, err)
	case status != http.StatusOK:
		return fmt.Errorf(
			"upstream slack: url_verification at %s was answered with HTTP %d%s; check the signing secret and the address",
			where,
			status,
			s.quote(answer),
		)
	case !hasChallenge(answer, challenge):
		return fmt.Errorf(
			"upstream slack: url_verification at %s was answered without its challenge%s; the target must return it, as text or as JSON",
			where,
			s.quote(answer),
		)
	}
	return nil
}

// hasChallenge reports whether an answer has the challenge in one of the three forms
// that Slack accepts: text, JSON, or a form.
func hasChallenge(answer []byte, challenge string) bool {
	if strings.TrimSpace(string(answer)) == challenge {
		return true
	}
	var object struct {
		Challenge string `json:"challenge"`
	}
	if json.Unmarshal(answer, &object) == nil {
		return object.Challenge == challenge
	}
	form, err := url.ParseQuery(strings.TrimSpace(string(answer)))
	return err == nil && form.Get("challenge") == challenge
}

func (s *Slack) headerOf(_ Emission, body []byte) http.Header {
	stamp := strconv.FormatInt(s.now().Unix(), 10)
	return http.Header{
		"Accept":                    {"*/*"},
		"Content-Type":              {"application/json"},
		"User-Agent":                {"Slackbot 1.0 (eventmeter)"},
		"X-Slack-Request-Timestamp": {stamp},
		"X-Slack-Signature":         {"v0=" + sign(sha256.New, s.secret, []byte("v0:"+stamp+":"), body)},
	}
}

func (s *Slack) bodyOf(emission Emission) []byte {
	probe, now, channel := emission.Stamp.String(), s.now().Unix(), s.channel(int(emission.Source))
	return fill("slack_message", map[string]any{
		// Channel and ts identify a message. Within a second the digits after the
		// point count up, as in Slack.
		"channel": channel, "ts": fmt.Sprintf("%d.%06d", now, emission.Seq%1_000_000), "now": now,
		"text": s.text.of(emission), "messageID": guid(probe),
		"eventID": "Ev" + strings.ToUpper(digest(9, "event", probe)), "context": "4-" + digest(32, "context", channel),
	})
}
