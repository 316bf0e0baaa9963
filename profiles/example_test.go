package profiles_test

import (
	"fmt"

	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/profiles"
)

func ExampleParse() {
	text := []byte(`
name: mine
lanes:
  - name: push
    mode: push
    subscriptions: 100
    event: chat.message
    arguments: {channel: "channel-{{mod .Index 2}}"}
    sources: "{{mod .Index 2}}"
upstream:
  sources: 2
  payload: {channel: "channel-{{.Source}}", text: "{{.Probe}}"}
schedule: {rate: 300/m}
`)
	p, err := profiles.Parse("mine.yaml", text, []string{"phases.measure=1m"}, systems.Table)
	if err != nil {
		fmt.Println(err)
		return
	}
	lane, err := profiles.CompileLane(p.Lanes[0])
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(p.Schedule.Rate, p.Phases.Measure, p.Phases.Warmup)
	fmt.Printf("%s hears %v\n", lane.Arguments(7), lane.Sources(7))

	_, err = profiles.Parse("mine.yaml", text, []string{"lanes.push.http=h2", "phases.mesure=60"}, systems.Table)
	fmt.Println(err)
	// Output:
	// 5/s 1m0s 2s
	// {"channel":"channel-1"} hears [1]
	// override "lanes.push.http=h2": lanes.push.http: no such http "h2"; did you mean 2?
	// override "phases.mesure=60": phases.mesure: no such key; did you mean measure?
}

func ExampleLoad() {
	p, err := profiles.Load("compare", []string{"lanes.*.subscriptions=1000"}, systems.Table)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, l := range p.Lanes {
		fmt.Println(l.Name, l.Mode, l.Subscriptions)
	}
	// Output:
	// push push 1000
	// poll poll 1000
	// webhook webhook 1000
}
