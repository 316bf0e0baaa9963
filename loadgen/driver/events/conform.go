package events

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/conform"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
)

// judge holds what passes a lane against the rows of [conform]. It judges nothing
// of Smithery's triggers and of revision older, which have other rules.
type judge struct {
	tally *conform.Tally // nil = nothing is judged
	greet sync.Once      // the first handshake is judged
	// gave and lacked tell that an answer had a cursor, or none.
	gave, lacked atomic.Bool
	listChanged  atomic.Bool // was advertised
	notFound     atomic.Bool // broke unsubscribe-by-key
	proven       atomic.Bool // all callbacks are: the receiver document was read, or the shared one was challenged
}

// saw counts an occasion of a run.
func (d *lane) saw(r *run, o conform.Occasion) { d.judge.tally.See(r.Sub.Index, o) }

// broke counts a message that breaks a row. The subscription's number is looked up
// for that alone.
func (d *lane) broke(r *run, at eventmeter.Instant, row conform.ID, message []byte) {
	d.judge.tally.Break(uint32(d.Opts.NumberOf(int(r.Sub.Index))), at, row, message)
}

// held counts an occasion, and breaks a row of it unless it holds.
func (d *lane) held(r *run, at eventmeter.Instant, o conform.Occasion, ok bool, row conform.ID, message []byte) {
	d.saw(r, o)
	if !ok {
		d.broke(r, at, row, message)
	}
}

// judgeHandshake judges the capabilities of the lane's first session.
func (d *lane) judgeHandshake(s *mcpclient.Session) {
	j := &d.judge
	now := d.Clock.Now()
	j.tally.See(0, conform.Handshake)
	places := capabilityPlaces(s.Capabilities)
	if len(places) == 0 {
		j.tally.Break(0, now, conform.CapabilityEventsObject, s.Capabilities)
	}
	for _, p := range places {
		j.listChanged.Store(p.listChanged || j.listChanged.Load())
		if p.odd {
			j.tally.Break(0, now, conform.CapabilityListChangedFlag, s.Capabilities)
		}
	}
}

// judgeList judges a page of events/list.
func (d *lane) judgeList(answer []byte, asked json.RawMessage) {
	t, now := d.judge.tally, d.Clock.Now()
	if t == nil {
		return
	}
	var m struct {
		Result struct {
			Events     json.RawMessage `json:"events"`
			NextCursor json.RawMessage `json:"nextCursor"`
		} `json:"result"`
	}
	_ = json.Unmarshal(answer, &m) // what is odd counts as absent
	t.See(0, conform.ListPage)
	if next := m.Result.NextCursor; len(next) > 0 && (next[0] != '"' || bytes.Equal(next, asked)) {
		t.Break(0, now, conform.ListPagination, answer)
	}
	var all []json.RawMessage
	if json.Unmarshal(m.Result.Events, &all) != nil || all == nil {
		t.Break(0, now, conform.ListImplemented, answer)
	}
	for _, e := range all {
		t.See(0, conform.Descriptor)
		for _, row := range oddDescriptor(e) {
			t.Break(0, now, row, e)
		}
	}
}

// judgeUnlisted judges the refusal of events/list by a target that does not advertise
// the extension.
func (d *lane) judgeUnlisted(a *mcpclient.Answer, s *mcpclient.Session) {
	code, ok := a.Err.Code()
	if !ok || len(capabilityPlaces(s.Capabilities)) > 0 {
		return
	}
	d.judge.tally.See(0, conform.ListUnoffered)
	if code != -32601 {
		d.judge.tally.Break(0, a.At, conform.FallbackMethodNotFound, answerText(a))
	}
}

// oddDescriptor returns the rows that an event type breaks.
func oddDescriptor(e []byte) (rows []conform.ID) {
	var m map[string]json.RawMessage
	_ = json.Unmarshal(e, &m)
	is := func(name string, first string) bool {
		v := m[name]
		return len(v) > 0 && strings.IndexByte(first, v[0]) >= 0
	}
	var delivery []eventmeter.Mode
	known := json.Unmarshal(m["delivery"], &delivery) == nil && len(delivery) > 0
	for _, mode := range delivery {
		known = known && slices.Contains([]eventmeter.Mode{eventmeter.Poll, eventmeter.Push, eventmeter.Webhook}, mode)
	}
	for _, c := range []struct {
		row conform.ID
		ok  bool
	}{
		{conform.DescriptorName, is("name", `"`)}, {conform.DescriptorDescription, is("description", `"`)},
		{conform.DescriptorDeliverySubset, known},
		{conform.DescriptorInputSchema, is("inputSchema", "{tf")}, {conform.DescriptorPayloadSchema, is("payloadSchema", "{tf")},
		{conform.DescriptorMeta, m["_meta"] == nil || is("_meta", "{")},
	} {
		if !c.ok {
			rows = append(rows, c.row)
		}
	}
	return rows
}

// judgeEvent judges one event, wherever it came from.
func (d *lane) judgeEvent(r *run, at eventmeter.Instant, f *wire.Fields, message []byte) {
	if d.judge.tally == nil {
		return
	}
	if len(f.EventID) == 0 {
		d.broke(r, at, conform.OccurrenceEventID, message)
	}
	if len(f.Name) == 0 {
		d.broke(r, at, conform.OccurrenceName, message)
	}
	if !isISO(f.Timestamp) {
		d.broke(r, at, conform.OccurrenceTimestamp, message)
	}
	if !f.HasData {
		d.broke(r, at, conform.OccurrenceData, message)
	}
	if !isCursor(f.Cursor) {
		d.broke(r, at, conform.OccurrenceCursorOptional, message)
	}
}

// isCursor tells whether a token, if it is there, is a string or null.
func isCursor(tok []byte) bool { return none(tok) || tok[0] == '"' }

// isISO tells whether b begins as ISO 8601 has it, down to seconds.
func isISO(b []byte) bool {
	if len(b) < len("0000-00-00T00:00:00") {
		return false
	}
	const date, separators = uint64(0x2d30302d30303030), uint64(0xff0000ff00000000)
	const clock, colons = uint64(0x30303a30303a3030), uint64(0x0000ff0000ff0000)
	return digits(b, date, separators) && digits(b[11:], clock, colons) && b[8]-'0' <= 9 && b[9]-'0' <= 9 &&
		(b[10] == 'T' || b[10] == 't' || b[10] == ' ')
}

// digits tells whether the first eight bytes are those of form, a little-endian word, with
// any digit for 0. It looks at all of them at once; same has the places of the others.
func digits(b []byte, form, same uint64) bool {
	x := binary.LittleEndian.Uint64(b) ^ form
	return x&same == 0 && (x|(x+0x0606060606060606))&0xf0f0f0f0f0f0f0f0 == 0
}

// judgeCursor judges the cursor of an answer or a message that has a place for it.
func (d *lane) judgeCursor(r *run, at eventmeter.Instant, cursor []byte, truncated bool, message []byte) {
	j := &d.judge
	if j.tally == nil {
		return
	}
	if !isCursor(cursor) {
		d.broke(r, at, conform.CursorOpaque, message)
	}
	lacks, mixed := none(cursor), false
	if lacks {
		d.saw(r, conform.NoCursor)
		mixed = j.gave.Load()
		if !j.lacked.Load() {
			j.lacked.Store(true)
		}
	} else {
		mixed = j.lacked.Load()
		if !j.gave.Load() {
			j.gave.Store(true)
		}
	}
	if mixed {
		d.broke(r, at, conform.CursorConsistency, message)
	}
	if !truncated {
		return
	}
	d.saw(r, conform.Truncation)
	switch {
	case lacks && j.gave.Load():
		d.broke(r, at, conform.TruncatedReturnsFreshCursor, message)
	case lacks:
		d.broke(r, at, conform.TruncatedFalseWhenNoReplay, message)
	}
}

// judgeRefusal judges the JSON-RPC error of an answer. ended says that it ended a
// subscription that stood.
func (d *lane) judgeRefusal(r *run, at eventmeter.Instant, e *wire.RPCError, ended bool, message []byte) {
	if d.judge.tally == nil {
		return
	}
	refusal := conform.Refusal{Code: e.Code, Meaning: mcpclient.RPCError("", e).Meaning(), Data: e.Data, Ended: ended}
	refusal.Judge(func(o conform.Occasion, ok bool, row conform.ID) { d.held(r, at, o, ok, row, message) })
}

// answerText is what is kept of an answer.
func answerText(a *mcpclient.Answer) []byte {
	if a.Buf == nil || len(*a.Buf) == 0 {
		return []byte(a.Err.Failure())
	}
	return *a.Buf
}

// judgeCall judges a call that was refused. It returns true if the refusal is no
// JSON-RPC error although it is the method's own: no matter of tokens or sessions.
func (d *lane) judgeCall(r *run, a *mcpclient.Answer) (bare bool) {
	switch {
	case d.judge.tally == nil:
	case a.Msg.HasError && a.Err.HasCode:
		d.judgeRefusal(r, a.At, &a.Msg.Error, r.WasActive(), answerText(a))
	case a.Status == 0 || a.Status == http.StatusUnauthorized || a.Status == http.StatusForbidden || a.Err.Forgotten():
	default:
		return true
	}
	return false
}

// judgePollFailed judges a poll that brought no result.
func (d *lane) judgePollFailed(r *run, a *mcpclient.Answer) {
	bare := d.judgeCall(r, a)
	switch {
	case bare && a.Status > 299:
		d.broke(r, a.At, conform.PollErrorsAreJSONRPC, answerText(a))
	case bare && a.Err.Kind == mcpclient.KindProtocol:
		d.broke(r, a.At, conform.PollImplemented, answerText(a))
	case a.Err.HasCode:
		d.saw(r, conform.PollRefused)
	}
}

// judgePoll judges the result of a poll. fromNow says that it had cursor: null,
// still that its cursor did not move.
func (d *lane) judgePoll(r *run, a *mcpclient.Answer, fromNow, still bool, n int) {
	if d.judge.tally == nil {
		return
	}
	m, text := &a.Msg, answerText(a)
	d.held(r, a.At, conform.PollAnswer, m.Events != nil, conform.PollEventsArray, text)
	if !m.HasNextPoll {
		d.broke(r, a.At, conform.PollNextPollMs, text)
	}
	if m.HasMore && n == 0 && still {
		d.broke(r, a.At, conform.PollHasMore, text)
	}
	if most := d.Opts.Poll.MaxEvents; most > 0 {
		d.held(r, a.At, conform.PollCapped, n <= most, conform.PollMaxEventsCap, text)
	}
	switch {
	case fromNow && d.Opts.MaxAge > 0:
		d.held(r, a.At, conform.PollFromNowAged, n == 0, conform.MaxAgeMsIgnoredWhenCursorNull, text)
	case fromNow:
		d.held(r, a.At, conform.PollFromNow, n == 0, conform.CursorNullStartsFromNow, text)
	}
	d.judgeCursor(r, a.At, m.Cursor, m.Truncated, text)
}

// judgeSubscription judges by which id a message on the stream names it: that of
// the request, as a number.
func (s *stream) judgeSubscription(o conform.Occasion, m *wire.Message, data []byte) {
	if s.d.judge.tally == nil {
		return
	}
	s.d.judge.tally.See(s.sub.Index, o)
	if !s.own || len(m.SubscriptionID) == 0 || m.SubscriptionID[0] == '"' {
		s.d.broke(s.r, s.At(), conform.StreamSubscriptionIDMeta, data)
	}
}

// longestQuiet is how long a stream may be quiet: the draft's 30 s, and a second for
// the way.
const longestQuiet = uint32(31 * time.Second / time.Millisecond)

// judgeSign judges that a message came, on a stream that stands.
func (s *stream) judgeSign(data []byte) {
	now := uint32(int64(s.At())/int64(time.Millisecond)) | 1
	if s.lastMessage != 0 && now > s.lastMessage && now-s.lastMessage > longestQuiet && !s.Held() {
		s.d.broke(s.r, s.At(), conform.StreamHeartbeatInterval, data)
	}
	s.lastMessage, s.troubled = now, false
}

// judgeActive judges an active, which is a gap where the stream stands.
func (s *stream) judgeActive(m *wire.Message, data []byte) {
	s.judgeSubscription(conform.StreamActive, m, data)
	if s.Stands() {
		s.d.held(s.r, s.At(), conform.StreamGap, m.Truncated, conform.StreamGapResendsActive, data)
	}
	s.d.judgeCursor(s.r, s.At(), m.Cursor, m.Truncated, data)
}

// judgeHeartbeat judges a heartbeat.
func (s *stream) judgeHeartbeat(m *wire.Message, data []byte) {
	s.judgeSubscription(conform.StreamHeartbeat, m, data)
	if none(m.Cursor) && s.d.judge.gave.Load() {
		s.d.broke(s.r, s.At(), conform.StreamHeartbeatCarriesCursor, data)
		return
	}
	s.d.judgeCursor(s.r, s.At(), m.Cursor, false, data)
}

// judgeResult judges the final result.
func (s *stream) judgeResult(m *wire.Message, data []byte) {
	var buf [20]byte
	own := m.SubscriptionID == nil || bytes.Equal(m.SubscriptionID, strconv.AppendUint(buf[:0], s.ID(), 10))
	s.d.held(
		s.r,
		s.At(),
		conform.StreamResult,
		own && m.Events == nil && m.Cursor == nil && m.EventID == nil,
		conform.StreamFinalResultShape,
		data,
	)
}

// judgeRefused judges an answer that is no stream.
func (s *stream) judgeRefused(a *mcpclient.Answer) {
	bare := s.d.judgeCall(s.r, a)
	switch {
	case a.Err.HasCode:
		s.d.saw(s.r, conform.StreamRefused)
	case !bare:
	case a.Status == http.StatusTooManyRequests, a.Status == http.StatusServiceUnavailable:
		s.d.broke(s.r, a.At, conform.StreamExemptFromConcurrencyCap, answerText(a))
	case a.Status > 299:
		s.d.broke(s.r, a.At, conform.StreamErrorBeforeOpen, answerText(a))
	default:
		s.d.broke(s.r, a.At, conform.StreamImplemented, answerText(a))
	}
}

// judgeOver judges the end of a connection: of silence, or after an error that was
// to be recoverable.
func (s *stream) judgeOver(dead bool) {
	now := s.d.Clock.Now()
	switch {
	case dead && s.comments:
		s.d.broke(s.r, now, conform.StreamHeartbeatNotSSEComment, []byte("comments alone"))
	case dead:
		s.d.broke(s.r, now, conform.StreamHeartbeatRequired, []byte("silence"))
	case s.troubled && !s.d.set.cuts():
		s.d.broke(s.r, now, conform.StreamErrorIsRecoverable, []byte("the stream ended"))
	}
}
