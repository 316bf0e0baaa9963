package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/vm"
	"github.com/goccy/go-yaml"
)

// The functions of all expressions, beside those of the language. They write numbers as tables show them.
var functions = map[string]func(...any) (any, error){
	"digits":  of(digits),
	"short":   of(short),
	"whole":   of(func(v float64) string { return grouped(int64(math.Round(v))) }),
	"percent": of(func(share float64) string { return fmt.Sprintf("%.1f %%", share*100) }),
	"signed": of(func(share float64) string {
		return strings.ReplaceAll(fmt.Sprintf("%+.1f %%", share*100), "-", "−")
	}),
	"thousandths": of(func(v float64) string { return fmt.Sprintf("%.3f", v) }),
	"time":        of(timeText),
	"spread":      spread,
	"exp":         of(math.Exp),
}

// of makes a function of expressions of a function of one number.
func of[T any](f func(float64) T) func(...any) (any, error) {
	return func(args ...any) (any, error) {
		if len(args) != 1 {
			return nil, fmt.Errorf("want one number, not %v", args)
		}
		n, ok := number(args[0])
		if !ok {
			return nil, fmt.Errorf("want a number, not %v", args[0])
		}
		return f(n), nil
	}
}

// number returns a number as expressions have it.
func number(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case int:
		return float64(v), true
	}
	return 0, false
}

// plain turns all numbers into float64, as they are in JSON.
func plain(v any) any {
	switch v := v.(type) {
	case int:
		return float64(v)
	case int64:
		return float64(v)
	case uint64:
		return float64(v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = plain(v[i])
		}
		return out
	case []string:
		out := make([]any, len(v))
		for i := range v {
			out[i] = v[i]
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k := range v {
			out[k] = plain(v[k])
		}
		return out
	}
	return v
}

var (
	programsMu sync.Mutex
	programs   = map[string]*vm.Program{}
)

// eval evaluates an expression. Numbers in its value are float64. What is not known is nil.
func eval(code string, env map[string]any) (any, error) {
	// findLast leaves values of its predicate on the stack (v1.17.8), where the rest of the expression finds them.
	if strings.Contains(code, "findLast") {
		return nil, fmt.Errorf("%s: use last(filter(…)), not findLast", code)
	}
	programsMu.Lock()
	p := programs[code]
	if p == nil {
		options := []expr.Option{expr.Optimize(false)} // it would make findLast of last(filter(…))
		for name, f := range functions {
			options = append(options, expr.Function(name, f))
		}
		var err error
		if p, err = expr.Compile(code, options...); err != nil {
			programsMu.Unlock()
			return nil, fmt.Errorf("%s: %w", code, err)
		}
		programs[code] = p
	}
	programsMu.Unlock()
	v, err := expr.Run(p, env)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", code, err)
	}
	return plain(v), nil
}

// assign evaluates expressions one after the other and adds their values to env. What is not a text is a value.
func assign(items yaml.MapSlice, env map[string]any) error {
	for _, item := range items {
		v, err := valueOf(item.Value, env)
		if err != nil {
			return fmt.Errorf("%v: %w", item.Key, err)
		}
		env[fmt.Sprint(item.Key)] = v
	}
	return nil
}

func valueOf(code any, env map[string]any) (any, error) {
	text, ok := code.(string)
	if !ok {
		return plain(code), nil
	}
	return eval(text, env)
}

// truth evaluates a condition; "" holds.
func truth(code string, env map[string]any) (bool, error) {
	if code == "" {
		return true, nil
	}
	v, err := eval(code, env)
	return v == true, err
}

// inText writes a value into an argument: numbers in full, of nine digits.
func inText(v any) string {
	n, ok := number(v)
	if !ok {
		return fmt.Sprint(v)
	}
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(n, 'g', 9, 64), 64) // what was just formatted can be read
	return strconv.FormatFloat(rounded, 'f', -1, 64)
}

// digits writes v with three significant digits, and thousands apart.
func digits(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v):
		return "–"
	case a == 0:
		return "0"
	case a >= 1000:
		return grouped(int64(math.Round(v)))
	case a >= 100:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	case a >= 1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

// short writes v as digits does, without zeros at the end.
func short(v float64) string {
	s := digits(v)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// grouped puts a narrow space between thousands.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	sign := ""
	if s[0] == '-' {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "\u202f" + s[i:]
	}
	return sign + s
}

// timeText writes a number of seconds with its unit.
func timeText(seconds float64) string {
	switch d := time.Duration(seconds * float64(time.Second)); {
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return digits(d.Seconds()) + " s"
	case d >= time.Millisecond:
		return digits(d.Seconds()*1e3) + " ms"
	default:
		return digits(d.Seconds()*1e6) + " µs"
	}
}

// list returns a list of numbers, or one number as a list.
func list(v any) ([]float64, bool) {
	if n, ok := number(v); ok {
		return []float64{n}, true
	}
	items, ok := v.([]any)
	if !ok || len(items) == 0 {
		return nil, false
	}
	out := make([]float64, len(items))
	for i := range items {
		if out[i], ok = number(items[i]); !ok {
			return nil, false
		}
	}
	return out, true
}

// middle is the median, with the ends of the range.
func middle(values []float64) (median, low, high float64) {
	v := slices.Sorted(slices.Values(values))
	n := len(v)
	return (v[(n-1)/2] + v[n/2]) / 2, v[0], v[n-1]
}

// spread writes the median of a list and its range, "12.3 (11.8–13.9)"; one value alone has no range.
func spread(args ...any) (any, error) {
	if len(args) != 1 {
		return nil, fmt.Errorf("spread wants a list")
	}
	values, ok := list(args[0])
	if !ok {
		return nil, fmt.Errorf("spread wants numbers, not %v", args[0])
	}
	median, low, high := middle(values)
	if len(values) == 1 {
		return digits(median), nil
	}
	return fmt.Sprintf("%s (%s–%s)", digits(median), digits(low), digits(high)), nil
}
