package health

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// echoPeriods are the candidates for the time between two bytes that the generator
// writes to itself. They do not divide the usual intervals of schedules, so that the
// bytes do not only fall between bursts.
var echoPeriods = [...]time.Duration{
	7 * time.Millisecond, 11 * time.Millisecond, 17 * time.Millisecond, 23 * time.Millisecond,
	31 * time.Millisecond, 43 * time.Millisecond, 61 * time.Millisecond, 97 * time.Millisecond,
}

// tries is the number of probes per run that suffice for a p99: fifty of them lie
// above it. More would cost CPU time, because waking an idle process costs more than
// the probe itself.
const tries = 5_000

// echoEvery returns the time between two bytes in a watch of length d: as long as
// leaves enough probes, and 7 ms in a short watch.
func echoEvery(d time.Duration) time.Duration {
	every := echoPeriods[0]
	for _, p := range echoPeriods[1:] {
		if d/p >= tries {
			every = p
		}
	}
	return every
}

// echo is a loopback connection of this process to itself. A byte written to it waits
// for the same poller and scheduler as a delivery, so its delay is the generator's
// own share of a latency.
type echo struct {
	writer, reader net.Conn
	start          time.Time
	mu             sync.Mutex
	delay          ledger.Values // guarded by mu until it is closed
	stop           chan struct{}
	wg             sync.WaitGroup
}

// openEcho starts to write a byte at intervals of every.
func openEcho(every time.Duration) (*echo, error) {
	l, err := wire.Listen(context.Background(), "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("open a loopback connection to measure the generator's read delay: %w", err)
	}
	defer l.Close()
	w, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return nil, fmt.Errorf("open a loopback connection to measure the generator's read delay: %w", err)
	}
	r, err := l.Accept()
	if err != nil {
		_ = w.Close()
		return nil, fmt.Errorf("open a loopback connection to measure the generator's read delay: %w", err)
	}
	e := &echo{
		writer: w, reader: r, start: time.Now(), stop: make(chan struct{}),
	}
	e.wg.Go(func() {
		defer crash.Guard()
		e.write(every)
	})
	e.wg.Go(crash.Guarded(e.read))
	return e, nil
}

func (e *echo) write(every time.Duration) {
	defer e.writer.Close()
	tick := time.NewTicker(every)
	defer tick.Stop()
	var b [8]byte
	for {
		select {
		case <-e.stop:
			return
		case <-tick.C:
			binary.BigEndian.PutUint64(b[:], uint64(time.Since(e.start)))
			if _, err := e.writer.Write(b[:]); err != nil {
				return
			}
		}
	}
}

func (e *echo) read() {
	defer e.reader.Close()
	var b [8]byte
	for {
		if _, err := io.ReadFull(e.reader, b[:]); err != nil {
			return
		}
		d := int64(time.Since(e.start)) - int64(binary.BigEndian.Uint64(b[:]))
		e.mu.Lock()
		e.delay.Add(time.Duration(d))
		e.mu.Unlock()
	}
}

// soFar returns the delays so far, in nanoseconds.
func (e *echo) soFar() *hdrhistogram.Histogram {
	var delay ledger.Values
	e.mu.Lock()
	delay.Merge(&e.delay)
	e.mu.Unlock()
	return delay.Timing().Histogram
}

// close stops the probes, waits for them, and returns the delays in nanoseconds.
func (e *echo) close() *hdrhistogram.Histogram {
	close(e.stop)
	e.wg.Wait()
	return e.delay.Timing().Histogram
}

// ReadDelay measures for d the read delay of this machine while the process does
// nothing else. Values are nanoseconds.
func ReadDelay(d time.Duration, cancelled <-chan struct{}) (*hdrhistogram.Histogram, error) {
	e, err := openEcho(echoEvery(d))
	if err != nil {
		return nil, err
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return e.close(), nil
	case <-cancelled:
		e.close()
		return nil, errors.New("cancelled")
	}
}
