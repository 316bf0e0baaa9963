package check

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/conform"
	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/sinks"
)

func (p *probe) poll(ctx context.Context, more params) answer {
	return p.call(ctx, p.me(), "events/poll", p.base().with(params{"cursor": null}).with(more))
}

// ids are the eventIds of a poll's answer.
func (a *answer) ids() (ids []string) {
	var events []struct {
		EventID string `json:"eventId"`
	}
	_ = json.Unmarshal(a.result["events"], &events) // judged by runs
	for _, e := range events {
		ids = append(ids, e.EventID)
	}
	return ids
}

// cursor is the answer's cursor; nil if there is none.
func (a *answer) cursor() any {
	if c := a.result["cursor"]; len(c) > 0 && c[0] == '"' {
		return c
	}
	return nil
}

// list asks for the event types, as the run did before it opened its subscriptions.
func list(ctx context.Context, p *probe) {
	seen, err := p.List(ctx)
	for _, id := range p.step.Rows {
		if c := seen[conform.Rows[id].Name]; c.Seen > 0 {
			if c.First != nil {
				first := *c.First
				first.Lane, first.At = "check: "+p.step.Name, p.Clock.Now()
				c.First = &first
			}
			p.judged[id] = true
			p.found.add(id, c)
		}
	}
	if err != nil {
		p.skipAll(errtext.Line(err.Error()))
	}
}

func unknownPoll(ctx context.Context, p *probe) {
	a := p.poll(ctx, params{"name": unknown})
	if p.unanswered(a) {
		return
	}
	p.judge(conform.PollErrorsAreJSONRPC, a.granted() || a.coded, "HTTP %d: %s", a.status, a.text)
	p.held(conform.RemovalPollNotFound, a.is("NotFound"), a)
	p.skip("the refusal was not NotFound", conform.ErrorNotFound)
}

// invalidArgument returns arguments that a schema refuses; nil if it may refuse
// nothing.
func invalidArgument(schema json.RawMessage) json.RawMessage {
	var s struct {
		Properties map[string]struct {
			Type any `json:"type"`
		} `json:"properties"`
		Additional any      `json:"additionalProperties"`
		Required   []string `json:"required"`
	}
	if json.Unmarshal(schema, &s) != nil {
		return nil
	}
	wrong := map[string]any{}
	for name, of := range s.Properties {
		switch of.Type {
		case "string":
			wrong[name] = 17
		case "number", "integer", "boolean", "object", "array":
			wrong[name] = "seventeen"
		}
	}
	if s.Additional == false {
		wrong["eventmeterUnknown"] = true
	}
	if len(wrong) == 0 && len(s.Required) == 0 {
		return nil
	}
	text, _ := json.Marshal(wrong) // maps of these always encode
	return text
}

func invalidArguments(ctx context.Context, p *probe) {
	wrong := invalidArgument(p.eventType().InputSchema)
	if wrong == nil {
		p.skipAll("the inputSchema of " + p.Event + " refuses nothing")
		return
	}
	a := p.poll(ctx, params{"arguments": wrong})
	if p.unanswered(a) {
		return
	}
	p.judge(conform.PollInvalidArguments, a.is("InvalidParams"), "%s: %s", wrong, a.text)
	p.judge(conform.ErrorInvalidParams, a.is("InvalidParams"), "%s: %s", wrong, a.text)
}

// unsupportedMode polls a type that is not polled; one that has no required
// arguments, since an error about these may come first.
func unsupportedMode(ctx context.Context, p *probe) {
	for _, t := range p.Types {
		var s struct {
			Required []string `json:"required"`
		}
		_ = json.Unmarshal(t.InputSchema, &s)
		args := json.RawMessage("{}")
		if t.Name == p.Event {
			args = p.Arguments
		} else if len(s.Required) > 0 {
			continue
		}
		if len(t.Delivery) == 0 || slices.Contains(t.Delivery, eventmeter.Poll) {
			continue
		}
		a := p.poll(ctx, params{"name": t.Name, "arguments": args})
		if a.code == -32601 &&
			!slices.ContainsFunc(p.Types, func(t driver.EventType) bool { return slices.Contains(t.Delivery, eventmeter.Poll) }) {
			p.skipAll("no event type can be polled, and there is no events/poll")
			return
		}
		if a.silent == "" {
			p.judge(conform.PollModeUnsupported, a.is("Unsupported"), "%s: %s", t.Name, a.text)
		}
		p.skip("the refusal was not Unsupported", conform.ErrorUnsupported)
		p.skip(a.silent, conform.PollModeUnsupported)
		return
	}
	p.skipAll("every event type can be polled")
}

// absentCursorPoll polls without a cursor between two polls with null.
func absentCursorPoll(ctx context.Context, p *probe) {
	with := p.poll(ctx, nil)
	without := p.poll(ctx, params{"cursor": nil})
	after := p.poll(ctx, nil)
	if silent := with.silent + without.silent + after.silent; silent != "" || !with.granted() || !after.granted() {
		p.skip("a poll with cursor: null failed: "+with.text+silent, conform.CursorAbsentEqualsNull, conform.CursorNullStartsFromNow)
		return
	}
	same := without.granted() && (len(without.ids()) == 0 || len(after.ids()) > 0) && (with.cursor() == nil) == (without.cursor() == nil)
	p.held(conform.CursorAbsentEqualsNull, same, without)
	p.held(conform.CursorNullStartsFromNow, len(with.ids()) == 0, with)
}

func absentCursorWebhook(ctx context.Context, p *probe) {
	k := p.hook()
	with := p.subscribe(ctx, k, nil)
	if !with.granted() {
		p.skipAll("a subscribe with cursor: null failed: " + with.text + with.silent)
		return
	}
	without := p.subscribe(ctx, p.hook(), params{"cursor": nil})
	if p.unanswered(without) {
		return
	}
	p.held(conform.CursorAbsentEqualsNull, without.granted() && (with.cursor() == nil) == (without.cursor() == nil), without)
}

func staleCursor(ctx context.Context, p *probe) {
	a := p.poll(ctx, params{"cursor": "eventmeter-stale-cursor"})
	if p.unanswered(a) {
		return
	}
	p.held(conform.TruncatedPollNeverAnError, a.granted(), a)
	if a.granted() && !a.isTrue("truncated") && a.cursor() != nil {
		p.judge(conform.TruncatedReturnsFreshCursor, false, "an unknown cursor, and truncated is not true: %s", a.text)
		return
	}
	if !a.granted() || !a.isTrue("truncated") {
		p.skip("no answer had truncated", conform.TruncatedReturnsFreshCursor)
		return
	}
	if a.cursor() == nil {
		if now := p.poll(ctx, nil); now.cursor() != nil {
			p.judge(conform.TruncatedReturnsFreshCursor, false, "no cursor: %s", a.text)
		}
		p.skip("the event type has no cursors", conform.TruncatedReturnsFreshCursor)
		return
	}
	again := p.poll(ctx, params{"cursor": a.cursor()})
	p.held(conform.TruncatedReturnsFreshCursor, again.silent != "" || again.granted() && !again.isTrue("truncated"), again)
}

// backlog polls from now, and waits until n events wait behind the cursor. It returns
// the cursor, and the answer with the events; ok is false if they do not come, or one
// that came is gone.
func (p *probe) backlog(ctx context.Context, n int) (cursor any, a answer, ok bool) {
	first := p.poll(ctx, nil)
	if cursor = first.cursor(); cursor == nil {
		p.skipAll("the event type has no cursors: " + first.text + first.silent)
		return nil, first, false
	}
	limit := time.After(patience)
	var before []string
	for round := 0; ; round++ {
		a = p.poll(ctx, params{"cursor": cursor})
		if a.granted() && round == 0 {
			p.held(conform.PollBootstrapsSubscription, !a.isTrue("truncated"), a)
		}
		if a.granted() && !begins(a.ids(), before) {
			p.held(conform.PollStatelessRequest, false, a)
			p.skipAll("a poll did not bring again what it had brought")
			return nil, a, false
		}
		if before = a.ids(); len(before) >= n {
			return cursor, a, true
		}
		select {
		case <-limit:
			p.skipAll("too few events came")
			return nil, a, false
		case <-ctx.Done():
			p.skipAll(overTime)
			return nil, a, false
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func replay(ctx context.Context, p *probe) {
	cursor, a, ok := p.backlog(ctx, 2)
	if !ok {
		return
	}
	absentCursorPoll(ctx, p) // here there are events
	again := p.poll(ctx, params{"cursor": cursor})
	if p.unanswered(again) {
		return
	}
	p.judge(conform.PollStatelessRequest, begins(again.ids(), a.ids()), "%v, and %v before", again.ids(), a.ids())
	one := p.poll(ctx, params{"cursor": cursor, "maxEvents": 1})
	next := p.poll(ctx, params{"cursor": one.cursor(), "maxEvents": 1})
	if !one.granted() || !next.granted() {
		p.skipAll("a poll with maxEvents failed: " + one.text + next.text)
		return
	}
	if len(one.ids()) > 1 {
		p.held(conform.PollMaxEventsCap, false, one)
		return
	}
	p.held(conform.PollHasMore, one.isTrue("hasMore"), one)
	p.judge(
		conform.PollMaxEventsCap,
		begins(a.ids(), append(one.ids(), next.ids()...)),
		"%v one by one, and %v at once",
		append(one.ids(), next.ids()...),
		a.ids(),
	)
}

// begins tells whether all begins with part.
func begins(all, part []string) bool {
	return len(all) >= len(part) && slices.Equal(all[:len(part)], part)
}

func maxAge(ctx context.Context, p *probe) {
	cursor, old, ok := p.backlog(ctx, 1)
	now := p.poll(ctx, params{"maxAgeMs": 60_000})
	if now.silent == "" {
		p.held(conform.MaxAgeMsIgnoredWhenCursorNull, now.granted() && len(now.ids()) == 0 && !now.isTrue("truncated"), now)
	}
	if !ok {
		return
	}
	if !sinks.Sleep(ctx, 3*time.Second) { // until the events that came are older than that
		p.skipAll(overTime)
		return
	}
	a := p.poll(ctx, params{"cursor": cursor, "maxAgeMs": 1})
	if p.unanswered(a) {
		return
	}
	floored := a.granted() && !slices.ContainsFunc(a.ids(), func(id string) bool { return slices.Contains(old.ids(), id) })
	p.held(conform.MaxAgeMsFloor, floored, a)
	if !floored {
		p.skip("nothing was left out", conform.MaxAgeMsSetsTruncated)
		return
	}
	p.held(conform.MaxAgeMsSetsTruncated, a.isTrue("truncated"), a)
}

// denied asks for what the principal may not have, by any mode.
func denied(ctx context.Context, p *probe) {
	d := p.opts.Denied
	if d.Event == "" {
		p.skipAll("needs an event type that the principal may not have; name it with --denied")
		return
	}
	of := params{"name": d.Event, "arguments": d.Arguments}
	var a answer
	asked := false
	for _, t := range p.Types {
		asked = asked || t.Name == d.Event
		if t.Name == d.Event && slices.Contains(t.Delivery, eventmeter.Poll) {
			a = p.poll(ctx, of)
		} else if t.Name == d.Event && p.Inbox != nil {
			a = p.subscribe(ctx, p.hook(), of)
		}
	}
	switch {
	case a.silent != "":
		p.skipAll(a.silent)
	case !asked:
		p.skipAll("the target does not list " + d.Event)
	default:
		p.held(conform.AuthzSubscribeTime, a.forbids(), a)
		p.skip("the refusal was no JSON-RPC error", conform.ErrorForbidden)
	}
}
