package faults

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/refserver/breach"
)

// errSpec is wrapped by every error about a specification.
var errSpec = errors.New("bad fault")

// Load reads a specification from the file of that name, if there is one, or
// from the text itself.
func Load(fileOrSpec string) (Spec, error) {
	f, err := os.Open(fileOrSpec)
	if err != nil {
		return Parse(fileOrSpec)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err // it names the file
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("%w: %s is larger than 1 MiB: name a file of faults, one on each line", errSpec, fileOrSpec)
	}
	s, err := Parse(strings.TrimPrefix(string(text), "\ufeff"))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", fileOrSpec, err)
	}
	return s, nil
}

// maxFile bounds a file of faults, in bytes.
const maxFile = 1 << 20

// Parse reads faults with semicolons or line breaks between them:
//
//	drop(every=10, offset=3); delay(uniform=40ms..60ms, rate=1, mode=push)
//
// What follows a # is a comment. Every key may stand once.
func Parse(text string) (Spec, error) {
	var s Spec
	for n, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		for _, part := range strings.Split(line, ";") {
			if part = strings.TrimSpace(part); part == "" {
				continue
			}
			f, err := parseFault(part)
			if err != nil {
				return nil, fmt.Errorf("%w: line %d: %s: %w", errSpec, n+1, short(part), err)
			}
			s = append(s, f)
		}
	}
	return s, nil
}

func parseFault(text string) (Fault, error) {
	name, rest, open := strings.Cut(text, "(")
	f := Fault{Kind: Kind(strings.TrimSpace(name))}
	form, ok := kindSpecs[f.Kind]
	if !ok {
		return f, fmt.Errorf("unknown fault %q; the faults are %s", short(name), strings.Join(kinds(), ", "))
	}
	args, closed := strings.CutSuffix(rest, ")")
	if open && !closed {
		return f, errors.New("the closing ) is missing")
	}
	known := append([]string{"mode"}, strings.Fields(form.needs+" "+form.takes)...)
	if form.event {
		known = append(known, "every", "offset", "rate", "seed", "from", "to")
	}
	seen := map[string]bool{}
	for _, arg := range strings.Split(args, ",") {
		if strings.TrimSpace(arg) == "" {
			continue
		}
		key, value, ok := strings.Cut(arg, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		if !ok || value == "" {
			return f, fmt.Errorf("%q: write key=value", short(strings.TrimSpace(arg)))
		}
		if !slices.Contains(known, key) {
			return f, fmt.Errorf("unknown key %q; the keys are %s", short(key), strings.Join(known, ", "))
		}
		if seen[key] {
			return f, fmt.Errorf("%s is given twice", key)
		}
		seen[key] = true
		if len(value) > maxValue {
			return f, fmt.Errorf("%s: %q is too long", key, short(value))
		}
		if err := f.set(key, value); err != nil {
			return f, fmt.Errorf("%s: %w", key, err)
		}
	}
	for key := range strings.FieldsSeq(form.needs) {
		if !seen[key] {
			return f, fmt.Errorf("%s is missing", key)
		}
	}
	return f, f.check(form, seen)
}

// maxValue is the longest value in bytes; no key needs more.
const maxValue = 100

// short truncates text that an error repeats.
func short(s string) string {
	if len(s) > maxValue {
		return strings.ToValidUTF8(s[:maxValue-3], "") + "..."
	}
	return s
}

// kinds are the names of all faults, in order.
func kinds() (names []string) {
	for k := range kindSpecs {
		names = append(names, string(k))
	}
	slices.Sort(names)
	return names
}

// check checks how the keys fit together.
func (f *Fault) check(form kindSpec, seen map[string]bool) error {
	if f.Mode != "" && form.modes != nil && !slices.Contains(form.modes, f.Mode) {
		return fmt.Errorf("the fault exists only for %s", form.modes[0])
	}
	if form.event && seen["every"] == seen["rate"] {
		return errors.New("give either every=N or rate=SHARE")
	}
	if seen["offset"] && (!seen["every"] || f.Offset >= f.Every) {
		return errors.New("offset must be less than every")
	}
	if f.To > 0 && f.To < f.From {
		return errors.New("to is less than from")
	}
	switch f.Kind {
	case Announce:
		if f.Over > 0 && f.Mode != eventmeter.Webhook {
			return errors.New("over needs mode=webhook: other modes have an order")
		}
	case Delay:
		n := 0
		for _, key := range []string{"fixed", "uniform", "pareto"} {
			if seen[key] {
				n++
			}
		}
		if n != 1 {
			return errors.New("give one of fixed, uniform and pareto")
		}
		if !seen["pareto"] && (seen["alpha"] || seen["max"]) {
			return errors.New("alpha and max belong to pareto")
		}
		if seen["pareto"] {
			f.Alpha = cmp.Or(f.Alpha, 1.5)
			// The default stays within the bound of durations, so that String
			// and Parse agree.
			if f.Most = cmp.Or(f.Most, min(10*f.Pareto, longest)); f.Most < f.Pareto {
				return errors.New("max is less than pareto, the shortest delay")
			}
		}
	case Break:
		if modes := breach.Table[f.Row].Modes; f.Mode != "" && modes != nil && !slices.Contains(modes, f.Mode) {
			return fmt.Errorf("the row exists only for %s", modes[0])
		}
	case Signature:
		f.Attempts = cmp.Or(f.Attempts, 1)
	}
	return nil
}

func (f *Fault) set(key, value string) (err error) {
	switch key {
	case "mode":
		f.Mode = eventmeter.Mode(value)
		if f.Mode != eventmeter.Poll && f.Mode != eventmeter.Push && f.Mode != eventmeter.Webhook {
			return fmt.Errorf("%q is not a mode; write poll, push or webhook", value)
		}
		return nil
	case "row":
		if f.Row = value; !breach.Has(value) {
			return fmt.Errorf("%q is no row of conformance that the server can break; docs/faults.md lists them", value)
		}
		return nil
	case "sign":
		if f.Sign = value; value != "wrong" && value != "stale" && value != "missing" {
			return fmt.Errorf("%q is not a signature fault; write wrong, stale or missing", value)
		}
		return nil
	case "rate":
		return f.setRate(value)
	case "uniform":
		return f.setUniform(value)
	case "max":
		key = "most"
	}
	v := reflect.ValueOf(f).Elem()
	for i := range v.NumField() {
		name, bounds := keyOf(v.Type().Field(i))
		if name != key {
			continue
		}
		var least, most int
		_, _ = fmt.Sscanf(bounds, "%d..%d", &least, &most) // some have no bounds, or no upper one
		switch into := v.Field(i).Addr().Interface().(type) {
		case *time.Duration:
			*into, err = duration(value, 1)
		case *int:
			*into, err = small(value, least, most)
		case *uint32:
			*into, err = number(value, uint64(least))
		case *uint64:
			if *into, err = strconv.ParseUint(value, 10, 64); err != nil {
				err = fmt.Errorf("%q is not a whole number", value)
			}
		case *float64:
			if *into, err = strconv.ParseFloat(value, 64); err != nil || !(*into >= 0.1 && *into <= 100) {
				err = fmt.Errorf("%q is not a number from 0.1 to 100", value)
			}
		case *bool:
			if *into, err = strconv.ParseBool(value); err != nil {
				err = fmt.Errorf("%q is neither true nor false", value)
			}
		}
	}
	return err
}

// keyOf returns the key of a field, and the bounds of its number.
func keyOf(field reflect.StructField) (key, bounds string) {
	key, _, _ = strings.Cut(field.Tag.Get("json"), ",")
	return key, field.Tag.Get("bounds")
}

// setRate parses a share of events, or events per second for a throttle.
func (f *Fault) setRate(value string) error {
	text, perSecond := strings.CutSuffix(value, "/s")
	v, err := strconv.ParseFloat(text, 64)
	if f.Kind == Throttle {
		if err != nil || !perSecond || !(v >= 0.1 && v <= 1e6) {
			return fmt.Errorf("%q is not a rate; write events per second, like 50/s", value)
		}
		f.PerSecond = v
		return nil
	}
	if err != nil || perSecond || !(v > 0 && v <= 1) {
		return fmt.Errorf("%q is not a share; write a number above 0 and up to 1", value)
	}
	f.Rate = v
	return nil
}

// longest bounds every duration.
const longest = time.Hour

func (f *Fault) setUniform(value string) (err error) {
	least, most, ok := strings.Cut(value, "..")
	if !ok {
		return fmt.Errorf("%q is not a range; write it like 40ms..60ms", value)
	}
	if f.Least, err = duration(least, 0); err != nil {
		return err
	}
	if f.Most, err = duration(most, 1); err == nil && f.Most < f.Least {
		err = fmt.Errorf("the end of %q is less than its start", value)
	}
	return err
}

func duration(text string, least time.Duration) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d < least || d > longest {
		return 0, fmt.Errorf("%q is not a duration up to an hour; write it like 50ms", text)
	}
	return d, nil
}

func number(text string, least uint64) (uint32, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n < least {
		return 0, fmt.Errorf("%q is not a whole number from %d to %d", text, least, uint32(math.MaxUint32))
	}
	return uint32(n), nil
}

func small(text string, least, most int) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("%q is not a whole number from %d to %d", text, least, most)
	}
	return n, nil
}

// String formats the specification as Parse reads it.
func (s Spec) String() string {
	parts := make([]string, len(s))
	for i, f := range s {
		parts[i] = f.String()
	}
	return strings.Join(parts, "; ")
}

// String formats the fault as Parse reads it.
func (f Fault) String() string {
	var args []string
	needed := strings.Fields(kindSpecs[f.Kind].needs)
	v := reflect.ValueOf(f)
	for i := 1; i < v.NumField(); i++ { // but the kind
		key, _ := keyOf(v.Type().Field(i))
		value := v.Field(i).Interface()
		switch {
		case key == "least", v.Field(i).IsZero() && (key == "rate" || !slices.Contains(needed, key)):
			continue
		case key == "perSecond":
			key, value = "rate", fmt.Sprintf("%v/s", value)
		case key == "most" && f.Pareto > 0:
			key = "max"
		case key == "most":
			key, value = "uniform", fmt.Sprintf("%v..%v", f.Least, f.Most)
		}
		args = append(args, fmt.Sprintf("%s=%v", key, value))
	}
	return string(f.Kind) + "(" + strings.Join(args, ", ") + ")"
}
