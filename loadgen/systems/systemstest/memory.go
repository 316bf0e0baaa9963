package systemstest

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/crash"
)

// Observed is one observed event.
type Observed struct {
	eventmeter.Observation
	Message, Timestamp string
	After              int // deliveries that were reported before
}

// Observed implements [eventmeter.Observer].
func (m *Memory) Observed(o eventmeter.Observation) {
	m.keep(func() {
		m.Observations = append(m.Observations, Observed{o, string(o.Message), string(o.Timestamp), len(m.Deliveries)})
	})
}

// Memory is a Recorder that keeps everything and lets a test wait for it.
type Memory struct {
	Mu           sync.Mutex
	changed      *sync.Cond
	Deliveries   []eventmeter.Delivery
	Notices      []eventmeter.Notice
	Transitions  []eventmeter.Transition
	Calls        []eventmeter.Call
	Observations []Observed
	Log          []string // every report, one line each, without the parts that differ from run to run
}

func NewMemory() *Memory {
	m := &Memory{}
	m.changed = sync.NewCond(&m.Mu)
	return m
}

func (m *Memory) keep(f func()) {
	m.Mu.Lock()
	defer m.Mu.Unlock()
	f()
	m.changed.Broadcast()
}

func (m *Memory) Fired(eventmeter.Emission) {}

func (m *Memory) Resolved(eventmeter.Stamp, eventmeter.Outcome, eventmeter.Instant) {}

func (m *Memory) Dropped(eventmeter.Drop) {}

func (m *Memory) Delivered(d eventmeter.Delivery) {
	m.keep(func() {
		m.Deliveries = append(m.Deliveries, d)
		text := "no probe"
		if d.Probed {
			text = fmt.Sprintf("%d/%d/%d", d.Stamp.Run, d.Stamp.Source, d.Stamp.Seq)
		}
		if d.Refused {
			text += " refused"
		}
		m.line("delivered %s id %t", text, d.EventID != 0)
	})
}

func (m *Memory) Noticed(n eventmeter.Notice) {
	m.keep(func() {
		m.Notices = append(m.Notices, n)
		if n.Kind == eventmeter.Claimed {
			m.line("noticed claimed %d/%d/%d", n.Stamp.Run, n.Stamp.Source, n.Stamp.Seq)
			return
		}
		detail := n.Detail
		if n.Refused {
			detail += fmt.Sprintf(" (%d/%d/%d)", n.Stamp.Run, n.Stamp.Source, n.Stamp.Seq)
		}
		if n.Before {
			detail += "before"
		}
		m.line("noticed %s: %s", n.Kind, detail)
	})
}

func (m *Memory) Changed(c eventmeter.Transition) {
	m.keep(func() {
		m.Transitions = append(m.Transitions, c)
		states := [...]string{"", "attaching", "active", "detaching", "detached", "failed"}
		m.line("%s %s", states[c.To], c.Reason)
	})
}

func (m *Memory) Called(c eventmeter.Call) {
	m.keep(func() {
		m.Calls = append(m.Calls, c)
		if c.Requests == 0 || c.Cause != eventmeter.Discovery {
			failure := c.Failure
			if c.Answered != 0 {
				failure = fmt.Sprint("answered ", c.Answered)
			}
			m.line("called %s %s %s", c.Cause, c.Method, failure)
		}
	})
}

func (m *Memory) line(format string, args ...any) {
	m.Log = append(m.Log, listenerPattern.ReplaceAllString(strings.TrimRight(fmt.Sprintf(format, args...), " :"), "<callback>"))
}

var listenerPattern = regexp.MustCompile(`https://127\.0\.0\.1:\d+`)

// Patience is how long a test waits for what must come, on a busy machine, too.
const Patience = time.Minute

// Wait waits until ok returns true. ok is called after each report, and every few
// milliseconds, because it may look at what is counted after a report.
func (m *Memory) Wait(t *testing.T, what string, ok func(m *Memory) bool) {
	t.Helper()
	began, over := time.Now(), make(chan struct{})
	defer close(over)
	go func() {
		defer crash.Guard()
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-over:
				return
			case <-tick.C:
				m.keep(func() {})
			}
		}
	}()
	m.Mu.Lock()
	defer m.Mu.Unlock()
	for !ok(m) {
		if time.Since(began) > Patience {
			t.Errorf("waited in vain for %s\n%s", what, strings.Join(m.Log, "\n"))
			return
		}
		m.changed.Wait()
	}
}

// Seen counts the deliveries of a source to a subscription, by sequence number.
func (m *Memory) Seen(index uint32, source uint16) map[uint32]int {
	got := map[uint32]int{}
	for _, d := range m.Deliveries {
		if d.Sub.Index == index && d.Probed && d.Stamp.Source == source {
			got[d.Stamp.Seq]++
		}
	}
	return got
}

func (m *Memory) CountNotices(k eventmeter.NoticeKind) (n int) {
	for _, v := range m.Notices {
		if v.Kind == k {
			n++
		}
	}
	return n
}

func (m *Memory) Causes(c eventmeter.Cause) (n int) {
	for _, v := range m.Calls {
		if v.Cause == c {
			n++
		}
	}
	return n
}

func (m *Memory) States(index uint32) (s []eventmeter.State) {
	for _, v := range m.Transitions {
		if v.Sub.Index == index {
			s = append(s, v.To)
		}
	}
	return s
}

func (m *Memory) Refreshes() int {
	m.Mu.Lock()
	defer m.Mu.Unlock()
	return m.Causes(eventmeter.Refresh)
}
