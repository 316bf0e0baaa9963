package events

import (
	"slices"
	"sync"
	"testing"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
)

// heard keeps what is claimed.
type heard struct {
	eventmeter.Recorder
	mu     sync.Mutex
	claims []uint32 // of subscription 0
}

func (h *heard) Noticed(n eventmeter.Notice) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n.Kind == eventmeter.Claimed && n.Sub.Index == 0 {
		h.claims = append(h.claims, n.Stamp.Seq)
	}
}

// TestClaims tells subscriptions of cursors, with events and alone, and looks at
// what subscription 0 is found to have been told.
func TestClaims(t *testing.T) {
	t.Parallel()
	type step struct {
		sub    int
		cursor string
		seq    uint32 // 0: it came alone
	}
	for _, c := range []struct {
		name  string
		lone  bool // the lane has no siblings
		steps []step
		want  []uint32
	}{
		{"the cursor of its own last event, once", true, []step{{0, `"a"`, 1}, {0, `"a"`, 0}, {0, `"a"`, 0}}, []uint32{1}},
		{"not that of an event before", true, []step{{0, `"a"`, 1}, {0, `"b"`, 2}, {0, `"a"`, 0}}, nil},
		{"that of a sibling's event", false, []step{{0, `"a"`, 1}, {1, `"a"`, 1}, {1, `"b"`, 2}, {0, `"b"`, 0}, {0, `"b"`, 0}}, []uint32{2}},
		{"that of an event before, which siblings know", false, []step{{0, `"a"`, 1}, {0, `"b"`, 2}, {0, `"a"`, 0}}, []uint32{1}},
		{"of nobody's event", false, []step{{0, `"a"`, 1}, {0, `"z"`, 0}}, nil},
		{"no cursor", false, []step{{0, `null`, 1}, {0, `null`, 0}, {0, ``, 2}, {0, ``, 0}}, nil},
		{"other arguments", false, []step{{2, `"b"`, 2}, {0, `"b"`, 0}}, nil},
		{"a cursor that never changes", true, []step{{0, `"a"`, 0}, {0, `"a"`, 1}, {0, `"a"`, 2}, {0, `"a"`, 0}}, nil},
		{"cursors that each subscription counts by itself", false, []step{{0, `1`, 1}, {1, `1`, 2}, {0, `1`, 0}, {0, `2`, 3}, {0, `2`, 0}}, nil},
		{"a heartbeat that was before its event", true, []step{{0, `"a"`, 0}, {0, `"a"`, 1}, {0, `"a"`, 0}}, []uint32{1}},
		{"a second copy", true, []step{{0, `"a"`, 1}, {0, `"a"`, 1}, {0, `"a"`, 0}}, []uint32{1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			rec := &heard{}
			d := &lane{}
			d.Caller = mcpclient.Caller{Recorder: rec}
			if !c.lone {
				d.claims.known = make([]knownCursor, knownCursors)
			}
			var runs [3]*run
			for i := range runs {
				runs[i] = &run{Attachment: driver.Attachment{Sub: eventmeter.Sub{Index: uint32(i)}}, group: uint64(i / 2)}
			}
			for _, s := range c.steps {
				if s.seq > 0 {
					d.comesWith(runs[s.sub], []byte(s.cursor), eventmeter.Stamp{Run: 7, Source: 3, Seq: s.seq})
				} else {
					d.claim(runs[s.sub], []byte(s.cursor), 1)
					runs[s.sub].setCursor([]byte(s.cursor))
				}
			}
			if !slices.Equal(rec.claims, c.want) {
				t.Errorf("claimed %v, want %v", rec.claims, c.want)
			}
		})
	}
}

// TestClaimsTorn has siblings write each other's places over while others read:
// a cursor is never taken for an event that it did not come with.
func TestClaimsTorn(t *testing.T) {
	t.Parallel()
	c := claims{known: make([]knownCursor, knownCursors)}
	key := func(n uint32) uint64 { return uint64(n) * knownCursors } // all in one place
	var wg sync.WaitGroup
	for w := range uint32(4) {
		wg.Go(func() {
			for i := range uint32(20000) {
				n := 1 + (i+w)%50
				c.keep(key(n), eventmeter.Stamp{Run: 1, Source: uint16(n), Seq: n})
				n = 1 + (3*i+w)%50
				if s := c.find(key(n)); s != (eventmeter.Stamp{}) && s != (eventmeter.Stamp{Run: 1, Source: uint16(n), Seq: n}) {
					t.Errorf("cursor %d was found to stand for %v", n, s)
					return
				}
			}
		})
	}
	wg.Wait()
	if c.ambiguous.Load() {
		t.Error("two events were found under one cursor")
	}
}
