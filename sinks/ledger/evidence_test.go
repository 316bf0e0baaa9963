package ledger

import (
	"reflect"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/figure"
)

// fires is a script that fires 1 to n, ten milliseconds apart from 10 on.
func fires(n int) string {
	words := []string{
		"fire:1@10 ok:1@11",
		"fire:2@20 ok:2@21",
		"fire:3@30 ok:3@31",
		"fire:4@40 ok:4@41",
		"fire:5@50 ok:5@51",
		"fire:6@60 ok:6@61",
	}
	return strings.Join(words[:n], " ") + " "
}

// TestLossesByEvidence checks by hand which row each loss is in.
func TestLossesByEvidence(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, script                                         string
		silent, announced, undeliverable, refused, suspended int64
	}{
		{"nothing is known", up + fires(3) + "got:1@12", 2, 0, 0, 0, 0},

		{"announced before it was published", up + fires(1) + "truncated@5", 1, 0, 0, 0, 0},
		{"announced a nanosecond before", up + fires(1) + "truncated@9.999999", 1, 0, 0, 0, 0},
		{"announced as it was published", up + fires(1) + "truncated@10", 0, 1, 0, 0, 0},

		{"a hole in a window that another followed",
			up + fires(3) + "got:1@12 got:3@32 detaching@200 detached@201 attaching@202 active@203", 1, 0, 0, 0, 0},

		{"every copy was refused", up + fires(3) + "turned:1@12 turned:1@13 turned:2@22", 1, 0, 0, 2, 0},
		{"a later copy was accepted", up + fires(2) + "turned:1@12 got:1@14 got:2@22", 0, 0, 0, 0, 0},
		{"an earlier copy was accepted", up + fires(2) + "got:1@12 turned:1@14", 1, 0, 0, 0, 0},
		{"refused ones are not announced", up + fires(3) + "turned:1@12 truncated@35", 0, 2, 0, 1, 0},
		{"refused in between", up + fires(5) + "got:1@12 turned:3@32 got:5@52", 2, 0, 0, 1, 0},
		{"refused when nothing was owed", "fire:1@0.5 ok:1@0.6 " + up + "turned:1@3 fire:2@10 ok:2@11", 1, 0, 0, 0, 0},
		{"refused, in a window before",
			up + fires(2) + "turned:1@12 turned:2@21 detaching@200 detached@201 attaching@202 active@203", 0, 0, 0, 2, 0},

		{"no handshake ever worked", up + fires(3) + "handshake@12 handshake@22 handshake@32", 0, 0, 3, 0, 0},
		{"more are lost than handshakes failed", up + fires(4) + "handshake@12 handshake@42", 2, 0, 2, 0, 0},
		{"each was tried three times",
			up + fires(2) + "handshake@12 handshake@13 handshake@14 handshake@22 handshake@23 handshake@24", 0, 0, 2, 0, 0},
		{"fired after the last failure", up + fires(3) + "handshake@12 handshake@13 handshake@14", 2, 0, 1, 0, 0},
		{"a later one came", up + fires(4) + "handshake@12 got:3@32 handshake@42", 2, 0, 1, 0, 0},
		{"a later one was refused", up + fires(4) + "handshake@12 turned:3@32 handshake@42", 2, 0, 1, 1, 0},
		{"announced ones stay announced", up + fires(2) + "handshake@22 truncated@23 handshake@24", 0, 2, 0, 0, 0},
		{"a window that is over", up + fires(2) + "handshake@12 handshake@22 detaching@200 detached@201 attaching@202 active@203", 0, 0, 2, 0, 0},

		{"no room, and a later one came", up + fires(4) + "closed@5 closed@22 closed@32 got:3@33 got:4@42", 0, 0, 2, 0, 0},
		{"no room for one, and a later one came", up + fires(4) + "closed@22 closed@42 got:1@12 got:4@43", 1, 0, 1, 0, 0},
		{"more are lost than there was no room for", up + fires(5) + "closed@5 closed@42 got:5@52", 2, 0, 2, 0, 0},

		{"suspended since the start", up + fires(3) + "suspended:2@35", 0, 0, 0, 0, 3},
		{"suspended for a while", up + fires(5) + "suspended:15@35", 3, 0, 0, 0, 2},
		{"not before what came", up + fires(5) + "got:3@32 suspended:2@55", 2, 0, 0, 0, 2},
		{"not before what was refused", up + fires(5) + "turned:3@32 suspended:2@55", 2, 0, 0, 1, 2},
		{"what came after it resumed", up + fires(4) + "suspended:2@45 got:2@46 got:4@47", 0, 0, 0, 0, 2},
		{"what was published after it resumed came before that was known",
			up + fires(6) + "got:1@12 got:5@52 turned:6@62 suspended:2@45", 0, 0, 0, 1, 3},
		{"refused before what resumed it", up + fires(4) + "got:1@12 turned:2@22 got:4@42 suspended:5@35", 0, 0, 0, 1, 1},
		{"what came before the end was answered", up + fires(5) + "got:1@12 got:4@42 got:5@52 ended:15@55", 0, 0, 0, 0, 2},
		{"acknowledged as it began, and published as it was noticed", up + fires(3) + "suspended:11@30", 1, 0, 0, 0, 2},
		{"under way as it began", up + "fire:1@10 fire:2@12 ok:2@14 ok:1@16 suspended:15@30", 1, 0, 0, 0, 1},
		{"under way beside one that came", up + "fire:1@10 fire:2@11 ok:2@12 got:2@12 ok:1@20 suspended:2@30", 0, 0, 0, 0, 1},
		{"under way as it began again",
			up + "fire:1@10 ok:1@11 fire:2@20 fire:3@40 ok:3@41 ok:2@42 suspended:5@15 suspended:35@45", 0, 0, 0, 0, 3},
		{"a nanosecond after", up + "fire:1@10.0000015 ok:1@11 suspended:10@30 fire:2@30.0000015 ok:2@31", 1, 0, 0, 0, 1},
		{"twice", up + fires(6) + "suspended:5@15 suspended:35@45", 4, 0, 0, 0, 2},
		{"before it was active", "attaching@1 suspended:0@1.5 active@2 " + fires(1), 1, 0, 0, 0, 0},
		{"handshakes failed until it was suspended", up + fires(5) + "handshake@12 handshake@22 suspended:2@45 handshake@70", 0, 0, 3, 0, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newTestLedger(t, Options{Sources: 1})
			script(t, l, eventmeter.Sub{}, c.script)
			a := l.Account()
			if err := a.Check(); err != nil {
				t.Error(err)
			}
			for what, f := range map[string]SubCounts{"lane": a.Lanes[0].SubCounts, "subscription": l.SubAccount(eventmeter.Sub{})} {
				got := [...]int64{f.LostSilent, f.LostAnnounced, f.LostUndeliverable, f.LostRefused, f.LostSuspended}
				if want := [...]int64{c.silent, c.announced, c.undeliverable, c.refused, c.suspended}; got != want {
					t.Errorf("%s: silent, announced, undeliverable, refused, suspended %v, want %v", what, got, want)
				}
			}
			d := a.Live()
			if lane := d.Lanes[0]; lane.LostRefused != c.refused || lane.LostUndeliverable != c.undeliverable ||
				lane.LostSuspended != c.suspended ||
				d.Lanes[0].Holes != c.silent+c.announced+c.undeliverable+c.refused+c.suspended {
				t.Errorf("detail: %+v", lane)
			}
		})
	}
}

// TestUndeliverableIsBounded checks that all subscriptions together have no more
// undeliverable losses than connections failed, and that the bound holds where
// accounts of shards are added up.
func TestUndeliverableIsBounded(t *testing.T) {
	t.Parallel()
	l := newTestLedger(
		t,
		Options{
			Sources: 1,
			Lanes: []LaneSpec{
				{Name: "hooks", Mode: eventmeter.Webhook, Subscriptions: 4},
				{Name: "other", Mode: eventmeter.Webhook, Subscriptions: 1},
			},
		},
	)
	for i := range 4 {
		script(t, l, eventmeter.Sub{Index: uint32(i)}, up)
	}
	script(t, l, eventmeter.Sub{Lane: 1}, up+fires(3)+"handshake@35 handshake@36")
	script(t, l, eventmeter.Sub{}, "handshake@33 handshake@34 handshake@35 handshake@36 handshake@37")
	a := l.Account()
	if err := a.Check(); err != nil {
		t.Fatal(err)
	}
	if n := &a.Lanes[0]; n.Expected != 12 || n.LostUndeliverable != 5 || n.LostSilent != 7 || n.Undeliverable != 5 {
		t.Errorf("hooks: %+v", n.SubCounts)
	}
	if n := &a.Lanes[1]; n.LostUndeliverable != 2 || n.LostSilent != 1 {
		t.Errorf("other: %+v", n.SubCounts)
	}
	if live := l.Detail().Lanes[0]; live.Undeliverable != 5 {
		t.Errorf("live: %+v", live)
	}
	sum, err := MergeAccounts([]Account{a, a}, MergeOptions{})
	if err != nil || sum.Check() != nil {
		t.Fatal(err, sum.Check())
	}
	if n := &sum.Lanes[0]; n.LostUndeliverable != 10 || n.LostSilent != 14 || n.Undeliverable != 10 ||
		!reflect.DeepEqual(n.UndeliverableBy, Reasons{{"bad certificate", 10}}) {
		t.Errorf("merged: %+v, %v", n.SubCounts, n.UndeliverableBy)
	}
}

// TestEvidenceIsMet makes sure that the histories of the model's tests are such
// that every row is met.
func TestEvidenceIsMet(t *testing.T) {
	t.Parallel()
	var sum SubCounts
	for seed := range uint64(150) {
		l, err := randomLedger(seed)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range l.Account().Lanes {
			figure.AddCounts(&sum, &n.SubCounts)
		}
	}
	if least := int64(
		10,
	); sum.LostRefused < least || sum.LostUndeliverable < least || sum.LostSuspended < least || sum.LostAnnounced < least ||
		sum.LostSilent < least {
		t.Errorf("hardly any of some row: %+v", sum)
	}
}
