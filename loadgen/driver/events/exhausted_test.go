package events

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
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
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
	return &http.Response{
		StatusCode: 200,
		Header:     http.Header{"Content-Type": {"application/json"}},
		Body:       io.NopCloser(strings.NewReader(body)),
	}, nil
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
			ep, err := mcpclient.NewEndpoint(mcpclient.EndpointOptions{URL: "http://127.0.0.1:1/mcp"})
			if err != nil {
				t.Fatal(err)
			}
			ep.Presume(mcpclient.Modern)
			calls := map[eventmeter.Cause]int{}
			d, err := newLane(driver.Options{
				Clock:         eventmeter.NewClock(),
				Recorder:      &causes{eventmeter.Tee(), calls},
				Endpoint:      ep,
				Mode:          eventmeter.Poll,
				Event:         "e",
				Subscriptions: 1,
			}.WithDefaults())
			if err != nil {
				t.Fatal(err)
			}
			s := &fullServer{code: c.code, data: c.data, refusals: c.refusals}
			d.Transport = s
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err = d.Attach(ctx, 0)
			synctest.Wait()
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("%d: %v, want %q", c.code, err, c.err)
			}
			if room := c.refusals == 1<<20; room && (!errors.Is(err, mcpclient.ErrThrottled) || len(s.asked) < 3) {
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
