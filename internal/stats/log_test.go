package stats

import (
	"bytes"
	"errors"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/eventmeter/eventmeter/results"
)

// logText is the log of a lane, in nanoseconds, with one interval of the given
// latencies under both tags.
func logText(t testing.TB, values ...int64) []byte {
	t.Helper()
	var b bytes.Buffer
	w := hdrhistogram.NewHistogramLogWriter(&b)
	err := errors.Join(
		w.OutputComment("[eventmeter 1, lane push: latency in ns]"),
		w.OutputLogFormatVersion(),
		w.OutputStartTime(1700000000000),
		w.OutputLegend(),
	)
	for _, tag := range []string{results.TagIntended, results.TagSent} {
		h := hdrhistogram.NewPacked(1, 1e9, 3)
		for _, v := range values {
			err = errors.Join(err, h.RecordValue(v))
		}
		h.SetTag(tag)
		h.SetStartTimeMs(0)
		h.SetEndTimeMs(1000)
		err = errors.Join(err, w.OutputIntervalPackedHistogram(h))
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
