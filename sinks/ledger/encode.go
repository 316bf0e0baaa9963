package ledger

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"io"
	"math"
	"math/bits"
	"sync"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// deflaters are compressors, each of more than a megabyte. An archive has two histograms for each
// lane and second, most of which have a few buckets.
var deflaters = sync.Pool{New: func() any {
	w, _ := zlib.NewWriterLevel(io.Discard, zlib.BestCompression) // a level that exists
	return w
}}

// Encode returns what h.Encode returns, with a compressor that was used before.
func Encode(h *hdrhistogram.PackedHistogram) ([]byte, error) {
	if h.LowestTrackableValue() != lowestNanos || h.SignificantFigures() != histogramSigs {
		return h.Encode()
	}
	const header = 40
	in := make([]byte, header, 1<<10)
	next := 0 // index of a bucket
	h.ForEachBucket(func(value, count int64) bool {
		if count == 0 {
			return true
		}
		at := bucketIndex(value)
		switch zeros := int64(at - next); {
		case zeros > 1:
			in = binary.AppendVarint(in, -zeros)
		case zeros == 1:
			in = append(in, 0)
		}
		in, next = binary.AppendVarint(in, count), at+1
		return true
	})
	if next == 0 {
		in = append(in, 0)
	}
	binary.BigEndian.PutUint32(in, uint32(hdrhistogram.V2EncodingCookieBase|0x10))
	binary.BigEndian.PutUint32(in[4:], uint32(len(in)-header))
	binary.BigEndian.PutUint32(in[12:], histogramSigs)
	binary.BigEndian.PutUint64(in[16:], uint64(lowestNanos))
	binary.BigEndian.PutUint64(in[24:], uint64(h.HighestTrackableValue()))
	binary.BigEndian.PutUint64(in[32:], math.Float64bits(1)) // how integers become other numbers

	var out bytes.Buffer
	out.Write(make([]byte, 8))
	w := deflaters.Get().(*zlib.Writer)
	defer deflaters.Put(w)
	w.Reset(&out)
	_, _ = w.Write(in) // into memory
	_ = w.Close()
	all := out.Bytes()
	binary.BigEndian.PutUint32(all, uint32(hdrhistogram.V2CompressedEncodingCookieBase|0x10))
	binary.BigEndian.PutUint32(all[4:], uint32(len(all)-8))
	return base64.StdEncoding.AppendEncode(nil, all), nil
}

// bucketIndex returns the place of a value among the buckets of a histogram, as its format defines it.
func bucketIndex(value int64) int {
	const unit, half = 9, 10 // powers of two: the one below lowestNanos, and 1,024
	bucket := bits.Len64(uint64(value)|(2<<half-1)<<unit) - unit - half - 1
	return bucket<<half + int(value>>(bucket+unit))
}
