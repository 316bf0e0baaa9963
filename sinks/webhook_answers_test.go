package sinks

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
)

type replies struct{ next atomic.Pointer[Reply] }

func (r *replies) Receive(*Inbound) Reply { return *r.next.Load() }

// TestAnswersOnTheWire: what a sender sees of each kind of answer.
func TestAnswersOnTheWire(t *testing.T) {
	followed := make(chan struct{}, 1)
	r := NewReceiver(ReceiverOptions{Clock: eventmeter.NewClock(), Followed: func(Hook, eventmeter.Instant) { followed <- struct{}{} }})
	srv := httptest.NewServer(r)
	t.Cleanup(srv.Close)
	hook := &replies{}
	r.Add("/h", hook)
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	post := func(reply Reply) (*http.Response, error) {
		hook.next.Store(&reply)
		resp, err := client.Post(srv.URL+"/h", "application/json", strings.NewReader("{}"))
		if err == nil {
			resp.Body.Close()
		}
		return resp, err
	}
	if resp, err := post(
		Reply{Status: 429, RetryAfter: 1500 * time.Millisecond},
	); err != nil || resp.StatusCode != 429 ||
		resp.Header.Get("Retry-After") != "2" {
		t.Errorf("429: %v, %v", resp, err)
	}
	if _, err := post(Reply{Reset: true}); !errors.Is(err, io.EOF) {
		t.Errorf("a reset: %v", err)
	}
	select {
	case <-followed:
		t.Error("a redirect was noticed that nobody followed")
	default:
	}
	if resp, err := post(Reply{Status: 302, Location: srv.URL + "/h?" + FollowedQuery}); err == nil && resp.StatusCode == 302 {
		t.Error("the client of this test follows redirects")
	}
	<-followed
	time.AfterFunc(0, r.Close) // ends what hangs, whenever that begins
	if _, err := post(Reply{Hang: true}); !errors.Is(err, io.EOF) {
		t.Errorf("a hang that is over: %v", err)
	}
}
