package results

import (
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
)

// MetricBound is a bound on a metric of the target:
//
//	METRIC OP VALUE
//	rate(METRIC) OP VALUE
//
// METRIC is the name of a metric in Prometheus' text format, added up over its labels; rate is its
// growth per second. OP and VALUE are as in [Threshold]; an amount of memory may be written as
// 500MiB.
type MetricBound struct {
	// Metric is the name of the metric.
	Metric string
	// Rate says that its growth per second is bounded, and not its value.
	Rate bool

	text, op string
	value    float64
}

var metricBoundForm = regexp.MustCompile(`^\s*(rate\()?\s*([a-zA-Z_:][a-zA-Z0-9_:]*)\s*(\)?)\s*(<=|>=|==|!=|<|>)\s*(\S+)\s*$`)

// ParseMetricBound reads one bound. Whether the target has the metric is not checked. Its error
// wraps [ErrThreshold].
func ParseMetricBound(text string) (MetricBound, error) {
	m := metricBoundForm.FindStringSubmatch(text)
	if m == nil || (m[1] == "") != (m[3] == "") {
		return MetricBound{}, fmt.Errorf(
			"%w %q: want METRIC OP VALUE or rate(METRIC) OP VALUE, e.g. process_resident_memory_bytes < 500MiB",
			ErrThreshold,
			text,
		)
	}
	b := MetricBound{Metric: m[2], Rate: m[1] != "", text: strings.TrimSpace(text), op: m[4]}
	value, size := m[5], 1.0
	for _, u := range []struct {
		name string
		size float64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if rest, ok := strings.CutSuffix(value, u.name); ok {
			value, size = rest, u.size
			break
		}
	}
	v, err := parseValue(value, reflect.TypeFor[float64]())
	if err != nil {
		return MetricBound{}, fmt.Errorf("%w %q: %w", ErrThreshold, text, err)
	}
	b.value = v * size
	return b, nil
}

// String returns the bound as it was written.
func (b MetricBound) String() string { return b.text }

// Upper reports whether the largest of several values decides, and not the smallest.
func (b MetricBound) Upper() bool { return b.op != ">" && b.op != ">=" }

// Broken returns a sentence that says that v does not meet the bound; empty if it does.
func (b MetricBound) Broken(v float64) string {
	if (Threshold{op: b.op, value: b.value}).holds(v) {
		return ""
	}
	name := b.Metric
	if b.Rate {
		name = "rate(" + name + ")"
	}
	return fmt.Sprintf(
		"%s is %s, limit %s",
		name,
		strconv.FormatFloat(v, 'g', 6, 64),
		strings.TrimSpace(strings.TrimPrefix(b.text[strings.Index(b.text, b.op):], b.op)),
	)
}
