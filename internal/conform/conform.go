// Package conform holds the rows by which the working group's suite judges a
// server of MCP Events, and counts what a run sees of them. The suite asks a
// server at rest, one request at a time; a run sees the same promises under load.
//
// A row is held, broken, or not seen. What is judged is what passes anyway: a
// message is counted once, by what it is an occasion for, and each row names its
// occasions. Only what breaks a row costs more.
package conform

import (
	"encoding/json"
	"sync"
	"sync/atomic"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/errtext"
)

// Level is how strongly a row is demanded.
type Level string

const (
	Must   Level = "must"
	Should Level = "should"
	// Shape is a row of the suite that quotes no MUST or SHOULD: the form of a message.
	Shape Level = "shape"
)

// Row is one promise of a server.
type Row struct {
	// Name is the suite's, without its prefix sep-9999-.
	Name     string
	Level    Level
	Requires string
	// Section is the part of the draft that says so.
	Section string
	// Lanes are the modes that can see it.
	Lanes string
	// At are the occasions on which a run judges it. docs/conformance.md says what breaks it
	// then, and what eventmeter check does to judge it.
	At []Occasion
	// Unseen is why no run judges it; "" = runs do.
	Unseen string
}

// ID is a row's place in [Rows].
type ID uint8

// Find returns the row of that name; nil = there is none.
func Find(name string) *Row {
	for i := range Rows {
		if Rows[i].Name == name {
			return &Rows[i]
		}
	}
	return nil
}

// Occasion is something that passes a lane and shows whether rows are held.
type Occasion uint8

const (
	Handshake Occasion = iota
	ListPage
	ListUnoffered // refused by a target that does not advertise the extension
	Descriptor
	ListChanged

	Refused // by a JSON-RPC error
	RefusedNotFound
	RefusedForbidden
	RefusedExhausted
	RefusedUnsupported
	RefusedCallback
	EndedNotFound // a subscription that stood
	EndedUnsupported

	PollAnswer
	PollRefused
	PollCapped      // with maxEvents
	PollFromNow     // cursor: null
	PollFromNowAged // the same with maxAgeMs
	PollOccurrence

	Truncation
	NoCursor // an answer without one

	StreamOpened
	StreamRefused
	StreamActive
	StreamEvent
	StreamHeartbeat
	StreamTrouble // a recoverable error
	StreamEnded   // terminated
	StreamGap     // active on a stream that stands
	StreamResult

	Anonymous // a subscription without a token
	Granted
	Refreshed
	GrantWished
	GrantUnwished
	Unsubscribed
	StatusError // a lastError

	Delivery
	DeliveryRetry
	Rotated // a delivery after the secret was changed
	RotatedJust
	Refused410
	Refused413
	Redirected
	Challenged
	Misechoed // a challenge that was answered wrongly on purpose
	MisechoedRefused
	Envelope
	EnvelopeGap
	EnvelopeEnd

	occasions
)

// parts is how many parts a tally has, so that workers seldom share one.
const parts = 16

// Tally counts for a lane. It is safe for concurrent use; nil counts nothing.
type Tally struct {
	part [parts]struct {
		seen   [occasions]atomic.Int64
		broken [count]atomic.Int64
		_      [64]byte
	}

	mu    sync.Mutex
	first [count]*Example
}

// Example is the first message that broke a row.
type Example struct {
	Lane         string             `json:"lane,omitempty"` // its name; set where several lanes meet
	Subscription uint32             `json:"subscription"`   // in the whole run
	At           eventmeter.Instant `json:"at"`
	Message      string             `json:"message"` // its first 200 bytes, safe to print
}

// See counts an occasion.
func (t *Tally) See(sub uint32, o Occasion) {
	if t != nil {
		t.part[sub%parts].seen[o].Add(1)
	}
}

// Break counts something that breaks a row, and keeps the first message of each
// part of the tally, of which the earliest stands. Whoever sees the count finds the
// message.
func (t *Tally) Break(sub uint32, at eventmeter.Instant, row ID, message []byte) {
	if t == nil {
		return
	}
	n := &t.part[sub%parts].broken[row]
	if n.Load() == 0 {
		t.keep(row, &Example{Subscription: sub, At: at, Message: errtext.Line(string(message[:min(len(message), errtext.MaxLine)]))})
	}
	n.Add(1)
}

func (t *Tally) keep(row ID, x *Example) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.first[row] = earlier(t.first[row], x)
}

func earlier(a, b *Example) *Example {
	if a == nil || b != nil && b.At < a.At {
		return b
	}
	return a
}

// Count is what was seen of a row. First is nil where nothing broke it, or nobody
// kept what did.
type Count struct {
	Seen   int64    `json:"seen"`
	Broken int64    `json:"broken,omitempty"`
	First  *Example `json:"first,omitempty"`
}

// Account is what was seen, by the names of rows. Rows that were not seen are not
// in it. nil = nobody judged.
type Account map[string]Count

// Account adds up the parts. It may be called at any time.
func (t *Tally) Account() Account {
	if t == nil {
		return nil
	}
	out := Account{}
	for id := range Rows {
		var c Count
		for p := range t.part {
			c.Broken += t.part[p].broken[id].Load()
			for _, o := range Rows[id].At {
				c.Seen += t.part[p].seen[o].Load()
			}
		}
		out.add(Rows[id].Name, c)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, x := range t.first {
		if c, ok := out[Rows[id].Name]; ok && x != nil {
			first := *x
			c.First = &first
			out[Rows[id].Name] = c
		}
	}
	return out
}

// add adds to a row. What breaks a row shows it, too.
func (a Account) add(row string, c Count) {
	was := a[row]
	c = Count{Seen: was.Seen + max(c.Seen, c.Broken), Broken: was.Broken + c.Broken, First: earlier(was.First, c.First)}
	if c.Seen > 0 {
		a[row] = c
	}
}

// set says what broke a row that is judged by a count of another.
func (a Account) set(row ID, broken int64) {
	if c, ok := a[Rows[row].Name]; ok {
		c.Broken = broken
		c.Seen = max(c.Seen, broken)
		a[Rows[row].Name] = c
	}
}

// Broken reports whether something broke a row.
func (a Account) Broken() bool {
	for _, c := range a {
		if c.Broken > 0 {
			return true
		}
	}
	return false
}

// Plus returns both together; nil where neither was judged.
func (a Account) Plus(b Account) Account {
	if a == nil && b == nil {
		return nil
	}
	out := Account{}
	for _, of := range []Account{a, b} {
		for row, c := range of {
			out.add(row, c)
		}
	}
	return out
}

// Of returns the account of a lane, with its name in the examples. One row is judged
// by the ledger: copies is how many copies of one event it counted under several ids.
// It is nil if a is.
func (a Account) Of(lane string, copies int64) Account {
	if a == nil {
		return nil
	}
	out := Account{}
	for row, c := range a {
		if c.First != nil {
			first := *c.First
			first.Lane = lane
			c.First = &first
		}
		out[row] = c
	}
	out.set(OccurrenceEventIDFromUpstream, copies)
	return out
}

// Refusal is a JSON-RPC error of a target.
type Refusal struct {
	Code    int64
	Meaning string // the name that the draft gives to the code; "" = none
	Data    json.RawMessage
	Ended   bool // it ended a subscription that stood
}

// Judge calls held for each occasion that the refusal is, and the row that it holds
// or breaks.
func (r *Refusal) Judge(held func(o Occasion, ok bool, row ID)) {
	held(Refused, r.Code >= -32099 && r.Code <= -32000 || r.Code >= -32603 && r.Code <= -32600 || r.Code == -32700, ErrorServerRange)
	var data map[string]any
	_ = json.Unmarshal(r.Data, &data) // what is odd counts as absent
	text := func(name string) string { s, _ := data[name].(string); return s }
	absent := func(name string) bool { return data[name] == nil }
	switch r.Meaning {
	case "NotFound":
		kind := text("kind")
		held(RefusedNotFound, absent("kind") || kind == "event" || kind == "subscription", ErrorNotFound)
		if r.Ended {
			held(EndedNotFound, absent("kind") || kind == "event", RemovalErrorNotFound)
		}
	case "Forbidden":
		held(RefusedForbidden, absent("reason") || text("reason") != "", ErrorForbidden)
	case "ResourceExhausted":
		held(RefusedExhausted, text("limit") != "", ErrorResourceExhausted)
	case "Unsupported":
		held(RefusedUnsupported, text("feature") != "", ErrorUnsupported)
		if r.Ended {
			held(EndedUnsupported, text("reason") == "schema_changed", RemovalErrorSchemaChanged)
		}
	case "CallbackEndpointError":
		held(RefusedCallback, IsCategory(text("reason")), ErrorCallbackEndpointError)
	}
}

// IsCategory reports whether a word is one of the six by which a server says why a
// callback failed.
func IsCategory(word string) bool {
	switch word {
	case "connection_refused", "timeout", "tls_error", "http_4xx", "http_5xx", "challenge_failed":
		return true
	}
	return false
}
