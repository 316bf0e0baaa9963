package refserver

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

func testTopic(t testing.TB, opts Options) *topic {
	t.Helper()
	opts, err := opts.withDefaults()
	must(t, err)
	return newTopic(catalog()[0], "x", opts, new(atomic.Int64))
}

// naive is the oracle: all published events, and a reader that filters them.
type naive struct {
	keys []string // of positions 1…
	keep int
}

// read lists the positions after one that match a selection, and reports
// whether some of them are gone.
func (n *naive) read(sel selection, after uint64) (got []uint64, lost bool) {
	for p := after + 1; p <= uint64(len(n.keys)); p++ {
		if sel.keyed && n.keys[p-1] != sel.key {
			continue
		}
		if int(p) <= len(n.keys)-n.keep {
			lost = true
			continue
		}
		got = append(got, p)
	}
	return got, lost
}

// FuzzTopic runs a program of publications and reads against the oracle: every
// reader gets exactly its events, in order, and notices gaps.
func FuzzTopic(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 64, 65, 0, 128, 129, 1, 1, 1, 1, 1, 1, 192, 193, 200, 128, 129})
	f.Add([]byte("\x40\x41\x42\x00\x00\x00\x00\x00\x00\x80\x81\x82\xc0\xc1\xff"))
	f.Fuzz(func(t *testing.T, program []byte) {
		const keep = 5
		topic := testTopic(t, Options{BufferEvents: keep})
		oracle := &naive{keep: keep}
		type follower struct {
			r    *reader
			sel  selection
			from uint64
			wake int
		}
		var followers []*follower
		for _, op := range program {
			sel := selection{keyed: op&3 != 0, key: strconv.Itoa(int(op & 3))}
			switch op >> 6 {
			case 0: // publish
				key := strconv.Itoa(int(op & 3))
				topic.publish(func() string { return "e" }, key, []byte(`{}`))
				oracle.keys = append(oracle.keys, key)
			case 1: // open from a cursor
				fo := &follower{sel: sel, from: uint64(op>>2&15) % (topic.head + 1)}
				cursor := topic.cursor(fo.from)
				fo.r, _, _ = topic.open(sel, start{cursor: &cursor}, 0, func() { fo.wake++ })
				followers = append(followers, fo)
			case 2: // take everything
				if len(followers) == 0 {
					continue
				}
				fo := followers[int(op&63)%len(followers)]
				b := fo.r.take(nil, 100)
				want, _ := oracle.read(fo.sel, fo.from)
				checkPositions(t, b, want)
				fo.from = b.after
			case 3: // read once
				after := uint64(op>>2&15) % (topic.head + 1)
				cursor := topic.cursor(after)
				b := topic.readOnce(sel, start{cursor: &cursor}, 100)
				want, lost := oracle.read(sel, after)
				checkPositions(t, b, want)
				if lost && !b.gap {
					t.Fatalf("a gap after %d was not reported", after)
				}
			}
		}
		for _, fo := range followers {
			fo.r.close()
		}
		for key, l := range topic.byKey {
			if l.count == 0 || len(l.readers) != 0 {
				t.Fatalf("the log of %q stayed behind", key)
			}
		}
	})
}

func checkPositions(t *testing.T, b batch, want []uint64) {
	t.Helper()
	var got []uint64
	for _, e := range b.events {
		got = append(got, e.n)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("got %v, want %v", got, want)
	}
}

// TestEveryReaderSeesOneOrder publishes from several goroutines while readers
// take: an event that was published before another one began comes first.
func TestEveryReaderSeesOneOrder(t *testing.T) {
	s, err := New(Options{})
	must(t, err)
	const publishers, each = 4, 200
	var readers sync.WaitGroup
	for i := range 8 {
		woken := make(chan struct{}, 1)
		r, _, _ := s.broker.topics["chat.message"].open(selection{keyed: i%2 == 1, key: "1"}, start{}, 0, func() { signal(woken) })
		want := each
		if i%2 == 0 {
			want = publishers * each
		}
		readers.Go(func() {
			defer r.close()
			last := map[string]int{}
			for got := 0; got < want; {
				<-woken
				for _, e := range r.take(nil, want).events {
					_, text, _ := strings.Cut(string(e.fields), `"text":"`)
					n, err := strconv.Atoi(text[:strings.IndexByte(text, '"')])
					if err != nil || n != last[e.key]+1 {
						t.Errorf("publisher %s: %d after %d (%v)", e.key, n, last[e.key], err)
					}
					last[e.key] = n
					got++
				}
			}
		})
	}
	var publishing sync.WaitGroup
	for p := range publishers {
		publishing.Go(func() {
			for n := range each {
				publish(t, s, "chat.message", fmt.Sprintf(`{"channel":"%d","text":"%d"}`, p, n+1))
			}
		})
	}
	publishing.Wait()
	readers.Wait()
}

func TestPublishChecksData(t *testing.T) {
	s, err := New(Options{})
	must(t, err)
	for _, data := range []string{``, `null`, `[]`, `"x"`, `{`, `{"a":1}{}`} {
		if _, err := s.Publish("tick", []byte(data)); err == nil {
			t.Errorf("%q was published", data)
		}
	}
	publish(t, s, "tick", "{\r\n \"a\": 1\n}")
	r := result(t, s, "", "events/poll", `{"name":"tick","cursor":"cother-0"}`)
	if got := fmt.Sprint(r["events"]); !strings.Contains(got, "data:map[a:1]") {
		t.Errorf("got %s", got)
	}
	for _, e := range s.broker.topics["tick"].all.ring {
		if e != nil && strings.ContainsAny(string(e.frame), "\r\n") {
			t.Errorf("a frame with a line break: %q", e.frame)
		}
	}
}
