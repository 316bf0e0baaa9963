package health

import (
	"os"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/internal/stats/leak"
	"github.com/eventmeter/eventmeter/results"
)

// line is a gauge that rises by so much a second from 10 s to 70 s, and falls to after then.
func line(perSecond, after float64) (points []leak.Point) {
	const base = 100 << 20
	for s := range 90 {
		v := base + perSecond*float64(min(max(s-10, 0), 60))
		if s > 75 {
			v = base + after
		}
		points = append(points, leak.Point{Seconds: float64(s), Value: v})
	}
	return points
}

func TestGrowths(t *testing.T) {
	whole := Marks{Attach: 5, From: 10, To: 70, Cool: 72, Cooled: 89}
	uncooled, varying, short := whole, whole, whole
	uncooled.Cool, varying.Varying, short.To = 0, true, 20
	const mib = 1 << 20
	for _, tt := range []struct {
		name    string
		points  []leak.Point
		marks   Marks
		verdict results.LeakVerdict
		reason  string
	}{
		{"stays", line(mib, 60*mib), whole, results.LeakFound, "it rises by 60 MiB a minute under constant load, and in the cool-down it stays 60 MiB above"},
		{"comes back", line(mib, 0), whole, results.LeakNone, "comes back in the cool-down"},
		{"half comes back", line(mib, 29*mib), whole, results.LeakNone, "comes back"},
		{"flat", line(0, 0), whole, results.LeakNone, "does not rise steadily"},
		{"falls", line(-mib, -60*mib), whole, results.LeakNone, "does not rise steadily"},
		{"hardly rises", line(mib/100, mib), whole, results.LeakNone, "does not rise steadily"},
		{"no cool-down", line(mib, 60*mib), uncooled, results.LeakUnknown, "set phases.cooldown"},
		{"ramp", line(mib, 60*mib), varying, results.LeakUnknown, "changes by plan"},
		{"short", line(mib, 60*mib), short, results.LeakUnknown, "raise phases.measure"},
	} {
		got := Growths(map[string][]leak.Point{"memory": tt.points}, tt.marks)["memory"]
		if got.Verdict != tt.verdict || !strings.Contains(got.Reason, tt.reason) {
			t.Errorf("%s: %+v, want %s and %q", tt.name, got, tt.verdict, tt.reason)
		}
	}
	if got := Growths(nil, whole); got != nil {
		t.Errorf("nothing was followed: %v", got)
	}
}

func TestLevelsAreBounded(t *testing.T) {
	l := &Levels{levels: map[string][]leak.Point{}, every: levelEvery}
	for i := range 4 * mostLevels {
		l.add(float64(i), map[string]float64{"memory": 1})
		if n := len(l.levels["memory"]); n >= mostLevels {
			t.Fatalf("%d samples", n)
		}
	}
	if l.every <= levelEvery {
		t.Error("the pause did not grow")
	}
}

func TestFollowLevels(t *testing.T) {
	var at float64
	levels := FollowLevels(WatchOptions{TargetPID: os.Getpid()}, func() float64 { return at }).Stop()
	if p := levels["memory"]; len(p) == 0 || p[0].Value < 1<<20 {
		t.Errorf("%v", levels)
	}
	if FollowLevels(WatchOptions{}, nil).Stop() != nil {
		t.Error("nothing was to be followed")
	}
}

func TestParseGauges(t *testing.T) {
	all, err := parseGauges(strings.NewReader(`# TYPE process_resident_memory_bytes gauge
process_resident_memory_bytes 5e6
# TYPE go_goroutines gauge
go_goroutines 12
# TYPE mcp_open_sessions gauge
mcp_open_sessions{a="x"} 3
mcp_open_sessions{a="y"} 4
# TYPE all_sessions counter
all_sessions 99
`))
	if err != nil || len(all) != 3 || all["memory"] != 5e6 || all["goroutines"] != 12 || all["sessions"] != 7 {
		t.Errorf("%v, %v", all, err)
	}
	if _, err := parseGauges(strings.NewReader("{")); err == nil {
		t.Error("no error")
	}
}
