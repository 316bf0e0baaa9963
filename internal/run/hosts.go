package run

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/eventmeter/eventmeter/internal/dialguard"
	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/profiles"
)

// CheckHost refuses a host that is not this machine, unless the profile allows it and
// the command line names it a second time: a load generator that a file from somebody
// else can point anywhere is a weapon.
//
// Guard then allows connections to the checked addresses alone: a name is resolved
// here and never again.
func CheckHost(ctx context.Context, guard *dialguard.Guard, rawURL, what string, allowed []string) error {
	u, err := url.Parse(rawURL)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return fmt.Errorf("%w: %s: %q is not an http or https URL", ErrProfile, what, errtext.Address(rawURL))
	}
	host := u.Hostname()
	if isLoopback(ctx, guard, host) {
		return nil
	}
	if slices.ContainsFunc(allowed, func(a string) bool { return strings.EqualFold(a, host) || strings.EqualFold(a, u.Host) }) {
		// A name that cannot be resolved is reported when it is dialled.
		_ = guard.Allow(ctx, host)
		return nil
	}
	return fmt.Errorf(
		"%w: %s: %s is not this machine; if you may put load on it, name it a second time with --allow-host %s",
		ErrProfile,
		what,
		host,
		host,
	)
}

// isLoopback reports whether every address of host is a loopback address.
func isLoopback(ctx context.Context, guard *dialguard.Guard, host string) bool {
	addrs, err := guard.Lookup(ctx, host)
	return err == nil && len(addrs) > 0 && !slices.ContainsFunc(addrs, func(a netip.Addr) bool { return !a.Unmap().IsLoopback() })
}

// checkHosts applies [CheckHost] to every URL of the profile. A host that the profile
// allows must be named on the command line as well.
func checkHosts(ctx context.Context, guard *dialguard.Guard, p *profiles.Profile, named []string) error {
	t, u := &p.Target, &p.Upstream
	for _, one := range []struct{ key, url string }{
		{"target.url", t.URL},
		{"target.oauth.tokenURL", t.OAuth.TokenURL},
		{"upstream.admin", u.Admin},
		{"upstream.github.url", u.GitHub.URL},
		{"upstream.slack.url", u.Slack.URL},
		{"upstream.stripe.url", u.Stripe.URL},
		{"upstream.replay.url", u.Replay.URL},
	} {
		if one.url == "" {
			continue
		}
		if err := CheckHost(ctx, guard, one.url, one.key, named); err != nil {
			return err
		}
	}
	if u.HTTP.URL != "" {
		// The host of a templated URL must be plain text.
		scheme, rest, _ := strings.Cut(u.HTTP.URL, "://")
		host, _, _ := strings.Cut(rest, "/")
		if strings.Contains(host, "{{") {
			return fmt.Errorf("%w: upstream.http.url: the host of %q must not be a template", ErrProfile, errtext.Address(u.HTTP.URL))
		}
		if err := CheckHost(ctx, guard, scheme+"://"+host, "upstream.http.url", named); err != nil {
			return err
		}
	}
	for _, a := range t.Allow {
		if !slices.Contains(named, a) {
			return fmt.Errorf("%w: target.allow names %s, which must be named on the command line too: --allow-host %s", ErrProfile, a, a)
		}
	}
	return nil
}
