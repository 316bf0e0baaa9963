package refserver

import (
	"encoding/json"
	"strings"
	"testing"
)

// A request that exceeds its buffer limit ends with an error, and a resume gets
// only the error. So does a request that exceeds the limit of all requests.
func TestResumableBytesAreBounded(t *testing.T) {
	for _, all := range []bool{false, true} {
		s := startServer(t, Options{})
		q := s.resumables
		most := &q.maxPerJob
		if all {
			most = &q.maxTotal
		}
		*most = 3000
		c := &call{id: json.RawMessage("7"), principal: "p"}
		w := workArguments{Steps: 1000, StepMs: 3_600_000, LogEvery: 2, token: json.RawMessage(`"t"`)}
		j, conn, rpcErr := q.begin(c, "", w)
		if rpcErr != nil {
			t.Fatal(rpcErr)
		}
		j.take(conn, nil, 100, 100) // nothing yet
		j.advance()
		taken := j.take(conn, nil, 100, 100)
		j.detach(conn)
		steps := 1
		for ; j.status == statusProcessing; steps++ {
			j.advance()
			if got := s.Stats().Resumable.Bytes; got > 3000 || steps > 100 {
				t.Fatalf("%d bytes are kept after %d steps", got, steps)
			}
		}
		if steps < 8 {
			t.Errorf("it ended after %d steps", steps)
		}
		j.advance() // ended: no message is added
		j.wrote(conn, taken)
		if status, pending, _, ok := j.snapshot(); status != statusFailed || !pending || !ok {
			t.Errorf("status %s, pending %t, ok %t", status, pending, ok)
		}
		if all {
			q.maxTotal = 100
			if _, _, rpcErr := q.begin(
				c,
				"",
				w,
			); rpcErr == nil || rpcErr.Code != sketchCodes[resourceExhausted] ||
				!strings.Contains(rpcErr.Message, "takes no further one") {
				t.Errorf("a further request: %v", rpcErr)
			}
			q.maxTotal = 3000
		}
		conn, ok := j.attach()
		if !ok {
			t.Fatal("the request is gone")
		}
		b := j.take(conn, nil, 100, 100)
		if len(b.frames) != 1 || !b.final ||
			!strings.Contains(string(b.frames[0]), `"id":7,"error":{"code":-32013,"message":"Resource exhausted: `) ||
			!strings.Contains(string(b.frames[0]), `"reason":"resumeBuffer"`) {
			t.Errorf("a resume is given %d messages, the first %.200s", len(b.frames), b.frames)
		}
		j.wrote(conn, b)
		j.mu.Lock()
		j.drop()
		j.mu.Unlock()
		if got := s.Stats().Resumable; got.Bytes != 0 || got.Messages != 0 || got.Held != 0 || got.Overrun != 1 {
			t.Errorf("afterwards: %+v", got)
		}
	}
}

// Messages that were discarded while a connection wrote them are not recorded
// as written.
func TestResumableEndsWhileWriting(t *testing.T) {
	s := startServer(t, Options{ResumeOverlap: -1})
	s.resumables.maxPerJob = 1000
	j, conn, rpcErr := s.resumables.begin(
		&call{id: json.RawMessage("7")},
		"",
		workArguments{Steps: 100, StepMs: 3_600_000, token: json.RawMessage(`1`)},
	)
	if rpcErr != nil {
		t.Fatal(rpcErr)
	}
	j.advance()
	j.advance()
	b := j.take(conn, nil, 100, 100)
	for j.status == statusProcessing {
		j.advance()
	}
	j.wrote(conn, b)
	if b := j.take(conn, nil, 100, 100); len(b.frames) != 1 || !b.final || !strings.Contains(string(b.frames[0]), `"error"`) {
		t.Errorf("then it writes %q", b.frames)
	}
}

func TestResumableIDsAreBounded(t *testing.T) {
	s := startServer(t, Options{})
	long := json.RawMessage(`"` + strings.Repeat("x", maxResumableID) + `"`)
	for _, c := range []struct {
		id, token json.RawMessage
		want      string
	}{{long, nil, "id has 1026 bytes"}, {json.RawMessage("1"), long, "progressToken has 1026 bytes"}, {long[2:], long[2:], ""}} {
		_, _, rpcErr := s.resumables.begin(&call{id: c.id}, "", workArguments{Steps: 1, StepMs: 3_600_000, token: c.token})
		if (rpcErr == nil) != (c.want == "") || rpcErr != nil && !strings.Contains(rpcErr.Message, c.want) {
			t.Errorf("%d and %d bytes: %v", len(c.id), len(c.token), rpcErr)
		}
	}
}
