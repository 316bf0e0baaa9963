package upstream_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/loadgen/upstream"
)

var update = flag.Bool("update", false, "write the golden files again")

// TestProductBytes holds the bodies of the products' webhooks to files, byte by
// byte: signatures are over them, and targets may parse them strictly.
func TestProductBytes(t *testing.T) {
	o := upstream.WebhookOptions{URL: "http://127.0.0.1:1/hooks", Secret: "s", Now: func() time.Time { return time.Unix(1_700_000_000, 0) }}
	odd := o
	odd.Text = func(source int, seq uint32, probe string) string {
		return fmt.Sprintf("\"<%d>\" & \\ \t\u2028 ü \x01 %d {{.}} %s", source, seq, probe)
	}
	repository := func(int) string { return `odd "name/x&<y>` }
	channel := func(int) string { return `C"<1>` }
	made := func(u upstream.Recorded, err error) upstream.Recorded {
		must(t, err)
		return u
	}
	github := func(o upstream.GitHubOptions) upstream.Recorded { u, err := upstream.NewGitHub(o); return made(u, err) }
	slack := func(o upstream.SlackOptions) upstream.Recorded { u, err := upstream.NewSlack(o); return made(u, err) }
	stripe := func(o upstream.StripeOptions) upstream.Recorded { u, err := upstream.NewStripe(o); return made(u, err) }
	for name, u := range map[string]upstream.Recorded{
		"github_push":       github(upstream.GitHubOptions{WebhookOptions: o}),
		"github_push_odd":   github(upstream.GitHubOptions{WebhookOptions: odd, Repository: repository}),
		"github_issues":     github(upstream.GitHubOptions{WebhookOptions: o, Event: "issues"}),
		"github_issues_odd": github(upstream.GitHubOptions{WebhookOptions: odd, Event: "issues", Repository: repository}),
		"slack":             slack(upstream.SlackOptions{WebhookOptions: o}),
		"slack_odd":         slack(upstream.SlackOptions{WebhookOptions: odd, Channel: channel}),
		"stripe_payment":    stripe(upstream.StripeOptions{WebhookOptions: o}),
		"stripe_customer":   stripe(upstream.StripeOptions{WebhookOptions: odd, Type: "customer.updated"}),
	} {
		event, body := u.Content(emission)
		got := fmt.Appendf(nil, "%s\n%s", event, body)
		file := filepath.Join("testdata", "golden", name+".txt")
		if *update {
			must(t, os.WriteFile(file, got, 0o600))
		}
		want, err := os.ReadFile(file)
		must(t, err)
		if !bytes.Equal(got, want) {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
		}
	}
}
