package health

import (
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/shirou/gopsutil/v4/process"

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
	whole := Marks{Attach: 5, From: 10, To: 70, Cool: 72, Cooled: 89, Planned: true}
	uncooled, ended, unread, varying, short := whole, whole, whole, whole, whole
	uncooled.Cool, uncooled.Cooled, uncooled.Planned = 0, 0, false
	ended.Cooled = 0
	unread.Cool, unread.Cooled = 100, 110
	varying.Varying, short.To = true, 20
	const mib = 1 << 20
	for _, tt := range []struct {
		name    string
		points  []leak.Point
		marks   Marks
		verdict results.LeakVerdict
		reason  string
	}{
		{"stays", line(mib, 60*mib), whole, results.LeakFound, "it rises by 60 MiB a minute under constant load, and in the " +
			"cool-down it stays 51 MiB above its value after the warm-up"},
		{"comes back", line(mib, 0), whole, results.LeakNone, "comes back in the cool-down"},
		{"half comes back", line(mib, 29*mib), whole, results.LeakUnknown, "not to its value before the load"},
		{"flat", line(0, 0), whole, results.LeakNone, "does not rise under constant load (0 MiB to 0 MiB a minute)"},
		{"falls", line(-mib, -60*mib), whole, results.LeakNone, "does not rise"},
		{"hardly rises", line(mib/100, mib), whole, results.LeakNone, "does not rise"},
		{"no cool-down", line(mib, 60*mib), uncooled, results.LeakUnknown, "set phases.cooldown"},
		{"cool-down ended early", line(mib, 60*mib), ended, results.LeakUnknown, "was not completed"},
		{"cool-down without samples", line(mib, 60*mib), unread, results.LeakUnknown, "could not be read in the cool-down"},
		{"ramp", line(mib, 60*mib), varying, results.LeakUnknown, "changes by plan"},
		{"short", line(mib, 60*mib), short, results.LeakUnknown, "raise phases.measure"},
	} {
		got := Growths(map[string][]leak.Point{"memory": tt.points}, tt.marks)["memory"]
		if got.Verdict != tt.verdict || !strings.Contains(got.Reason, tt.reason) {
			t.Errorf("%s: %+v, want %s and %q", tt.name, got, tt.verdict, tt.reason)
		}
	}
	if got := Growths(map[string][]leak.Point{"memory": line(mib, 0)}, short)["memory"].Start; got != 100*mib {
		t.Errorf("a run without a trend begins at %v bytes, want 100 MiB", got)
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
	levels := FollowLevels(WatchOptions{TargetPIDs: []int{os.Getpid()}}, func() float64 { return at }).Stop()
	if p := levels["memory"]; len(p) == 0 || p[0].Value < 1<<20 {
		t.Errorf("%v", levels)
	}
	if FollowLevels(WatchOptions{}, nil).Stop() != nil {
		t.Error("nothing was to be followed")
	}
}

func TestGaugesIn(t *testing.T) {
	all, err := families(strings.NewReader(`# TYPE process_resident_memory_bytes gauge
process_resident_memory_bytes 5e6
# TYPE go_goroutines gauge
go_goroutines 12
# TYPE mcp_open_sessions gauge
mcp_open_sessions{a="x"} 3
mcp_open_sessions{a="y"} 4
# TYPE all_sessions counter
all_sessions 99
`))
	got := gaugesIn(all)
	if want := map[string]float64{"memory": 5e6, "goroutines": 12, "sessions": 7}; err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
}

// TestFilesAreCounted: however the system tells it, the number of open files follows them.
func TestFilesAreCounted(t *testing.T) {
	p, err := process.NewProcess(int32(os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	before := files(p)
	if before == 0 {
		t.Skip("the system does not tell how many files are open")
	}
	const more = 20
	for range more {
		f, err := os.Open(os.Args[0])
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
	}
	// Other tests of the package may close or open a few meanwhile.
	if got := files(p) - before; got < more/2 || got > 2*more {
		t.Errorf("%d more files, want about %d", got, more)
	}
}
