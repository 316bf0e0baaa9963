package driver

import (
	"strings"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/settings"
)

// TestAnswers: the same seed gives the same answers, in their shares, and each
// event is refused as often as it should be.
func TestAnswers(t *testing.T) {
	all := []Answer{
		{Status: 503, Share: 0.25}, {Hang: true, Share: 0.1, Times: 2}, {Status: 204, Delay: time.Second, DelayTo: 3 * time.Second},
		{Challenge: true, Share: 0.5},
	}
	one, two := answers{all: all, seed: 3}, answers{all: all, seed: 3}
	const events = 10_000
	counts := map[*Answer]int{}
	for id := uint64(1); id <= events; id++ {
		a, drawn, repeat := one.decide(1, id, false)
		again, drawnAgain, _ := two.decide(1, id, false)
		if *a != *again || drawn != drawnAgain || repeat != nil {
			t.Fatal("not repeatable")
		}
		counts[a]++
		switch a {
		case &all[0]:
			if next, _, repeat := one.decide(1, id, false); next != nil || repeat != a {
				t.Fatalf("answered %+v again", next)
			}
		case &all[1]:
			if next, _, repeat := one.decide(1, id, false); next != a || repeat != a {
				t.Fatalf("the second copy is answered %+v", next)
			}
			if next, _, _ := one.decide(1, id, false); next != nil {
				t.Fatalf("the third copy is answered %+v", next)
			}
		case &all[2]:
			if d := replyOf(a, drawn, "").Delay; d < time.Second || d > 3*time.Second {
				t.Fatalf("a delay of %v", d)
			}
		}
	}
	for i, share := range []float64{0.25, 0.1, 0.65} {
		if n := float64(counts[&all[i]]); n < (share-0.02)*events || n > (share+0.02)*events {
			t.Errorf("answer %d was given %v times of %d, want a share of %g", i, n, events, share)
		}
	}
	wrong := 0
	for i := range uint32(1000) {
		if a, _, _ := one.decide(i, 0, true); a != nil {
			wrong++
			if again, _, _ := one.decide(i, 0, true); again != nil {
				t.Fatal("the second challenge is answered wrongly, too")
			}
		}
	}
	if wrong < 450 || wrong > 550 {
		t.Errorf("%d of 1000 challenges are answered wrongly", wrong)
	}
	none := answers{}
	if a, _, repeat := none.decide(1, 1, false); a != nil || repeat != nil {
		t.Error("answered without an answer")
	}
}

// TestNeverRetried: events that were answered 4xx have to come again, except after 410 and 413.
// One that may still come is not counted.
func TestNeverRetried(t *testing.T) {
	at := func(seconds float64) eventmeter.Instant { return eventmeter.Instant(seconds * 1e9) }
	for status, want := range map[int]float64{400: 3, 401: 3, 429: 3, 410: 0, 413: 0, 503: 0} {
		a := &Answer{Status: status}
		c := &Inbox{answers: answers{all: []Answer{*a}}}
		s := &c.answers
		for id := uint64(1); id <= 3; id++ { // 1 and 3 never come again
			s.await(answered{1, id}, a, nil, at(0))
		}
		s.await(answered{1, 2}, nil, a, at(6)) // waits of others may be up to 12 s
		s.await(answered{2, 1}, a, nil, at(0)) // its subscription ends in time
		s.leave(2, at(11))
		s.await(answered{3, 1}, a, nil, at(0)) // its subscription ends too late
		s.leave(3, at(12))
		if n := c.NeverRetried(Figures{}, at(11)).Values[FigureNeverRetried]; n != min(want, 1) {
			t.Errorf("%d: %v events after 11 s", status, n)
		}
		if n := c.NeverRetried(Figures{}, at(12)).Values[FigureNeverRetried]; n != want {
			t.Errorf("%d: %v events were never retried, want %v", status, n, want)
		}
	}
	a := Answer{Status: 400}
	c := &Inbox{answers: answers{all: []Answer{a}}}
	for id := range uint64(answerMemory + 2) { // what is remembered has a bound
		c.answers.await(answered{1, id}, &a, nil, at(0))
	}
	if n := c.NeverRetried(Figures{}, at(12)).Values[FigureNeverRetried]; n != answerMemory {
		t.Errorf("%v events are remembered, want %v", n, answerMemory)
	}
	if f := (*Inbox)(nil).NeverRetried(Figures{}, 0); len(f.Values) > 0 {
		t.Errorf("figures of a lane without a listener: %v", f.Values)
	}
}

func TestAnswersAreChecked(t *testing.T) {
	for want, all := range map[string][]Answer{
		"": {{Status: 503, Share: 0.5}, {Delay: time.Second}, {Challenge: true}, {Hang: true, Challenge: true, Share: 0.1}},
		"webhook.answer.0.share: 2 is out of bounds; give 0 to 1":  {{Share: 2}},
		"webhook.answer.0.status: 100 is too small; give at least": {{Status: 100}},
		"webhook.answer.0: says several things at once; give one":  {{Status: 503, Hang: true}},
		"webhook.answer: the shares add up to 1.5":                 {{Status: 503, Share: 0.75}, {Reset: true, Share: 0.75}},
		"webhook.answer.1.share: is missing here":                  {{Status: 503}, {Reset: true}},
		"webhook.answer.0.delayTo: 1ns is below delay":             {{Delay: 2, DelayTo: 1}},
		"webhook.answer.0.times: -1 is too small":                  {{Times: -1}},
	} {
		w := settings.DefaultWebhook()
		w.Answer = all
		if err := settings.Problem(&w); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", all, err, want)
		}
	}
}
