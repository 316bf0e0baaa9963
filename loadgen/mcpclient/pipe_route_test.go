package mcpclient

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/internal/wire"
)

// whereTo says what should become of a line, by decoding it at leisure: the id
// of an exchange, or a word.
func whereTo(line string, open map[uint64]bool, issued uint64) string {
	if len(line) > routeLimit {
		return "too long"
	}
	line = strings.TrimSuffix(line, "\r")
	var f wire.Message
	if !wire.ScanMessage([]byte(line), &f) { // what JSON is has a test of its own
		return "malformed"
	}
	var m, params, meta map[string]json.RawMessage
	_ = json.Unmarshal([]byte(line), &m)
	if _, ok := m["result"]; ok {
		return "any" // which of several members counts is another question
	}
	token := m["id"]
	var method *string
	if json.Unmarshal(m["method"], &method) == nil && method != nil {
		if token != nil {
			return "request"
		}
		_ = json.Unmarshal(m["params"], &params)
		_ = json.Unmarshal(params["_meta"], &meta)
		if token = meta[wire.SubscriptionKey]; token == nil {
			token = params["requestId"]
		}
		if token == nil {
			return "unaddressed"
		}
	}
	name := string(token)
	if len(name) > 2 && name[0] == '"' {
		name = name[1 : len(name)-1]
	}
	id, err := strconv.ParseUint(name, 10, 63)
	switch {
	case err != nil || id == 0 || strconv.FormatUint(id, 10) != name:
		return "unknown"
	case open[id]:
		return name
	case id <= issued:
		return "late"
	}
	return "unknown"
}

const routeLimit = 300

func FuzzRouter(f *testing.F) {
	f.Add("{\"id\":2,\"result\":{}}\n{\"id\":3,\"error\":{\"code\":1}}\nx\n", uint8(5))
	f.Add(
		`{"method":"n","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":2}}}`+"\r\n"+`{"method":"n","params":{"requestId":"4"}}`,
		uint8(7),
	)
	f.Add("{\"method\":\"n\"}\n{\"method\":\"ping\",\"id\":1}\n{}\n\n{\"id\":null}\n{\"id\":9}\n{\"id\":\"02\"}", uint8(1))
	f.Add(strings.Repeat("{", 400)+"\n{\"id\":4}", uint8(99))
	f.Fuzz(func(t *testing.T, text string, piece uint8) {
		var issued atomic.Uint64
		issued.Store(6)
		open := map[uint64]bool{2: true, 4: true}
		var got []string
		r := &router{issued: &issued, respond: func(*wire.Message) { got = append(got, "request") }}
		for id := range open {
			x := &Exchange{Take: func(time.Time, wire.Line, *wire.Message) { got = append(got, strconv.FormatUint(id, 10)) }}
			must(t, r.Add(id, x))
		}
		size := 0
		parser := wire.LineParser{Limit: routeLimit}
		take := func(l wire.Line) {
			before := [...]int64{
				r.counts.late.Load(),
				r.counts.unknown.Load(),
				r.counts.unaddressed.Load(),
				r.counts.malformed.Load(),
				r.counts.tooLong.Load(),
			}
			r.route(l, time.Time{})
			after := [...]int64{
				r.counts.late.Load(),
				r.counts.unknown.Load(),
				r.counts.unaddressed.Load(),
				r.counts.malformed.Load(),
				r.counts.tooLong.Load(),
			}
			for i, name := range []string{"late", "unknown", "unaddressed", "malformed", "too long"} {
				for range after[i] - before[i] {
					got = append(got, name)
				}
			}
		}
		for rest := text; rest != ""; {
			n := min(len(rest), int(piece)+1)
			parser.Feed([]byte(rest[:n]), take)
			rest = rest[n:]
		}
		parser.End(take)
		var want []string
		for l := range strings.SplitSeq(text, "\n") {
			want = append(want, whereTo(l, open, 6))
			size += len(l) + 1
		}
		if want = want[:len(want)-1]; !strings.HasSuffix(text, "\n") && text != "" {
			l := text[strings.LastIndexByte(text, '\n')+1:]
			want = append(want, whereTo(l, open, 6))
		}
		if len(got) != len(want) || r.counts.lines.Load() != int64(len(want)) || r.counts.bytes.Load() != int64(len(text)) {
			t.Fatalf("%q: went to %q, want %q; %d lines, %d bytes", text, got, want, r.counts.lines.Load(), r.counts.bytes.Load())
		}
		for i := range want {
			if want[i] != "any" && got[i] != want[i] {
				t.Errorf("%q: line %d went to %s, want %s", text, i, got[i], want[i])
			}
		}
	})
}

func TestRouterHearers(t *testing.T) {
	r := &router{issued: new(atomic.Uint64)}
	var first, second wire.Traffic
	heard := 0
	a := &Exchange{Traffic: &first, Take: func(time.Time, wire.Line, *wire.Message) { heard++ }}
	b := &Exchange{Traffic: &second, Take: func(time.Time, wire.Line, *wire.Message) { heard++ }}
	for _, x := range []*Exchange{a, b} {
		must(t, r.listen(x))
	}
	line := wire.Line{Data: []byte(`{"method":"notifications/events/list_changed"}`), Size: 47}
	r.route(line, time.Now())
	r.Unlisten(a)
	r.route(line, time.Now())
	r.Unlisten(b)
	r.route(line, time.Now())
	if heard != 3 || first.Down() != 47 || second.Down() != 47 || r.counts.unaddressed.Load() != 1 || r.counts.routed.Load() != 94 {
		t.Errorf("heard %d, charged %d and %d, unaddressed %d", heard, first.Down(), second.Down(), r.counts.unaddressed.Load())
	}
}

func TestRouterFinish(t *testing.T) {
	r := &router{issued: new(atomic.Uint64)}
	ended := 0
	for id := range uint64(3) {
		x := &Exchange{End: func(error) { ended++ }}
		must(t, r.Add(id+1, x))
		if id == 0 {
			r.Remove(1, x)
		}
	}
	must(t, r.listen(&Exchange{End: func(error) { ended++ }}))
	gone := errors.New("gone")
	r.finish(gone)
	if ended != 3 || r.Add(9, &Exchange{}) != gone || r.listen(&Exchange{}) != gone { // the very one
		t.Errorf("%d exchanges were told", ended)
	}
}

// What was queued before the end is written before the end.
func TestPipeWritesWhatIsQueued(t *testing.T) {
	for range 20_000 {
		p := newPipe(EndpointOptions{}, new(atomic.Uint64))
		var got written
		p.stdin = &got
		var work sync.WaitGroup
		work.Go(p.write)
		if err := p.Send(t.Context(), []byte("last"), nil); err != nil {
			t.Fatal(err)
		}
		close(p.quit)
		work.Wait()
		if got.String() != "last\n" {
			t.Fatalf("wrote %q", got.String())
		}
	}
}

// written is what was written.
type written struct{ bytes.Buffer }

func (*written) Close() error { return nil }
