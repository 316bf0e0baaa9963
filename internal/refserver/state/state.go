// Package state keeps in a file what a reference server must not forget with
// its process: webhook subscriptions with their secrets, and requests that
// outlive their connections.
//
// The file is one JSON document. It is readable by its owner alone, because it
// holds secrets, and it is replaced whole, so that a process that is killed
// leaves either the former or the new document.
package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter/internal/lockfile"
)

// Document is what a file holds.
type Document struct {
	// Schema names the format.
	Schema string `json:"schema"`
	// Starts counts the processes that used the file.
	Starts uint64 `json:"starts"`
	// Identity is the seed of the private key that makes the server's own
	// signatures. nil before there was one.
	Identity []byte `json:"identity,omitempty"`
	// Subscriptions are keyed by id, Requests by token.
	Subscriptions map[string]Subscription `json:"subscriptions"`
	Requests      map[string]Request      `json:"requests"`
}

// Subscription is a webhook subscription whose callback was verified.
type Subscription struct {
	Principal string          `json:"principal"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	URL       string          `json:"url"`
	Secrets   []Secret        `json:"secrets"`
	Expires   time.Time       `json:"expires,omitzero"` // zero = never
}

// Secret is a signing secret. Until is zero for the current one.
type Secret struct {
	Text  string    `json:"text"`
	Until time.Time `json:"until,omitzero"`
}

// Request is a request that can be resumed.
type Request struct {
	ID        json.RawMessage `json:"id"`
	Principal string          `json:"principal"`
	Modern    bool            `json:"modern,omitempty"`
	MaxWait   time.Duration   `json:"maxWait"`
	// Work is what there is to do. Progress is the token of its progress
	// messages; nil = none. Answer is the response, where it is known from the
	// start.
	Work     json.RawMessage `json:"work"`
	Progress json.RawMessage `json:"progress,omitempty"`
	Answer   json.RawMessage `json:"answer,omitempty"`
}

const schema = "eventmeter.state/1"

// maxSize bounds a file that is read: a file of that size is not ours.
const maxSize = 1 << 30

// File is an open file. A nil File keeps nothing. It is safe for concurrent
// use.
type File struct {
	name string
	lock *lockfile.Lock

	mu      sync.Mutex
	doc     Document
	changes uint64

	writing sync.Mutex // held while the document is written
	written uint64     // changes that the file holds; guarded by writing
}

// Open reads a file, or begins a new one, and counts a start. It fails on a
// file that is damaged, that another process uses, or that cannot be written.
func Open(name string) (*File, error) {
	lock, err := lockfile.Take(name + ".lock")
	if errors.Is(err, lockfile.ErrHeld) {
		return nil, fmt.Errorf("%s is %w; end it, or give each server a file of its own", name, err)
	}
	if err != nil {
		return nil, err
	}
	f := &File{name: name, lock: lock}
	if err = f.read(); err == nil {
		f.change(func(d *Document) { d.Starts++ })
		err = f.Flush()
	}
	if err != nil {
		lock.Release()
		return nil, err
	}
	return f, nil
}

func (f *File) read() error {
	f.doc = Document{Schema: schema}
	info, err := os.Stat(f.name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case !info.Mode().IsRegular() || info.Size() > maxSize:
		return fmt.Errorf("%s is not a file of a server's state", f.name)
	default:
		text, err := os.ReadFile(f.name)
		if err != nil {
			return err
		}
		if err := decode(text, &f.doc); err != nil {
			return fmt.Errorf("%s is damaged: %w; move it away to begin without subscriptions", f.name, err)
		}
	}
	if f.doc.Subscriptions == nil {
		f.doc.Subscriptions = map[string]Subscription{}
	}
	if f.doc.Requests == nil {
		f.doc.Requests = map[string]Request{}
	}
	return nil
}

func decode(text []byte, into *Document) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	into.Schema = ""
	if err := d.Decode(into); err != nil {
		return err
	}
	if into.Schema != schema {
		return fmt.Errorf("schema is %q, want %q", into.Schema, schema)
	}
	if d.More() {
		return errors.New("something follows the document")
	}
	return nil
}

// Read returns a copy of the document.
func (f *File) Read() Document {
	if f == nil {
		return Document{}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	d := f.doc
	d.Subscriptions, d.Requests = maps.Clone(d.Subscriptions), maps.Clone(d.Requests)
	return d
}

func (f *File) change(do func(*Document)) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	do(&f.doc)
	f.changes++
}

// SetIdentity sets the seed of the private key. Like all changes, it is in the file after
// the next [File.Flush].
func (f *File) SetIdentity(key []byte) { f.change(func(d *Document) { d.Identity = key }) }

// SetSubscription adds or replaces a subscription.
func (f *File) SetSubscription(id string, s Subscription) {
	f.change(func(d *Document) { d.Subscriptions[id] = s })
}

// DropSubscription removes a subscription.
func (f *File) DropSubscription(id string) {
	f.change(func(d *Document) { delete(d.Subscriptions, id) })
}

// SetRequest adds or replaces a request.
func (f *File) SetRequest(token string, r Request) {
	f.change(func(d *Document) { d.Requests[token] = r })
}

// DropRequest removes a request.
func (f *File) DropRequest(token string) {
	f.change(func(d *Document) { delete(d.Requests, token) })
}

// Flush returns when the file holds all changes that were made before. Calls
// that wait for each other share one write.
func (f *File) Flush() error {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	want := f.changes
	f.mu.Unlock()
	f.writing.Lock()
	defer f.writing.Unlock()
	if f.written >= want {
		return nil
	}
	f.mu.Lock()
	text, err := json.Marshal(f.doc)
	changes := f.changes
	f.mu.Unlock()
	if err == nil {
		err = replace(f.name, append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", f.name, err)
	}
	f.written = changes
	return nil
}

// replace writes a file beside the former one and renames it, so that nobody
// ever sees half of it.
func replace(name string, text []byte) error {
	t, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-*") // with mode 0600
	if err != nil {
		return err
	}
	_, err = t.Write(text)
	if err == nil {
		err = t.Sync()
	}
	if err = errors.Join(err, t.Close()); err == nil {
		err = os.Rename(t.Name(), name)
	}
	if err != nil {
		_ = os.Remove(t.Name())
	}
	return err
}

// Close writes what is not written yet, and lets go of the file.
func (f *File) Close() error {
	if f == nil {
		return nil
	}
	err := f.Flush()
	f.lock.Release()
	return err
}
