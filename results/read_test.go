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
	"syscall"
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

// TestErrorsNameTheFile: whatever file of an archive is missing or none of ours, the error says which.
func TestErrorsNameTheFile(t *testing.T) {
	for file, c := range map[string]struct {
		load            func(dir string) error
		missing, broken error
	}{
		File:         {func(dir string) error { _, err := Load(dir); return err }, fs.ErrNotExist, ErrFormat},
		CapacityFile: {func(dir string) error { _, err := RebuildCapacity(dir); return err }, fs.ErrNotExist, ErrFormat},
		PartFile:     {func(dir string) error { _, err := LoadPart(dir); return err }, ErrFormat, ErrFormat},
		TimelineFile: {func(dir string) error { _, err := LoadTimelines(dir); return err }, fs.ErrNotExist, ErrTimeline},
		"push.hlog":  {func(dir string) error { _, err := LoadLog(dir, "push"); return err }, fs.ErrNotExist, ErrLog},
	} {
		dir := t.TempDir()
		if err := c.load(dir); !errors.Is(err, c.missing) || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), file) {
			t.Errorf("no %s: %v", file, err)
		}
		if err := os.WriteFile(filepath.Join(dir, file), []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := c.load(dir); !errors.Is(err, c.broken) || !strings.Contains(err.Error(), filepath.Join(dir, file)+": ") {
			t.Errorf("%s of something else: %v", file, err)
		}
	}
}

// TestFilesThatCannotBeRead: the error names the file and has its cause.
func TestFilesThatCannotBeRead(t *testing.T) {
	for file, load := range map[string]func(dir string) error{
		File:         func(dir string) error { _, err := Load(dir); return err },
		PartFile:     func(dir string) error { _, err := LoadPart(dir); return err },
		"push.hlog":  func(dir string) error { _, err := LoadLog(dir, "push"); return err },
		CapacityFile: func(dir string) error { _, err := RebuildCapacity(dir); return err },
	} {
		dir := t.TempDir()
		name := filepath.Join(dir, file)
		if err := os.Symlink("/proc/self/mem", name); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(name); err != nil {
			t.Skip("there is no file that can be opened and not be read:", err)
		}
		if err := load(dir); !errors.Is(err, syscall.EIO) || !strings.Contains(err.Error(), name+": ") {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// TestCheckSays: an error has every number of a sum in its place.
func TestCheckSays(t *testing.T) {
	for want, r := range map[string]Result{
		"upstream: 9 events are not 2 accepted + 3 uncertain + 4 refused + 5 dropped": {
			Upstream: Upstream{Scheduled: 9, Published: 9, Accepted: 2, Uncertain: 3, Refused: 4, Dropped: 5},
		},
		"lane push: 99 expected are not 1 delivered + 2 silent loss + 3 announced loss + 4 lost with unknown order " +
			"+ 5 undeliverable + 6 refused + 7 suspended": {
			Lanes: []Lane{{Name: "push", Expected: 99, Delivered: 1, LostSilent: 2, LostAnnounced: 3, LostOrderUnknown: 4,
				LostUndeliverable: 5, LostRefused: 6, LostSuspended: 7}},
		},
		"lane push appears twice":        {Lanes: []Lane{{Name: "push"}, {Name: "push"}}},
		"part: there is no shard 3 of 3": {Part: &PartOf{Index: 3, Count: 3}},
		"finished: 1970-01-01T00:00:01Z is before it started, 1970-01-01T00:00:02Z": {
			Started: time.Unix(2, 0).UTC(), Finished: time.Unix(1, 0).UTC(),
		},
	} {
		if err := r.Check(); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
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
