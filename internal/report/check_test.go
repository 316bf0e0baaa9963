package report

import (
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/internal/conform"
	"github.com/eventmeter/eventmeter/results"
)

// aCheck has a row of each finding.
func aCheck() *results.Check {
	c := &results.Check{
		Schema: results.CheckSchema,
		Target: results.Target{URL: "http://127.0.0.1:1/mcp"},
		Event:  "chat.message",
		Stages: []results.CheckStage{
			{Name: "at rest", Subscriptions: 60, Rate: 20, Delivered: 700, Rounds: 1},
			{
				Name:          "under load",
				Subscriptions: 5000,
				Rate:          20,
				Delivered:     1,
				Rounds:        3,
				Bottleneck:    []string{"CPU"},
				Ended:         "the time was \x1b[1mover",
			},
		},
	}
	bad := func(seen, broken int64) conform.Count {
		return conform.Count{Seen: seen, Broken: broken, First: &conform.Example{Lane: "push", At: 2e9, Message: "late\x1b[31m"}}
	}
	c.Judge(
		results.CheckSeen{
			Account: conform.Account{"stream-heartbeat-required": {Seen: 7}, "poll-events-array": bad(9, 2), "descriptor-name": {Seen: 4}},
			Why:     map[string]string{"subscribe-auth-required": "no webhooks"},
		},
		results.CheckSeen{
			Account: conform.Account{
				"stream-heartbeat-required": bad(1000, 31),
				"poll-events-array":         {Seen: 90},
				"descriptor-name":           {Seen: 4},
			},
		},
	)
	return c
}

func TestCheck(t *testing.T) {
	c := aCheck()
	if c.UnderLoad != 1 || c.Broken != 1 || c.Held != 1 || c.NotSeen != len(conform.Rows)-3 || c.Must != 1 {
		t.Errorf("%d under load, %d broken, %d held, %d not seen, %d must", c.UnderLoad, c.Broken, c.Held, c.NotSeen, c.Must)
	}
	var out strings.Builder
	must(t, Check(&out, c))
	head, unseen, _ := strings.Cut(out.String(), "\nnot seen:\n")
	want := `check of http://127.0.0.1:1/mcp: chat.message
  at rest    60 subscriptions, 20 events/s, 700 events received, all steps 1 time
  under load 5 000 subscriptions, 20 events/s, 1 event received, all steps 3 times; the generator
             was the bottleneck: CPU; ENDED EARLY: the time was over

1 row held, 2 broken, of these 1 under load alone, 132 not seen

held at rest, broken under load:
  row                                      level    at rest                  under load
  stream-heartbeat-required                must     held                     broken, 31 of 1 000
  periodic heartbeats exist: push at 2.00s: late

broken:
  row                                      level    at rest                  under load
  poll-events-array                        shape    broken, 2 of 9           held
  events is an array, also when empty: push at 2.00s: late
`
	if head != want {
		t.Errorf("got\n%s\nwant\n%s", head, want)
	}
	if !strings.Contains(unseen, "no webhooks: subscribe-auth-required\n") || strings.Contains(out.String(), "\x1b") {
		t.Errorf("not seen:\n%s", unseen)
	}
	out.Reset()
	must(t, CheckJUnit(&out, c))
	for _, want := range []string{`tests="8" failures="2" errors="1"`,
		`<testcase classname="eventmeter.check.under load" name="stream-heartbeat-required"`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s is missing in\n%s", want, out.String())
		}
	}
}

// TestCheckOfOnePart: a part that did not take place has no verdicts.
func TestCheckOfOnePart(t *testing.T) {
	c := &results.Check{}
	c.Judge(results.CheckSeen{Account: conform.Account{"poll-events-array": {Seen: 1, Broken: 1}}}, results.CheckSeen{})
	var out strings.Builder
	must(t, Check(&out, c))
	if want := "broken, 1 of 1           -\n"; c.Broken != 1 || !strings.Contains(out.String(), want) {
		t.Errorf("%d broken:\n%s", c.Broken, out.String())
	}
}
