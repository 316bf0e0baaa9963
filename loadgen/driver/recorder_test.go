package driver_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if file := os.Getenv(asServer); file != "" {
		os.Exit(serveFile(file))
	}
	goleak.VerifyTestMain(m)
}

// memory is a Recorder that keeps everything and lets a test wait for it.
type memory struct {
	mu          sync.Mutex
	changed     *sync.Cond
	deliveries  []eventmeter.Delivery
	notices     []eventmeter.Notice
	transitions []eventmeter.Transition
	calls       []eventmeter.Call
	observed    []observed
	log         []string // all of it, a line each, without what differs from run to run
}

func newMemory() *memory {
	m := &memory{}
	m.changed = sync.NewCond(&m.mu)
	return m
}

func (m *memory) keep(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
	m.changed.Broadcast()
}

func (m *memory) Fired(eventmeter.Emission)                                         {}
func (m *memory) Resolved(eventmeter.Stamp, eventmeter.Outcome, eventmeter.Instant) {}
func (m *memory) Dropped(eventmeter.Drop)                                           {}

func (m *memory) Delivered(d eventmeter.Delivery) {
	m.keep(func() {
		m.deliveries = append(m.deliveries, d)
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

func (m *memory) Noticed(n eventmeter.Notice) {
	m.keep(func() {
		m.notices = append(m.notices, n)
		if n.Kind == eventmeter.Claimed {
			m.line("noticed claimed %d/%d/%d", n.Stamp.Run, n.Stamp.Source, n.Stamp.Seq)
			return
		}
		detail := n.Detail
		if n.Refused {
			detail += fmt.Sprintf(" (%d/%d/%d)", n.Stamp.Run, n.Stamp.Source, n.Stamp.Seq)
		}
		m.line("noticed %s: %s", n.Kind, detail)
	})
}

func (m *memory) Changed(c eventmeter.Transition) {
	m.keep(func() {
		m.transitions = append(m.transitions, c)
		states := [...]string{"", "attaching", "active", "detaching", "detached", "failed"}
		m.line("%s %s", states[c.To], c.Reason)
	})
}

func (m *memory) Called(c eventmeter.Call) {
	m.keep(func() {
		m.calls = append(m.calls, c)
		if c.Requests == 0 || c.Cause != eventmeter.Discovery {
			failure := c.Failure
			if c.Answered != 0 {
				failure = fmt.Sprint("answered ", c.Answered)
			}
			m.line("called %s %s %s", c.Cause, c.Method, failure)
		}
	})
}

func (m *memory) line(format string, args ...any) {
	m.log = append(m.log, listenerPattern.ReplaceAllString(strings.TrimRight(fmt.Sprintf(format, args...), " :"), "<callback>"))
}

var listenerPattern = regexp.MustCompile(`https://127\.0\.0\.1:\d+`)

// wait returns when ok does; it is asked after each report.
func (m *memory) wait(t *testing.T, what string, ok func(m *memory) bool) {
	t.Helper()
	late := false
	timer := time.AfterFunc(20*time.Second, func() { m.keep(func() { late = true }) })
	defer timer.Stop()
	m.mu.Lock()
	defer m.mu.Unlock()
	for !ok(m) {
		if late {
			t.Errorf("waited in vain for %s\n%s", what, strings.Join(m.log, "\n"))
			return
		}
		m.changed.Wait()
	}
}

// seen counts what a subscription got of a source, by sequence.
func (m *memory) seen(index uint32, source uint16) map[uint32]int {
	got := map[uint32]int{}
	for _, d := range m.deliveries {
		if d.Sub.Index == index && d.Probed && d.Stamp.Source == source {
			got[d.Stamp.Seq]++
		}
	}
	return got
}

func (m *memory) noticed(k eventmeter.NoticeKind) (n int) {
	for _, v := range m.notices {
		if v.Kind == k {
			n++
		}
	}
	return n
}

func (m *memory) causes(c eventmeter.Cause) (n int) {
	for _, v := range m.calls {
		if v.Cause == c {
			n++
		}
	}
	return n
}

func (m *memory) states(index uint32) (s []eventmeter.State) {
	for _, v := range m.transitions {
		if v.Sub.Index == index {
			s = append(s, v.To)
		}
	}
	return s
}
