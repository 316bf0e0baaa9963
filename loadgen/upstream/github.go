package upstream

import (
	"crypto/sha1"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// GitHubOptions describe a [GitHub].
type GitHubOptions struct {
	WebhookOptions
	// Event is push (also "") or issues: the value of X-GitHub-Event.
	Event string
	// Repository returns the full name (owner/name) of a source's repository; nil
	// means eventmeter/service-SOURCE.
	Repository func(source int) string
}

// GitHub sends webhooks as GitHub does: a push whose head commit has the probe in its
// message, or an opened issue with the probe in its title. Each source is a
// repository. As with GitHub, deliveries are signed (X-Hub-Signature-256, and the
// older X-Hub-Signature) if there is a secret.
type GitHub struct {
	poster
	repository func(source int) string
}

// NewGitHub checks the options. It does not connect.
func NewGitHub(o GitHubOptions) (*GitHub, error) {
	text := func(_ int, seq uint32, probe string) string {
		return fmt.Sprintf("Retry deliveries that time out, step %d (%s)", seq, probe)
	}
	switch o.Event {
	case "":
		o.Event = "push"
	case "push":
	case "issues":
		text = func(_ int, seq uint32, probe string) string {
			return fmt.Sprintf("Deliveries stall after a reconnect, case %d (%s)", seq, probe)
		}
	default:
		return nil, fmt.Errorf("upstream github: event %q: want push or issues", o.Event)
	}
	p, err := newPoster("github", o.WebhookOptions, text)
	if err != nil {
		return nil, err
	}
	g := &GitHub{poster: p, repository: o.Repository}
	g.event, g.header, g.body = o.Event, g.headerOf, g.bodyOf
	if g.repository == nil {
		g.repository = func(source int) string { return fmt.Sprintf("eventmeter/service-%d", source) }
	}
	return g, nil
}

func (g *GitHub) headerOf(emission Emission, body []byte) http.Header {
	h := http.Header{
		"Accept":                                 {"*/*"},
		"Content-Type":                           {"application/json"},
		"User-Agent":                             {"GitHub-Hookshot/eventmeter"},
		"X-Github-Event":                         {g.event},
		"X-Github-Delivery":                      {guid(emission.Stamp.String())},
		"X-Github-Hook-Id":                       {"480112358"},
		"X-Github-Hook-Installation-Target-Id":   {fmt.Sprint(repositoryID(int(emission.Source)))},
		"X-Github-Hook-Installation-Target-Type": {"repository"},
	}
	if len(g.secret) > 0 {
		h.Set("X-Hub-Signature", "sha1="+sign(sha1.New, g.secret, body))
		h.Set("X-Hub-Signature-256", "sha256="+sign(sha256.New, g.secret, body))
	}
	return h
}

func repositoryID(source int) int { return 700_000_000 + source }

func (g *GitHub) bodyOf(emission Emission) []byte {
	source, seq, probe := int(emission.Source), emission.Seq, emission.Stamp.String()
	repository := g.repository(source)
	owner, name, _ := strings.Cut(repository, "/")
	before := emission.Stamp
	before.Seq--
	return fill("github_"+g.event, map[string]any{
		"repository": repository, "owner": owner, "name": name,
		"repositoryID": repositoryID(source), "repositoryNode": digest(12, "repository", repository),
		"now": g.now().UTC().Format(time.RFC3339), "text": g.text.of(emission),
		// The first line is used only by push, the second only by issues.
		"before": digest(40, "commit", before.String()), "after": digest(40, "commit", probe), "tree": digest(40, "tree", probe),
		"number": seq, "issueID": int64(repositoryID(source))<<16 + int64(seq), "issueNode": digest(12, "issue", probe),
	})
}
