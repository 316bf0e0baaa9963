package embedded

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/internal/refserver"
	"github.com/eventmeter/eventmeter/internal/refserver/faults"
	"github.com/eventmeter/eventmeter/profiles"
)

// set gives a value of any kind that the options have, other than zero.
func set(t *testing.T, v reflect.Value) {
	switch v.Interface().(type) {
	case time.Duration:
		v.SetInt(int64(1234567 * time.Microsecond))
		return
	case faults.Spec:
		spec, err := faults.Parse("drop(every=10, offset=3); delay(rate=0.5, pareto=3ms, seed=18446744073709551615); listttl(ms=-4)")
		if err != nil {
			t.Fatal(err)
		}
		v.Set(reflect.ValueOf(spec))
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString("a \"text\"\n")
	case reflect.Int:
		v.SetInt(-7)
	case reflect.Float64:
		v.SetFloat(0.1)
	case reflect.Slice:
		v.Set(reflect.Append(v, reflect.New(v.Type().Elem()).Elem()))
		set(t, v.Index(0))
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				set(t, v.Field(i))
			}
		}
	default:
		t.Fatalf("options have a %s: say here how to set one", v.Type())
	}
}

// TestEveryOptionSurvivesTheTrip: an option that is lost on the way would be an
// option that does nothing.
func TestEveryOptionSurvivesTheTrip(t *testing.T) {
	within := []string{"CallbackRoots", "Logger"} // of one process
	all := reflect.TypeFor[Options]()
	for i := range all.NumField() {
		field := all.Field(i)
		if slices.Contains(within, field.Name) {
			continue
		}
		var sent, got Options
		set(t, reflect.ValueOf(&sent).Elem().Field(i))
		var b bytes.Buffer
		if err := WriteOptions(&b, sent); err != nil {
			t.Fatal(err)
		}
		if err := ReadOptions(&b, &got); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(sent, got) {
			t.Errorf("%s: sent %+v, got %+v", field.Name, sent, got)
		}
	}
	var typed Options
	err := ReadOptions(strings.NewReader(`{"NextPoll":"50ms","Lists":{"TTL":"2s","Entries":3}}`), &typed)
	if want := (Options{NextPoll: 50 * time.Millisecond, Lists: refserver.ListOptions{TTL: 2 * time.Second, Entries: 3}}); err != nil ||
		!reflect.DeepEqual(typed, want) {
		t.Errorf("%+v, %v", typed, err)
	}
	for _, bad := range []string{"", "{", `{"Adr":"x"}`, `[]`, `{"NextPoll":"soon"}`, `{"Lists":{"TTL":"soon"}}`, `{"Lists":{"Ttl2":1}}`} {
		if err := ReadOptions(strings.NewReader(bad), new(Options)); err == nil {
			t.Errorf("%q will do", bad)
		}
	}
}

// TestEverySettingIsAnOption changes one setting of the profile at a time.
func TestEverySettingIsAnOption(t *testing.T) {
	var visit func(v reflect.Value, path string, whole *profiles.Embedded)
	visit = func(v reflect.Value, path string, whole *profiles.Embedded) {
		if v.Kind() == reflect.Struct {
			for i := range v.NumField() {
				visit(v.Field(i), path+"."+v.Type().Field(i).Name, whole)
			}
			return
		}
		switch path {
		case ".Faults":
			v.SetString("drop(every=2)")
		case ".Transport":
			v.SetString("stdio")
		default:
			set(t, v)
		}
		o, err := OptionsOf(*whole)
		if err != nil {
			t.Fatal(err)
		}
		if reflect.DeepEqual(o, refserver.Options{}) {
			t.Errorf("%s does nothing", path)
		}
		v.SetZero()
	}
	var e profiles.Embedded
	visit(reflect.ValueOf(&e).Elem(), "", &e)
	if _, err := OptionsOf(profiles.Embedded{Faults: "drop("}); err == nil {
		t.Error("bad faults will do")
	}
}

func TestOptionsOf(t *testing.T) {
	got, err := OptionsOf(profiles.Embedded{NextPoll: 50 * time.Millisecond, RetryMax: -1, QueueLen: 7, SingleSign: true, ResumeOnce: true})
	want := Options{NextPoll: 50 * time.Millisecond, RetryMax: -1, QueueLen: 7, DualSignGrace: -1, ResumeOverlap: -1}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v, error %v", got, want, err)
	}
}
