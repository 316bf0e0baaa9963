package results

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func full() *Result {
	r := sample()
	r.Schema = Schema
	r.Version, r.Run = "0.1.0", "00c0ffee"
	r.Started = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	r.Finished = r.Started.Add(20 * time.Second)
	r.Profile = json.RawMessage(`{"name":"x"}`)
	r.Upstream = Upstream{Scheduled: 4, Published: 3, Accepted: 1, Uncertain: 1, Refused: 1, Dropped: 1}
	return r
}

// TestRebuildCapacityErrors: an error names the directory.
func TestRebuildCapacityErrors(t *testing.T) {
	dir := t.TempDir()
	if _, err := RebuildCapacity(dir); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), dir) {
		t.Errorf("no file: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, CapacityFile), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := RebuildCapacity(dir); !errors.Is(err, ErrFormat) || !strings.HasPrefix(err.Error(), dir+": ") {
		t.Errorf("not a capacity: %v", err)
	}
}

func TestReadWhatWasWritten(t *testing.T) {
	var buf bytes.Buffer
	want := full()
	if err := want.Write(&buf); err != nil {
		t.Fatal(err)
	}
	text := buf.String()
	got, err := Read(&buf)
	if err != nil {
		t.Fatal(err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, got.Profile); err != nil {
		t.Fatal(err)
	}
	got.Profile = compact.Bytes()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v\nwant %+v", got, want)
	}
	for name, broken := range map[string]struct{ old, new, want string }{
		"schema":    {`"eventmeter.result/1"`, `"eventmeter.result/2"`, `reads "eventmeter.result/1"`},
		"unknown":   {`"lostSilent"`, `"lostsilently"`, `unknown field "lostsilently"`},
		"type":      {`"delivered": 99`, `"delivered": "x"`, "cannot be a string"},
		"sum":       {`"delivered": 99`, `"delivered": 98`, "lane push: 100 expected are not 98 delivered + 1 silent loss"},
		"scheduled": {`"scheduled": 4`, `"scheduled": 5`, "upstream: 5 events"},
		"syntax":    {`"partial": false`, `"partial": fals`, "line 7"},
		"twice":     {`"name": "poll"`, `"name": "push"`, "appears twice"},
	} {
		if !strings.Contains(text, broken.old) {
			t.Fatalf("%s: the sample does not contain %s", name, broken.old)
		}
		_, err := Read(strings.NewReader(strings.Replace(text, broken.old, broken.new, 1)))
		if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), broken.want) {
			t.Errorf("%s: error %v, want %q", name, err, broken.want)
		}
	}
	for _, cut := range []int{0, 1, len(text) / 2} {
		if _, err := Read(strings.NewReader(text[:cut])); !errors.Is(err, ErrFormat) {
			t.Errorf("cut at %d: %v", cut, err)
		}
	}
}
