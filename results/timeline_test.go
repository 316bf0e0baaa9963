package results

import (
	"bytes"
	"errors"
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

func TestTimelineErrors(t *testing.T) {
	head := strings.Join(timelineHead, ",") + "\n"
	for name, tt := range map[string]struct{ text, want string }{
		"empty":     {"", "does not name the columns"},
		"other":     {"a,b\n", "does not name the columns"},
		"short":     {head + "push,0,1000\n", "wrong number of fields"},
		"no number": {head + "push,0,1000,x,0,0,0,0,0,0,0,0\n", `line 2: published is "x"`},
		"negative":  {head + "push,0,1000,0,0,0,-1,0,0,0,0,0\n", `delivered is "-1"`},
		"no width":  {head + "push,0,0,0,0,0,0,0,0,0,0,0\n", "0 ms at 0 ms is not possible"},
		"far":       {head + "push,9223372036854775807,1,0,0,0,0,0,0,0,0,0\n", "is not possible"},
		"widths":    {head + "push,0,1000,0,0,0,0,0,0,0,0,0\npush,1000,500,0,0,0,0,0,0,0,0,0\n", "line 3: an interval of 500ms"},
		"order":     {head + "push,1000,1000,0,0,0,0,0,0,0,0,0\npush,1000,1000,0,0,0,0,0,0,0,0,0\n", "not in order"},
	} {
		if _, err := ReadTimelines(strings.NewReader(tt.text)); !errors.Is(err, ErrTimeline) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}
