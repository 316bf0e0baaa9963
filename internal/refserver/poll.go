package refserver

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/refserver/faults"
)

// eventParams are the params that poll, stream and subscribe share.
type eventParams struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	Cursor    *string         `json:"cursor"`
	MaxAgeMs  *int64          `json:"maxAgeMs"`
	// Params and MaxAge are older spellings of arguments and, in seconds,
	// maxAgeMs.
	Params json.RawMessage `json:"params"`
	MaxAge *int64          `json:"maxAge"`
}

// resolve returns the topic and the selection of a subscription, and its
// arguments in canonical form.
func (s *Server) resolve(mode eventmeter.Mode, c *call, p eventParams) (_ *topic, sel selection, canonical string, _ *rpcError) {
	t := s.broker.topic(mode, p.Name)
	if t == nil || s.broker.topics[p.Name].withdrawn.Load() {
		return nil, sel, "", noSuchEvent()
	}
	if !t.kind.has(mode) {
		return nil, sel, "", unsupported("deliveryMode", string(mode))
	}
	sel, canonical, err := t.kind.selectBy(p.arguments(c.smithery()))
	if err != nil {
		return nil, sel, "", invalidParams("%v", err)
	}
	if t.kind.owned && !s.breach.Breaks("authz-subscribe-time", mode) {
		if c.principal == "" {
			return nil, sel, "", forbidden("authentication required")
		}
		if sel.keyed && sel.key != c.principal {
			return nil, sel, "", forbidden("the notes are another principal's")
		}
		sel = selection{keyed: true, key: c.principal}
	}
	if p.MaxAgeMs != nil && *p.MaxAgeMs < 0 || p.MaxAge != nil && *p.MaxAge < 0 {
		return nil, sel, "", invalidParams("maxAgeMs is negative")
	}
	return t, sel, canonical, nil
}

// arguments returns the arguments in whichever spelling they came.
func (p eventParams) arguments(paramsFirst bool) json.RawMessage {
	first, second := p.Arguments, p.Params
	if paramsFirst {
		first, second = second, first
	}
	if len(first) > 0 {
		return first
	}
	return second
}

func (p eventParams) start() start {
	from := start{cursor: p.Cursor}
	if p.MaxAgeMs != nil {
		from.maxAge = max(millis(*p.MaxAgeMs), 1) // 0 ms: no event is young enough
	} else if p.MaxAge != nil {
		from.maxAge = max(millis(min(*p.MaxAge, 1<<40)*1000), 1)
	}
	return from
}

// millis converts without overflow: longer times become a century.
func millis(ms int64) time.Duration {
	return time.Duration(min(ms, 100*365*24*3600*1000)) * time.Millisecond
}

// list answers events/list. A cursor names the last type of its page, so that
// types may come and go between two pages.
func (s *Server) list(c *call) *rpcError {
	var p struct {
		Cursor string `json:"cursor"`
	}
	if len(c.params) > 0 {
		if rpcErr := c.decode(&p); rpcErr != nil {
			return rpcErr
		}
	}
	types, next, ok := s.typesPage(p.Cursor)
	if !ok {
		return invalidParams("cursor is none of this list")
	}
	member := "delivery"
	if c.rules.spellsOlder() {
		member = "deliveryModes"
	}
	b := []byte(`"events":[`)
	for i, t := range types {
		if i > 0 {
			b = append(b, ',')
		}
		delivery, _ := json.Marshal(slices.DeleteFunc(slices.Clone(modes), func(mode eventmeter.Mode) bool {
			return !t.kind.has(mode) || c.smithery() && mode != eventmeter.Webhook
		})) // texts always encode
		b = fmt.Appendf(b, `{"name":%s,"description":%s,"%s":%s,"inputSchema":%s,"payloadSchema":%s}`,
			quote(nil, t.kind.name), quote(nil, t.kind.description), member, delivery, t.kind.input(), t.payloadSchema())
	}
	b = append(b, ']')
	if next != "" {
		b = quote(append(b, `,"nextCursor":`...), next)
	}
	return c.answer(b)
}

// typesPage returns the offered types of the page that a cursor names, and the
// cursor of the next page, which is "" after the last one.
func (s *Server) typesPage(cursor string) (page []*topic, next string, ok bool) {
	all := s.broker.order
	if cursor != "" {
		at := slices.IndexFunc(all, func(t *topic) bool { return typesCursor+t.kind.name == cursor })
		if at < 0 {
			return nil, "", false
		}
		all = all[at+1:]
	}
	for _, t := range all {
		switch {
		case t.withdrawn.Load():
		case s.opts.TypesPage > 0 && len(page) == s.opts.TypesPage:
			return page, typesCursor + page[len(page)-1].kind.name, true
		default:
			page = append(page, t)
		}
	}
	return page, "", true
}

// typesCursor is what the cursors of events/list begin with.
const typesCursor = "after:"

// poll answers events/poll, at once or when an event arrives.
func (s *Server) poll(c *call) *rpcError {
	var p struct {
		eventParams
		MaxEvents *int64 `json:"maxEvents"`
		TimeoutMs *int64 `json:"timeoutMs"`
	}
	if rpcErr := c.decode(&p); rpcErr != nil {
		return rpcErr
	}
	t, sel, _, rpcErr := s.resolve(eventmeter.Poll, c, p.eventParams)
	if rpcErr == nil && p.Cursor == nil {
		rpcErr = s.faultInjector.refuse("events", eventmeter.Poll)
	}
	switch {
	case rpcErr != nil:
	case t.isFormer(p.Cursor):
		rpcErr = schemaChanged()
	case p.MaxEvents != nil && *p.MaxEvents < 1:
		rpcErr = invalidParams("maxEvents is less than 1")
	case c.rules.longPoll && p.TimeoutMs != nil && *p.TimeoutMs < 0:
		rpcErr = invalidParams("timeoutMs is negative")
	}
	if rpcErr != nil {
		return rpcErr
	}
	limit, wait := s.opts.PollMaxEvents, time.Duration(0)
	if p.MaxEvents != nil && !s.breach.Breaks("poll-max-events-cap") {
		limit = int(min(*p.MaxEvents, int64(limit)))
	}
	if c.rules.longPoll && p.TimeoutMs != nil {
		wait = min(millis(*p.TimeoutMs), s.opts.LongPollMax)
	}
	s.counts.Polls.Add(1)
	b := t.readOnce(sel, s.startOf(eventmeter.Poll, c, t, p.eventParams), limit)
	if len(b.events) == 0 && !b.gap && wait > 0 && p.Cursor != nil {
		if b, rpcErr = s.longPoll(c, t, sel, b.after, limit, wait); rpcErr != nil {
			return rpcErr
		}
	}
	if b.gap && c.rules.spellsOlder() {
		return expiredCursor()
	}
	if !s.capacity.take(c.r.Context(), s.closing, len(b.events)) {
		return nil // the client is gone, or the server closes
	}
	if len(b.events) == 0 {
		s.counts.EmptyPolls.Add(1)
	}
	s.counts.polled.Add(int64(len(b.events)))
	return c.answer(s.pollResult(c, t, b))
}

// longPoll waits for the first events after a position. The wait starts where
// readOnce ended.
func (s *Server) longPoll(c *call, t *topic, sel selection, after uint64, limit int, wait time.Duration) (batch, *rpcError) {
	woken := make(chan struct{}, 1)
	cursor := t.cursor(after)
	reader, _, truncated := t.open(sel, start{cursor: &cursor}, 0, func() { signal(woken) })
	defer reader.close()
	s.counts.waiting.Add(1)
	defer s.counts.waiting.Add(-1)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		changed, revoked := s.principals.watch(c.principal)
		switch {
		case revoked:
			return batch{}, forbidden(reasonRevoked)
		case t.withdrawn.Load():
			return batch{}, noSuchEvent()
		case t.isFormer(&cursor):
			return batch{}, schemaChanged()
		}
		b := reader.take(nil, limit)
		b.gap = b.gap || truncated
		if len(b.events) > 0 || b.gap {
			return b, nil
		}
		select {
		case <-woken:
		case <-changed:
		case <-timer.C:
			return b, nil
		case <-s.closing: // answered early and empty
			return b, nil
		case <-c.r.Context().Done():
			return b, nil
		}
	}
}

func (s *Server) pollResult(c *call, t *topic, b batch) []byte {
	size := 200
	for _, e := range b.events {
		size += len(e.fields) + 3
	}
	out := append(make([]byte, 0, size), `"events":[`...)
	for i, e := range b.events {
		if i > 0 {
			out = append(out, ',')
		}
		if e.fault != nil && e.fault.Kind == faults.Malformed {
			out = append(out, `"malformed"`...) // an element that is no event
			continue
		}
		out = e.appendOccurrence(out)
	}
	out = t.appendCursor(append(out, `],"cursor":"`...), b.after)
	if c.rules.spellsOlder() {
		return fmt.Appendf(out, `","hasMore":%t,"nextPollSeconds":%v`, b.more, s.opts.NextPoll.Seconds())
	}
	return fmt.Appendf(out, `","truncated":%t,"hasMore":%t,"nextPollMs":%d`, b.gap, b.more, s.opts.NextPoll.Milliseconds())
}
