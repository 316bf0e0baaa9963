package loadgen_test

import (
	"context"
	"fmt"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/loadgen"
)

func ExampleSchedule() {
	bursts := loadgen.Burst{Size: 10, Every: 500 * time.Millisecond, Spread: 100 * time.Millisecond}
	for _, n := range []uint64{0, 1, 9, 10} {
		at, _ := bursts.At(n)
		fmt.Println(n, at)
	}
	fmt.Println(loadgen.Count(bursts, 10*time.Second), "in ten seconds")
	// Output:
	// 0 0s
	// 1 10ms
	// 9 90ms
	// 10 500ms
	// 200 in ten seconds
}

func ExampleLoop() {
	clock, recorder := eventmeter.NewClock(), eventmeter.Tee() // records nothing
	firing, err := loadgen.NewFiring(loadgen.FiringOptions{
		Clock:    clock,
		Recorder: recorder,
		Stamper:  loadgen.NewStamper(clock, recorder, 1, 2),
		Schedule: loadgen.Constant{Rate: 200},
		Warmup:   20 * time.Millisecond,
		Duration: 80 * time.Millisecond,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	stats := loadgen.Loop(context.Background(), firing, loadgen.LoopOptions{
		Fire: func(context.Context, loadgen.Emission) eventmeter.Outcome { return eventmeter.Accepted },
	})
	fmt.Println(stats.Fired)
	// Output: 20
}
