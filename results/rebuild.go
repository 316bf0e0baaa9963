package results

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Rebuild loads the result in dir and recomputes its latencies from the archived histograms. If
// they differ from the result, one of the two was changed, and the error wraps [ErrFormat]. A
// checkpoint has no histograms and is returned as it is.
func Rebuild(dir string) (*Result, error) {
	r, err := Load(dir)
	if err != nil {
		return nil, err
	}
	if r.Checkpoint {
		return r, nil // it has no histograms
	}
	logs, err := r.Series(dir)
	if err != nil {
		return nil, err
	}
	for i := range r.Lanes {
		if name := r.Lanes[i].Name; logs[name] == nil {
			return nil, fmt.Errorf(
				"%w: %s: %w; an archive has one for each lane",
				ErrFormat,
				filepath.Join(dir, name+".hlog"),
				fs.ErrNotExist,
			)
		}
	}
	return r, nil
}

// CheckSeries returns an error if the histograms or timelines in dir do not give the figures of r:
// one of them was changed. Missing files are no error, because the result is complete without them.
// Files beside a checkpoint are ignored: they belong to a run that was killed while it wrote them.
// Errors name the file and the field.
func (r *Result) CheckSeries(dir string) error {
	if r.Checkpoint {
		return nil
	}
	_, err := r.Series(dir)
	return err
}

// Series reads the histogram logs by lane, and checks them and the timelines as
// [Result.CheckSeries] does. A lane without a log is not in the map.
func (r *Result) Series(dir string) (map[string]*Log, error) {
	logs := map[string]*Log{}
	for i := range r.Lanes {
		l := &r.Lanes[i]
		log, err := LoadLog(dir, l.Name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if err := l.Latency.checkLog(log); err != nil {
			return nil, fmt.Errorf(
				"%w: %s: lane %s: %w; one of them was changed",
				ErrFormat,
				filepath.Join(dir, l.Name+".hlog"),
				l.Name,
				err,
			)
		}
		logs[l.Name] = log
	}
	timelines, err := LoadTimelines(dir)
	if errors.Is(err, fs.ErrNotExist) { // written before timelines existed
		return logs, nil
	}
	if err != nil {
		return nil, err
	}
	return logs, r.checkTimelines(filepath.Join(dir, TimelineFile), timelines)
}

// checkLog returns an error if the histograms of a lane do not give its latencies and their
// intervals.
func (l *Latency) checkLog(log *Log) error {
	rebuilt := Latency{Intervals: map[string]Interval{}}
	for _, part := range l.parts() {
		whole := log.Histogram(part.tag)
		again := SummariseNanos(whole)
		again.OutOfRange = part.q.OutOfRange
		if part.q.P95 == 0 { // written before it existed
			part.q.P95 = again.P95
		}
		if again != *part.q {
			return fmt.Errorf("the histograms tagged %s give %s, and %s says %s", part.tag, again.text(), File, part.q.text())
		}
		var spans [][]Bucket
		for _, in := range log.Of(part.tag) {
			spans = append(spans, in.Buckets)
		}
		rebuilt.setIntervals(part.name, &again, whole, spans)
	}
	if l.Intervals == nil { // written before intervals existed
		return nil
	}
	for _, part := range l.parts() {
		if _, there := l.Intervals[part.name+".p95"]; !there { // written before p95 existed
			delete(rebuilt.Intervals, part.name+".p95")
		}
	}
	return l.sameIntervals(rebuilt.Intervals)
}

// text formats the quantiles on one line.
func (q Quantiles) text() string {
	return fmt.Sprintf(
		"%d samples from %s to %s with p50 %s, p90 %s, p95 %s, p99 %s, p999 %s, mean %s",
		q.Count, q.Min, q.Max, q.P50, q.P90, q.P95, q.P99, q.P999, q.Mean,
	)
}

// Histogram adds up the intervals of one tag.
func (l *Log) Histogram(tag string) *hdrhistogram.Histogram {
	h := hdrhistogram.New(lowestNanos, highestNanos, significantDigits)
	for _, in := range l.Intervals {
		if in.Tag != tag {
			continue
		}
		for _, b := range in.Buckets {
			// Buckets of a log that was read lie within the range of every
			// histogram that this program writes.
			_ = h.RecordValues(min(int64(b.Value), highestNanos), b.Count)
		}
	}
	return h
}

// The range of the ledger's histograms.
const (
	lowestNanos       = 1000
	highestNanos      = int64(600e9)
	significantDigits = 3
)
