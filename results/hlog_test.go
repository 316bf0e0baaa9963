package results

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// logText writes histograms of the given values the way an archive does.
func logText(t testing.TB, unitComment string, lowest, highest int64, intervals ...[]int64) string {
	t.Helper()
	var buf bytes.Buffer
	w := hdrhistogram.NewHistogramLogWriter(&buf)
	err := errors.Join(
		w.OutputComment("[eventmeter 1, lane push: latency in "+unitComment+"]"),
		w.OutputLogFormatVersion(),
		w.OutputStartTime(1700000000000),
		w.OutputLegend(),
	)
	for i, values := range intervals {
		for _, tag := range []string{TagIntended, TagSent} {
			h := hdrhistogram.NewPacked(lowest, highest, 3)
			for _, v := range values {
				err = errors.Join(err, h.RecordValue(v))
			}
			h.SetTag(tag)
			h.SetStartTimeMs(int64(i) * 1000)
			h.SetEndTimeMs(int64(i+1) * 1000)
			err = errors.Join(err, w.OutputIntervalPackedHistogram(h))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return buf.String()
}

func TestReadLog(t *testing.T) {
	log, err := ReadLog(strings.NewReader(logText(t, "ns", 1, 1e9, []int64{5, 5, 2047, 2048, 100000}, []int64{7})))
	if err != nil {
		t.Fatal(err)
	}
	if len(log.Intervals) != 4 {
		t.Fatalf("%d intervals, want 4", len(log.Intervals))
	}
	in := log.Intervals[0]
	if in.Tag != TagIntended || in.Start != 0 || in.Length != time.Second || log.Intervals[2].Start != time.Second {
		t.Errorf("first interval %+v", in)
	}
	// 2048..4095 are told apart by 2, 65536..131071 by 64: 100000 lies in
	// 99968..100031.
	want := []Bucket{{5, 2}, {2047, 1}, {2049, 1}, {100031, 1}}
	if len(in.Buckets) != len(want) {
		t.Fatalf("buckets %v, want %v", in.Buckets, want)
	}
	for i := range want {
		if in.Buckets[i] != want[i] {
			t.Errorf("bucket %d is %v, want %v", i, in.Buckets[i], want[i])
		}
	}
	if log, err = ReadLog(strings.NewReader("#" + strings.Repeat("x", maxLogLine-2))); err != nil || len(log.Intervals) != 0 {
		t.Errorf("the longest line: %v, %v", log, err)
	}
	log, err = ReadLog(strings.NewReader(logText(t, "µs", 1, 1e9, []int64{5})))
	if err != nil || log.Intervals[0].Buckets[0].Value != 5000 {
		t.Errorf("microseconds: %v, %v", log, err)
	}
}

// The upper ends of buckets are those that the histogram itself reports.
func TestBucketsAgreeWithTheHistogram(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, lowest := range []int64{1, 2, 1000} {
		h := hdrhistogram.New(lowest, 6e11, 3)
		p := hdrhistogram.NewPacked(lowest, 6e11, 3)
		for range 1000 {
			v := lowest + rng.Int64N(1<<rng.IntN(39)+1)
			if err := errors.Join(h.RecordValue(v), p.RecordValue(v)); err != nil {
				t.Fatal(err)
			}
		}
		bs, err := buckets(p, 1)
		if err != nil {
			t.Fatal(err)
		}
		seen := int64(0)
		for _, b := range bs {
			seen += b.Count
			// The middle of the ranks of the bucket, so that no rounding of
			// the percentile leads to a neighbour.
			at := h.ValueAtPercentile(100 * (float64(seen) - 0.4*float64(b.Count)) / 1000)
			if at != int64(b.Value) {
				t.Fatalf("lowest %d: rank %d is %d in the histogram and %d here", lowest, seen, at, b.Value)
			}
		}
	}
}

func TestReadLogErrors(t *testing.T) {
	good := logText(t, "ns", 1, 1e9, []int64{5, 2047})
	line := strings.Split(good, "\n")[4]
	payload := line[strings.LastIndex(line, ",")+1:]
	for name, tt := range map[string]struct{ text, want string }{
		"empty":    {"", "it is empty"},
		"fields":   {"#x\n1,2,3", "line 2: want Tag="},
		"tag":      {"Tag=other,0,1,1," + payload, `line 1: the tag "other" is neither`},
		"start":    {"Tag=sent,NaN,1,1," + payload, `the start "NaN"`},
		"length":   {"Tag=sent,0,-1,1," + payload, `the length "-1"`},
		"maximum":  {"Tag=sent,0,1,x," + payload, `the maximum "x"`},
		"cut":      {"Tag=sent,0,1,1," + payload[:len(payload)/2], "cannot be decoded"},
		"blank":    {"#x\n\n", "line 2: want Tag="},
		"too long": {strings.Repeat("x", maxLogLine+1), "line 1 is longer"},
	} {
		_, err := ReadLog(strings.NewReader(tt.text))
		if !errors.Is(err, ErrLog) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}

func FuzzReadLog(f *testing.F) {
	f.Add([]byte(logText(f, "ns", 1, 1e9, []int64{5, 5, 2047, 100000}, []int64{7})))
	f.Add([]byte(logText(f, "µs", 1000, 6e11, []int64{5e9, 123456})))
	f.Add([]byte("#[latency in µs]\nTag=sent,0,1,1,HISTFAAAAEV42pNpmSzMwMDAxAABzFCaEUoz2X+AMIKZAEARAtM=\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		log, err := ReadLog(bytes.NewReader(data))
		if err != nil {
			if log != nil {
				t.Error("a log beside an error")
			}
			return
		}
		for _, tag := range []string{TagIntended, TagSent} {
			var sum int64
			for _, in := range log.Of(tag) {
				for _, b := range in.Buckets {
					sum += b.Count
				}
			}
			if n := log.Histogram(tag).TotalCount(); n != sum {
				t.Errorf("the intervals tagged %s hold %d samples, and %d together", tag, sum, n)
			}
		}
		for _, in := range log.Intervals {
			if in.Start < 0 || in.Length < 0 || (in.Tag != TagIntended && in.Tag != TagSent) {
				t.Errorf("interval %v", in)
			}
			for i, b := range in.Buckets {
				if b.Count <= 0 || b.Value < 0 || i > 0 && b.Value <= in.Buckets[i-1].Value {
					t.Errorf("bucket %d: %v after %v", i, b, in.Buckets[max(i-1, 0)])
				}
			}
		}
	})
}
