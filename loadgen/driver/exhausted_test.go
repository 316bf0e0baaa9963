package driver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/wire"
)

// fullServer refuses a number of polls with an error, and then answers them.
type fullServer struct {
	code     int64
	data     string
	refusals int
	asked    []time.Time
}

func (s *fullServer) RoundTrip(req *http.Request) (*http.Response, error) {
	text, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	s.asked = append(s.asked, time.Now())
	what := `"result":{"events":[],"cursor":"c","nextPollMs":3600000}`
	if len(s.asked) <= s.refusals {
		what = fmt.Sprintf(`"error":{"code":%d,"message":"Resource exhausted"%s}`, s.code, s.data)
	}
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, wire.RequestID(text), what)
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body))}, nil
}

// TestResourceExhausted requires that a target without room is asked again
// after a wait, for as long as the attachment may take, whichever of the two
// numbers it uses.
func TestResourceExhausted(t *testing.T) {
	for _, c := range []struct {
		code     int64
		data     string
		refusals int
		least    time.Duration // between two attempts
		err      string        // of the attachment
	}{
		{-32013, "", 2, 0, ""},
		{-32025, "", 2, 0, ""},
		{-32013, `,"data":{"limit":"subscriptions","max":100,"retryAfterMs":5000}`, 2, 5 * time.Second, ""},
		{-32025, `,"data":{"limit":"verification_rate","retryAfterMs":7000}`, 1, 7 * time.Second, ""},
		{-32025, `,"data":{"limit":"subscriptions","max":100}`, 1 << 20, 0, "rpc -32025: Resource exhausted (limit subscriptions, max 100)"},
		{-32025, `,"data":"odd"`, 1 << 20, 0, "rpc -32025: Resource exhausted"},
		{-32024, "", 1, 0, "rpc -32024"},
	} {
		synctest.Test(t, func(t *testing.T) {
			ep, err := NewEndpoint(EndpointOptions{URL: "http://127.0.0.1:1/mcp"})
			if err != nil {
				t.Fatal(err)
			}
			who := ep.principals[0]
			who.now = &agreement{era: Modern, version: modernVersion}
			who.now.build(who)
			calls := map[eventmeter.Cause]int{}
			d, err := newEvents(Options{
				Clock: eventmeter.NewClock(), Recorder: &causes{eventmeter.Tee(), calls}, Endpoint: ep, Mode: eventmeter.Poll, Event: "e", Subscriptions: 1,
			})
			if err != nil {
				t.Fatal(err)
			}
			s := &fullServer{code: c.code, data: c.data, refusals: c.refusals}
			d.transport = s
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err = d.Attach(ctx, 0)
			synctest.Wait()
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("%d: %v, want %q", c.code, err, c.err)
			}
			if room := c.refusals == 1<<20; room && (!errors.Is(err, ErrThrottled) || len(s.asked) < 3) {
				t.Errorf("%d: %d attempts, %v", c.code, len(s.asked), err)
			}
			if c.err == "" && (len(s.asked) != c.refusals+1 || calls[eventmeter.Retry] != c.refusals) {
				t.Errorf("%d: %d attempts, %d of them retries, want %d refusals", c.code, len(s.asked), calls[eventmeter.Retry], c.refusals)
			}
			for i := 1; i < len(s.asked); i++ {
				if wait := s.asked[i].Sub(s.asked[i-1]); wait < c.least || wait <= 0 {
					t.Errorf("%d: asked again after %v, want %v at least", c.code, wait, c.least)
				}
			}
			if err := d.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
}

// causes counts requests by cause.
type causes struct {
	eventmeter.Recorder
	of map[eventmeter.Cause]int
}

func (c *causes) Called(v eventmeter.Call) { c.of[v.Cause] += int(v.Requests) }

// TestCodesHaveTwoNumbers holds the numbers of the earlier text and of the
// draft to the same meaning.
func TestCodesHaveTwoNumbers(t *testing.T) {
	for _, c := range []struct {
		older, newer int64
		is           error
		final, later bool
	}{
		{-32011, -32023, ErrNotOffered, true, false},
		{-32012, -32024, ErrAuth, true, false},
		{-32013, -32025, ErrThrottled, false, true},
		{-32014, -32026, ErrNotOffered, true, false},
		{-32015, -32027, ErrInvalid, true, false},
		{-32016, -32028, ErrServer, false, false},
		{-32010, -32022, ErrServer, false, false},
	} {
		for _, code := range []int64{c.older, c.newer} {
			e := &callError{status: 200, hasCode: true, code: code}
			if !errors.Is(e, c.is) || e.final() != c.final || e.throttled() != c.later || passing(code) != c.later {
				t.Errorf("%d: %v, final %v, throttled %v, passing %v", code, e, e.final(), e.throttled(), passing(code))
			}
			if missing := (&callError{status: 404, hasCode: true, code: code}); c.is != ErrServer && missing.forgotten() {
				t.Errorf("%d with 404 counts as a forgotten session", code)
			}
		}
	}
}
