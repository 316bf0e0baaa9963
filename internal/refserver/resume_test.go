package refserver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestConfirm drops messages that were written long enough before.
func TestConfirm(t *testing.T) {
	now := time.Now()
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for _, c := range []struct {
		name    string
		overlap time.Duration
		written []time.Duration // of the written messages
		waiting int             // messages not written
		kept    string
		next    int
	}{
		{"nothing", time.Second, nil, 0, "", 0},
		{"not written", time.Second, nil, 2, "w0 w1", 0},
		{"old", time.Second, []time.Duration{3 * time.Second, 2 * time.Second}, 1, "w0", 0},
		{"at the edge", time.Second, []time.Duration{time.Second, time.Second - 1}, 0, "1", 1},
		{"old and new", time.Second, []time.Duration{2 * time.Second, 900 * time.Millisecond, 0}, 1, "1 2 w0", 2},
		{"no overlap", -1, []time.Duration{2 * time.Second, 0}, 1, "w0", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := newResumables(&Server{opts: Options{ResumeOverlap: c.overlap}})
			j := &job{owner: q, next: len(c.written)}
			for i, d := range c.written {
				j.kept = append(j.kept, keptMessage{frame: fmt.Append(nil, i), written: ago(d)})
			}
			for i := range c.waiting {
				j.kept = append(j.kept, keptMessage{frame: fmt.Append(nil, "w", i)})
			}
			q.counts.Messages.Store(int64(len(j.kept)))
			j.confirm(now)
			var kept []string
			for _, m := range j.kept {
				kept = append(kept, string(m.frame))
			}
			if got := strings.Join(kept, " "); got != c.kept || j.next != c.next || q.counts.Messages.Load() != int64(len(kept)) {
				t.Errorf("kept %q, next %d, counted %d", got, j.next, q.counts.Messages.Load())
			}
		})
	}
}

// TestPolicyTime extends a policy with each snapshot, and ends the job after
// the last.
func TestPolicyTime(t *testing.T) {
	s := startServer(t, Options{})
	c := &call{id: json.RawMessage("7"), principal: "p"}
	j, conn, rpcErr := s.resumables.begin(c, "", workArguments{Steps: 10, StepMs: 3_600_000, MaxWait: 3600})
	if rpcErr != nil {
		t.Fatal(rpcErr)
	}
	stats := func(held, detached int64) {
		t.Helper()
		if got := s.Stats().Resumable; got.Held != held || got.Detached != detached {
			t.Errorf("%+v, want %d held and %d detached", got, held, detached)
		}
	}
	stats(1, 0)
	j.detach(conn)
	stats(1, 1)
	// Not due: the agenda runs an item whose deadline has moved.
	j.expire()
	stats(1, 1)
	before := j.deadline
	if status, pending, _, ok := j.snapshot(); status != statusProcessing || pending || !ok {
		t.Errorf("status %s, pending %t, ok %t", status, pending, ok)
	}
	if !j.deadline.After(before) {
		t.Error("a snapshot did not move the deadline")
	}
	conn, ok := j.attach()
	if !ok || !j.deadline.IsZero() {
		t.Error("the policy's time runs although the request is resumed")
	}
	j.expire()
	stats(1, 0)
	j.detach(conn)
	j.mu.Lock()
	j.deadline = time.Now().Add(-1)
	j.mu.Unlock()
	j.expire()
	stats(0, 0)
	if _, ok := j.attach(); ok {
		t.Error("an expired request was resumed")
	}
	if _, _, _, ok := j.snapshot(); ok {
		t.Error("an expired request has a status")
	}
	if got := s.Stats().Resumable.Expired; got != 1 {
		t.Errorf("%d expired", got)
	}
	if n := s.subscriptions.Load(); n != 0 {
		t.Errorf("%d places are still taken", n)
	}
}

func TestWorkWithoutTheCapability(t *testing.T) {
	s := startServer(t, Options{})
	for _, c := range []struct{ arguments, capabilities, want string }{
		{`{"steps":2,"stepMs":1,"note":"plain"}`, `{}`, `"note":"plain"`},
		{`{"steps":2,"stepMs":1,"note":"no"}`, `{"resumableRequests":null}`, `"note":"no"`},
		{`{"steps":0,"stepMs":1}`, `{"resumableRequests":{}}`, "steps is 0"},
		{`{"steps":1,"stepMs":1,"logEvery":-1}`, `{"resumableRequests":{}}`, "must be 0 or more"},
		{`{"steps":1,"stepMs":1,"maxWait":1e9}`, `{"resumableRequests":{}}`, "want seconds, up to 86400"},
		{`{"steps":1,"stepMs":1,"fail":true}`, `{"resumableRequests":{}}`, `"isError":true`},
	} {
		r := httptest.NewRequest(
			http.MethodPost,
			"/mcp",
			strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"work","arguments":`+c.arguments+
				`,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t",`+
				`"version":"1"},"io.modelcontextprotocol/clientCapabilities":`+c.capabilities+`}}}`),
		)
		for name, value := range map[string]string{
			"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
			headerVersion: modernVersion, headerMethod: "tools/call", headerName: workTool,
		} {
			r.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		s.handler.ServeHTTP(w, r)
		body := w.Body.String()
		if !strings.Contains(body, c.want) || strings.Contains(body, "resumePolicy") != strings.Contains(c.want, "isError") {
			t.Errorf("%s: %s", c.arguments, body)
		}
	}
}

func TestResumableLimit(t *testing.T) {
	s := startServer(t, Options{MaxSubscriptions: 1})
	c := &call{id: json.RawMessage("7")}
	w := workArguments{Steps: 1, StepMs: 3_600_000}
	if _, _, rpcErr := s.resumables.begin(c, "", w); rpcErr != nil {
		t.Fatal(rpcErr)
	}
	if _, _, rpcErr := s.resumables.begin(c, "", w); rpcErr == nil || rpcErr.Code != sketchCodes[resourceExhausted] {
		t.Errorf("the second request: %v", rpcErr)
	}
}

// TestAttachAfter resumes by the number of a message: what came before it is
// dropped, and what follows it must still be there.
func TestAttachAfter(t *testing.T) {
	s := startServer(t, Options{ResumeOverlap: time.Hour})
	c := &call{id: json.RawMessage("7"), principal: "p"}
	begin := func() *job {
		t.Helper()
		j, conn, rpcErr := s.resumables.begin(
			c,
			"s1",
			workArguments{Steps: 10, StepMs: 3_600_000, MaxWait: 3600, token: json.RawMessage(`"t"`)},
		)
		if rpcErr != nil {
			t.Fatal(rpcErr)
		}
		for range 4 {
			j.advance()
		}
		j.wrote(conn, j.take(conn, nil, 3, 3))
		j.detach(conn)
		return j
	}
	numbers := func(j *job) (n []uint64) {
		for _, m := range j.kept {
			n = append(n, m.number)
		}
		return n
	}
	j := begin()
	if s.resumables.inSession("s1", "p", j.token, 5) != nil || s.resumables.inSession("s2", "p", j.token, 1) != nil ||
		s.resumables.inSession("s1", "q", j.token, 1) != nil ||
		s.resumables.inSession("s1", "p", j.token, 4) != j {
		t.Error("a request is found by less than its session, its principal and a number that was given")
	}
	for _, step := range []struct {
		number   uint64
		kept, ok bool
		want     string
	}{
		{1, true, true, "[2 3 4]"}, {3, true, true, "[4]"}, {2, false, true, "[4]"}, {3, true, true, "[4]"}, {4, true, true, "[]"},
	} {
		conn, kept, ok := j.attachAfter(step.number)
		if got := fmt.Sprint(numbers(j)); kept != step.kept || ok != step.ok || (conn != nil) != kept || got != step.want {
			t.Errorf("after %d: kept %t, ok %t, messages %s", step.number, kept, ok, got)
		}
	}
	// The policy is over, and the agenda has not seen it yet.
	j = begin()
	j.mu.Lock()
	j.deadline = time.Now().Add(-1)
	j.mu.Unlock()
	if _, _, ok := j.attachAfter(3); ok {
		t.Error("a request was resumed after its policy")
	}
	begin()
	s.resumables.dropSession("s1")
	if got := s.Stats().Resumable; got.Held != 0 || got.Detached != 0 || got.Messages != 0 || got.Bytes != 0 ||
		len(s.resumables.bySession) != 0 {
		t.Errorf("a session has ended, and %+v are held", got)
	}
}
