package results

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// TimelineFile is the name of the timelines within a run's directory: comma-separated values, a
// line for each lane and interval in which anything happened.
const TimelineFile = "timeline.csv"

// ErrTimeline is wrapped by every error about the content of a timeline.
var ErrTimeline = errors.New("bad timeline")

// Timeline is the counts of one lane in intervals of equal width. The
// latencies of the same intervals are in the lane's histogram log.
type Timeline struct {
	// Interval is the width of every interval, more than 0.
	Interval time.Duration
	// Points are the intervals in which anything happened, in order.
	Points []Point
}

// Point is one interval of a timeline. A delivery counts in the interval in which it was read;
// deliveries of the warm-up are left out.
type Point struct {
	// At is the start of the interval, since the run began.
	At time.Duration
	// Published counts the measured events published, of all sources; WarmUp the events published in
	// the warm-up; Dropped the events due while no worker was free.
	Published, WarmUp, Dropped int64
	// Delivered counts first deliveries of owed events; Late and OutOfOrder count some of them.
	Delivered, Late, OutOfOrder int64
	// Duplicates counts second and later copies, Unexpected copies that were not owed.
	Duplicates, Unexpected int64
	// Skipped counts events that a newer event of their source overtook; some of them may have come
	// later.
	Skipped int64
}

var timelineHead = []string{
	"lane",
	"at_ms",
	"width_ms",
	"published",
	"warm_up",
	"dropped",
	"delivered",
	"late",
	"out_of_order",
	"duplicates",
	"unexpected",
	"skipped",
}

// counts are the columns after the first three.
func (p *Point) counts() []*int64 {
	return []*int64{&p.Published, &p.WarmUp, &p.Dropped, &p.Delivered, &p.Late, &p.OutOfOrder, &p.Duplicates, &p.Unexpected, &p.Skipped}
}

// Add adds the counts of q to those of p.
func (p *Point) Add(q Point) {
	from := q.counts()
	for i, n := range p.counts() {
		*n += *from[i]
	}
}

// NewTimeline returns the timeline of a lane's account with intervals of the given width.
func NewTimeline(interval time.Duration, lane *ledger.LaneAccount) Timeline {
	t := Timeline{Interval: interval, Points: make([]Point, len(lane.Series))}
	for i, s := range lane.Series {
		t.Points[i] = Point{
			At: time.Duration(s.Number) * interval, Published: s.Fired, WarmUp: s.FiredWarmUp, Dropped: s.Dropped, Delivered: s.Delivered,
			Late: s.Late, OutOfOrder: s.OutOfOrder, Duplicates: s.Duplicates, Unexpected: s.Unexpected, Skipped: s.Skipped,
		}
	}
	return t
}

// WriteTimelines writes the timelines of lanes, in the given order.
func WriteTimelines(w io.Writer, lanes []string, of map[string]Timeline) error {
	out := csv.NewWriter(w)
	err := out.Write(timelineHead)
	row := make([]string, len(timelineHead))
	for _, lane := range lanes {
		t := of[lane]
		for i := range t.Points {
			p := &t.Points[i]
			row[0], row[1], row[2] = lane, strconv.FormatInt(p.At.Milliseconds(), 10), strconv.FormatInt(t.Interval.Milliseconds(), 10)
			for j, n := range p.counts() {
				row[3+j] = strconv.FormatInt(*n, 10)
			}
			err = errors.Join(err, out.Write(row))
		}
	}
	out.Flush()
	return errors.Join(err, out.Error())
}

// LoadTimelines reads the timelines in a run's directory. The error wraps fs.ErrNotExist if there
// are none.
func LoadTimelines(dir string) (map[string]Timeline, error) {
	return load("timelines", filepath.Join(dir, TimelineFile), ReadTimelines)
}

// ReadTimelines reads timelines strictly. An error about content that this package did not write
// wraps [ErrTimeline] and names the line.
func ReadTimelines(r io.Reader) (map[string]Timeline, error) {
	in := csv.NewReader(io.LimitReader(r, maxTimelineBytes))
	in.FieldsPerRecord, in.ReuseRecord = len(timelineHead), true
	head, err := in.Read()
	if err != nil || !slices.Equal(head, timelineHead) {
		return nil, fmt.Errorf("%w: the first line does not name the columns; is this a file that eventmeter wrote?", ErrTimeline)
	}
	all := map[string]Timeline{}
	for {
		row, err := in.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrTimeline, err)
		}
		line, _ := in.FieldPos(0)
		t, err := all[row[0]].with(row)
		if err != nil {
			return nil, fmt.Errorf("%w: line %d: %w", ErrTimeline, line, err)
		}
		all[row[0]] = t
	}
}

// with returns t with one more row.
func (t Timeline) with(row []string) (Timeline, error) {
	n := make([]int64, len(row)-1)
	for i, text := range row[1:] {
		v, err := strconv.ParseInt(text, 10, 64)
		if err != nil || v < 0 || i >= 2 && v > maxCount {
			return t, fmt.Errorf("%s is %.40q; want a count", timelineHead[i+1], text)
		}
		n[i] = v
	}
	at, width := time.Duration(n[0])*time.Millisecond, time.Duration(n[1])*time.Millisecond
	switch {
	case width <= 0 || width > 24*time.Hour || n[0] > int64(10*365*24*time.Hour/time.Millisecond):
		return t, fmt.Errorf("an interval of %d ms at %d ms is not possible", n[1], n[0])
	case t.Interval != 0 && t.Interval != width:
		return t, fmt.Errorf("an interval of %v in a lane whose others have %v", width, t.Interval)
	case len(t.Points) > 0 && at <= t.Points[len(t.Points)-1].At:
		return t, errors.New("the intervals of a lane are not in order")
	}
	p := Point{At: at}
	for i, c := range p.counts() {
		*c = n[2+i]
	}
	return Timeline{Interval: width, Points: append(t.Points, p)}, nil
}
