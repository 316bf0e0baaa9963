package results

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/profiles"
)

// MaxShards is the largest number of processes that a run can be split into.
const MaxShards = 1024

// Bounds of files and of the numbers in them. No run exceeds them; larger values could not be added
// up, shown or held in memory.
const (
	maxResultBytes   = 64 << 20
	maxPartBytes     = 1 << 30
	maxTimelineBytes = 256 << 20
	maxCount         = 1 << 53          // of any count; exact as a float64
	maxTime          = 10 * 8766 * 3600 // seconds of a duration: ten years
	maxFigure        = 1e18
)

// readBounded reads a file of at most most bytes.
func readBounded(in io.Reader, most int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(in, most+1))
	if err == nil && int64(len(data)) > most {
		return nil, fmt.Errorf("%w: it has more than %d MiB; is this a file that eventmeter wrote?", ErrFormat, most>>20)
	}
	return data, err
}

// openRegular opens a file of an archive. It refuses anything else than a regular file: opening a
// pipe could block forever.
func openRegular(name string) (*os.File, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: %s is no regular file; name the directory that a run wrote", ErrFormat, name)
	}
	return os.Open(name)
}

// checkLaneName refuses a name that no profile can have. Files are named after lanes.
func checkLaneName(field, name string) error {
	if !profiles.ValidName(name) {
		return fmt.Errorf("%s: %.80q is not a valid lane name; was the file edited?", field, name)
	}
	return nil
}

// plausible returns an error for the first number in v that no run can give, with its path of JSON
// names. Counts are 0 or more; durations and shares may be negative, within bounds.
func plausible(v any) (err error) {
	eachNumber(reflect.ValueOf(v), "", func(n reflect.Value, at string) bool {
		if _, wrong := nearest(n); wrong != "" && err == nil {
			err = fmt.Errorf("%s: %s", at, wrong)
		}
		return false
	})
	return err
}

// bound replaces every number in v, a pointer, that no run can give by the nearest that one can, and NaN by 0, and
// adds a warning about them. It writes nothing if there are none: others may read v at the same time.
func bound(v any, warnings *[]Warning) {
	var where []string
	eachNumber(reflect.ValueOf(v), "", func(n reflect.Value, at string) bool {
		to, wrong := nearest(n)
		if wrong != "" {
			where = append(where, at+": "+wrong)
			n.Set(to)
		}
		return wrong != ""
	})
	if where != nil {
		text := strings.Join(where[:min(len(where), 3)], "; ")
		*warnings = append(*warnings, Warning{
			Code: "implausible", Text: fmt.Sprintf("%d numbers are out of bounds, and were brought within: %s", len(where), text),
		})
	}
}

var (
	typeNanos    = reflect.TypeFor[Nanos]()
	typeDuration = reflect.TypeFor[time.Duration]()
	typeInstant  = reflect.TypeFor[eventmeter.Instant]()
	typeRaw      = reflect.TypeFor[json.RawMessage]()
)

// eachNumber calls visit for each number in v with its path. It reports whether a call returned true, which it does
// if it has set the number.
func eachNumber(v reflect.Value, at string, visit func(n reflect.Value, at string) bool) (set bool) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return eachNumber(v.Elem(), at, visit)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if f.IsExported() || f.Anonymous {
				set = eachNumber(v.Field(i), jsonPath(at, f), visit) || set
			}
		}
	case reflect.Slice, reflect.Array:
		if v.Type() == typeRaw {
			return false
		}
		for i := range v.Len() {
			set = eachNumber(v.Index(i), at+"["+strconv.Itoa(i)+"]", visit) || set
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			elem := reflect.New(v.Type().Elem()).Elem()
			elem.Set(v.MapIndex(key))
			if eachNumber(elem, at+"."+fmt.Sprintf("%.80q", key), visit) {
				v.SetMapIndex(key, elem)
				set = true
			}
		}
	case reflect.Int, reflect.Int64, reflect.Float64:
		return visit(v, at)
	}
	return set
}

// nearest returns the number nearest to n that a run can give, and what is wrong with n; "" = nothing.
func nearest(n reflect.Value) (to reflect.Value, wrong string) {
	if n.Kind() == reflect.Float64 {
		f := n.Float()
		if math.Abs(f) <= maxFigure {
			return n, ""
		}
		to := 0.0
		if !math.IsNaN(f) {
			to = math.Copysign(maxFigure, f)
		}
		return reflect.ValueOf(to).Convert(n.Type()), fmt.Sprintf("%v is no figure of a run", f)
	}
	i, least, most, format := n.Int(), int64(0), int64(maxCount), "%d is no count"
	switch n.Type() {
	case typeNanos, typeDuration, typeInstant:
		least, most, format = -maxTime*int64(time.Second), maxTime*int64(time.Second), "%d ns is no time of a run"
	}
	if i >= least && i <= most {
		return n, ""
	}
	return reflect.ValueOf(min(max(i, least), most)).Convert(n.Type()), fmt.Sprintf(format, i)
}

func jsonPath(at string, f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	if f.Anonymous && name == "" {
		return at
	}
	if name == "" {
		name = f.Name
	}
	if at == "" {
		return name
	}
	return at + "." + name
}

// isShare returns an error if the coverage v is out of bounds.
func isShare(v float64) error {
	if !(v >= 0 && v <= 1) {
		return fmt.Errorf("coverage: %v is not from 0 to 1", v)
	}
	return nil
}

// check verifies the invariants of a part that a merge relies on.
func (p *Part) check() error {
	if p.Schema != PartSchema {
		return fmt.Errorf("its schema is %q and this program reads %q; use the program's version that wrote it", p.Schema, PartSchema)
	}
	if p.Count < 2 || p.Count > MaxShards || p.Index < 0 || p.Index >= p.Count {
		return fmt.Errorf("index: there is no shard %d of %d", p.Index, p.Count)
	}
	if err := plausible(p); err != nil {
		return err
	}
	if err := isShare(p.Coverage); err != nil {
		return err
	}
	for k := range p.Passes {
		if err := p.Passes[k].check(fmt.Sprintf("passes[%d]", k)); err != nil {
			return err
		}
	}
	return nil
}

func (p *PartPass) check(at string) error {
	a := &p.Account
	if a.Interval < time.Millisecond || a.Interval > 24*time.Hour {
		return fmt.Errorf("%s.account.Interval: %d ns is no width of an interval", at, a.Interval)
	}
	if p.Began < 0 {
		return fmt.Errorf("%s.began: %d ns is before the run", at, p.Began)
	}
	if y := p.BeganAt.Year(); y < 1970 || y > 2200 {
		return fmt.Errorf("%s.beganAt: %d is no year of a run", at, y)
	}
	if len(p.Figures) != len(a.Lanes) {
		return fmt.Errorf("%s.figures: it has figures of %d lanes, and the account has %d lanes", at, len(p.Figures), len(a.Lanes))
	}
	seen := map[string]bool{}
	for i := range a.Lanes {
		l := &a.Lanes[i]
		field := fmt.Sprintf("%s.account.Lanes[%d]", at, i)
		if err := checkLaneName(field+".Name", l.Name); err != nil {
			return err
		}
		if seen[l.Name] {
			return fmt.Errorf("%s.Name: %s appears twice", field, l.Name)
		}
		seen[l.Name] = true
		for j := range l.Series {
			n := l.Series[j].Number
			if n > maxTime*int64(time.Second)/int64(a.Interval) || j > 0 && n <= l.Series[j-1].Number {
				return fmt.Errorf("%s.Series[%d].Number: %d is out of order", field, j, n)
			}
		}
	}
	return nil
}

// CheckPart returns an error if a part contradicts the result beside it: one of the two was
// changed. The error wraps [ErrFormat] and names dir. A process that was killed may have written
// its part but not yet the result, which is then an older checkpoint; the figures of its lanes are
// replaced by those of the part.
func CheckPart(dir string, r *Result, p *Part) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s: %s; one of the two was changed", ErrFormat, dir, fmt.Sprintf(format, args...))
	}
	if r.Part == nil || r.Part.Index != p.Index || r.Part.Count != p.Count {
		return bad("%s is of shard %d of %d, and %s is of another", PartFile, p.Index, p.Count, File)
	}
	if len(p.Passes) == 0 && !r.Partial {
		return bad("passes: %s has none, and %s is of a run that was not partial", PartFile, File)
	}
	if len(p.Passes) > max(1, len(r.Lanes)) && !r.Checkpoint {
		return bad("passes: %s has %d, and %s has %d lanes", PartFile, len(p.Passes), File, len(r.Lanes))
	}
	var lanes []Lane
	for k := range p.Passes {
		for i := range p.Passes[k].Account.Lanes {
			lanes = append(lanes, NewLane(&p.Passes[k].Account.Lanes[i]))
		}
	}
	if len(lanes) != len(r.Lanes) && !(r.Checkpoint && len(lanes) > len(r.Lanes)) {
		return bad("lanes: %s has %d, and %s has %d", PartFile, len(lanes), File, len(r.Lanes))
	}
	for i := range r.Lanes {
		a, b := &lanes[i], &r.Lanes[i]
		if a.Name != b.Name || a.System != b.System || a.Mode != b.Mode {
			return bad(
				"lanes[%d]: it is %.80q (%.40q, %.40q) in %s, and %.80q (%.40q, %.40q) in %s",
				i,
				a.Name,
				a.System,
				a.Mode,
				PartFile,
				b.Name,
				b.System,
				b.Mode,
				File,
			)
		}
		for _, n := range LaneCounts {
			if x, y := n.Read(a), n.Read(b); x != y && !r.Checkpoint {
				return bad("lane %s: %s is %d in %s and %d in %s", a.Name, n.Name, x, PartFile, y, File)
			}
		}
	}
	if r.Checkpoint {
		r.Lanes, r.Upstream.Published = lanes, 0
		for k := range p.Passes {
			r.Upstream.Published += p.Passes[k].Account.Measured.Fired
		}
	}
	return nil
}

// checkTimelines returns an error if the counts of timelines, read from file, are not those of the
// lanes.
func (r *Result) checkTimelines(file string, of map[string]Timeline) error {
	for name := range of {
		if r.Lane(name) == nil {
			return fmt.Errorf(
				"%w: %s: it has a lane %.80q, and %s has none of that name; one of the two was changed",
				ErrFormat,
				file,
				name,
				File,
			)
		}
	}
	for i := range r.Lanes {
		l := &r.Lanes[i]
		var sum Point
		for _, p := range of[l.Name].Points {
			sum.Add(p)
		}
		for _, n := range []struct {
			column string
			a, b   int64
		}{
			{"delivered", sum.Delivered, l.Delivered},
			{"late", sum.Late, l.Late},
			{"out_of_order", sum.OutOfOrder, l.OutOfOrder},
			{"unexpected", sum.Unexpected, l.Unexpected},
		} {
			if n.a != n.b {
				return fmt.Errorf(
					"%w: %s: lane %s: %s adds up to %d, and %s says %d; one of the two was changed",
					ErrFormat,
					file,
					l.Name,
					n.column,
					n.a,
					File,
					n.b,
				)
			}
		}
	}
	return nil
}

func (r *Result) Lane(name string) *Lane {
	for i := range r.Lanes {
		if r.Lanes[i].Name == name {
			return &r.Lanes[i]
		}
	}
	return nil
}
