package figure

import (
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// Adder is a part of a struct that knows how to add another value of its type.
type Adder interface {
	// AddFrom adds from, a pointer of the receiver's type, which is not changed. The
	// sum shares no memory with from that is written to later.
	AddFrom(from any)
}

// Add adds every figure of from to that of to. Numbers (int, int64, float64,
// [time.Duration]) are added; the tag merge:"max" or merge:"min" keeps the larger or
// the smaller one, and merge:"-" leaves the field alone. Structs and arrays are added
// part by part, and an [Adder] adds itself. A field of any other type without a tag
// panics, so that no figure can be forgotten in a merge.
//
// [AddCounts] is faster for types that have only numbers.
func Add[T any](to, from *T) {
	p := planOf(reflect.TypeFor[T]())
	a, b := unsafe.Pointer(to), unsafe.Pointer(from)
	p.numbers(a, b)
	for _, x := range p.adders {
		reflect.NewAt(x.of, unsafe.Add(a, x.at)).Interface().(Adder).AddFrom(reflect.NewAt(x.of, unsafe.Add(b, x.at)).Interface())
	}
}

// AddCounts is [Add] for a type that has only numbers. It allocates nothing, and
// neither argument escapes.
func AddCounts[T any](to, from *T) {
	p := planOf(reflect.TypeFor[T]())
	if p.adders != nil {
		panic(fmt.Sprintf("figure: %s has more than numbers", reflect.TypeFor[T]()))
	}
	p.numbers(unsafe.Pointer(to), unsafe.Pointer(from))
}

// SubtractCounts subtracts from from to every figure that Add would sum. Figures that
// are no sums keep their values.
func SubtractCounts[T any](to, from *T) {
	p := planOf(reflect.TypeFor[T]())
	a, b := unsafe.Pointer(to), unsafe.Pointer(from)
	for _, r := range p.sums {
		to, from := unsafe.Slice((*int64)(unsafe.Add(a, r.at)), r.n), unsafe.Slice((*int64)(unsafe.Add(b, r.at)), r.n)
		for i := range to {
			to[i] -= from[i]
		}
	}
}

// Read sets the numbers of to, a pointer to a struct of int64, to the counters of from, a
// pointer to a struct of [atomic.Int64] with the same fields.
func Read(to, from any) {
	numbers, counters := reflect.ValueOf(to).Elem(), reflect.ValueOf(from).Elem()
	for i := range numbers.NumField() {
		numbers.Field(i).SetInt(counters.Field(i).Addr().Interface().(*atomic.Int64).Load())
	}
}

func (p *plan) numbers(a, b unsafe.Pointer) {
	for _, r := range p.sums {
		to, from := unsafe.Slice((*int64)(unsafe.Add(a, r.at)), r.n), unsafe.Slice((*int64)(unsafe.Add(b, r.at)), r.n)
		for i := range to {
			to[i] += from[i]
		}
	}
	for _, at := range p.ints {
		*(*int)(unsafe.Add(a, at)) += *(*int)(unsafe.Add(b, at))
	}
	for _, at := range p.largest {
		v := (*int64)(unsafe.Add(a, at))
		*v = max(*v, *(*int64)(unsafe.Add(b, at)))
	}
	for _, at := range p.least {
		v := (*int64)(unsafe.Add(a, at))
		*v = min(*v, *(*int64)(unsafe.Add(b, at)))
	}
	for _, at := range p.floats {
		*(*float64)(unsafe.Add(a, at)) += *(*float64)(unsafe.Add(b, at))
	}
}

// plan lists the offsets of a type's figures by merge rule.
type plan struct {
	sums           []row     // of 64-bit integers
	largest, least []uintptr // of 64-bit integers
	ints, floats   []uintptr
	adders         []adderAt
}

// row is n adjacent 64-bit integers.
type row struct {
	at uintptr
	n  int
}

type adderAt struct {
	at uintptr
	of reflect.Type
}

var (
	plans    sync.Map // reflect.Type to *plan
	adder    = reflect.TypeFor[Adder]()
	duration = reflect.TypeFor[time.Duration]()
)

func planOf(t reflect.Type) *plan {
	if p, ok := plans.Load(t); ok {
		return p.(*plan)
	}
	p := &plan{}
	p.add(t, 0, "", t.String())
	plans.Store(t, p)
	return p
}

// add adds the figures of a value of type t at an offset.
func (p *plan) add(t reflect.Type, at uintptr, rule, where string) {
	own := t.PkgPath() != "" && t != duration // a named number type may not be an amount
	switch kind := t.Kind(); {
	case rule == "-":
	case reflect.PointerTo(t).Implements(adder):
		p.adders = append(p.adders, adderAt{at, t})
	case kind == reflect.Int64 && rule == "max":
		p.largest = append(p.largest, at)
	case kind == reflect.Int64 && rule == "min":
		p.least = append(p.least, at)
	case rule != "":
		panic(fmt.Sprintf("figure: %s: there is no rule %q for a %s; use max, min or -", where, rule, t))
	case kind == reflect.Int64 && !own:
		if n := len(p.sums); n > 0 && p.sums[n-1].at+8*uintptr(p.sums[n-1].n) == at {
			p.sums[n-1].n++
			return
		}
		p.sums = append(p.sums, row{at, 1})
	case kind == reflect.Int && !own:
		p.ints = append(p.ints, at)
	case kind == reflect.Float64 && !own:
		p.floats = append(p.floats, at)
	case kind == reflect.Array:
		for i := range t.Len() {
			p.add(t.Elem(), at+uintptr(i)*t.Elem().Size(), "", where)
		}
	case kind == reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			p.add(f.Type, at+f.Offset, f.Tag.Get("merge"), where+"."+f.Name)
		}
	default:
		panic(fmt.Sprintf("figure: %s (%s): give it a tag that says how it is merged", where, t))
	}
}
