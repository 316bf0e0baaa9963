package check

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/conform"
	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/internal/run"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/sinks"
)

const (
	// callTime bounds a call of a step.
	callTime = 15 * time.Second
	// callTries bounds how often a call is made for which the target has no room.
	callTries = 10
	// patience is how long a step waits for an event or a delivery.
	patience = 20 * time.Second
)

// overTime is why steps that were cut short judge nothing.
const overTime = "the time was over"

// Options are the options of a check.
type Options struct {
	// Run are the options of its runs. Its profile is the one at rest.
	Run run.Options
	// Subscriptions is the number of subscriptions under load, of all lanes. Rate is
	// the rate of events under load; 0 = that at rest.
	Subscriptions int
	Rate          profiles.Rate
	// Least is how long each stage publishes at least, and Limit how long the check
	// may take.
	Least, Limit time.Duration
	// Denied is what the first principal may not subscribe to; the zero value = not
	// known.
	Denied Denied
	// Silence is when a stream without a message counts as dead; 0 = after 61 s.
	Silence time.Duration
	// AllowHostile allows steps that a server may take for an attack.
	AllowHostile bool
	// Entered, if not nil, is called when a stage begins.
	Entered func(stage string)
}

// Denied names events that a principal has no permission for.
type Denied struct {
	Event     string
	Arguments json.RawMessage
}

// Step is something that no client does by accident, and what must follow.
type Step struct {
	Name string
	// Mode is the mode that the event type must offer; "" = any.
	Mode eventmeter.Mode
	// AtRest says that the step takes too long to be repeated under load.
	AtRest bool
	// Events says that the step needs events that are published meanwhile.
	Events bool
	// Hostile says that a server may take the step for an attack. Against a target
	// that is not this machine, it needs permission.
	Hostile bool
	// Rows are what the step judges.
	Rows []conform.ID
	do   func(ctx context.Context, p *probe)
}

// findings are what the steps found, by row. It is safe for concurrent use.
type findings struct {
	mu      sync.Mutex
	account conform.Account
	why     map[string]string // why a row was not judged, the latest reason
}

func newFindings() *findings {
	return &findings{account: conform.Account{}, why: map[string]string{}}
}

func (f *findings) add(row conform.ID, c conform.Count) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.account = f.account.Plus(conform.Account{conform.Rows[row].Name: c})
}

func (f *findings) unseen(row conform.ID, why string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.why[conform.Rows[row].Name] = why
}

// probe is one execution of a step.
type probe struct {
	run.Beside
	caller mcpclient.Caller
	opts   *Options
	step   *Step
	found  *findings
	judged map[conform.ID]bool
	hooks  []*hook
}

// judge says that a row was held, or that message broke it.
func (p *probe) judge(row conform.ID, ok bool, format string, a ...any) {
	c := conform.Count{Seen: 1}
	if !ok {
		c.Broken = 1
		c.First = &conform.Example{Lane: "check: " + p.step.Name, At: p.Clock.Now(), Message: errtext.Line(fmt.Sprintf(format, a...))}
	}
	p.judged[row] = true
	p.found.add(row, c)
}

// held says that a row was held, or that an answer broke it.
func (p *probe) held(row conform.ID, ok bool, a answer) { p.judge(row, ok, "%s", a.text) }

// skip says why rows are not judged.
func (p *probe) skip(why string, rows ...conform.ID) {
	for _, row := range rows {
		if !p.judged[row] {
			p.judged[row] = true
			p.found.unseen(row, why)
		}
	}
}

// skipAll says why the rows of the step that are not judged yet are not.
func (p *probe) skipAll(why string) { p.skip(why, p.step.Rows...) }

// unanswered skips the rest of the step if a call got no answer.
func (p *probe) unanswered(a answer) bool {
	if a.silent != "" {
		p.skipAll(a.silent)
	}
	return a.silent != ""
}

// params are the params of a call. Values are encoded as JSON; a json.RawMessage is
// sent as it is.
type params map[string]any

// with returns params with others added, of which nil ones are taken away. null is
// JSON's.
func (p params) with(more params) params {
	out := maps.Clone(p)
	for k, v := range more {
		if out[k] = v; v == nil {
			delete(out, k)
		}
	}
	return out
}

var null = json.RawMessage("null")

// answer is what a call brought.
type answer struct {
	text    string // of the body, one line
	code    int64
	coded   bool // it is a JSON-RPC error
	meaning string
	data    string // of the error
	status  int
	result  map[string]json.RawMessage // nil unless there is a result
	silent  string                     // why there was no answer; "" = there was one
	retry   time.Duration              // when the target, which has no room, wants to be asked again; 0 = it does not say
}

// granted tells whether the target did what it was asked for.
func (a *answer) granted() bool { return a.result != nil }

// is tells whether the target refused with an error of that meaning; InvalidParams
// and MethodNotFound are JSON-RPC's own.
func (a *answer) is(meaning string) bool { return a.coded && a.meaning == meaning }

// forbids tells whether the target refused for want of a permission.
func (a *answer) forbids() bool { return a.is("Forbidden") || a.status == 401 || a.status == 403 }

// string returns a member of the result that is text; "" if it is none.
func (a *answer) string(name string) string {
	var s string
	_ = json.Unmarshal(a.result[name], &s) // anything else is no text
	return s
}

func (a *answer) isTrue(name string) bool { return string(a.result[name]) == "true" }

// base are the params that all methods share.
func (p *probe) base() params { return params{"name": p.Event, "arguments": p.Arguments} }

// call makes a call as principal who, again if the target has no room and says when
// to ask again. A call that gets no answer, or no room in the end, judges nothing.
func (p *probe) call(ctx context.Context, who *mcpclient.Principal, method string, of params) answer {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	session, err := who.Session(ctx, nil)
	if err != nil {
		return answer{silent: errtext.Line(err.Error())}
	}
	body, err := p.request(session, method, of)
	if err != nil {
		return answer{silent: err.Error()}
	}
	return patient(ctx, func() answer {
		from := p.caller.Call(ctx, method, session.Header(method, ""), body)
		defer from.Release()
		return p.read(from)
	})
}

// patient asks again as long as the target has no room and says when to ask.
func patient(ctx context.Context, ask func() answer) answer {
	for try := 1; ; try++ {
		if a := ask(); a.retry == 0 || try == callTries || !sinks.Sleep(ctx, a.retry) {
			return a
		}
	}
}

// request encodes a request.
func (p *probe) request(s *mcpclient.Session, method string, of params) ([]byte, error) {
	if s.Meta != nil {
		of = of.with(params{"_meta": json.RawMessage(s.Meta)})
	}
	text, err := json.Marshal(of)
	if err != nil {
		return nil, fmt.Errorf("params of %s: %w", method, err)
	}
	return wire.Request(p.Endpoint.NextID(), method, text), nil
}

// read keeps what steps judge of an answer, and judges its error.
func (p *probe) read(from *mcpclient.Answer) answer {
	a := answer{status: from.Status}
	if from.Buf != nil {
		a.text = errtext.Line(string(*from.Buf))
	}
	if e := from.Err; e != nil {
		a.code, a.coded = e.Code()
		switch {
		case e.Throttled():
			a.silent, a.retry = "the target has no room: "+a.text, e.RetryAfter
		case e.HasCode:
			a.meaning, a.data = e.Meaning(), string(from.Msg.Error.Data)
			if a.code == -32602 {
				a.meaning = "InvalidParams"
			}
		case from.Status == 0:
			a.silent = "no answer: " + e.Failure()
		case from.Status <= 299:
			a.silent = "the answer is no response: " + a.text
		}
		if a.text == "" {
			a.text = e.Failure()
		}
		if e.HasCode {
			r := conform.Refusal{Code: a.code, Meaning: e.Meaning(), Data: from.Msg.Error.Data}
			r.Judge(func(_ conform.Occasion, ok bool, row conform.ID) { p.held(row, ok, a) })
		}
		return a
	}
	var m struct {
		Result map[string]json.RawMessage `json:"result"`
	}
	if err := json.Unmarshal(*from.Buf, &m); err != nil || m.Result == nil {
		a.silent = "the answer is no result: " + a.text
		return a
	}
	a.result = m.Result
	return a
}

// me returns the principal that steps act as.
func (p *probe) me() *mcpclient.Principal { return p.Endpoint.Principal(0) }

// eventType returns the event type that is checked; its zero value if it is not listed.
func (p *probe) eventType() driver.EventType {
	for _, t := range p.Types {
		if t.Name == p.Event {
			return t
		}
	}
	return driver.EventType{}
}

// unknown is an event type that no target has.
const unknown = "eventmeter.does-not-exist"

// until waits until done returns true, which is asked again after each tick of
// changed. It returns false if the time, or ctx, is over before.
func until(ctx context.Context, limit time.Duration, changed <-chan struct{}, done func() bool) bool {
	t := time.NewTimer(limit)
	defer t.Stop()
	for !done() {
		select {
		case <-changed:
		case <-t.C:
			return done()
		case <-ctx.Done():
			return false
		}
	}
	return true
}
