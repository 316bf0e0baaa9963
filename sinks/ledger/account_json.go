package ledger

import (
	"encoding/json"
	"fmt"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// An Account can be written as JSON and read back without any loss: every
// histogram is kept bucket by bucket, in the HdrHistogram encoding.

// timingJSON is a Timing in JSON; Histogram is null where there is none.
type timingJSON struct {
	Histogram    []byte
	Below, Above int64
}

// MarshalJSON writes t with every bucket.
func (t Timing) MarshalJSON() ([]byte, error) {
	out := timingJSON{Below: t.Below, Above: t.Above}
	if t.Histogram != nil {
		var err error
		if out.Histogram, err = t.Histogram.Encode(hdrhistogram.V2CompressedEncodingCookieBase); err != nil {
			return nil, fmt.Errorf("encode a histogram: %w", err)
		}
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (t *Timing) UnmarshalJSON(data []byte) error {
	var in timingJSON
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	*t = Timing{Below: in.Below, Above: in.Above}
	if in.Histogram == nil {
		return nil
	}
	h, err := hdrhistogram.Decode(in.Histogram)
	if err != nil {
		return fmt.Errorf("decode a histogram: %w", err)
	}
	// Decoded counts may have another length; those of one range are compared
	// and added index by index.
	t.Histogram = hdrhistogram.New(lowestNanos, highestNanos, histogramSigs)
	if dropped := t.Histogram.Merge(h); dropped > 0 {
		return fmt.Errorf("a histogram has %d samples out of its range", dropped)
	}
	return nil
}

// laneInterval is a LaneInterval without its methods.
type laneInterval LaneInterval

// laneIntervalJSON is a LaneInterval in JSON.
type laneIntervalJSON struct {
	laneInterval
	FromIntended, FromSent []byte
}

// MarshalJSON writes v with every bucket.
func (v LaneInterval) MarshalJSON() ([]byte, error) {
	out := laneIntervalJSON{laneInterval: laneInterval(v)}
	for _, h := range []struct {
		from *hdrhistogram.PackedHistogram
		to   *[]byte
	}{{v.FromIntended, &out.FromIntended}, {v.FromSent, &out.FromSent}} {
		if h.from == nil {
			continue
		}
		var err error
		if *h.to, err = Encode(h.from); err != nil {
			return nil, fmt.Errorf("encode a histogram: %w", err)
		}
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (v *LaneInterval) UnmarshalJSON(data []byte) error {
	var in laneIntervalJSON
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	*v = LaneInterval(in.laneInterval)
	for _, h := range []struct {
		from []byte
		to   **hdrhistogram.PackedHistogram
	}{{in.FromIntended, &v.FromIntended}, {in.FromSent, &v.FromSent}} {
		if h.from == nil {
			continue
		}
		read, err := hdrhistogram.DecodePacked(h.from)
		if err != nil {
			return fmt.Errorf("decode a histogram: %w", err)
		}
		*h.to = hdrhistogram.NewPacked(lowestNanos, highestNanos, histogramSigs)
		if dropped := (*h.to).Merge(read); dropped > 0 {
			return fmt.Errorf("a histogram has %d samples out of its range", dropped)
		}
	}
	return nil
}
