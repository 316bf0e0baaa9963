package mcpevents

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/grafana/sobek"
	"go.k6.io/k6/v2/lib"
	"go.k6.io/k6/v2/metrics"
)

// List fetches a list once.
func (c *client) List(what string, options sobek.Value) *sobek.Promise {
	state := c.m.vu.State()
	if state == nil {
		return c.m.rejected(errors.New("list: call it in setup() or an iteration, not in the init context"))
	}
	var o onceOptions
	if err := decode(options, &o); err != nil {
		return c.m.rejected(fmt.Errorf("list: %w", err))
	}
	if names := mcpclient.Lists(); !slices.Contains(names, what) {
		return c.m.rejected(fmt.Errorf("list: there is no %q: %s", what, choose(what, names)))
	}
	ctx, now := c.m.vu.Context(), state.Tags.GetCurrentValues() // only available on the event loop
	now.Tags = o.Tags.of(now.Tags)
	ep, err := c.met()
	if err != nil {
		return c.m.rejected(fmt.Errorf("list: %w", err))
	}
	limit := o.Timeout.or(defaultReceived)
	promise, resolve, reject := c.m.promised()
	c.groups.begin()
	c.m.hub.life.work.Go(func() {
		defer c.groups.end()
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		out, err := c.fetch(ctx, ep, what, state, now)
		if err != nil {
			reject(c.clean(fmt.Errorf("list %s at %s: %w", what, c.address(), late(ctx, fmt.Sprintf("timeout (%v)", limit), err))))
			return
		}
		resolve(out)
	})
	return promise
}

// onceOptions are the second argument of list.
type onceOptions struct {
	Timeout *duration `json:"timeout"`
	Tags    ownTags   `json:"tags"`
}

// plain decodes JSON for a script.
func plain(raw json.RawMessage) (v any, err error) {
	err = json.Unmarshal(raw, &v)
	return v, err
}

// listed sends the time of one call of a list, with the tags that the VU had when
// it was made.
func (c *client) listed(l *mcpclient.Listing, state *lib.State, now metrics.TagsAndMeta) {
	k := kind{system: cmp.Or(l.System, "mcp"), mode: "list", event: l.Method, lane: "list"}
	o := &origin{&c.m.hub.life, state, k.tags(now.Tags), now.Metadata}
	b := o.batch()
	b.add(c.m.metrics.list, metrics.D(l.Took))
	c.passed.sample(b, o)
	o.send(b)
}

// fetch fetches a list, sends its duration to k6, and returns the result for
// scripts.
func (c *client) fetch(
	ctx context.Context,
	ep *mcpclient.Endpoint,
	name string,
	state *lib.State,
	now metrics.TagsAndMeta,
) (map[string]any, error) {
	l, err := ep.List(ctx, name)
	if err != nil {
		return nil, err
	}
	entries := make([]any, len(l.Entries))
	for i, raw := range l.Entries {
		if entries[i], err = plain(raw); err != nil {
			return nil, fmt.Errorf("%s: entry %d: %w", l.Method, i, err)
		}
	}
	out := map[string]any{
		"method": l.Method, "entries": entries, "pages": l.Pages, "duration": metrics.D(l.Took), "bytes": l.Up + l.Down,
		"ttl": nil, "cacheScope": l.Scope,
	}
	if l.HasTTL {
		out["ttl"] = metrics.D(l.TTL)
	}
	c.listed(&l, state, now)
	return out, nil
}
