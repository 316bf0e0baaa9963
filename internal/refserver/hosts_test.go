package refserver

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

func TestHostBound(t *testing.T) {
	var hooks [7]hook
	for i := range hooks {
		hooks[i].number = i
	}
	var free hostBound
	if next := free.leave("a"); !free.enter("a", &hooks[1]) || !free.enter("a", &hooks[2]) || next != nil {
		t.Error("the zero value bounds")
	}
	b := hostBound{most: 2}
	enter := func(host string, n int, want bool) {
		t.Helper()
		if got := b.enter(host, &hooks[n]); got != want {
			t.Errorf("enter %s %d: %v, want %v", host, n, got, want)
		}
	}
	leave := func(host string, want int) {
		t.Helper()
		got := 0
		if next := b.leave(host); next != nil {
			got = next.number
		}
		if got != want {
			t.Errorf("leave %s: %d, want %d", host, got, want)
		}
	}
	enter("a", 1, true)
	enter("a", 2, true)
	enter("a", 3, false)
	enter("a", 4, false)
	enter("b", 5, true) // another host is free
	leave("a", 3)
	enter("a", 6, true)  // one that did not wait takes the place,
	enter("a", 3, false) // and the one that had waited waits again
	leave("a", 4)
	leave("a", 3)
	leave("b", 0)
	enter("a", 4, true)
	enter("a", 3, true)
	leave("a", 0)
	leave("a", 0)
	if len(b.hosts) != 0 {
		t.Errorf("%d idle hosts are kept", len(b.hosts))
	}
}

// Ten subscriptions whose host never answers would occupy all four senders.
func TestSlowHostLeavesSendersToOthers(t *testing.T) {
	hung := newReceiver(t)
	healthy := newReceiver(t)
	s := startServer(t, Options{
		AllowPrivateCallbacks: true, CallbackInsecure: true, Senders: 4, SendersPerHost: 2, AckTimeout: time.Hour, RetryMax: -1,
	})
	subscribe := func(url string, r *receiver) {
		result(
			t,
			s,
			"t",
			"events/subscribe",
			fmt.Sprintf(`{"name":"tick","delivery":{"mode":"webhook","url":"%s","secret":"%s"}}`, url, testSecret),
		)
		r.next(t) // the challenge
	}
	for i := range 10 {
		subscribe(fmt.Sprintf("%s/%d", hung.URL, i), hung)
	}
	subscribe(healthy.URL, healthy)
	hold := make(chan struct{})
	began := make(chan struct{}, 100)
	hung.Config.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		began <- struct{}{}
		<-hold
	})
	for range 3 {
		publish(t, s, "tick", `{}`)
		healthy.next(t)
	}
	<-began
	<-began
	if n := len(began); n > 0 {
		t.Errorf("%d deliveries beyond the bound", n)
	}
	close(hold)
	for range 8 { // those that waited go on
		<-began
	}
}
