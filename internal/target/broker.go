package target

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"
)

// ErrUnknownEvent is wrapped by [Server.Publish] when the name is not one of
// the catalogue.
var ErrUnknownEvent = errors.New("unknown event type")

// ErrTooLarge is wrapped by [Server.Publish] when the data exceeds 256 KiB, the
// draft's bound for a webhook body.
var ErrTooLarge = errors.New("event data too large")

const maxData = 256<<10 - 1024 // room for the Occurrence around the data

// broker is the set of topics. It is safe for concurrent use.
type broker struct {
	topics    map[string]*topic // fixed
	order     []*topic
	ids       atomic.Uint64
	overflow  atomic.Int64
	published atomic.Int64
}

// newBroker opens empty topics. The epoch enters every cursor, so that a cursor
// of an earlier life is recognised.
func newBroker(opts Options, started time.Time) *broker {
	b := &broker{topics: make(map[string]*topic)}
	epoch := strconv.FormatInt(started.UnixNano(), 36)
	for _, kind := range catalog() {
		t := newTopic(kind, epoch, opts, &b.overflow)
		b.topics[kind.name] = t
		b.order = append(b.order, t)
	}
	return b
}

func (b *broker) nextID() string {
	return string(strconv.AppendUint([]byte("e-"), b.ids.Add(1), 10))
}

// publish checks and publishes one event and returns it.
func (b *broker) publish(name string, data []byte) (*event, error) {
	t := b.topics[name]
	if t == nil {
		return nil, fmt.Errorf("publish %q: %w", name, ErrUnknownEvent)
	}
	if len(data) > maxData {
		return nil, fmt.Errorf("publish %s: %d bytes of data, at most %d: %w", name, len(data), maxData, ErrTooLarge)
	}
	key, err := t.kind.keyOf(data)
	if err != nil {
		return nil, fmt.Errorf("publish %s: %w", name, err)
	}
	// A line break inside the data would end a line of a stream's frame.
	if bytes.ContainsAny(data, "\r\n") {
		var compact bytes.Buffer
		if err := json.Compact(&compact, data); err != nil {
			return nil, fmt.Errorf("publish %s: %w", name, err)
		}
		data = compact.Bytes()
	}
	e := t.publish(b.nextID, key, data)
	b.published.Add(1)
	return e, nil
}
