package upstream

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/eventmeter/eventmeter"
)

// GitHubOptions describe a [GitHub].
type GitHubOptions struct {
	WebhookOptions
	// Event is push (also "") or issues: the value of X-GitHub-Event.
	Event string
	// Repository gives the full name (owner/name) of a source's repository; nil
	// means eventmeter/service-SOURCE.
	Repository func(source int) string
}

// GitHub sends webhooks as GitHub does: a push whose head commit's message
// holds the probe, or an issue that is opened with the probe in its title. Each
// source is a repository. With a secret, deliveries are signed as GitHub signs
// them (X-Hub-Signature-256, and the older X-Hub-Signature); without one they
// are not, as it is with GitHub.
type GitHub struct {
	poster
	event      string
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
	g := &GitHub{poster: p, event: o.Event, repository: o.Repository}
	if g.repository == nil {
		g.repository = func(source int) string { return fmt.Sprintf("eventmeter/service-%d", source) }
	}
	return g, nil
}

// Fire implements [Upstream].
func (g *GitHub) Fire(ctx context.Context, emission Emission) eventmeter.Outcome {
	body := g.body(emission)
	return g.post(ctx, g.header(emission, body), body)
}

// Content implements [Recorded].
func (g *GitHub) Content(emission Emission) (string, []byte) { return g.event, g.body(emission) }

func (g *GitHub) header(emission Emission, body []byte) http.Header {
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

// The members of the payloads that programs read, in GitHub's order.
type (
	githubUser struct {
		Login string `json:"login"`
		ID    int    `json:"id"`
		URL   string `json:"url"`
		HTML  string `json:"html_url"`
		Type  string `json:"type"`
		Admin bool   `json:"site_admin"`
	}
	githubRepository struct {
		ID       int        `json:"id"`
		NodeID   string     `json:"node_id"`
		Name     string     `json:"name"`
		FullName string     `json:"full_name"`
		Private  bool       `json:"private"`
		Owner    githubUser `json:"owner"`
		HTML     string     `json:"html_url"`
		URL      string     `json:"url"`
		Branch   string     `json:"default_branch"`
	}
	githubAuthor struct {
		Name     string `json:"name"`
		Email    string `json:"email"`
		Username string `json:"username,omitempty"`
	}
	githubCommit struct {
		ID        string       `json:"id"`
		TreeID    string       `json:"tree_id"`
		Distinct  bool         `json:"distinct"`
		Message   string       `json:"message"`
		Timestamp string       `json:"timestamp"`
		URL       string       `json:"url"`
		Author    githubAuthor `json:"author"`
		Committer githubAuthor `json:"committer"`
		Added     []string     `json:"added"`
		Removed   []string     `json:"removed"`
		Modified  []string     `json:"modified"`
	}
	githubPush struct {
		Ref        string           `json:"ref"`
		Before     string           `json:"before"`
		After      string           `json:"after"`
		Repository githubRepository `json:"repository"`
		Pusher     githubAuthor     `json:"pusher"`
		Sender     githubUser       `json:"sender"`
		Created    bool             `json:"created"`
		Deleted    bool             `json:"deleted"`
		Forced     bool             `json:"forced"`
		BaseRef    *string          `json:"base_ref"`
		Compare    string           `json:"compare"`
		Commits    []githubCommit   `json:"commits"`
		Head       githubCommit     `json:"head_commit"`
	}
	githubIssue struct {
		URL         string      `json:"url"`
		HTML        string      `json:"html_url"`
		ID          int64       `json:"id"`
		NodeID      string      `json:"node_id"`
		Number      uint32      `json:"number"`
		Title       string      `json:"title"`
		User        githubUser  `json:"user"`
		Labels      []string    `json:"labels"`
		State       string      `json:"state"`
		Locked      bool        `json:"locked"`
		Assignee    *githubUser `json:"assignee"`
		Comments    int         `json:"comments"`
		CreatedAt   string      `json:"created_at"`
		UpdatedAt   string      `json:"updated_at"`
		ClosedAt    *string     `json:"closed_at"`
		Association string      `json:"author_association"`
		Body        string      `json:"body"`
	}
	githubIssues struct {
		Action     string           `json:"action"`
		Issue      githubIssue      `json:"issue"`
		Repository githubRepository `json:"repository"`
		Sender     githubUser       `json:"sender"`
	}
)

func repositoryID(source int) int { return 700_000_000 + source }

func (g *GitHub) body(emission Emission) []byte {
	source, seq, probe := int(emission.Source), emission.Seq, emission.Stamp.String()
	full := g.repository(source)
	owner, name, _ := strings.Cut(full, "/")
	web, api := "https://github.com/"+full, "https://api.github.com/repos/"+full
	user := githubUser{
		Login: "octo-load", ID: 9_100_001, Type: "User",
		URL: "https://api.github.com/users/octo-load", HTML: "https://github.com/octo-load",
	}
	repository := githubRepository{
		ID: repositoryID(source), NodeID: "R_" + digest(12, "repository", full), Name: name, FullName: full, HTML: web, URL: api, Branch: "main",
		Owner: githubUser{Login: owner, ID: 9_100_000, Type: "Organization", URL: "https://api.github.com/users/" + owner, HTML: "https://github.com/" + owner},
	}
	now := g.now().UTC().Format(time.RFC3339)
	if g.event == "issues" {
		return encode(githubIssues{Action: "opened", Repository: repository, Sender: user, Issue: githubIssue{
			URL: fmt.Sprintf("%s/issues/%d", api, seq), HTML: fmt.Sprintf("%s/issues/%d", web, seq),
			ID: int64(repositoryID(source))<<16 + int64(seq), NodeID: "I_" + digest(12, "issue", probe), Number: seq,
			Title: g.text(source, seq, probe), User: user, Labels: []string{}, State: "open",
			CreatedAt: now, UpdatedAt: now, Association: "CONTRIBUTOR", Body: "Seen on main.",
		}}, "")
	}
	before := emission.Stamp
	before.Seq--
	author := githubAuthor{Name: "Octo Load", Email: "octo-load@users.noreply.github.com", Username: user.Login}
	commit := githubCommit{
		ID: digest(40, "commit", probe), TreeID: digest(40, "tree", probe), Distinct: true, Message: g.text(source, seq, probe), Timestamp: now,
		Author: author, Committer: author, Added: []string{}, Removed: []string{}, Modified: []string{"delivery/retry.go"},
	}
	commit.URL = web + "/commit/" + commit.ID
	push := githubPush{
		Ref: "refs/heads/main", Before: digest(40, "commit", before.String()), After: commit.ID, Repository: repository,
		Pusher: githubAuthor{Name: user.Login, Email: author.Email}, Sender: user, Commits: []githubCommit{commit}, Head: commit,
	}
	push.Compare = fmt.Sprintf("%s/compare/%s...%s", web, push.Before[:12], push.After[:12])
	return encode(push, "")
}
