package driver

import (
	"slices"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/figure"
	"github.com/eventmeter/eventmeter/internal/wire"
)

// stamp is of run 7 and source 1.
func stamp(seq uint32) eventmeter.Stamp { return eventmeter.Stamp{Run: 7, Source: 1, Seq: seq} }

// TestStampsIn: the newest stamp of each run and source is found, wherever it is, and what only begins like one is not.
func TestStampsIn(t *testing.T) {
	other, source := eventmeter.Stamp{Run: 6, Source: 9, Seq: 5}, eventmeter.Stamp{Run: 7, Source: 2, Seq: 1}
	text := "evtm-" + stamp(2).String() + "evtm-x" + source.String() + stamp(3).String() + " " + other.String() + stamp(1).String()
	if got, want := StampsIn([]byte(text)), []eventmeter.Stamp{other, stamp(3), source}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	for _, none := range []string{"", "evtm-", stamp(1).String()[:eventmeter.ProbeLen-1]} {
		if got := StampsIn([]byte(none)); got != nil {
			t.Errorf("%q has %v", none, got)
		}
	}
}

// published has the events of run 7, one a second from 1 on.
type published struct{ Published }

func (published) Emission(s eventmeter.Stamp) (eventmeter.Emission, eventmeter.Outcome, bool) {
	return eventmeter.Emission{Stamp: s, Fired: eventmeter.Instant(s.Seq) * eventmeter.Instant(time.Second)}, eventmeter.Accepted, s.Run == 7
}

func TestChangesUpTo(t *testing.T) {
	foreign := eventmeter.Stamp{Run: 8, Source: 1, Seq: 5}
	for _, c := range []struct {
		of            Published
		before        uint32
		newest        eventmeter.Stamp
		since         eventmeter.Instant
		first, number uint32
	}{
		{published{}, 2, stamp(5), 0, 3, 3},
		{published{}, 5, stamp(5), 0, 0, 0},
		{published{}, 6, stamp(5), 0, 0, 0},
		{published{}, 1, stamp(5), eventmeter.Instant(3 * time.Second), 4, 2},
		{published{}, 1, stamp(5), eventmeter.Instant(3*time.Second) - 1, 3, 3},
		{published{}, 1, foreign, 0, 5, 1},
		{nil, 1, foreign, eventmeter.Instant(time.Hour), 2, 4},
		{nil, 3, stamp(3 + maxChanges), 0, 4, maxChanges},
		{nil, 3, stamp(4 + maxChanges), 0, 4 + maxChanges, 1},
	} {
		var first, last, n uint32
		for s := range ChangesUpTo(c.of, c.before, c.newest, c.since) {
			if n++; n == 1 {
				first = s.Seq
			} else if s.Seq != last+1 || s.Run != c.newest.Run || s.Source != c.newest.Source {
				t.Fatalf("%v after %d", s, last)
			}
			last = s.Seq
		}
		if n != c.number || first != c.first || n > 0 && last != c.newest.Seq {
			t.Errorf("%+v: %d from %d to %d", c, n, first, last)
		}
	}
	for range ChangesUpTo(nil, 0, stamp(5), 0) { // may be left early
		break
	}
}

func TestFaultText(t *testing.T) {
	var m wire.Message
	if got := FaultText(&m); got != "no error given" {
		t.Error(got)
	}
	m.HasFault, m.Fault.Code, m.Fault.Message = true, -32603, []byte("broken")
	if got := FaultText(&m); got != "rpc -32603: broken" {
		t.Error(got)
	}
}

func TestGranted(t *testing.T) {
	const text = `{"params":{"notifications":{"toolsListChanged":true,"promptsListChanged":false,"resourceSubscriptions":["a","b"]}}}`
	for _, c := range []struct {
		want, resource string
		granted        bool
	}{
		{"toolsListChanged", "", true}, {"promptsListChanged", "a", false}, {"resourcesListChanged", "a", false},
		{"", "b", true}, {"", "c", false}, {"", "", false},
	} {
		if got := Granted([]byte(text), c.want, c.resource); got != c.granted {
			t.Errorf("%+v: %v", c, got)
		}
		if Granted([]byte(`{"params":[]}`), c.want, c.resource) {
			t.Errorf("%+v is granted by nothing", c)
		}
	}
}

// TestTallyDeclares: figures are there before they are counted, except for some.
func TestTallyDeclares(t *testing.T) {
	var of Tally
	table := figure.Table{Figures: []figure.Figure{{Name: "a"}, {Name: "b"}, {Name: "c", Timing: true}, {Name: "d", Timing: true}}}
	of.DeclareTable(&table, "b", "d")
	of.Count("a", 2)
	of.Count("a", 3)
	f := of.Figures()
	of.Count("a", 1)
	of.Took("c", time.Second)
	if len(f.Values) != 1 || f.Values["a"] != 5 || len(f.Timings) != 1 || f.Timings["c"].Histogram.TotalCount() != 0 {
		t.Errorf("%+v", f)
	}
	if again := of.Figures(); again.Values["a"] != 6 || again.Timings["c"].Histogram.TotalCount() != 1 {
		t.Errorf("counted after the first copy: %+v", again)
	}
}

// TestReplies: what the target is told, and what is reported of it.
func TestReplies(t *testing.T) {
	for _, c := range []struct {
		a        Answer
		location string
		delay    time.Duration
		status   int
	}{
		{Answer{}, "", 0, 200},
		{Answer{Status: 503, Delay: time.Second}, "", time.Second, 503},
		{Answer{Status: 204, Delay: time.Second, DelayTo: 5 * time.Second}, "", 2 * time.Second, 204},
		{Answer{Status: 307}, "there", 0, 307},
		{Answer{Status: 299}, "", 0, 299},
		{Answer{Status: 400}, "", 0, 400},
		{Answer{Hang: true}, "", 0, 0},
		{Answer{Reset: true}, "", 0, 0},
	} {
		r := replyOf(&c.a, 0.25, "there")
		if r.Status != c.a.Status || r.Location != c.location || r.Delay != c.delay || r.Hang != c.a.Hang || r.Reset != c.a.Reset {
			t.Errorf("%+v: %+v", c.a, r)
		}
		if got := statusOf(&c.a); got != c.status {
			t.Errorf("%+v is reported as %d, want %d", c.a, got, c.status)
		}
	}
	if got := mix(1, 2); got != 0x275e7f13e00fa3b4 {
		t.Errorf("the same seed gave other answers before: %#x", got)
	}
}
