package results

import (
	"math"
	"strings"
	"testing"
	"time"
)

// The least duration has no opposite.
func TestFormatTheLeastDuration(t *testing.T) {
	if got := Nanos(math.MinInt64).String(); got != "-2562047h47m16.854775807s" {
		t.Error(got)
	}
}

func TestPlausible(t *testing.T) {
	type inner struct {
		Count int64              `json:"count"`
		Share float64            `json:"share"`
		At    Nanos              `json:"at"`
		Wait  time.Duration      // has its own name
		Of    map[string]float64 `json:"of"`
		note  int
	}
	type outer struct {
		inner
		List []inner `json:"list,omitempty"`
		Next *inner  `json:"next"`
	}
	good := outer{inner: inner{Count: 1 << 53, Share: -1e18, At: -1, Wait: -1, Of: map[string]float64{"x": -0.5}, note: -1}}
	if err := plausible(good); err != nil {
		t.Errorf("%+v: %v", good, err)
	}
	for want, v := range map[string]outer{
		"count: -1 is no count":                           {inner: inner{Count: -1}},
		"list[1].count: 9007199254740993 is no count":     {List: []inner{{}, {Count: 1<<53 + 1}}},
		"next.share: +Inf is no figure of a run":          {Next: &inner{Share: math.Inf(1)}},
		"share: NaN is no figure of a run":                {inner: inner{Share: math.NaN()}},
		"next.at: 9223372036854775807 ns is no time":      {Next: &inner{At: math.MaxInt64}},
		"next.Wait: -9223372036854775808 ns is no time":   {Next: &inner{Wait: math.MinInt64}},
		`list[0].of."a\x1b": 1e+19 is no figure of a run`: {List: []inner{{Of: map[string]float64{"a\x1b": 1e19}}}},
	} {
		if err := plausible(v); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
