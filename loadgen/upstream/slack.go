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
	// Channel gives the id of a source's channel; nil means C and ten digits.
	Channel func(source int) string
}

// Slack sends what the Events API of Slack sends: at first url_verification,
// whose challenge the target must give back, then one event_callback with a
// message for each emission, the probe in its text, all signed with the app's
// signing secret. Each source is a channel. It sends nothing twice, so
// X-Slack-Retry-Num never stands in a request.
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
		return fmt.Errorf("upstream slack: url_verification at %s was answered with HTTP %d%s; check the signing secret and the address", where, status, s.quote(answer))
	case !hasChallenge(answer, challenge):
		return fmt.Errorf("upstream slack: url_verification at %s was answered without its challenge%s; the target must give it back, as text or as JSON", where, s.quote(answer))
	}
	return nil
}

// hasChallenge tells whether an answer gives the challenge back in one of the
// three ways that Slack takes: as text, as JSON, or as a form.
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
	source, probe := int(emission.Source), emission.Stamp.String()
	now := s.now().Unix()
	channel := s.channel(source)
	return fill("slack_message", map[string]any{
		// A message is identified by its channel and ts. Within a second the part
		// behind the point counts, as Slack's does.
		"channel": channel, "ts": fmt.Sprintf("%d.%06d", now, emission.Seq%1_000_000), "now": now,
		"text": s.text(source, emission.Seq, probe), "messageID": guid(probe),
		"eventID": "Ev" + strings.ToUpper(digest(9, "event", probe)), "context": "4-" + digest(32, "context", channel),
	})
}
