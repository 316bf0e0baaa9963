package results

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Rebuild loads the result in dir and computes its latencies again from the
// archived histograms. A result whose latencies they do not give is refused
// with an error that wraps [ErrFormat]: one of the two was changed.
func Rebuild(dir string) (*Result, error) {
	r, err := Load(dir)
	if err != nil {
		return nil, err
	}
	for i := range r.Lanes {
		l := &r.Lanes[i]
		log, err := LoadLog(dir, l.Name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%w: %w; an archive has one for each lane", ErrFormat, err)
		}
		if err != nil {
			return nil, err
		}
		for _, part := range []struct {
			tag string
			q   *Quantiles
		}{{TagIntended, &l.Latency.FromIntended}, {TagSent, &l.Latency.FromSent}} {
			again := SummariseNanos(log.histogram(part.tag))
			again.OutOfRange = part.q.OutOfRange
			if again != *part.q {
				return nil, fmt.Errorf("%w: %s: lane %s: the histograms tagged %s give %s, and result.json says %s; one of them was changed", ErrFormat,
					filepath.Join(dir, l.Name+".hlog"), l.Name, part.tag, again.text(), part.q.text())
			}
			*part.q = again
		}
	}
	timelines, err := LoadTimelines(dir)
	if errors.Is(err, fs.ErrNotExist) { // of before there were timelines
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	if err := r.checkTimelines(timelines); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return r, nil
}

// text is the quantiles on one line.
func (q Quantiles) text() string {
	return fmt.Sprintf("%d samples from %s to %s with p50 %s, p90 %s, p99 %s, p999 %s, mean %s", q.Count,
		FormatNanos(q.Min), FormatNanos(q.Max), FormatNanos(q.P50), FormatNanos(q.P90), FormatNanos(q.P99), FormatNanos(q.P999), FormatNanos(q.Mean))
}

// histogram adds up the intervals of one tag.
func (l *Log) histogram(tag string) *hdrhistogram.Histogram {
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
