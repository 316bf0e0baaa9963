package mcpclient

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/wire"
)

// openAnswers answers with SSE whose end comes a while after the response;
// less than 0 = never.
type openAnswers struct{ end time.Duration }

func (o *openAnswers) RoundTrip(req *http.Request) (*http.Response, error) {
	text, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	r, w := io.Pipe()
	end := o.end
	go func() {
		_, _ = io.WriteString(w, `data: {"jsonrpc":"2.0","id":`+string(wire.RequestID(text))+`,"result":{}}`+"\n\n")
		if end >= 0 {
			time.Sleep(end) // on the bubble's clock
			_, _ = io.WriteString(w, ": bye\n\n")
			_ = w.Close()
		}
	}()
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: r}, nil
}

// TestRestIsBounded requires that the end of an answer is waited for, no longer
// than allowed, less and less at a target that does not end its answers, and
// never as part of the time that the answer took.
func TestRestIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ep, err := NewEndpoint(EndpointOptions{URL: "http://127.0.0.1:1/mcp"})
		must(t, err)
		server := &openAnswers{}
		c := ep.Caller(eventmeter.NewClock(), nil)
		c.Transport, c.Recorder = server, eventmeter.Tee()
		call := func(want time.Duration) {
			t.Helper()
			start := time.Now()
			a := c.Call(t.Context(), "x", http.Header{}, wire.Request(1, "x", []byte("{}")))
			defer a.Release()
			if a.Err != nil || a.Took != 0 {
				t.Errorf("%v, it took %v", a.Err, a.Took)
			}
			if got := time.Since(start); got != want {
				t.Errorf("the end was waited for %v, want %v", got, want)
			}
			if head := int64(
				len("HTTP/1.1 \r\n\r\n") + len("Content-Type: text/event-stream\r\n"),
			); server.end >= 0 &&
				a.Down != head+int64(len(`data: {"jsonrpc":"2.0","id":1,"result":{}}`)+2+len(": bye\n\n")) {
				t.Errorf("%d bytes were counted", a.Down)
			}
		}
		call(0)
		server.end = 400 * time.Millisecond
		call(400 * time.Millisecond)
		server.end = -1
		for i := range 10 {
			call(500 * time.Millisecond >> min(i, 8))
		}
		server.end = 0
		for range 8 {
			call(0)
		}
		server.end = -1
		call(500 * time.Millisecond)
	})
}

// TestRestOfAnAnswerThatFloods bounds what is read after the response.
func TestRestOfAnAnswerThatFloods(t *testing.T) {
	var p Patience
	if n := p.Rest(io.NopCloser(strings.NewReader(strings.Repeat("x", 2*maxRest)))); n != maxRest {
		t.Errorf("%d bytes were read", n)
	}
	if p.limit() >= restTime {
		t.Error("the target is given as much time as before")
	}
}
