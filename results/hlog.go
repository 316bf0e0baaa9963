package results

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// ErrLog is wrapped by every error about the content of an interval log.
var ErrLog = errors.New("bad histogram log")

// The tags of the histograms in a lane's log.
const (
	TagIntended = "intended" // latency from the scheduled instant
	TagSent     = "sent"     // latency from publishing
)

// maxLogLine bounds one line of a log. An interval with every bucket of the
// ledger's histograms filled takes about 100 KB.
const maxLogLine = 4 << 20

// Log is the interval histograms of one lane, as they were archived.
type Log struct {
	Intervals []LogInterval
}

// LogInterval is the histogram of one tag in one interval.
type LogInterval struct {
	// Tag is TagIntended or TagSent.
	Tag string
	// Start is the time since the run began, in whole milliseconds.
	Start, Length time.Duration
	// Buckets hold the samples, ascending, without empty ones.
	Buckets []Bucket
}

// Bucket is a number of samples of about the same value.
type Bucket struct {
	// Value is the upper end of the bucket, as quantiles in a result are.
	Value Nanos
	Count int64
}

// LoadLog reads the interval log of a lane from a run's directory. The error
// wraps fs.ErrNotExist where there is none.
func LoadLog(dir, lane string) (*Log, error) {
	return load("histogram log", filepath.Join(dir, lane+".hlog"), ReadLog)
}

// ReadLog reads an interval log strictly: a line that is neither a comment, the
// legend nor a whole histogram of a known tag is an error that wraps [ErrLog]
// and names the line. Values are nanoseconds unless a comment at the top says
// "latency in µs".
func ReadLog(in io.Reader) (*Log, error) {
	log := &Log{}
	unit := int64(1)
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLogLine)
	n, held := 0, 0
	for lines.Scan() {
		n++
		text := lines.Text()
		switch {
		case strings.HasPrefix(text, "#"):
			if len(log.Intervals) == 0 && strings.Contains(text, "latency in µs") {
				unit = int64(time.Microsecond)
			}
		case strings.HasPrefix(text, `"StartTimestamp"`):
		default:
			in, err := parseInterval(text, unit)
			if err != nil {
				return nil, fmt.Errorf("%w: line %d: %w", ErrLog, n, err)
			}
			if held += len(in.Buckets); held > maxBuckets {
				return nil, fmt.Errorf(
					"%w: line %d: the histograms up to here have more than %d buckets; is this a log that eventmeter wrote?",
					ErrLog,
					n,
					maxBuckets,
				)
			}
			log.Intervals = append(log.Intervals, in)
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, fmt.Errorf("%w: line %d is longer than %d bytes; is this a log that eventmeter wrote?", ErrLog, n+1, maxLogLine)
	case err != nil:
		return nil, fmt.Errorf("read histogram log: %w", err)
	case n == 0:
		return nil, fmt.Errorf("%w: it is empty; was the run cut off while it wrote?", ErrLog)
	}
	return log, nil
}

// parseInterval reads Tag=<tag>,<start>,<length>,<max>,<histogram>.
func parseInterval(text string, unit int64) (LogInterval, error) {
	fields := strings.Split(text, ",")
	if len(fields) != 5 || !strings.HasPrefix(fields[0], "Tag=") {
		return LogInterval{}, fmt.Errorf(
			"want Tag=…,start,length,max,histogram and have %d fields; was the file cut off or edited?",
			len(fields),
		)
	}
	in := LogInterval{Tag: fields[0][len("Tag="):]}
	if in.Tag != TagIntended && in.Tag != TagSent {
		return LogInterval{}, fmt.Errorf(
			"the tag %.40q is neither %s nor %s; use the program's version that wrote it",
			in.Tag,
			TagIntended,
			TagSent,
		)
	}
	var err error
	if in.Start, err = parseSeconds("start", fields[1]); err != nil {
		return LogInterval{}, err
	}
	if in.Length, err = parseSeconds("length", fields[2]); err != nil {
		return LogInterval{}, err
	}
	// The maximum is redundant; it only has to be a number.
	if _, err := parseSeconds("maximum", fields[3]); err != nil {
		return LogInterval{}, err
	}
	h, err := hdrhistogram.DecodePacked([]byte(fields[4]))
	if err != nil {
		return LogInterval{}, fmt.Errorf("the histogram cannot be decoded (%w); copy the file again from where the run wrote it", err)
	}
	if in.Buckets, err = buckets(h, unit); err != nil {
		return LogInterval{}, err
	}
	return in, nil
}

// maxSeconds is about three years, longer than any run.
const maxSeconds = 1e8

func parseSeconds(what, text string) (time.Duration, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v >= 0 && v <= maxSeconds) {
		return 0, fmt.Errorf("the %s %.40q is not a number of seconds; was the file edited?", what, text)
	}
	return time.Duration(math.Round(v*1000)) * time.Millisecond, nil
}

// maxIntervalBuckets is more than the range and digits of the ledger's histograms allow.
const maxIntervalBuckets = 1 << 16

// maxBuckets bounds the memory that a small log can expand to, here to a gigabyte. Tests lower it.
var maxBuckets = 1 << 26

// maxSamples bounds the samples of one interval, so that no sum of intervals
// overflows.
const maxSamples = 1 << 40

func buckets(h *hdrhistogram.PackedHistogram, unit int64) ([]Bucket, error) {
	if n := h.Populated(); n > maxIntervalBuckets || h.SignificantFigures() > significantDigits {
		return nil, fmt.Errorf(
			"the histogram has %d buckets of %d digits, and a run has at most %d of %d; copy the file again from where the run wrote it",
			n,
			h.SignificantFigures(),
			maxIntervalBuckets,
			significantDigits,
		)
	}
	out := make([]Bucket, 0, h.Populated())
	var total int64
	width := bucketWidth(h)
	for low, n := range h.ForEachBucket {
		if n <= 0 || n > maxSamples || total > maxSamples-n {
			return nil, errors.New("the histogram counts more samples than a run can have; copy the file again from where the run wrote it")
		}
		total += n
		size := width(low)
		if low < 0 || low > math.MaxInt64/unit-size {
			return nil, errors.New("the histogram has a value beyond all durations; copy the file again from where the run wrote it")
		}
		out = append(out, Bucket{Value: Nanos((low + size - 1) * unit), Count: n})
	}
	return out, nil
}

// bucketWidth returns a function that gives the width of the bucket beginning at a value, as the
// format defines it: values below 2*10^digits have a bucket of one unit, and each doubling of the
// value doubles the width.
func bucketWidth(h *hdrhistogram.PackedHistogram) func(low int64) int64 {
	const maxShift = 62
	unit := bits.Len64(uint64(max(h.LowestTrackableValue(), 1))) - 1
	steps := bits.Len64(uint64(2*math.Pow10(int(h.SignificantFigures()))) - 1)
	return func(low int64) int64 {
		return 1 << min(max(bits.Len64(uint64(low))-steps, unit), maxShift)
	}
}

// Of returns the intervals of one tag, in order of time.
func (l *Log) Of(tag string) []LogInterval {
	var out []LogInterval
	for _, in := range l.Intervals {
		if in.Tag == tag && len(in.Buckets) > 0 {
			out = append(out, in)
		}
	}
	return out
}
