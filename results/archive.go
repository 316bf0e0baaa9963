package results

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// Save writes the archive of a run into dir, creating dir if needed: result.json; for each lane an
// HdrHistogram log named <lane>.hlog with its interval histograms, tagged intended and sent; and
// timeline.csv with the counts of the same intervals. Each file is complete or missing. result.json
// is written last, so that a finished result implies the other files. It is written even if another
// file could not be.
func Save(dir string, r *Result, accounts []ledger.Account) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("save the result: %w", err)
	}
	others := saveSeries(dir, r, accounts)
	if err := WriteFile(filepath.Join(dir, File), r.Write); err != nil {
		return errors.Join(fmt.Errorf("save the result: %w", err), others)
	}
	return others
}

// saveSeries writes the timelines and the histograms.
func saveSeries(dir string, r *Result, accounts []ledger.Account) error {
	var names []string
	timelines := map[string]Timeline{}
	for i := range accounts {
		a := &accounts[i]
		for j := range a.Lanes {
			names = append(names, a.Lanes[j].Name)
			timelines[a.Lanes[j].Name] = NewTimeline(a.Interval, &a.Lanes[j])
		}
	}
	if err := WriteFile(
		filepath.Join(dir, TimelineFile),
		func(w io.Writer) error { return WriteTimelines(w, names, timelines) },
	); err != nil {
		return fmt.Errorf("save the timelines: %w", err)
	}
	for i := range accounts {
		a := &accounts[i]
		for j := range a.Lanes {
			lane := &a.Lanes[j]
			write := func(w io.Writer) error { return writeLog(w, r, a, lane) }
			if err := WriteFile(filepath.Join(dir, lane.Name+".hlog"), write); err != nil {
				return fmt.Errorf("save the histograms of lane %s: %w", lane.Name, err)
			}
		}
	}
	return nil
}

// Unfinished is the pattern of the temporary names under which files are written. A killed run may
// leave one.
const Unfinished = ".partial-*"

// WriteFile writes through a temporary file, so that a full disk or an interrupt leaves no partial
// file under the final name. The user's group may read it if the umask allows that, and others
// may not: results hold addresses and text from the target.
func WriteFile(name string, write func(io.Writer) error) (err error) {
	temp := filepath.Join(filepath.Dir(name), strings.ReplaceAll(Unfinished, "*", rand.Text()))
	f, err := os.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o640)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	if err := errors.Join(write(f), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}

// writeLog writes one lane's intervals in the HdrHistogram log format, version
// 1.3. Values are nanoseconds; times are seconds since the run began.
func writeLog(w io.Writer, r *Result, a *ledger.Account, lane *ledger.LaneAccount) error {
	log := hdrhistogram.NewHistogramLogWriter(w)
	base := r.Started.UnixMilli()
	err := errors.Join(
		log.OutputComment("[eventmeter "+r.Run+", lane "+lane.Name+": latency in ns, tag intended: from intended, tag sent: from sent]"),
		log.OutputLogFormatVersion(),
		log.OutputStartTime(base),
		log.OutputLegend(),
	)
	for _, in := range lane.Series {
		for _, part := range []struct {
			tag string
			h   *hdrhistogram.PackedHistogram
		}{{TagIntended, in.FromIntended}, {TagSent, in.FromSent}} {
			if err != nil || part.h == nil {
				continue
			}
			text, bad := ledger.Encode(part.h)
			if err = bad; err == nil { // seconds and milliseconds, as the format has them
				seconds := float64(a.Interval.Milliseconds()) / 1000
				_, err = fmt.Fprintf(w, "Tag=%s,%f,%f,%f,%s\n", part.tag, float64(in.Number)*seconds, seconds, float64(part.h.Max())/1e6, text)
			}
		}
	}
	return err
}
