package results

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/eventmeter/eventmeter/internal/conform"
	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// PartSchema is the version of the part format; a reader accepts exactly it.
const PartSchema = "eventmeter.shard/1"

// PartFile is the name of the part within a shard's directory.
const PartFile = "shard.json"

// Part is written by a shard beside its result, for the merge: the accounts with every bucket of
// their histograms, from which the merged result is computed without loss. Only the version of the
// program that wrote a part reads it.
type Part struct {
	Schema string `json:"schema"` // always eventmeter.shard/1
	Index  int    `json:"index"`  // from 0
	Count  int    `json:"count"`  // shards of the run
	Run    string `json:"run"`    // a value common to all shards of the run
	// Profile is a hash of the profile without the keys that differ between shards.
	Profile string `json:"profile"`
	Machine string `json:"machine"`
	// Coverage is the coverage of the whole run; see [Result.Coverage].
	Coverage float64     `json:"coverage"`
	Passes   []PartPass  `json:"passes"`   // one pass, or one for each lane where lanes take turns
	Upstream PartFigures `json:"upstream"` // the generator's own health
	// UpstreamFailure ends a sentence with why the first event was not accepted.
	UpstreamFailure string `json:"upstreamFailure,omitempty"`
	// Warnings are the warnings that do not follow from figures.
	Warnings []Warning `json:"warnings"`
}

// PartPass is one pass of a shard.
type PartPass struct {
	Account ledger.Account `json:"account"`
	// Began is the start of the schedule on the shard's clock, BeganAt by its wall clock in UTC.
	Began     Nanos         `json:"began"`
	BeganAt   time.Time     `json:"beganAt"`
	Figures   []PartFigures `json:"figures"` // one entry per lane
	Generator Generator     `json:"generator"`
	Target    *Process      `json:"target,omitempty"` // the target's use of the machine
}

// PartFigures are figures of a system or an upstream, with every bucket.
type PartFigures struct {
	Values  map[string]float64       `json:"values,omitempty"`
	Timings map[string]ledger.Timing `json:"timings,omitempty"`
	Conform conform.Account          `json:"conform,omitempty"` // what was seen of the rows of conformance
}

// SavePart writes a shard's part into its directory, so that [LoadPart] can read it, as [Result.Write] does.
func SavePart(dir string, p *Part) error {
	bound(p, &p.Warnings)
	if err := p.check(); err != nil {
		return fmt.Errorf("save the shard: %w: %w", ErrFormat, err)
	}
	err := WriteFile(filepath.Join(dir, PartFile), func(w io.Writer) error {
		data, err := json.Marshal(p)
		if err != nil {
			return err
		}
		_, err = w.Write(append(data, '\n'))
		return err
	})
	if err != nil {
		return fmt.Errorf("save the shard: %w", err)
	}
	return nil
}

// LoadPart reads the part of a shard strictly. Errors about its content wrap
// [ErrFormat].
func LoadPart(dir string) (*Part, error) {
	name := filepath.Join(dir, PartFile)
	f, err := openRegular(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s has no %s: only what run --shard wrote can be merged", ErrFormat, dir, PartFile)
	}
	if err != nil {
		return nil, fmt.Errorf("load a shard: %w", err)
	}
	defer f.Close()
	data, err := readBounded(f, maxPartBytes)
	if err != nil {
		return nil, fmt.Errorf("load a shard: %s: %w", name, err)
	}
	p, err := readPart(data)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrFormat, name, err)
	}
	return p, nil
}

// readPart reads a part strictly.
func readPart(data []byte) (*Part, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	p := new(Part)
	if err := dec.Decode(p); err != nil {
		return nil, errors.New(jsonProblem(data, err))
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("there is data after its end; was the file edited?")
	}
	if err := p.check(); err != nil {
		return p, err
	}
	errtext.CleanAll(p)
	return p, nil
}
