package results

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/sinks/ledger"
)

func TestTimelines(t *testing.T) {
	account := ledger.LaneAccount{Series: []ledger.LaneInterval{
		{Number: 3, Fired: 1, FiredWarmUp: 2, Dropped: 3, Delivered: 4, Late: 5, OutOfOrder: 6, Duplicates: 7, Unexpected: 8, Skipped: 9},
		{Number: 5, Delivered: 1},
	}}
	want := map[string]Timeline{
		"a,b": NewTimeline(250*time.Millisecond, &account),
		"c":   {Interval: time.Second, Points: []Point{{At: 0, Published: 1 << 40}}},
	}
	var b bytes.Buffer
	if err := WriteTimelines(&b, []string{"c", "a,b", "empty"}, want); err != nil {
		t.Fatal(err)
	}
	text := "lane,at_ms,width_ms,published,warm_up,dropped,delivered,late,out_of_order,duplicates,unexpected,skipped\n" +
		"c,0,1000,1099511627776,0,0,0,0,0,0,0,0\n" +
		"\"a,b\",750,250,1,2,3,4,5,6,7,8,9\n\"a,b\",1250,250,0,0,0,1,0,0,0,0,0\n"
	if b.String() != text {
		t.Errorf("written\n%s\nwant\n%s", b.String(), text)
	}
	got, err := ReadTimelines(strings.NewReader(text))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("read %v (%v), want %v", got, err, want)
	}
	p := want["a,b"].Points[0]
	p.Add(want["a,b"].Points[1])
	if p.Delivered != 5 || p.Skipped != 9 || p.At != 750*time.Millisecond {
		t.Errorf("added: %+v", p)
	}
}

// TestTimelinesAgree: the counts of a lane's intervals add up to those of the lane.
func TestTimelinesAgree(t *testing.T) {
	r := &Result{Lanes: []Lane{{Name: "push", Delivered: 5, Late: 2, OutOfOrder: 1}}}
	for want, p := range map[string]Point{
		"": {Delivered: 2, Late: 1, OutOfOrder: 1},
		"x.csv: lane push: delivered adds up to 4, and result.json says 5":    {Delivered: 1, Late: 1, OutOfOrder: 1},
		"x.csv: lane push: late adds up to 1, and result.json says 2":         {Delivered: 2, OutOfOrder: 1},
		"x.csv: lane push: out_of_order adds up to 0, and result.json says 1": {Delivered: 2, Late: 1},
		"x.csv: lane push: unexpected adds up to 7, and result.json says 0":   {Delivered: 2, Late: 1, OutOfOrder: 1, Unexpected: 7},
	} {
		err := r.checkTimelines("x.csv", map[string]Timeline{"push": {Points: []Point{{Delivered: 3, Late: 1}, p}}})
		if (err == nil) != (want == "") || err != nil && (!errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	err := r.checkTimelines("x.csv", map[string]Timeline{"pull": {}})
	if want := `x.csv: it has a lane "pull", and result.json has none of that name`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}

func TestTimelineErrors(t *testing.T) {
	head := strings.Join(timelineHead, ",") + "\n"
	const years = 10 * 365 * 24 * time.Hour
	row := func(lane string, at, width time.Duration) string {
		return fmt.Sprintf("%s,%d,%d,0,0,0,0,0,0,0,0,0\n", lane, at.Milliseconds(), width.Milliseconds())
	}
	if _, err := ReadTimelines(strings.NewReader(head + row("push", years, 24*time.Hour))); err != nil {
		t.Errorf("the largest times: %v", err)
	}
	for name, tt := range map[string]struct{ text, want string }{
		"empty":     {"", "does not name the columns"},
		"other":     {"a,b\n", "does not name the columns"},
		"short":     {head + "push,0,1000\n", "wrong number of fields"},
		"no number": {head + "push,0,1000,x,0,0,0,0,0,0,0,0\n", `line 2: published is "x"`},
		"negative":  {head + "push,0,1000,0,0,0,-1,0,0,0,0,0\n", `delivered is "-1"`},
		"no width":  {head + "push,0,0,0,0,0,0,0,0,0,0,0\n", "0 ms at 0 ms is not possible"},
		"late":      {head + row("push", years+time.Millisecond, time.Second), "1000 ms at 315360000001 ms is not possible"},
		"wide":      {head + row("push", 0, 24*time.Hour+time.Millisecond), "86400001 ms at 0 ms is not possible"},
		"two lines": {head + row("\"a\nb\"", 0, 0), "line 2: an interval of 0 ms"},
		"far":       {head + "push,9223372036854775807,1,0,0,0,0,0,0,0,0,0\n", "is not possible"},
		"widths":    {head + "push,0,1000,0,0,0,0,0,0,0,0,0\npush,1000,500,0,0,0,0,0,0,0,0,0\n", "line 3: an interval of 500ms"},
		"order":     {head + "push,1000,1000,0,0,0,0,0,0,0,0,0\npush,1000,1000,0,0,0,0,0,0,0,0,0\n", "not in order"},
	} {
		if _, err := ReadTimelines(strings.NewReader(tt.text)); !errors.Is(err, ErrTimeline) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}
